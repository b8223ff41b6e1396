// Stands in the place of src/base/kernel_call.hpp in a copy of the library that `ferry run`
// preloads: its own system calls fail (failing_calls.cpp).
#pragma once

#include <sys/syscall.h>

#define kernel_call real_kernel_call
#include "../../../../../src/base/kernel_call.hpp"
#undef kernel_call

namespace ferry::test {

// 0, or the error with its sign changed that this call fails with. Of a call that is counted.
long failing_call(long number);

}  // namespace ferry::test

namespace ferry {

template <class... Words>
long kernel_call(long number, Words... words) {
  const long error = test::failing_call(number);
  if (error == 0) return real_kernel_call(number, words...);
  if (number == SYS_close) real_kernel_call(number, words...);  // it takes the descriptor anyway
  return error;
}

}  // namespace ferry
