// Transfers between files and GPU memory, on the mock driver: bytes, paths, limits, failures, and
// that nothing is touched once a future is ready.
#include <cerrno>
#include <chrono>
#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <ferry/bulk.hpp>

#include "bulk/scheduler.hpp"
#include "support/depth.hpp"
#include "support/error_of.hpp"
#include "support/failing_storage.hpp"
#include "support/files.hpp"
#include "support/mock_gpu.hpp"
#include "support/within.hpp"

namespace ferry::bulk::gpu_memory_test {
namespace {

using test::error_of;
using test::GpuBuffer;
using test::MockCuda;
using test::pattern;
using test::same_bytes;
using test::write_file;

constexpr char untouched = '#';

struct GpuTransfer : test::OnMockGpu {
  test::ScratchDirectory scratch{test::build_folder()};
  const std::string path = scratch / "file";

  void SetUp() override {
    OnMockGpu::SetUp();
    MockCuda::set("pageable_copies", 0);
  }
  void TearDown() override {
    EXPECT_EQ(MockCuda::get("pageable_copies"), 0) << "a copy past the page-locked memory";
    OnMockGpu::TearDown();
  }
  // On disk, and dropped from the page cache if the kernel allows it.
  void make_cold() const {
    const test::Descriptor fd(::open(path.c_str(), O_RDONLY));
    fsync(fd);
    posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
  }
};

TEST_F(GpuTransfer, ReadsEverySizeAtEveryOffsetByEveryRoute) {
  const std::string wanted = pattern(3 << 20 | 777, 1);
  write_file(path, wanted);
  for (const Route route : {Route::automatic, Route::buffered, Route::direct}) {
    EngineOptions options;
    options.route = route;
    const Engine engine(options);
    const File file(engine, path);
    for (const bool cold : {false, true}) {
      for (const std::size_t bytes : {1UL, 4096UL, 65537UL, 1UL << 20, 3000001UL}) {
        for (const std::size_t offset : {0UL, 1UL, 4096UL, 100001UL, 3145000UL, 4000000UL}) {
          if (cold) make_cold();
          const GpuBuffer target(gpu, bytes + 64);
          target.fill(std::string(bytes + 64, untouched));
          // Odd addresses too.
          const std::size_t at = offset % 2 + 16;
          const std::uint64_t count = file.read_at(inside(target, at), bytes, offset);
          const std::string expected =
              offset < wanted.size() ? wanted.substr(offset, bytes) : std::string();
          ASSERT_EQ(count, expected.size()) << bytes << " at " << offset;
          const std::string got = target.contents();
          ASSERT_TRUE(same_bytes(std::string_view(got).substr(at, count), expected));
          ASSERT_EQ(got.substr(0, at), std::string(at, untouched));
          ASSERT_EQ(got.substr(at + count),
                    std::string(bytes + 64 - at - static_cast<std::size_t>(count), untouched));
        }
      }
    }
    EXPECT_GT(engine.statistics().gpu_tasks, 0U);
    EXPECT_EQ(engine.statistics().failed_parts, 0U);
  }
}

TEST_F(GpuTransfer, WritesWhatTheMemoryHolds) {
  for (const int extra : {0, O_DIRECT}) {
    const Engine engine;
    File file(engine, path, O_RDWR | O_CREAT | O_TRUNC | extra);
    std::string wanted;
    for (const std::size_t bytes : {3000001UL, 4096UL, 100UL}) {
      const std::string data = pattern(bytes, bytes);
      const GpuBuffer source(gpu, bytes);
      source.fill(data);
      const std::size_t offset = wanted.empty() ? 0 : 1001 + bytes;
      ASSERT_EQ(file.write_at(source.data(), bytes, offset), bytes);
      if (wanted.size() < offset + bytes) wanted.resize(offset + bytes);
      wanted.replace(offset, bytes, data);
    }
    file.sync();
    file.close();
    EXPECT_TRUE(same_bytes(test::read_file(path), wanted));
    EXPECT_EQ(engine.statistics().bytes_written, 3000001U + 4096U + 100U);
  }
}

TEST_F(GpuTransfer, OneBatchServesTwoGpusAndTheHost) {
  const std::string wanted = pattern(2 << 20, 3);
  write_file(path, wanted);
  const auto second = std::make_shared<cuda::PrimaryContext>(cuda::Driver::get(), 1);
  const Engine engine;
  const File file(engine, path);
  for (const bool cold : {false, true}) {
    if (cold) make_cold();
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
  const std::string wanted = pattern(1 << 20, 4);
  write_file(path, wanted);
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
  const std::string wanted = pattern(1 << 20, 5);
  write_file(path, wanted);
  const Engine engine;
  const File file(engine, path);
  const cuda::CurrentContext current(*gpu);
  const cuda::Driver& driver = cuda::Driver::get();
  cuda::DevicePointer managed = 0;
  driver.check(driver.cuMemAllocManaged(&managed, wanted.size(), cuda::managed_attach_global), "");
  EXPECT_EQ(file.read_at(reinterpret_cast<void*>(managed), wanted.size(), 0), wanted.size());
  EXPECT_TRUE(same_bytes({reinterpret_cast<char*>(managed), wanted.size()}, wanted));
  EXPECT_EQ(engine.statistics().gpu_tasks, 1U);
  driver.check(driver.cuMemFree(managed), "");
}

// While the copy engine is busy the disk continues, as far as the slots reach; a future is not
// ready while a copy may still touch its memory.
TEST_F(GpuTransfer, StorageAndCopiesOverlapAndCancelWaitsForCopies) {
  const std::string wanted = pattern(32 << 20, 6);
  write_file(path, wanted);
  const Engine engine;
  const File file(engine, path);
  const GpuBuffer target(gpu, wanted.size());
  for (const bool cold : {false, true}) {
    if (cold) make_cold();
    const std::uint64_t read_before = engine.statistics().bytes_read;
    MockCuda::set("hold_copies", 1);
    const Future future = file.read_at_async(target.data(), wanted.size(), 0);
    ASSERT_TRUE(
        test::eventually([&] { return engine.statistics().bytes_read - read_before >= 4U << 20; }));
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
  EXPECT_EQ(file.read_at(target.data(), wanted.size(), 0), wanted.size());
  EXPECT_TRUE(same_bytes(target.contents(), wanted));
}

TEST_F(GpuTransfer, PageLockedMemoryIsBoundedAndGivenBack) {
  const std::string wanted = pattern(64 << 20, 7);
  write_file(path, wanted);
  MockCuda::set("pinned_bytes_max", 0);
  {
    EngineOptions options;
    options.workers = 16;
    const Engine engine(options);
    const File file(engine, path);
    const GpuBuffer target(gpu, wanted.size());
    EXPECT_EQ(file.read_at(target.data(), wanted.size(), 0), wanted.size());
    EXPECT_TRUE(same_bytes(target.contents(), wanted));
    EXPECT_GT(engine.statistics().pinned_bytes, 0U);
    EXPECT_EQ(static_cast<long>(engine.statistics().pinned_bytes), MockCuda::get("pinned_bytes"));
    EXPECT_LE(MockCuda::get("pinned_bytes_max"), 128 << 20);
  }
  EXPECT_EQ(MockCuda::get("pinned_bytes"), 0);
  EXPECT_EQ(MockCuda::get("streams"), 0);
}

TEST_F(GpuTransfer, ACopyThatIsRefusedFailsItsPartOnly) {
  const std::string wanted = pattern(4 << 20, 8);
  write_file(path, wanted);
  EngineOptions options;
  options.workers = 1;
  const Engine engine(options);
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
  const std::string wanted = pattern(8 << 20, 9);
  write_file(path, wanted);
  const Engine engine;
  File file(engine, path, O_RDWR);
  const GpuBuffer target(gpu, wanted.size());
  MockCuda::set("copy_delay_us", 200);
  MockCuda::set("fail_copy", 3);
  EXPECT_EQ(error_of([&] { file.read_at(target.data(), wanted.size(), 0); }), EIO);
  EXPECT_EQ(error_of([&] { file.read_at(target.data(), wanted.size(), 0); }), EIO) << "at once";
  EXPECT_EQ(error_of([&] { file.write_at(target.data(), wanted.size(), 0); }), EIO);
  clear_faults();
  EXPECT_EQ(file.read_at(target.data(), wanted.size(), 0), wanted.size());
  EXPECT_TRUE(same_bytes(target.contents(), wanted));
  EXPECT_TRUE(same_bytes(test::read_file(path), wanted)) << "a write of nothing";
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

// Random batches from several threads, failing, short, delayed and cancelled at random.
TEST_F(GpuTransfer, RandomBatchesBesideEachOther) {
  test::Random random;
  constexpr std::size_t file_bytes = 4 << 20;
  const std::string wanted = pattern(file_bytes, 11);
  std::uint64_t injected = 0;
  for (int trial = 0; trial < 4; ++trial) {
    auto* storage = new test::FailingStorage(random.fork());
    storage->set_contents("/file", wanted);
    EngineOptions options;
    options.workers = static_cast<unsigned>(random.between(1, 4));
    if (random.one_in(2)) options.task_bytes = 4096 * random.between(1, 100);
    const Engine engine(
        std::make_shared<Scheduler>(options, std::unique_ptr<storage::Storage>(storage)));
    const File file(engine, "/file");
    storage->faults.reads = 30;
    storage->faults.short_reads = 10;
    storage->faults.delays = 3;
    MockCuda::set("copy_delay_us", static_cast<long>(random.below(60)));
    const auto work = [&](test::Random stream) {
      for (std::uint64_t round = 0; round < test::scaled(60); ++round) {
        const std::size_t count = stream.between(1, 20);
        const std::size_t bytes_max = count > 5 ? 40000 : 3 << 20;
        std::vector<std::unique_ptr<GpuBuffer>> memory;
        std::vector<Part> parts;
        for (std::size_t i = 0; i < count; ++i) {
          const std::size_t bytes = stream.between(1, bytes_max);
          memory.push_back(std::make_unique<GpuBuffer>(gpu, bytes + 16));
          memory.back()->fill(std::string(bytes + 16, untouched));
          parts.push_back({&file, memory.back()->data(), bytes, stream.below(file_bytes)});
        }
        Future future = engine.read(parts);
        const bool cancel = stream.one_in(4);
        if (cancel) future.cancel();
        if (stream.one_in(5)) {
          future = Future();
          continue;  // the memory goes at once: freed under a copy, if one were left
        }
        const std::vector<std::int64_t>& results = future.results();
        for (std::size_t i = 0; i < count; ++i) {
          const std::string got = memory[i]->contents();
          ASSERT_EQ(got.substr(parts[i].bytes), std::string(16, untouched));
          if (results[i] < 0) continue;
          const std::string expected = wanted.substr(parts[i].offset, parts[i].bytes);
          ASSERT_EQ(results[i], static_cast<std::int64_t>(expected.size()));
          ASSERT_TRUE(same_bytes(std::string_view(got).substr(0, expected.size()), expected));
        }
      }
    };
    std::vector<std::thread> threads;
    for (int thread = 0; thread < 3; ++thread)
      threads.emplace_back(work, random.fork());
    for (std::thread& thread : threads)
      thread.join();
    injected += storage->injected;
  }
  EXPECT_GT(injected, 0U);
}

}  // namespace
}  // namespace ferry::bulk::gpu_memory_test
