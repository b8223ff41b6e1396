// Lines on standard error, by a bare system call and without memory: the C library's functions are
// replaced, and a program may have run out of it.
#pragma once

#include <algorithm>
#include <array>
#include <initializer_list>
#include <string_view>

#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/kernel_call.hpp"

namespace ferry::run {

// One write of up to eight pieces.
inline void put_pieces(int descriptor, std::initializer_list<std::string_view> pieces) {
  std::array<iovec, 8> list{};
  const auto end = std::transform(pieces.begin(), pieces.end(), list.begin(), [](auto piece) {
    return iovec{const_cast<char*>(piece.data()), piece.size()};
  });
  kernel_call(SYS_writev, descriptor, list.data(), end - list.begin());
}
inline void say(std::initializer_list<std::string_view> pieces) {
  put_pieces(STDERR_FILENO, pieces);
}

}  // namespace ferry::run
