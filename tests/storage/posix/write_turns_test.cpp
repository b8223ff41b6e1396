#include "storage/posix/write_turns.hpp"

#include <atomic>
#include <memory>
#include <thread>

#include <gtest/gtest.h>

#include "support/depth.hpp"
#include "support/in_a_child.hpp"
#include "support/within.hpp"

namespace ferry::storage {
namespace {

TEST(WriteTurnsOf, AreTheSameForOneInodeAndFreedWithTheLastUser) {
  const std::shared_ptr<WriteTurns> first = WriteTurns::of(1, 2);
  EXPECT_EQ(WriteTurns::of(1, 2), first);
  EXPECT_NE(WriteTurns::of(1, 3), first);
  EXPECT_NE(WriteTurns::of(2, 2), first);
  EXPECT_EQ(first.use_count(), 1);
}

// The parent's transfers in flight at the fork would never end in the child.
TEST(WriteTurnsOf, AreAChildsOwn) {
  const std::shared_ptr<WriteTurns> parents = WriteTurns::of(1, 2);
  ASSERT_TRUE(parents->try_begin_direct());
  EXPECT_EQ(test::in_a_child([&] {
              const std::shared_ptr<WriteTurns> own = WriteTurns::of(1, 2);
              own->begin_buffered();
              own->end_buffered();
              return own != parents && WriteTurns::of(1, 2) == own ? 0 : 1;
            }),
            0);
  parents->end_direct();
}

TEST(WriteTurns, DirectWritesShareATurnAndSoDoBufferedOnes) {
  WriteTurns turns;
  EXPECT_TRUE(turns.try_begin_direct());
  EXPECT_TRUE(turns.try_begin_direct());
  turns.end_direct();
  turns.end_direct();
  turns.begin_buffered();
  turns.begin_buffered();
  EXPECT_FALSE(turns.try_begin_direct());
  turns.end_buffered();
  EXPECT_FALSE(turns.try_begin_direct());
  turns.end_buffered();
  EXPECT_TRUE(turns.try_begin_direct());
  turns.end_direct();
}

TEST(WriteTurns, ABufferedWriteThatMayNotWaitIsRefusedBesideADirectOne) {
  WriteTurns turns;
  ASSERT_TRUE(turns.try_begin_direct());
  EXPECT_FALSE(turns.try_begin_buffered());
  turns.end_direct();
  EXPECT_TRUE(turns.try_begin_buffered());
  EXPECT_FALSE(turns.try_begin_direct());
  turns.end_buffered();
  EXPECT_TRUE(turns.try_begin_direct());
  turns.end_direct();
}

TEST(WriteTurns, AWaitingBufferedWriteKeepsNewDirectOnesOut) {
  WriteTurns turns;
  ASSERT_TRUE(turns.try_begin_direct());
  std::atomic<bool> begun{false};
  std::thread buffered([&] {
    turns.begin_buffered();
    begun = true;
    turns.end_buffered();
  });
  test::within_patience("a buffered write is announced", [&] {
    while (turns.try_begin_direct()) {
      turns.end_direct();
      std::this_thread::yield();
    }
  });
  EXPECT_FALSE(begun);
  turns.end_direct();
  test::within_patience("its turn", [&] { buffered.join(); });
  EXPECT_TRUE(begun);
}

TEST(WriteTurns, TheTwoKindsNeverMeet) {
  WriteTurns turns;
  std::atomic<int> direct{0};
  std::atomic<int> buffered{0};
  std::atomic<int> met{0};
  std::atomic<std::uint64_t> turned[2] = {};
  test::Random random;
  test::at_once("turns", 4, random, [&](std::uint32_t, test::Random& own) {
    for (std::uint64_t round = 0; round < test::scaled(5'000); ++round) {
      if (own.one_in(2) && turns.try_begin_direct()) {
        ++direct;
        if (own.one_in(8)) std::this_thread::yield();
        if (buffered != 0) ++met;
        --direct;
        turns.end_direct();
        ++turned[0];
      } else {
        if (own.one_in(2) || !turns.try_begin_buffered()) turns.begin_buffered();
        ++buffered;
        if (own.one_in(8)) std::this_thread::yield();
        if (direct != 0) ++met;
        --buffered;
        turns.end_buffered();
        ++turned[1];
      }
    }
  });
  EXPECT_EQ(met, 0);
  EXPECT_GT(turned[0], 0U);
  EXPECT_GT(turned[1], 0U);
}

}  // namespace
}  // namespace ferry::storage
