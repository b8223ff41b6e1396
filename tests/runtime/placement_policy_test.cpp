// The decisions of placement `automatic`, given facts about a call.
#include <gtest/gtest.h>

#include <ferry/device/placement_policy.hpp>

namespace ferry::device {
namespace {

Crossovers crossovers() {
  Crossovers made;
  made.host_read_bytes_min = 1000;
  made.host_stream_read_bytes_min = 2000;
  made.host_write_bytes_min = 3000;
  return made;
}
CallFacts read_of(std::uint64_t bytes) {
  CallFacts call;
  call.bytes = bytes;
  return call;
}
CallFacts write_of(std::uint64_t bytes) {
  CallFacts call = read_of(bytes);
  call.direction = TransferDirection::write;
  call.flush_follows = true;
  return call;
}
Placement chosen(const CallFacts& call, bool resident, const Crossovers& with = crossovers(),
                 bool may_bypass = true) {
  return choose_placement(
      with, call, [&] { return resident; }, [&] { return may_bypass; });
}

TEST(Policy, WhatIsResidentIsComputed) {
  for (const std::uint64_t bytes : {std::uint64_t{0}, std::uint64_t{999}, std::uint64_t{1} << 30}) {
    EXPECT_EQ(chosen(read_of(bytes), true), Placement::compute);
    EXPECT_EQ(chosen(write_of(bytes), true), Placement::compute);
  }
}

TEST(Policy, LargeCallsOnAbsentPagesGoToTheHost) {
  EXPECT_EQ(chosen(read_of(999), false), Placement::compute);
  EXPECT_EQ(chosen(read_of(1000), false), Placement::host);
  EXPECT_EQ(chosen(write_of(2999), false), Placement::compute);
  EXPECT_EQ(chosen(write_of(3000), false), Placement::host);
}

TEST(Policy, WritesThatNothingFollowsStayInTheCache) {
  CallFacts call = write_of(std::uint64_t{1} << 30);
  EXPECT_EQ(chosen(call, false), Placement::host);
  call.flush_follows = false;
  EXPECT_EQ(chosen(call, false), Placement::compute);
}

TEST(FlushHabit, IsLearntAndNotLostByOneException) {
  cache::Reader reader{};
  FlushHabit habit(reader);
  const auto flushed_write = [&](int file) {
    habit.wrote(file);
    habit.flushed(file);
    habit.closed(file);
  };
  const auto plain_write = [&](int file) {
    habit.wrote(file);
    habit.closed(file);
  };
  EXPECT_FALSE(habit.expects_flush());
  flushed_write(1);
  EXPECT_FALSE(habit.expects_flush());
  flushed_write(2);
  EXPECT_TRUE(habit.expects_flush());
  flushed_write(3);
  plain_write(4);
  EXPECT_TRUE(habit.expects_flush()) << "one exception";
  plain_write(5);
  EXPECT_FALSE(habit.expects_flush());
  for (int file = 6; file < 20; ++file)
    plain_write(file);
  flushed_write(20);
  flushed_write(21);
  EXPECT_TRUE(habit.expects_flush());
}

TEST(FlushHabit, CountsAFlushOnceAndOnlyOfWhatWasWritten) {
  cache::Reader reader{};
  FlushHabit habit(reader);
  for (int i = 0; i < 5; ++i) {
    habit.flushed(1);
    habit.flushed(0);
  }
  EXPECT_FALSE(habit.expects_flush()) << "nothing was written";
  habit.wrote(1);
  habit.wrote(1);
  habit.flushed(2);
  habit.flushed(1);
  habit.flushed(1);
  EXPECT_FALSE(habit.expects_flush()) << "one flush";
  habit.wrote(1);
  habit.flushed(1);
  EXPECT_TRUE(habit.expects_flush());
  for (int file = 2; file < 5; ++file)
    habit.wrote(file);  // the one before was left as it was
  EXPECT_FALSE(habit.expects_flush());
}

TEST(Policy, AStreamHasACrossoverOfItsOwn) {
  CallFacts call = read_of(1500);
  EXPECT_EQ(chosen(call, false), Placement::host);
  call.continues = true;
  EXPECT_EQ(chosen(call, false), Placement::compute);
  call.bytes = 2000;
  EXPECT_EQ(chosen(call, false), Placement::host);
}

TEST(Policy, WhatMayNotBypassTheCacheIsComputed) {
  for (const CallFacts& call : {read_of(1 << 20), write_of(1 << 20)})
    EXPECT_EQ(chosen(call, false, crossovers(), false), Placement::compute);
}

TEST(Policy, AServiceTakesWhatIsWorthTheHandOver) {
  Crossovers with = crossovers();
  with.service_read_bytes_min = 500;
  with.service_write_bytes_min = 600;
  EXPECT_EQ(chosen(read_of(499), true, with), Placement::compute);
  EXPECT_EQ(chosen(read_of(500), true, with), Placement::service);
  EXPECT_EQ(chosen(read_of(1000), false, with), Placement::host);
  EXPECT_EQ(chosen(write_of(500), true, with), Placement::compute);
  EXPECT_EQ(chosen(write_of(600), true, with), Placement::service);
}

TEST(Policy, SmallCallsAskTheCacheNothing) {
  bool asked = false;
  const auto resident = [&] {
    asked = true;
    return false;
  };
  EXPECT_EQ(choose_placement(crossovers(), read_of(999), resident, resident), Placement::compute);
  EXPECT_FALSE(asked);
}

TEST(Policy, TheSmallerTheReadTheMoreOftenItGoesPast) {
  const Crossovers with;
  EXPECT_EQ(bypass_limit(with, 65'536, 0), 8U);
  EXPECT_EQ(bypass_limit(with, 65'536, 512), 8U);
  EXPECT_EQ(bypass_limit(with, 65'536, 4096), 7U);
  EXPECT_EQ(bypass_limit(with, 65'536, 65'536), 3U);
  EXPECT_EQ(bypass_limit(with, 4096, 1 << 20), 3U);
}

class Bypass : public testing::Test {
 protected:
  static constexpr std::uint64_t one = 0x1111111100000001;
  static constexpr std::uint64_t other = 0x2222222200000002;
  static constexpr std::uint64_t same_place = 0x3333333300000001;
  std::uint32_t entries[4] = {};
  const BypassTable table{entries, 3};
};

TEST_F(Bypass, CountsByPage) {
  EXPECT_FALSE(count_bypass(table, one, 3));
  EXPECT_FALSE(count_bypass(table, other, 3));
  EXPECT_FALSE(count_bypass(table, one, 3));
  EXPECT_FALSE(count_bypass(table, other, 3));
  EXPECT_TRUE(count_bypass(table, one, 3));
  EXPECT_FALSE(count_bypass(table, one, 3)) << "it begins anew";
  EXPECT_FALSE(count_bypass(table, same_place, 3));
  EXPECT_FALSE(count_bypass(table, one, 3)) << "displaced";
  EXPECT_FALSE(count_bypass(table, one, 3));
  EXPECT_TRUE(count_bypass(table, other, 3));
  EXPECT_TRUE(count_bypass(table, one, 1));
}

TEST_F(Bypass, ForgetsThePageAndNoOther) {
  EXPECT_FALSE(count_bypass(table, one, 2));
  EXPECT_FALSE(count_bypass(table, other, 2));
  forget_bypasses(table, same_place);
  EXPECT_TRUE(count_bypass(table, one, 2)) << "another's entry";
  EXPECT_FALSE(count_bypass(table, one, 2));
  forget_bypasses(table, one);
  EXPECT_FALSE(count_bypass(table, one, 2));
  EXPECT_TRUE(count_bypass(table, other, 2));
}

TEST(Policy, NeighbouringPagesAreCountedApart) {
  std::uint32_t entries[4096] = {};
  const BypassTable table{entries, 4095};
  for (std::uint64_t page = 0; page < 1024; ++page) {
    const std::uint64_t hash = bypass_hash(cache::key_of(5, page));
    EXPECT_FALSE(count_bypass(table, hash, 2)) << page;
    EXPECT_TRUE(count_bypass(table, hash, 2)) << page;
  }
}

TEST(Policy, NeverIsNever) {
  Crossovers with;
  with.host_read_bytes_min = Crossovers::never;
  with.host_stream_read_bytes_min = Crossovers::never;
  with.host_write_bytes_min = Crossovers::never;
  EXPECT_EQ(chosen(read_of(std::uint64_t{1} << 31), false, with), Placement::compute);
  EXPECT_EQ(chosen(write_of(std::uint64_t{1} << 31), false, with), Placement::compute);
}

TEST(Streams, AreCallsThatGoOnWhereTheLastOneEnded) {
  StreamWatch watch;
  EXPECT_TRUE(watch.continues(3, 0, 100)) << "where most begin";
  EXPECT_FALSE(watch.continues(4, 100, 100));
  EXPECT_FALSE(watch.continues(3, 50, 50));
  EXPECT_TRUE(watch.continues(3, 100, 50));
  EXPECT_TRUE(watch.continues(3, 150, 50));
  EXPECT_FALSE(watch.continues(3, 100, 50)) << "back";
  EXPECT_FALSE(watch.continues(4, 150, 50)) << "another file";
  EXPECT_FALSE(watch.continues(4, 201, 50)) << "a gap";
}

}  // namespace
}  // namespace ferry::device
