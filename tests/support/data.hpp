// The contents that tests' device programs write.
#pragma once

#include <cstdint>

#include <ferry/device/platform.hpp>

namespace ferry::test {

// The byte at `at` of the data with this `seed`.
FERRY_DEVICE inline unsigned char byte_of(std::uint64_t seed, std::uint64_t at) {
  std::uint64_t word = (seed + at) * 0x9e3779b97f4a7c15ULL;
  word ^= word >> 29;
  return static_cast<unsigned char>((word * 0xbf58476d1ce4e5b9ULL) >> 56);
}

}  // namespace ferry::test
