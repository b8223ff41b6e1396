// What counts of the time in which a loop did not progress.
#include "server/standstill.hpp"

#include <gtest/gtest.h>

namespace ferry::server {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds passed{100};

ThreadState runnable(std::optional<std::chrono::nanoseconds> cpu_time) {
  return {true, cpu_time};
}

TEST(Standstill, OfAThreadThatWaitsForSomethingElseIsAllOfTheTime) {
  EXPECT_EQ(time_at_standstill(passed, runnable(milliseconds(7)), {false, milliseconds(8)}),
            passed);
}

TEST(Standstill, OfARunnableThreadIsWhatItRan) {
  const ThreadState before = runnable(milliseconds(7));
  EXPECT_EQ(time_at_standstill(passed, before, before), milliseconds(0));
  EXPECT_EQ(time_at_standstill(passed, before, runnable(milliseconds(10))), milliseconds(3));
  // Looks that are further apart count as much as one.
  EXPECT_EQ(time_at_standstill(passed, before, runnable(milliseconds(900))), passed);
}

// Else a loop that hangs would never be found where the kernel has no such clock.
TEST(Standstill, WithoutACpuClockIsAllOfTheTime) {
  const ThreadState known = runnable(milliseconds(7));
  const ThreadState unknown = runnable({});
  EXPECT_EQ(time_at_standstill(passed, unknown, unknown), passed);
  EXPECT_EQ(time_at_standstill(passed, known, unknown), passed);
  EXPECT_EQ(time_at_standstill(passed, unknown, known), passed);
}

// What was counted before stays: a look at another clock takes nothing back.
TEST(Standstill, IsNeverNegative) {
  const ThreadState later = runnable(milliseconds(900));
  EXPECT_EQ(time_at_standstill(passed, later, runnable(milliseconds(7))), milliseconds(0));
}

}  // namespace
}  // namespace ferry::server
