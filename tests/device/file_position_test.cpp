#include <atomic>
#include <cstdint>
#include <thread>

#include <gtest/gtest.h>

#include <ferry/device/file_position.hpp>

#include "support/depth.hpp"
#include "support/hooks.hpp"
#include "support/within.hpp"

namespace ferry::device {
namespace {

std::atomic<int> wakes{0};

HostHooks counting_hooks() {
  HostHooks hooks = cpu::host_hooks();
  hooks.wake = [](const std::uint32_t* word) {
    wakes.fetch_add(1);
    futex_wake_all(word);
  };
  return hooks;
}

TEST(PositionLock, CostsNoWakeUpWithoutWaiters) {
  wakes = 0;
  const HostHooks hooks = counting_hooks();
  FilePosition position{};
  for (int i = 0; i < 100; ++i) {
    PositionLock::lock(position, hooks);
    EXPECT_EQ(position.lock, 1U);
    PositionLock::unlock(position, hooks);
    EXPECT_EQ(position.lock, 0U);
  }
  EXPECT_EQ(wakes.load(), 0);
}

TEST(PositionLock, HoldsASecondThreadUntilItIsUnlocked) {
  wakes = 0;
  const HostHooks hooks = counting_hooks();
  FilePosition position{};
  std::atomic<bool> entered{false};
  PositionLock::lock(position, hooks);
  std::thread second([&] {
    PositionLock::lock(position, hooks);
    entered = true;
    PositionLock::unlock(position, hooks);
  });
  ASSERT_TRUE(
      test::eventually([&] { return DeviceRef<std::uint32_t>(position.lock).load(acquire) == 2; }));
  EXPECT_FALSE(entered.load());
  PositionLock::unlock(position, hooks);
  test::within_patience("the second thread gets the lock", [&] { second.join(); });
  EXPECT_TRUE(entered.load());
  EXPECT_GE(wakes.load(), 1);
  EXPECT_EQ(position.lock, 0U);
}

TEST(PositionLock, LetsOneThreadAtATimeMoveThePosition) {
  const HostHooks hooks = cpu::host_hooks();
  FilePosition position{};
  constexpr unsigned threads = 4;
  const std::uint64_t rounds = test::scaled(50'000);
  std::atomic<int> inside{0};
  std::atomic<bool> alone{true};
  test::at_once("threads take turns", threads, [&](std::uint32_t) {
    for (std::uint64_t round = 0; round < rounds; ++round) {
      PositionLock::lock(position, hooks);
      if (inside.fetch_add(1, std::memory_order_relaxed) != 0) alone = false;
      position.position += 1;  // not atomic: the lock must do
      if (round % 64 == 0) std::this_thread::yield();
      inside.fetch_sub(1, std::memory_order_relaxed);
      PositionLock::unlock(position, hooks);
    }
  });
  EXPECT_TRUE(alone.load());
  EXPECT_EQ(position.position, threads * rounds);
  EXPECT_EQ(position.lock, 0U);
}

}  // namespace
}  // namespace ferry::device
