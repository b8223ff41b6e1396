// System calls that pass by every library: those that a program has loaded to see its calls, and
// ours, which stands in for the C library's functions. Safe in signal handlers; errno stays.
#pragma once

#include <type_traits>

namespace ferry {

// The result, or an errno with its sign changed. No point of cancellation.
template <class... Words>
long kernel_call(long number, Words... words) {
  static_assert(sizeof...(Words) <= 6);
  [[maybe_unused]] const auto word = [](auto one) {
    if constexpr (std::is_null_pointer_v<decltype(one)>) {
      return 0L;
    } else if constexpr (std::is_pointer_v<decltype(one)>) {
      return reinterpret_cast<long>(one);
    } else {
      return static_cast<long>(one);
    }
  };
  const long values[7] = {word(words)...};
#if defined(__x86_64__)
  long result = 0;
  register long fourth __asm__("r10") = values[3];
  register long fifth __asm__("r8") = values[4];
  register long sixth __asm__("r9") = values[5];
  __asm__ volatile("syscall"
                   : "=a"(result)
                   : "a"(number), "D"(values[0]), "S"(values[1]), "d"(values[2]), "r"(fourth),
                     "r"(fifth), "r"(sixth)
                   : "rcx", "r11", "memory");
  return result;
#elif defined(__aarch64__)
  register long call __asm__("x8") = number;
  register long first __asm__("x0") = values[0];
  register long second __asm__("x1") = values[1];
  register long third __asm__("x2") = values[2];
  register long fourth __asm__("x3") = values[3];
  register long fifth __asm__("x4") = values[4];
  register long sixth __asm__("x5") = values[5];
  __asm__ volatile("svc #0"
                   : "+r"(first)
                   : "r"(call), "r"(second), "r"(third), "r"(fourth), "r"(fifth), "r"(sixth)
                   : "memory");
  return first;
#else
#error "system calls are not written for this processor"
#endif
}

}  // namespace ferry
