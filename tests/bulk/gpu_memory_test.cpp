// Transfers between files and GPU memory, on the mock driver: bytes, paths, limits, failures, and
// that nothing is touched once a future is ready.
#include <cerrno>
#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <fcntl.h>
#include <gtest/gtest.h>

#include <ferry/bulk.hpp>

#include "bulk/bulk_files.hpp"
#include "bulk/scheduler.hpp"
#include "support/error_of.hpp"
#include "support/failing_storage.hpp"
#include "support/within.hpp"

namespace ferry::bulk::gpu_memory_test {
namespace {

using namespace test;

struct GpuTransfer : GpuFile {
  void SetUp() override {
    OnMockGpu::SetUp();
    MockCuda::set("pageable_copies", 0);
  }
  void TearDown() override {
    EXPECT_EQ(MockCuda::get("pageable_copies"), 0) << "a copy past the page-locked memory";
    OnMockGpu::TearDown();
  }
};

TEST_F(GpuTransfer, ReadsEverySizeAtEveryOffsetByEveryRoute) {
  const std::string wanted = made(3 << 20 | 777, 1);
  for (const Route route : {Route::automatic, Route::buffered, Route::direct}) {
    const Engine engine(by_route(route));
    const File file(engine, path);
    expect_ranges(file, wanted, [] {});
    expect_ranges(file, wanted, [&] { make_cold(path); });
    EXPECT_GT(engine.statistics().gpu_tasks, 0U);
    EXPECT_EQ(engine.statistics().failed_parts, 0U);
  }
}

TEST_F(GpuTransfer, WritesWhatTheMemoryHolds) {
  for (const int extra : {0, O_DIRECT}) {
    const Engine engine;
    File file(engine, path, O_RDWR | O_CREAT | O_TRUNC | extra);
    const std::string wanted = write_all(file, {3000001, 4096, 100});
    file.sync();
    file.close();
    EXPECT_TRUE(same_bytes(read_file(path), wanted));
    EXPECT_EQ(engine.statistics().bytes_written, 3000001U + 4096U + 100U);
  }
}

TEST_F(GpuTransfer, OneBatchServesTwoGpusAndTheHost) {
  const std::string wanted = made(2 << 20, 3);
  const auto second = std::make_shared<cuda::PrimaryContext>(cuda::Driver::get(), 1);
  const Engine engine;
  const File file(engine, path);
  for (const bool cold : {false, true}) {
    if (cold) make_cold(path);
    const GpuBuffer one(gpu, wanted.size());
    const GpuBuffer two(second, 5000);
    std::string three(700000, untouched);
    const std::vector<Part> parts = {{&file, one.data(), one.bytes(), 0},
                                     {&file, two.data(), two.bytes(), 123},
                                     {&file, three.data(), three.size(), 4097}};
    EXPECT_EQ(engine.read(parts).get(), wanted.size() + 5000 + 700000);
    EXPECT_TRUE(same_bytes(one.contents(), wanted));
    EXPECT_TRUE(same_bytes(two.contents(), wanted.substr(123, 5000)));
    EXPECT_TRUE(same_bytes(three, wanted.substr(4097, 700000)));
  }
}

TEST_F(GpuTransfer, MemoryThatTheHostMayTouchTakesNoDetour) {
  const std::string wanted = made(1 << 20, 4);
  const Engine engine;
  const File file(engine, path);
  const cuda::PinnedMemory pinned(gpu, wanted.size());
  EXPECT_EQ(file.read_at(pinned.data(), pinned.bytes(), 0), wanted.size());
  EXPECT_TRUE(same_bytes({reinterpret_cast<char*>(pinned.data()), pinned.bytes()}, wanted));
  std::string registered(wanted.size(), untouched);
  const cuda::Registration registration(gpu, registered.data(), registered.size());
  EXPECT_EQ(file.read_at(registered.data(), registered.size(), 0), wanted.size());
  EXPECT_TRUE(same_bytes(registered, wanted));
  EXPECT_EQ(engine.statistics().gpu_tasks, 0U);
  EXPECT_EQ(engine.statistics().pinned_bytes, 0U);
}

TEST_F(GpuTransfer, ManagedMemoryIsLeftToTheDriver) {
  const std::string wanted = made(1 << 20, 5);
  const Engine engine;
  const File file(engine, path);
  expect_read_into_managed(file, wanted);
  EXPECT_EQ(engine.statistics().gpu_tasks, 1U);
}

// While the copy engine is busy the disk continues, as far as the slots reach; a future is not
// ready while a copy may still touch its memory.
TEST_F(GpuTransfer, StorageAndCopiesOverlapAndCancelWaitsForCopies) {
  const std::string wanted = made(32 << 20, 6);
  const Engine engine;
  const File file(engine, path);
  const GpuBuffer target(gpu, wanted.size());
  for (const bool cold : {false, true}) {
    if (cold) make_cold(path);
    const std::uint64_t read_before = engine.statistics().bytes_read;
    MockCuda::set("hold_copies", 1);
    const Future future = file.read_at_async(target.data(), wanted.size(), 0);
    ASSERT_TRUE(
        eventually([&] { return engine.statistics().bytes_read - read_before >= 4U << 20; }));
    EXPECT_FALSE(future.ready());
    future.cancel();
    EXPECT_FALSE(future.wait_for(std::chrono::milliseconds(20)));
    EXPECT_LT(engine.statistics().bytes_read - read_before, wanted.size());
    MockCuda::set("hold_copies", 0);
    future.wait();
    EXPECT_EQ(future.failures().at(0).error_number, ECANCELED);
    const long copies = MockCuda::get("copies");
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    EXPECT_EQ(MockCuda::get("copies"), copies) << "a copy after the future was ready";
  }
  expect_read(file, wanted);
}

TEST_F(GpuTransfer, PageLockedMemoryIsBoundedAndGivenBack) {
  const std::string wanted = made(64 << 20, 7);
  MockCuda::set("pinned_bytes_max", 0);
  {
    const Engine engine(by_route(Route::automatic, 16));
    const File file(engine, path);
    expect_read(file, wanted);
    EXPECT_GT(engine.statistics().pinned_bytes, 0U);
    EXPECT_EQ(static_cast<long>(engine.statistics().pinned_bytes), MockCuda::get("pinned_bytes"));
    EXPECT_LE(MockCuda::get("pinned_bytes_max"), 128 << 20);
  }
  EXPECT_EQ(MockCuda::get("pinned_bytes"), 0);
  EXPECT_EQ(MockCuda::get("streams"), 0);
}

// Each of many storages that hang has a worker.
TEST_F(GpuTransfer, WorkersOfStoragesThatHangHaveFewSlots) {
  constexpr long storages = 40;
  MockCuda::set("pinned_bytes_max", 0);
  auto* storage = new FailingStorage(Random());
  const auto scheduler = std::make_shared<Scheduler>(by_route(Route::automatic, 1),
                                                     std::unique_ptr<storage::Storage>(storage));
  const Engine engine(scheduler);
  const GpuBuffer target(gpu, 16 << 20);
  std::vector<File> files;
  for (long i = 0; i < storages; ++i) {
    const std::string name = "/" + std::to_string(i);
    storage->put_on_device(name, static_cast<std::uint64_t>(i) + 1);
    files.emplace_back(engine, name);
  }
  storage->all_hang = true;
  std::vector<Future> futures;
  for (const File& file : files)
    futures.push_back(file.read_at_async(target.data(), target.bytes(), 0));
  EXPECT_TRUE(eventually([&] { return MockCuda::get("streams") == 2 * storages; }));
  EXPECT_EQ(scheduler->workers_started(), 40U);
  constexpr long slot_bytes = (1 << 20) + 8192;
  EXPECT_LE(MockCuda::get("pinned_bytes_max"), (128 << 20) + 2 * storages * slot_bytes);
  storage->all_hang = false;
  within_patience("transfers that hung", [&] {
    for (Future& future : futures)
      EXPECT_EQ(future.get(), 0U);
  });
}

TEST_F(GpuTransfer, ACopyThatIsRefusedFailsItsPartOnly) {
  const std::string wanted = made(4 << 20, 8);
  const Engine engine(by_route(Route::automatic, 1));
  const File file(engine, path);
  const GpuBuffer one(gpu, 2 << 20);
  const GpuBuffer two(gpu, 2 << 20);
  MockCuda::set("fail_copy_call", 2);
  const Future future = engine.read(std::vector<Part>{{&file, one.data(), one.bytes(), 0},
                                                      {&file, two.data(), two.bytes(), 2 << 20}});
  future.wait();
  const std::vector<Failure> failures = future.failures();
  ASSERT_EQ(failures.size(), 1U);
  EXPECT_EQ(failures[0].part, 0U);
  EXPECT_EQ(failures[0].error_number, EIO);
  EXPECT_TRUE(same_bytes(two.contents(), wanted.substr(2 << 20)));
  // The rest of the GPU's memory is not ours.
  EXPECT_EQ(error_of([&] { file.read_at(inside(one, 1 << 20), 2 << 20, 0); }), EIO);
}

TEST_F(GpuTransfer, ALostGpuFailsTransfersAndLosesNoThread) {
  const std::string wanted = made(8 << 20, 9);
  const Engine engine;
  File file(engine, path, O_RDWR);
  const GpuBuffer target(gpu, wanted.size());
  MockCuda::set("copy_delay_us", 200);
  MockCuda::set("fail_copy", 3);
  EXPECT_EQ(error_of([&] { file.read_at(target.data(), wanted.size(), 0); }), EIO);
  EXPECT_EQ(error_of([&] { file.read_at(target.data(), wanted.size(), 0); }), EIO) << "at once";
  EXPECT_EQ(error_of([&] { file.write_at(target.data(), wanted.size(), 0); }), EIO);
  clear_faults();
  expect_read(file, wanted);
  EXPECT_TRUE(same_bytes(read_file(path), wanted)) << "a write of nothing";
}

TEST_F(GpuTransfer, SaysWhyMemoryCannotBeUsed) {
  write_file(path, pattern(1 << 20, 10));
  const Engine engine;
  const File file(engine, path, O_RDWR | O_APPEND);
  const GpuBuffer target(gpu, 1 << 20);
  EXPECT_EQ(error_of([&] { file.append(target.data(), 10); }), ENOTSUP);
  MockCuda::set("out_of_memory", 1);
  EXPECT_EQ(error_of([&] { file.read_at(target.data(), 1 << 20, 0); }), ENOMEM);
  MockCuda::set("out_of_memory", 0);
  EXPECT_EQ(file.read_at(target.data(), 1 << 20, 0), 1U << 20) << "there is memory again";
}

}  // namespace
}  // namespace ferry::bulk::gpu_memory_test
