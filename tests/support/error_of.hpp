// The errno of a call that should fail.
#pragma once

#include <ferry/error.hpp>

namespace ferry::test {

// The errno that a call throws, or 0.
template <class Call>
int error_of(Call&& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.code().value();
  }
  return 0;
}

}  // namespace ferry::test
