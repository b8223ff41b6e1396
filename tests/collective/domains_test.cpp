// Writers, domains, groups, and the parts that ranks give to writers.
#include <cstdint>
#include <set>
#include <vector>

#include <gtest/gtest.h>

#include "collective/plan.hpp"
#include "collective/type_maps.hpp"

namespace ferry::collective {
namespace {

using namespace test;

TEST(ChooseWriters, SpreadsThemOverNodes) {
  const std::vector<int> two_nodes{0, 0, 0, 0, 1, 1, 1, 1};
  EXPECT_EQ(choose_writers(two_nodes, 1), (std::vector<int>{0}));
  EXPECT_EQ(choose_writers(two_nodes, 2), (std::vector<int>{0, 4}));
  EXPECT_EQ(choose_writers(two_nodes, 3), (std::vector<int>{0, 4, 2}));
  EXPECT_EQ(choose_writers(two_nodes, 4), (std::vector<int>{0, 4, 2, 6}));
  const std::vector<int> interleaved{7, 3, 7, 3};
  EXPECT_EQ(choose_writers(interleaved, 2), (std::vector<int>{0, 1}));
}

TEST(ChooseWriters, TakesNoRankTwice) {
  Random random;
  for (int i = 0; i < 200; ++i) {
    std::vector<int> nodes(random.between(1, 20));
    for (int& node : nodes)
      node = static_cast<int>(random.below(4));
    const auto count = static_cast<int>(random.between(0, 30));
    const auto writers = choose_writers(nodes, count);
    const std::set<int> once(writers.begin(), writers.end());
    ASSERT_EQ(once.size(), writers.size());
    ASSERT_EQ(writers.size(), std::min(nodes.size(), static_cast<std::size_t>(std::max(count, 1))));
    ASSERT_EQ(writers.front(), 0);
    ASSERT_TRUE(*once.begin() >= 0 && *once.rbegin() < static_cast<int>(nodes.size()));
    const auto groups = groups_of(nodes, writers);
    for (std::size_t w = 0; w < writers.size(); ++w)
      ASSERT_EQ(groups[static_cast<std::size_t>(writers[w])], static_cast<int>(w))
          << "a writer takes its own data";
  }
}

TEST(Domains, CoverTheRangeOnceOnAlignedBorders) {
  Random random;
  for (int i = 0; i < 500; ++i) {
    const auto begin = static_cast<std::int64_t>(random.below(10'000));
    const auto end = begin + static_cast<std::int64_t>(random.between(1, 100'000));
    const auto writers = static_cast<int>(random.between(1, 9));
    const auto buffer = static_cast<std::int64_t>(random.between(1, 20'000));
    const auto alignment = static_cast<std::int64_t>(random.between(1, 5'000));
    const Domains domains(begin, end, writers, buffer, alignment);
    // Where stripes are larger than the buffer, windows are equal parts of them.
    std::int64_t part = alignment;
    while (part > buffer && part % 2 == 0)
      part /= 2;
    ASSERT_GE(domains.window_bytes(), std::min(buffer, part));
    if (part <= buffer) {
      ASSERT_LT(domains.window_bytes(), buffer + part);
    }
    std::int64_t covered = begin / alignment * alignment;
    for (int writer = 0; writer < writers; ++writer) {
      for (int round = 0; round < domains.rounds(); ++round) {
        const Extent window = domains.window(writer, round);
        if (window.bytes <= 0) continue;
        ASSERT_EQ(window.offset, covered);
        ASSERT_EQ(window.offset % part, 0);
        if (round == 0) {
          ASSERT_EQ(window.offset % alignment, 0);
        }
        ASSERT_LE(window.bytes, domains.window_bytes());
        covered += window.bytes;
        for (const std::int64_t at : {window.offset, covered - 1}) {
          if (at < begin) continue;
          ASSERT_EQ(domains.writer_of(at), writer);
          ASSERT_EQ(domains.round_of(at), round);
        }
      }
    }
    ASSERT_EQ(covered, end);
  }
}

TEST(AggregateParts, ArePiecesOfTheRequestInTheirWindows) {
  Random random;
  for (int i = 0; i < 200; ++i) {
    const FlatMap flat = random_flat_map(random);
    if (flat.bytes.empty()) continue;
    const FileView view{static_cast<std::int64_t>(random.below(1000)), flat.map()};
    const TypeMap memory;
    const RankRequest request{view, Memory(nullptr, memory),
                              static_cast<std::int64_t>(random.below(1000)),
                              static_cast<std::int64_t>(random.between(1, 20'000))};
    const Domains domains(request.begin(), request.end(), static_cast<int>(random.between(1, 5)),
                          static_cast<std::int64_t>(random.between(1, 3000)),
                          static_cast<std::int64_t>(random.between(1, 600)));
    std::int64_t stream = request.stream;
    for (const RoundPart& part : aggregate_parts(request, domains)) {
      ASSERT_EQ(part.stream, stream);
      ASSERT_GT(part.bytes, 0);
      stream += part.bytes;
      const Extent window = domains.window(part.writer, part.round);
      ASSERT_GE(view.position_of(part.stream), window.offset);
      ASSERT_LT(view.position_of(stream - 1), window.offset + window.bytes);
    }
    ASSERT_EQ(stream, request.stream + request.bytes);
  }
}

TEST(SerialParts, TakeTurnsWithinTheirGroup) {
  const FileView view{0, TypeMap()};
  const TypeMap memory;
  const std::vector<std::int64_t> bytes{25, 10, 0, 5};
  const std::vector<int> groups{0, 1, 0, 0};
  const auto rounds_of = [&](int rank) {
    const RankRequest request{view, Memory(nullptr, memory), 0,
                              bytes[static_cast<std::size_t>(rank)]};
    std::vector<std::pair<int, std::int64_t>> rounds;
    for (const RoundPart& part : serial_parts(request, bytes, groups, rank, 10))
      rounds.emplace_back(part.round, part.bytes);
    return rounds;
  };
  using Rounds = std::vector<std::pair<int, std::int64_t>>;
  EXPECT_EQ(rounds_of(0), (Rounds{{0, 10}, {1, 10}, {2, 5}}));
  EXPECT_EQ(rounds_of(1), (Rounds{{0, 10}})) << "another group";
  EXPECT_EQ(rounds_of(2), Rounds{});
  EXPECT_EQ(rounds_of(3), (Rounds{{3, 5}})) << "after rank 0";
}

}  // namespace
}  // namespace ferry::collective
