// Writes and verifies the contents of measured files with all lanes of a group.
#pragma once

#include <cstdint>

#include <ferry/device/platform.hpp>

#include "harness/pattern_words.hpp"

namespace ferry::bench {

// The byte at any offset of a file.
FERRY_DEVICE inline unsigned char pattern_byte(std::uint64_t seed, std::uint64_t offset) {
  constexpr std::uint64_t word_bytes = sizeof(std::uint64_t);
  const std::uint64_t word = word_at(seed, offset / word_bytes * word_bytes);
  return static_cast<unsigned char>(word >> (8 * (offset % word_bytes)));
}

// Whether memory and file agree on where words begin.
FERRY_DEVICE inline bool in_words(const unsigned char* data, std::uint64_t bytes,
                                  std::uint64_t offset) {
  return (reinterpret_cast<std::uintptr_t>(data) | bytes | offset) % sizeof(std::uint64_t) == 0;
}

// Makes `data` hold what belongs at [offset, offset + bytes). Complete on return for every lane.
template <class Group>
FERRY_DEVICE void fill_pattern(Group group, unsigned char* data, std::uint64_t bytes,
                               std::uint64_t offset, std::uint64_t seed) {
  group.sync();
  if (in_words(data, bytes, offset)) {
    auto* words = reinterpret_cast<std::uint64_t*>(data);
    for (std::uint64_t i = group.lane(); i < bytes / sizeof *words; i += group.size())
      words[i] = word_at(seed, offset + i * sizeof *words);
  } else {
    for (std::uint64_t i = group.lane(); i < bytes; i += group.size())
      data[i] = pattern_byte(seed, offset + i);
  }
  group.sync();
}

// The same for a buffer that holds what belongs at `before`: where blocks begin at the same places,
// only their first words differ, which costs one store for 4 KiB.
template <class Group>
FERRY_DEVICE void move_pattern(Group group, unsigned char* data, std::uint64_t bytes,
                               std::uint64_t before, std::uint64_t offset, std::uint64_t seed) {
  if (before == offset) return;
  if ((bytes | offset | before) % block_bytes != 0 || !in_words(data, bytes, offset))
    return fill_pattern(group, data, bytes, offset, seed);
  group.sync();
  for (std::uint64_t at = group.lane() * block_bytes; at < bytes; at += group.size() * block_bytes)
    *reinterpret_cast<std::uint64_t*>(data + at) = first_word(seed, (offset + at) / block_bytes);
  group.sync();
}

// Index of the first byte that is not what belongs at `offset`, or `bytes`; the same for every
// lane.
template <class Group>
FERRY_DEVICE std::uint64_t first_difference(Group group, const unsigned char* data,
                                            std::uint64_t bytes, std::uint64_t offset,
                                            std::uint64_t seed) {
  group.sync();
  std::uint64_t found = bytes;
  if (in_words(data, bytes, offset)) {
    const auto* words = reinterpret_cast<const std::uint64_t*>(data);
    std::uint64_t at = group.lane() * sizeof *words;
    while (at < bytes && words[at / sizeof *words] == word_at(seed, offset + at))
      at += group.size() * sizeof *words;
    if (at < bytes) found = at;
  } else {
    found = group.lane();
  }
  while (found < bytes && data[found] == pattern_byte(seed, offset + found))
    found += in_words(data, bytes, offset) ? 1 : group.size();
  if (found > bytes) found = bytes;
  for (std::uint32_t lane = 0, lanes = group.size(); lane < lanes; ++lane) {
    const std::uint64_t other = group.shuffle(found, lane);
    if (other < found) found = other;
  }
  return found;
}

}  // namespace ferry::bench
