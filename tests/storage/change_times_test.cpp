#include "storage/change_times.hpp"

#include <gtest/gtest.h>

namespace ferry::storage {
namespace {

using std::chrono::milliseconds;
using Clock = ChangeTimes::Clock;

// A change now, by a clock that may differ a little from the server's.
std::int64_t just_now(bool whole_seconds = false) {
  const std::int64_t now =
      std::chrono::nanoseconds(std::chrono::system_clock::now().time_since_epoch()).count();
  const std::int64_t second = 1'000'000'000;
  return whole_seconds ? now / second * second : now / second * second + 1;
}

TEST(ChangeTimes, ATimeTellsSomethingOnceItIsATickOld) {
  ChangeTimes times;
  const Clock::time_point start = Clock::now();
  const std::int64_t changed = just_now();
  const auto at = [&](int ms) {
    const auto asked = start + milliseconds(ms);
    return times.version(7, changed, asked, asked + milliseconds(10));
  };
  EXPECT_EQ(at(0), 0U);
  EXPECT_EQ(at(50), 0U);
  EXPECT_EQ(at(105), 0U) << "the first answer came at 10 ms";
  EXPECT_EQ(at(120), static_cast<std::uint64_t>(changed));
  EXPECT_EQ(at(5000), static_cast<std::uint64_t>(changed));
}

TEST(ChangeTimes, AnotherChangeBeginsAnew) {
  ChangeTimes times;
  const Clock::time_point start = Clock::now();
  const std::int64_t changed = just_now();
  const auto at = [&](int ms, std::int64_t when) {
    return times.version(7, when, start + milliseconds(ms), start + milliseconds(ms));
  };
  EXPECT_EQ(at(0, changed), 0U);
  EXPECT_NE(at(200, changed), 0U);
  EXPECT_EQ(at(300, changed + 1), 0U);
  EXPECT_EQ(at(350, changed + 1), 0U);
  EXPECT_EQ(at(401, changed + 1), static_cast<std::uint64_t>(changed + 1));
}

TEST(ChangeTimes, WholeSecondsAreTakenForAClockOfSeconds) {
  ChangeTimes times;
  const Clock::time_point start = Clock::now();
  const std::int64_t changed = just_now(true);
  EXPECT_EQ(times.version(7, changed, start, start), 0U);
  const auto later = start + milliseconds(1500);
  EXPECT_EQ(times.version(7, changed, later, later), 0U);
  const auto settled = start + milliseconds(2001);
  EXPECT_NE(times.version(7, changed, settled, settled), 0U);
}

TEST(ChangeTimes, WhatIsLongPastNeedsNoSecondLook) {
  ChangeTimes times;
  const std::int64_t changed = just_now() - std::int64_t{600} * 1'000'000'000;
  EXPECT_EQ(times.version(7, changed, Clock::now(), Clock::now()),
            static_cast<std::uint64_t>(changed));
}

TEST(ChangeTimes, FilesBeyondThoseThatItRemembersAreSeenAnew) {
  ChangeTimes times;
  const Clock::time_point start = Clock::now();
  const std::int64_t changed = just_now();
  const auto later = start + milliseconds(200);
  for (std::uint64_t inode = 0; inode < 10'000; ++inode)
    EXPECT_EQ(times.version(inode, changed, start, start), 0U);
  EXPECT_EQ(times.version(0, changed, later, later), 0U) << "forgotten, so not trusted";
  EXPECT_NE(times.version(9999, changed, later, later), 0U);
}

}  // namespace
}  // namespace ferry::storage
