// Type maps, and the runs of their extents in messages, against lists of bytes written out one by
// one.
#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <limits>
#include <vector>

#include <gtest/gtest.h>

#include <ferry/typemap.hpp>

#include "collective/runs.hpp"
#include "collective/type_maps.hpp"
#include "support/error_of.hpp"

namespace ferry::collective {
namespace {

using namespace test;

std::vector<Extent> list_of(const TypeMap& map) {
  return {map.extents().begin(), map.extents().end()};
}

TEST(TypeMap, IsTheWholeFileByDefault) {
  const TypeMap map;
  EXPECT_TRUE(map.is_dense());
  EXPECT_TRUE(map.is_file_view());
  EXPECT_EQ(map.position_of(5'000'000'000), 5'000'000'000);
  EXPECT_EQ(map.stream_at(5'000'000'000), 5'000'000'000);
}

TEST(TypeMap, Contiguous) {
  EXPECT_TRUE(TypeMap::contiguous(100).is_dense());
  EXPECT_EQ(TypeMap::contiguous(0).data_bytes(), 0);
  EXPECT_TRUE(TypeMap::contiguous(0).is_file_view());
}

TEST(TypeMap, Strided) {
  const TypeMap map = TypeMap::strided(3, 4, 10);
  EXPECT_EQ(list_of(map), (std::vector<Extent>{{0, 4}, {10, 4}, {20, 4}}));
  EXPECT_EQ(map.period_bytes(), 30);
  EXPECT_EQ(map.data_bytes(), 12);
  EXPECT_TRUE(TypeMap::strided(1000, 8, 8).is_dense());
  EXPECT_FALSE(TypeMap::strided(3, 8, 4).is_file_view()) << "blocks overlap";
}

TEST(TypeMap, SubarrayHasTheLastDimensionTogether) {
  const std::vector<std::int64_t> sizes{3, 4, 5};
  const std::vector<std::int64_t> subsizes{2, 2, 3};
  const std::vector<std::int64_t> starts{1, 1, 2};
  const TypeMap map = TypeMap::subarray(sizes, subsizes, starts, 8);
  std::vector<Extent> wanted;
  for (const std::int64_t x : {1, 2})
    for (const std::int64_t y : {1, 2})
      wanted.push_back({((x * 4 + y) * 5 + 2) * 8, 24});
  EXPECT_EQ(list_of(map), wanted);
  EXPECT_EQ(map.period_bytes(), 3 * 4 * 5 * 8);
}

TEST(TypeMap, WholeInnerDimensionsOfASubarrayAreOneExtent) {
  const std::vector<std::int64_t> sizes{8, 1000, 1000};
  const std::vector<std::int64_t> subsizes{2, 1000, 1000};
  const std::vector<std::int64_t> starts{4, 0, 0};
  EXPECT_EQ(list_of(TypeMap::subarray(sizes, subsizes, starts, 8)),
            (std::vector<Extent>{{4 * 8'000'000, 2 * 8'000'000}}));
}

TEST(TypeMap, ListJoinsNeighboursAndDropsEmptyExtents) {
  const std::vector<Extent> extents{{0, 4}, {4, 4}, {9, 0}, {10, 2}};
  const TypeMap map = TypeMap::list(extents, 100);
  EXPECT_EQ(list_of(map), (std::vector<Extent>{{0, 8}, {10, 2}}));
  EXPECT_EQ(map.period_bytes(), 100);
}

TEST(TypeMap, ViewsGrowAndStayWithinTheirPeriod) {
  const auto is_view = [](std::vector<Extent> extents, std::int64_t period) {
    return TypeMap::list(extents, period).is_file_view();
  };
  EXPECT_TRUE(is_view({{0, 4}, {8, 4}}, 12));
  EXPECT_TRUE(is_view({{6, 4}, {12, 4}}, 10)) << "the period counts from the first extent";
  EXPECT_FALSE(is_view({{0, 4}, {8, 4}}, 11)) << "the next period would begin before its end";
  EXPECT_FALSE(is_view({{8, 4}, {0, 4}}, 12));
  EXPECT_FALSE(is_view({{0, 4}, {2, 4}}, 12));
  EXPECT_FALSE(is_view({{-4, 4}}, 12));
}

TEST(TypeMap, RefusesWhatMakesNoSense) {
  constexpr auto huge = std::numeric_limits<std::int64_t>::max();
  const std::vector<std::int64_t> one{1};
  const std::vector<std::int64_t> two{2};
  EXPECT_EQ(error_of([] { TypeMap::contiguous(-1); }), EINVAL);
  EXPECT_EQ(error_of([] { TypeMap::strided(-1, 1, 1); }), EINVAL);
  EXPECT_EQ(error_of([] { TypeMap::strided(3, 4, -8); }), EINVAL);
  EXPECT_EQ(error_of([&] { TypeMap::strided(4, 1, huge / 2); }), EINVAL);
  EXPECT_EQ(error_of([&] { TypeMap::strided(huge / 2, 1, 2); }), EINVAL);
  EXPECT_EQ(error_of([&] { TypeMap::subarray(one, two, one, 8); }), EINVAL);
  EXPECT_EQ(error_of([&] { TypeMap::subarray({}, {}, {}, 8); }), EINVAL);
  EXPECT_EQ(error_of([&] {
              const std::vector<Extent> extents{{huge - 1, 2}};
              TypeMap::list(extents);
            }),
            EINVAL);
  EXPECT_EQ(error_of([&] {
              // Neighbours, which together are longer than any file.
              const std::vector<Extent> extents{{-huge, huge}, {0, 1}};
              TypeMap::list(extents);
            }),
            EINVAL);
}

TEST(TypeMap, FindsEveryByte) {
  Random random;
  for (int i = 0; i < 200; ++i) {
    const FlatMap flat = random_flat_map(random);
    const TypeMap map = flat.map();
    if (map.data_bytes() == 0) continue;
    ASSERT_EQ(static_cast<std::size_t>(map.data_bytes()), flat.bytes.size());
    ASSERT_TRUE(map.is_file_view());
    for (int j = 0; j < 50; ++j) {
      const auto stream = static_cast<std::int64_t>(random.below(5 * flat.bytes.size()));
      const std::int64_t position = flat.position_of(stream);
      ASSERT_EQ(map.position_of(stream), position);
      ASSERT_EQ(map.stream_at(position), stream);
      ASSERT_EQ(map.stream_at(position + 1), stream + 1);
    }
  }
}

TEST(TypeMap, CursorWalksEveryByte) {
  Random random;
  for (int i = 0; i < 200; ++i) {
    const FlatMap flat = random_flat_map(random);
    const TypeMap map = flat.map();
    if (map.data_bytes() == 0) continue;
    auto stream = static_cast<std::int64_t>(random.below(3 * flat.bytes.size()));
    const std::int64_t end = stream + static_cast<std::int64_t>(random.below(300));
    Cursor cursor(map, 1000, stream);
    while (stream < end) {
      const Extent piece = cursor.next(end - stream);
      ASSERT_GT(piece.bytes, 0);
      ASSERT_LE(piece.bytes, end - stream);
      for (std::int64_t at = 0; at < piece.bytes; ++at)
        ASSERT_EQ(piece.offset + at, 1000 + flat.position_of(stream++));
    }
  }
}

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
