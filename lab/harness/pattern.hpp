// The contents of measured files, and the computation of the papers' programs on them.
#pragma once

#include <array>
#include <cstdint>
#include <optional>

#include "harness/pattern_words.hpp"

namespace ferry::bench {

// The contents of a file at [offset, offset + bytes), position-dependent: every 4 KiB block starts
// with a word that only this block of this seed has; the words after it depend on the seed and on
// their place in the block.
void fill_pattern(void* data, std::uint64_t bytes, std::uint64_t offset, std::uint64_t seed);

using Block = std::array<std::uint64_t, block_bytes / sizeof(std::uint64_t)>;

// Compares with the pattern of one seed, again and again.
class PatternChecker {
 public:
  explicit PatternChecker(std::uint64_t seed);
  // Index of the first byte that is not what belongs at `offset`, or `bytes`.
  std::uint64_t first_difference(const void* data, std::uint64_t bytes, std::uint64_t offset);

 private:
  std::uint64_t seed_;
  Block block_;
};

// The seed that one whole block of a file was written with; absent where no seed gives these bytes.
std::optional<std::uint64_t> seed_of_block(const Block& found, std::uint64_t block);

// A buffer that is written again and again, each time to another offset: whole aligned blocks only
// get new first words, which costs one cache line per 4 KiB.
class PatternBuffer {
 public:
  PatternBuffer(void* data, std::uint64_t bytes, std::uint64_t seed)
      : data_(static_cast<unsigned char*>(data)), bytes_(bytes), seed_(seed) {}
  // The buffer holds what belongs at `offset` already.
  void assume(std::uint64_t offset) { offset_ = offset; }
  // Makes the buffer hold what belongs at `offset`.
  void move_to(std::uint64_t offset);

 private:
  unsigned char* data_;
  std::uint64_t bytes_;
  std::uint64_t seed_;
  std::uint64_t offset_ = UINT64_MAX;  // nothing yet
};

// The inner loops of Matsuo, Shimosawa and Ishikawa (2012): sum += buf[i], and buf[i] = n.
std::uint32_t sum_words(const void* data, std::uint64_t bytes);
void fill_words(void* data, std::uint64_t bytes, std::uint32_t value);
// What piece number `piece` is filled with by the write programs.
inline std::uint32_t piece_value(std::uint64_t piece, std::uint64_t seed) {
  return static_cast<std::uint32_t>(piece + seed * 2654435761U);
}

// Index of the first byte that differs, or `bytes`.
std::uint64_t first_difference(const void* left, const void* right, std::uint64_t bytes);

}  // namespace ferry::bench
