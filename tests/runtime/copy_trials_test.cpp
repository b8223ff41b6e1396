// Which sizes the trials of copies may answer with, and that they leave memory as it was.
#include "runtime/copy_trials.hpp"

#include <algorithm>
#include <array>
#include <vector>

#include <gtest/gtest.h>

#include <ferry/ferry.hpp>

namespace ferry {
namespace {

using device::StreamingCopies;

void expect_tried_sizes(const StreamingCopies& copies) {
  constexpr std::array<std::uint64_t, 3> into = {64 << 10, 1 << 20, StreamingCopies::never};
  constexpr std::array<std::uint64_t, 3> out = {4 << 20, 16 << 20, StreamingCopies::never};
  EXPECT_EQ(std::count(into.begin(), into.end(), copies.into_bytes_min), 1);
  EXPECT_EQ(std::count(out.begin(), out.end(), copies.out_bytes_min), 1);
}

TEST(CopyTrials, LeaveMemoryAsItWas) {
  std::vector<unsigned char> pages(trial_pages_bytes);
  std::vector<unsigned char> buffer(trial_buffer_bytes);
  expect_tried_sizes(try_streaming_copies(pages, buffer));
  EXPECT_EQ(pages, std::vector<unsigned char>(trial_pages_bytes));
  EXPECT_EQ(buffer, std::vector<unsigned char>(trial_buffer_bytes));
}

TEST(CopyTrials, DecideForALargeCache) {
  RuntimeOptions options;
  options.cache_bytes = trial_pages_bytes;
  Runtime runtime(options);
  expect_tried_sizes(runtime.info().streaming_copies);
  const Buffer all =
      runtime.allocate(options.arena_bytes - (1 << 20));  // the trials gave theirs back
  EXPECT_NE(all.data(), nullptr);
}

TEST(CopyTrials, AreLeftOutForASmallCache) {
  RuntimeOptions options;
  options.cache_bytes = 1 << 20;
  const StreamingCopies built_in;
  const StreamingCopies copies = Runtime(options).info().streaming_copies;
  EXPECT_EQ(copies.into_bytes_min, built_in.into_bytes_min);
  EXPECT_EQ(copies.out_bytes_min, built_in.out_bytes_min);
}

}  // namespace
}  // namespace ferry
