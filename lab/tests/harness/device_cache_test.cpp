#include "harness/device_cache.hpp"

#include <string>

#include <gtest/gtest.h>

namespace ferry::bench::device_cache_test {
namespace {

constexpr std::uint64_t total_bytes = std::uint64_t{1} << 20;
constexpr std::uint64_t pages = 16;

Cell read_cell(bool warm) {
  Cell cell;
  cell.placement = device::Placement::compute;
  cell.transfer_bytes = 4096;
  cell.total_bytes = total_bytes;
  cell.warm = warm;
  return cell;
}

struct Counted {
  std::uint64_t hits = 0;
  std::uint64_t misses = 0;
  std::uint64_t evictions = 0;
  std::uint64_t bytes_read = 0;  // by the server, from the storage
};

RuntimeStatistics statistics(const Counted& counted) {
  RuntimeStatistics result;
  result.cache.hits = counted.hits;
  result.cache.misses = counted.misses;
  result.cache.evictions = counted.evictions;
  result.bytes_read = counted.bytes_read;
  return result;
}

std::string state_after(const Counted& timed) {
  return name_of(device_cache_state(read_cell(false), total_bytes, {}, statistics(timed)));
}
std::string state_after_filling(const Counted& filling, const Counted& timed) {
  return name_of(
      device_cache_state(read_cell(true), total_bytes, statistics(filling), statistics(timed)));
}

TEST(DeviceCacheState, IsColdWhereEveryPageWasMissed) {
  EXPECT_EQ(state_after({.misses = pages, .bytes_read = total_bytes}), "cold");
}

TEST(DeviceCacheState, IsColdAlthoughSmallCallsFindThePageTheyBrought) {
  EXPECT_EQ(state_after({.hits = 15 * pages, .misses = pages, .bytes_read = total_bytes}), "cold");
}

TEST(DeviceCacheState, IsColdWhereReadaheadWasFaster) {
  EXPECT_EQ(state_after({.hits = pages - 1, .misses = 1, .bytes_read = total_bytes}), "cold");
}

TEST(DeviceCacheState, IsColdWhereNobodyAskedTheCache) {
  EXPECT_EQ(state_after({.bytes_read = total_bytes}), "cold");
}

TEST(DeviceCacheState, IsNotColdWhereAPageWasThere) {
  EXPECT_EQ(state_after({.hits = 1, .misses = pages - 1, .bytes_read = total_bytes - 65536}),
            "unverified");
  EXPECT_EQ(state_after({.hits = pages}), "unverified");
}

TEST(DeviceCacheState, IsNotColdWhereNothingWasMissedWhateverWasRead) {
  EXPECT_EQ(state_after({.hits = pages, .bytes_read = total_bytes}), "unverified");
}

TEST(DeviceCacheState, IsWarmWhereNothingWasMissed) {
  EXPECT_EQ(state_after_filling({.misses = pages, .bytes_read = total_bytes}, {.hits = pages}),
            "warm");
}

TEST(DeviceCacheState, IsNotWarmWhereSomethingWasMissedOrGivenUp) {
  const Counted filling{.misses = pages, .bytes_read = total_bytes};
  EXPECT_EQ(state_after_filling(filling, {.hits = pages - 1, .misses = 1}), "unverified");
  EXPECT_EQ(state_after_filling(filling, {.hits = pages, .evictions = 1}), "unverified");
  EXPECT_EQ(state_after_filling({.misses = pages, .evictions = 1}, {.hits = pages}), "unverified");
}

TEST(DeviceCacheState, OfWritesIsWarmWhereEveryPageWasThere) {
  Cell cell = read_cell(true);
  cell.operation = MeasuredOperation::write;
  cell.rewrite = true;
  // Filling may have evicted pages of other files.
  const RuntimeStatistics filling = statistics({.misses = pages, .evictions = 1});
  const auto state = [&](const Counted& timed) {
    return std::string(name_of(device_cache_state(cell, total_bytes, filling, statistics(timed))));
  };
  EXPECT_EQ(state({.hits = pages}), "warm");
  EXPECT_EQ(state({.hits = pages - 1, .misses = 1}), "unverified");
}

TEST(Cells, ThatAreCachedGoThroughFerry) {
  Cell cell = read_cell(false);
  EXPECT_TRUE(cell.is_cached());
  cell.interface = Interface::posix;
  EXPECT_FALSE(cell.is_cached());
  cell = read_cell(false);
  cell.placement = device::Placement::host;
  EXPECT_FALSE(cell.is_cached());
}

}  // namespace
}  // namespace ferry::bench::device_cache_test
