// The contents that tests' device programs write.
#pragma once

#include <cstdint>

#include <ferry/device/platform.hpp>

namespace ferry::test {

// Eight bytes of the data with this `seed`, from 8 * `number` on.
FERRY_DEVICE inline std::uint64_t word_of(std::uint64_t seed, std::uint64_t number) {
  std::uint64_t word = (seed + number) * 0x9e3779b97f4a7c15ULL;
  word = (word ^ word >> 29) * 0xbf58476d1ce4e5b9ULL;
  return word ^ word >> 32;
}

// The byte at `at` of the data with this `seed`.
FERRY_DEVICE inline unsigned char byte_of(std::uint64_t seed, std::uint64_t at) {
  return static_cast<unsigned char>(word_of(seed, at / 8) >> at % 8 * 8);
}

// Bytes `from` and on of this data. A group's lanes write its words by turns.
template <class Group>
FERRY_DEVICE void fill_bytes(Group group, unsigned char* memory, std::uint64_t seed,
                             std::uint64_t from, std::uint64_t bytes) {
  const std::uint64_t end = from + bytes;
  for (std::uint64_t at = from / 8 * 8 + 8 * group.lane(); at < end; at += 8 * group.size()) {
    const std::uint64_t word = word_of(seed, at / 8);
    if (at >= from && at + 8 <= end) {
      __builtin_memcpy(memory + (at - from), &word, 8);
      continue;
    }
    for (std::uint64_t i = at < from ? from : at; i < at + 8 && i < end; ++i)
      memory[i - from] = static_cast<unsigned char>(word >> i % 8 * 8);
  }
}

// Whether two ranges are equal in the words that this lane looks at; all lanes together look at
// all.
template <class Group>
FERRY_DEVICE bool lane_finds_same(Group group, const unsigned char* a, const unsigned char* b,
                                  std::uint64_t bytes) {
  bool same = true;
  std::uint64_t at = 8 * group.lane();
  for (; at + 8 <= bytes; at += 8 * group.size()) {
    std::uint64_t one = 0;
    std::uint64_t other = 0;
    __builtin_memcpy(&one, a + at, 8);
    __builtin_memcpy(&other, b + at, 8);
    same = same && one == other;
  }
  for (; at < bytes; ++at)
    same = same && a[at] == b[at];
  return same;
}

}  // namespace ferry::test
