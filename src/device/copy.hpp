// Copies between a program's buffer and device memory, shared out over the lanes of a group.
#pragma once

#include <cstdint>

#include <ferry/device/group.hpp>
#include <ferry/device/platform.hpp>

namespace ferry::device {

// Copies `bytes` bytes; the ranges must not overlap. Every lane of the group must call with the
// same arguments; the copy is complete and visible to every lane on return.
template <class Group>
FERRY_DEVICE void copy_bytes(Group group, void* target, const void* source, std::uint64_t bytes) {
  if (group.size() == 1) {
    __builtin_memcpy(target, source, bytes);
    return;
  }
  constexpr std::uint64_t piece_bytes = 16;
  auto* to = static_cast<unsigned char*>(target);
  const auto* from = static_cast<const unsigned char*>(source);
  group.sync();
  const std::uint64_t step = piece_bytes * group.size();
  for (std::uint64_t at = piece_bytes * group.lane(); at < bytes; at += step) {
    const std::uint64_t rest = bytes - at;
    __builtin_memcpy(to + at, from + at, rest < piece_bytes ? rest : piece_bytes);
  }
  group.sync();
}

}  // namespace ferry::device
