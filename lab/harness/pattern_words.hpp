// The words of measured files' contents; for host threads and kernels.
#pragma once

#include <cstdint>

#include <ferry/device/platform.hpp>

namespace ferry::bench {

inline constexpr std::uint64_t block_bytes = 4096;

// The finaliser of SplitMix64: every bit of the input changes half of the output.
FERRY_DEVICE constexpr std::uint64_t mix(std::uint64_t value) {
  value += 0x9e3779b97f4a7c15;
  value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9;
  value = (value ^ (value >> 27)) * 0x94d049bb133111eb;
  return value ^ (value >> 31);
}

// The first word of a block, which only this block of this seed has.
FERRY_DEVICE constexpr std::uint64_t first_word(std::uint64_t seed, std::uint64_t block) {
  return mix(mix(seed) ^ block);
}

// The word at place `index` (from 1 up) of every block of this seed.
FERRY_DEVICE constexpr std::uint64_t later_word(std::uint64_t seed, std::uint64_t index) {
  return mix(mix(~seed) + index);
}

// The word at `offset`, a multiple of 8, of a file.
FERRY_DEVICE constexpr std::uint64_t word_at(std::uint64_t seed, std::uint64_t offset) {
  const std::uint64_t index = offset % block_bytes / sizeof(std::uint64_t);
  return index == 0 ? first_word(seed, offset / block_bytes) : later_word(seed, index);
}

}  // namespace ferry::bench
