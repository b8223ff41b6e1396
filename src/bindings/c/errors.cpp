#include "bindings/c/errors.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <exception>
#include <new>
#include <stdexcept>

#include <ferry.h>

namespace ferry::c {
namespace {

// Memory of its own, so that a failure for want of memory has a text, too.
thread_local std::array<char, 1024> last_text{};

int note(int error_number, const char* text) noexcept {
  const std::size_t length = std::min(std::strlen(text), last_text.size() - 1);
  std::memcpy(last_text.data(), text, length);
  last_text[length] = '\0';
  return error_number > 0 ? -error_number : -EIO;
}

}  // namespace

const char* error_text() noexcept {
  return last_text.data();
}

int report_exception() noexcept {
  try {
    throw;
  } catch (const std::system_error& error) {
    const bool is_errno = error.code().category() == std::system_category() ||
                          error.code().category() == std::generic_category();
    return note(is_errno ? error.code().value() : EIO, error.what());
  } catch (const std::bad_alloc&) {
    return note(ENOMEM, "out of memory");
  } catch (const std::length_error&) {
    return note(ENOMEM, "out of memory");
  } catch (const std::invalid_argument& error) {
    return note(EINVAL, error.what());
  } catch (const std::exception& error) {
    return note(EIO, error.what());
  } catch (...) {
    return note(EIO, "an unknown exception");
  }
}

}  // namespace ferry::c

const char* ferry_error_text(void) {
  return ferry::c::error_text();
}

const char* ferry_version(void) {
  return FERRY_LIBRARY_VERSION;
}
