#include "harness/pattern.hpp"

#include <algorithm>
#include <cstring>

namespace ferry::bench {
namespace {

constexpr std::uint64_t block_words = block_bytes / sizeof(std::uint64_t);

std::uint64_t undo_shift(std::uint64_t value, unsigned bits) {
  std::uint64_t result = value;
  for (unsigned known = bits; known < 64; known += bits)
    result = value ^ (result >> bits);
  return result;
}

// Undoes mix(): the factors are the inverses of its own modulo 2^64.
std::uint64_t unmix(std::uint64_t value) {
  value = undo_shift(value, 31) * 0x319642b2d24d8ec3;
  value = undo_shift(value, 27) * 0x96de1b173f119089;
  return undo_shift(value, 30) - 0x9e3779b97f4a7c15;
}

Block make_block(std::uint64_t seed) {
  Block block{};
  for (std::uint64_t i = 1; i < block_words; ++i)
    block[i] = later_word(seed, i);
  return block;
}

}  // namespace

void fill_pattern(void* data, std::uint64_t bytes, std::uint64_t offset, std::uint64_t seed) {
  Block block = make_block(seed);
  auto* to = static_cast<unsigned char*>(data);
  while (bytes > 0) {
    block[0] = first_word(seed, offset / block_bytes);
    const std::uint64_t inside = offset % block_bytes;
    const std::uint64_t step = std::min(bytes, block_bytes - inside);
    std::memcpy(to, reinterpret_cast<const unsigned char*>(block.data()) + inside, step);
    to += step;
    offset += step;
    bytes -= step;
  }
}

PatternChecker::PatternChecker(std::uint64_t seed) : seed_(seed), block_(make_block(seed)) {}

std::uint64_t PatternChecker::first_difference(const void* data, std::uint64_t bytes,
                                               std::uint64_t offset) {
  const auto* found = static_cast<const unsigned char*>(data);
  const auto* block = reinterpret_cast<const unsigned char*>(block_.data());
  for (std::uint64_t at = 0; at < bytes;) {
    block_[0] = first_word(seed_, (offset + at) / block_bytes);
    const std::uint64_t inside = (offset + at) % block_bytes;
    const std::uint64_t step = std::min(bytes - at, block_bytes - inside);
    const std::uint64_t same = bench::first_difference(found + at, block + inside, step);
    if (same != step) return at + same;
    at += step;
  }
  return bytes;
}

std::optional<std::uint64_t> seed_of_block(const Block& found, std::uint64_t block) {
  const std::uint64_t seed = unmix(unmix(found[0]) ^ block);
  const Block expected = make_block(seed);
  const bool same = std::equal(found.begin() + 1, found.end(), expected.begin() + 1);
  return same ? std::optional(seed) : std::nullopt;
}

void PatternBuffer::move_to(std::uint64_t offset) {
  if (offset == offset_) return;
  const bool stamps = offset_ != UINT64_MAX && (bytes_ | offset | offset_) % block_bytes == 0;
  offset_ = offset;
  if (!stamps) {
    fill_pattern(data_, bytes_, offset, seed_);
    return;
  }
  for (std::uint64_t at = 0; at < bytes_; at += block_bytes) {
    const std::uint64_t word = first_word(seed_, (offset + at) / block_bytes);
    std::memcpy(data_ + at, &word, sizeof word);
  }
}

std::uint32_t sum_words(const void* data, std::uint64_t bytes) {
  const auto* words = static_cast<const std::uint32_t*>(data);
  std::uint32_t sum = 0;
  for (std::uint64_t i = 0; i < bytes / sizeof(std::uint32_t); ++i)
    sum += words[i];
  return sum;
}

void fill_words(void* data, std::uint64_t bytes, std::uint32_t value) {
  auto* words = static_cast<std::uint32_t*>(data);
  for (std::uint64_t i = 0; i < bytes / sizeof(std::uint32_t); ++i)
    words[i] = value;
}

std::uint64_t first_difference(const void* left, const void* right, std::uint64_t bytes) {
  if (std::memcmp(left, right, bytes) == 0) return bytes;
  const auto* a = static_cast<const unsigned char*>(left);
  const auto* b = static_cast<const unsigned char*>(right);
  return static_cast<std::uint64_t>(std::mismatch(a, a + bytes, b).first - a);
}

}  // namespace ferry::bench
