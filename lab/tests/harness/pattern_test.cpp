#include "harness/pattern.hpp"

#include <cstring>
#include <vector>

#include <gtest/gtest.h>

namespace ferry::bench {
namespace {

std::vector<unsigned char> pattern(std::uint64_t bytes, std::uint64_t offset, std::uint64_t seed) {
  std::vector<unsigned char> data(bytes);
  fill_pattern(data.data(), bytes, offset, seed);
  return data;
}

TEST(PatternChecker, AcceptsWhatFillMakes) {
  PatternChecker checker(11);
  for (const std::uint64_t offset : {0ULL, 1ULL, 4096ULL, 4095ULL, 1ULL << 40}) {
    for (const std::uint64_t bytes : {1ULL, 8ULL, 4096ULL, 10001ULL}) {
      const auto data = pattern(bytes, offset, 11);
      EXPECT_EQ(checker.first_difference(data.data(), bytes, offset), bytes);
    }
  }
}

TEST(PatternChecker, FindsTheFirstWrongByte) {
  PatternChecker checker(11);
  for (const std::uint64_t at : {0ULL, 7ULL, 8ULL, 4095ULL, 4096ULL, 9999ULL}) {
    auto data = pattern(10000, 4096, 11);
    data[at] ^= 1;
    data[9999] ^= 2;
    EXPECT_EQ(checker.first_difference(data.data(), data.size(), 4096), at);
  }
  const auto elsewhere = pattern(4096, 8192, 11);
  EXPECT_EQ(checker.first_difference(elsewhere.data(), 4096, 4096), 0U);
}

TEST(SeedOfBlock, FindsTheSeedAndNothingElse) {
  Block block;
  for (const std::uint64_t seed : {0ULL, 1ULL, 5ULL, ~0ULL, 0x123456789abcdefULL}) {
    for (const std::uint64_t number : {0ULL, 1ULL, 1ULL << 33}) {
      const auto data = pattern(block_bytes, number * block_bytes, seed);
      std::memcpy(block.data(), data.data(), block_bytes);
      EXPECT_EQ(seed_of_block(block, number), seed);
      EXPECT_NE(seed_of_block(block, number + 1), seed);
      block[17] ^= 1;
      EXPECT_EQ(seed_of_block(block, number), std::nullopt);
    }
  }
  block.fill(0);
  EXPECT_EQ(seed_of_block(block, 0), std::nullopt);
}

}  // namespace
}  // namespace ferry::bench
