// The file positions of one measured thread's calls, and their times; for host threads and kernels.
#pragma once

#include <cstdint>

#include <ferry/device/platform.hpp>

namespace ferry::bench {

// Of the steady clock, or of the GPU's (%globaltimer), which counts nanoseconds and moves on every
// 32 ns to 1 us.
struct Span {
  std::uint64_t begin_ns = 0;
  std::uint64_t end_ns = 0;
};

struct ThreadPart {
  unsigned file = 0;
  std::uint64_t begin = 0;       // offset of its first block
  std::uint64_t step_bytes = 0;  // from one call's place to the next
  std::uint64_t calls_per_block = 0;
  std::uint64_t segment_bytes = 0;

  FERRY_DEVICE std::uint64_t offset_of(std::uint64_t call) const {
    if (call < calls_per_block) return begin + call * step_bytes;  // spares a division
    return begin + call / calls_per_block * segment_bytes + call % calls_per_block * step_bytes;
  }
};

}  // namespace ferry::bench
