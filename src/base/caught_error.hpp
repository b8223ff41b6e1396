// Exceptions as errno values, where there is nobody to throw to.
#pragma once

#include <cerrno>
#include <new>
#include <system_error>

namespace ferry {

// In a catch (...): the errno of std::bad_alloc or std::system_error. Throws everything else on.
inline int caught_error() {
  try {
    throw;
  } catch (const std::bad_alloc&) {
    return ENOMEM;
  } catch (const std::system_error& error) {
    return error.code().value();
  }
}

}  // namespace ferry
