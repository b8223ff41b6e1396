// Lines on standard error, by a bare system call and without memory: the C library's functions are
// replaced, and a program may have run out of it.
#pragma once

#include <algorithm>
#include <array>
#include <cstring>
#include <initializer_list>
#include <string_view>

#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/kernel_call.hpp"

// Since glibc 2.32.
extern "C" const char* strerrordesc_np(int error) noexcept __attribute__((weak));

namespace ferry::run {

// One write of up to eight pieces.
inline void put_pieces(int descriptor, std::initializer_list<std::string_view> pieces) {
  std::array<iovec, 8> list{};
  const auto end = std::transform(pieces.begin(), pieces.end(), list.begin(), [](auto piece) {
    return iovec{const_cast<char*>(piece.data()), piece.size()};
  });
  kernel_call(SYS_writev, descriptor, list.data(), end - list.begin());
}
// What an errno means.
inline std::string_view text_of(int error) {
  const char* const text =
      strerrordesc_np != nullptr ? strerrordesc_np(error) : std::strerror(error);
  return text != nullptr ? text : "an unknown error";
}
inline void say(std::initializer_list<std::string_view> pieces) {
  put_pieces(STDERR_FILENO, pieces);
}

}  // namespace ferry::run
