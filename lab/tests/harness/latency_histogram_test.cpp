#include "harness/latency_histogram.hpp"

#include <algorithm>
#include <cstdint>
#include <random>
#include <vector>

#include <gtest/gtest.h>

namespace ferry::bench {
namespace {

TEST(LatencyHistogram, BucketsFollowEachOtherAndHoldWhatFallsIntoThem) {
  std::uint64_t end = 0;
  for (unsigned bucket = 0; bucket < LatencyHistogram::buckets; ++bucket) {
    const std::uint64_t begin = LatencyHistogram::begin_of(bucket);
    const std::uint64_t width = LatencyHistogram::width_of(bucket);
    ASSERT_EQ(begin, end);
    ASSERT_EQ(LatencyHistogram::bucket_of(begin), bucket);
    ASSERT_EQ(LatencyHistogram::bucket_of(begin + width - 1), bucket);
    ASSERT_TRUE(width == 1 || width * LatencyHistogram::per_power <= begin);
    end = begin + width;
  }
  EXPECT_EQ(end, 0U);  // 2^64
}

TEST(LatencyHistogram, PercentilesAreOffByLessThanTheirBound) {
  std::mt19937_64 generator(7);
  std::lognormal_distribution<double> draw(9, 2);
  LatencyHistogram histogram;
  std::vector<std::uint64_t> sorted(9999);
  for (std::uint64_t& ns : sorted) {
    ns = static_cast<std::uint64_t>(draw(generator));
    histogram.note(ns);
  }
  std::sort(sorted.begin(), sorted.end());
  EXPECT_EQ(histogram.samples(), sorted.size());
  EXPECT_EQ(histogram.longest_ns, sorted.back());
  for (const unsigned permille : {1U, 500U, 900U, 990U, 999U, 1000U}) {
    const std::size_t rank = (sorted.size() * permille + 999) / 1000;
    const auto exact = static_cast<double>(sorted[rank - 1]);
    EXPECT_NEAR(static_cast<double>(histogram.percentile(permille)), exact, exact / 128);
  }
}

TEST(LatencyHistogram, FewCallsHaveExactEnds) {
  LatencyHistogram one;
  one.note(1'000'001);
  EXPECT_EQ(one.percentile(999), 1'000'001U);
  LatencyHistogram two;
  two.note(5);
  two.add(one);
  EXPECT_EQ(two.samples(), 2U);
  EXPECT_EQ(two.percentile(500), 5U);
  EXPECT_EQ(two.longest_ns, 1'000'001U);
}

TEST(LatencyHistogram, TimedCallsAreOneInEachStretchAndBeginNoPageMoreThanOthers) {
  constexpr std::uint64_t mask = 63;
  constexpr unsigned calls_of_page = 16;
  std::vector<unsigned> timed(calls_of_page);
  for (std::uint64_t stretch = 0; stretch < 160; ++stretch) {
    unsigned in_stretch = 0;
    for (std::uint64_t call = stretch * (mask + 1); call < (stretch + 1) * (mask + 1); ++call) {
      if (!is_timed_call(call, mask)) continue;
      ++in_stretch;
      ++timed[call % calls_of_page];
    }
    EXPECT_EQ(in_stretch, 1U);
  }
  for (const unsigned count : timed)
    EXPECT_NEAR(count, 10, 5);
  EXPECT_TRUE(is_timed_call(0, mask));
  EXPECT_TRUE(is_timed_call(5, 0));
}

}  // namespace
}  // namespace ferry::bench
