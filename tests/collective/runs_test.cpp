// Extents in messages.
#include "collective/runs.hpp"

#include <algorithm>
#include <cstdint>
#include <vector>

#include <gtest/gtest.h>

#include "collective/type_maps.hpp"

namespace ferry::collective {
namespace {

using namespace test;

std::vector<Extent> extents_of(const std::vector<Run>& runs) {
  std::vector<Extent> extents;
  for_each_extent(runs, [&](const Extent& extent) { extents.push_back(extent); });
  return extents;
}

TEST(Runs, AStridedViewIsOneRun) {
  const TypeMap map = TypeMap::strided(4, 8, 100);
  const auto runs = runs_of(map, 1000, 0, 10 * 8);
  ASSERT_EQ(runs.size(), 1U);
  EXPECT_EQ(runs[0], (collective::Run{1000, 8, 100, 10})) << "across the end of a period too";
}

TEST(Runs, NeighboursAcrossPeriodsAreOneExtent) {
  const std::vector<Extent> list{{0, 4}, {12, 4}};
  const auto runs = runs_of(TypeMap::list(list, 16), 0, 0, 16);
  EXPECT_EQ(extents_of(runs), (std::vector<Extent>{{0, 4}, {12, 8}, {28, 4}}));
}

TEST(Runs, ADenseViewIsOneExtent) {
  const auto runs = runs_of(TypeMap::contiguous(3), 5, 2, 1'000'000'000'000);
  ASSERT_EQ(runs.size(), 1U);
  EXPECT_TRUE(runs[0].is_extent());
  EXPECT_EQ(extents_of(runs), (std::vector<Extent>{{7, 1'000'000'000'000}}));
}

TEST(Runs, NameEveryByteInOrder) {
  Random random;
  for (int i = 0; i < 300; ++i) {
    const FlatMap flat = random_flat_map(random);
    if (flat.bytes.empty()) continue;
    auto stream = static_cast<std::int64_t>(random.below(1000));
    const auto bytes = static_cast<std::int64_t>(random.between(1, 5000));
    std::int64_t left = bytes;
    for (const Extent& extent : extents_of(runs_of(flat.map(), 50, stream, bytes))) {
      left -= extent.bytes;
      for (std::int64_t at = 0; at < extent.bytes; ++at)
        ASSERT_EQ(extent.offset + at, 50 + flat.position_of(stream++));
    }
    ASSERT_EQ(left, 0);
  }
}

TEST(Join, MergesWhatOverlapsTouchesOrLiesNear) {
  std::vector<Extent> extents{{50, 10}, {0, 10}, {10, 5}, {12, 1}, {20, 5}};
  join(extents, 0);
  EXPECT_EQ(extents, (std::vector<Extent>{{0, 15}, {20, 5}, {50, 10}}));
  join(extents, 5);
  EXPECT_EQ(extents, (std::vector<Extent>{{0, 25}, {50, 10}}));
}

TEST(Merge, RunsThatFillEachOthersGapsAreOneExtent) {
  std::vector<collective::Run> runs{{8, 4, 16, 10}, {0, 8, 16, 10}, {12, 4, 16, 10}};
  merge(runs, 0);
  EXPECT_EQ(runs, (std::vector<collective::Run>{{0, 160, 0, 1}}));
}

TEST(Merge, SmallGapsOfARunAreCovered) {
  std::vector<collective::Run> runs{{100, 4, 16, 10}, {1000, 4, 17, 10}};
  merge(runs, 12);
  EXPECT_EQ(runs, (std::vector<collective::Run>{{100, 148, 0, 1}, {1000, 4, 17, 10}}));
}

TEST(Merge, CoversTheSameBytes) {
  Random random;
  const auto extents_joined = [](const std::vector<collective::Run>& runs) {
    auto extents = extents_of(runs);
    join(extents, 0);
    return extents;
  };
  for (int i = 0; i < 300; ++i) {
    // Few values, so that neighbours and overlaps are frequent.
    std::vector<collective::Run> runs;
    for (std::uint64_t n = random.between(1, 6); n > 0; --n) {
      const auto bytes = static_cast<std::int64_t>(random.between(1, 8));
      const auto stride = std::max<std::int64_t>(bytes + 1, random.one_in(2) ? 16 : 8);
      const auto count = static_cast<std::int64_t>(random.between(1, 3));
      runs.push_back(
          {static_cast<std::int64_t>(random.below(8)) * 4, bytes, count == 1 ? 0 : stride, count});
    }
    const auto wanted = extents_joined(runs);
    merge(runs, 0);
    ASSERT_EQ(extents_joined(runs), wanted);
  }
}

}  // namespace
}  // namespace ferry::collective
