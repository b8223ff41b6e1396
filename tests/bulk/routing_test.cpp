// The choices for a transfer, by location and amount of data.
#include "bulk/routing.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>

#include "bulk/lanes.hpp"
#include "bulk/request.hpp"
#include "storage/posix/posix.hpp"
#include "support/files.hpp"

namespace ferry::bulk {
namespace {

constexpr std::uint64_t kib = 1 << 10;
constexpr std::uint64_t mib = 1 << 20;

EngineOptions with_workers(unsigned workers) {
  return choose_options({.workers = workers});
}

TEST(BulkPlan, CopiesAndServersGetLargerTasks) {
  const EngineOptions options = with_workers(16);
  EXPECT_EQ(choose_plan({}, options, Source::memory, 16 * mib).task_bytes, 256 * kib);
  EXPECT_EQ(choose_plan({}, options, Source::memory, 100 * mib).task_bytes, mib);
  EXPECT_EQ(choose_plan({}, options, Source::memory, 1024 * mib).task_bytes, 4 * mib);
  EXPECT_EQ(choose_plan({}, options, Source::memory, mib).task_bytes, mib) << "by one worker";
  EXPECT_EQ(choose_plan({}, options, Source::disk, 100 * mib).task_bytes, 256 * kib);
  EXPECT_EQ(choose_plan({}, options, Source::server, 100 * mib).task_bytes, mib);
}

TEST(BulkPlan, ADiskAndAServerTakeFewerThreads) {
  const EngineOptions options = with_workers(16);
  EXPECT_EQ(choose_plan({}, options, Source::memory, 16 * mib).workers, 16U);
  EXPECT_EQ(choose_plan({}, options, Source::disk, mib).workers, 4U);
  EXPECT_EQ(choose_plan({}, options, Source::server, mib).workers, 1U);
  EXPECT_EQ(choose_plan({}, with_workers(1), Source::disk, mib).workers, 4U);
}

TEST(BulkPlan, ASmallCopyWakesNobody) {
  const EngineOptions options = with_workers(16);
  EXPECT_EQ(choose_plan({}, options, Source::memory, 100 * kib).workers, 1U);
  EXPECT_EQ(choose_plan({}, options, Source::memory, 2 * mib - 1).workers, 1U);
  EXPECT_EQ(choose_plan({}, options, Source::memory, 3 * mib).workers, 3U);
}

TEST(BulkPlan, WhatIsPinnedStays) {
  const EngineOptions wish{.workers = 9, .task_bytes = 4 * mib};
  for (const Source source : {Source::memory, Source::disk, Source::server}) {
    const TransferPlan plan = choose_plan(wish, choose_options(wish), source, 10 * kib);
    EXPECT_EQ(plan.workers, 9U);
    EXPECT_EQ(plan.task_bytes, 4 * mib);
  }
}

TEST(BulkPlan, LooksWhereTheBytesAre) {
  const test::ScratchDirectory scratch(test::build_folder());
  const auto lanes = std::make_shared<Lanes>(storage::make_posix(StorageEngine::threads));
  test::write_file(scratch / "file", test::pattern(4 * mib, 1));
  EngineFile file(lanes, scratch / "file", O_RDWR, 0);
  for (const std::uint64_t bytes : {100 * kib, 256 * kib, 4 * mib}) {
    EXPECT_EQ(source_of(file, Direction::read, 0, bytes, Route::automatic), Source::memory)
        << bytes;
    EXPECT_EQ(source_of(file, Direction::read, 0, bytes, Route::direct), Source::disk) << bytes;
    EXPECT_EQ(source_of(file, Direction::write, 0, bytes, Route::automatic), Source::memory)
        << bytes;
  }
  // Missing data cannot be in the page cache.
  EXPECT_EQ(source_of(file, Direction::read, 0, 100 * mib, Route::automatic), Source::disk);
  EngineFile direct(lanes, scratch / "file", O_RDWR | O_DIRECT, 0);
  EXPECT_EQ(source_of(direct, Direction::read, 0, 4 * mib, Route::automatic), Source::disk);
  EXPECT_EQ(source_of(direct, Direction::write, 0, 4 * mib, Route::buffered), Source::disk);
}

}  // namespace
}  // namespace ferry::bulk
