// Transfers between files and GPU memory by GPUDirect Storage, on the mocks of cuFile and the CUDA
// driver: when it is used, its failures and fallbacks, and that nothing leaks.
#include <cerrno>
#include <chrono>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include <fcntl.h>
#include <gtest/gtest.h>

#include <ferry/bulk.hpp>

#include "bulk/bulk_files.hpp"
#include "support/depth.hpp"
#include "support/in_a_child.hpp"
#include "support/mock_cufile.hpp"
#include "support/within.hpp"

namespace ferry::bulk {
namespace {

using namespace test;

struct GpuDirect : GpuFile {
  void SetUp() override {
    OnMockGpu::SetUp();
    MockCuFile::answer("p2p");
    for (const char* name :
         {"hold", "short_bytes", "bytes_read", "bytes_written", "torn_blocks", "under_way_max"}) {
      MockCuFile::set(name, 0);
    }
  }
  void TearDown() override {
    EXPECT_EQ(MockCuFile::get("handles"), 0);
    EXPECT_EQ(MockCuFile::get("drivers"), 0);
    EXPECT_EQ(MockCuFile::get("torn_blocks"), 0) << "others' bytes would have been written again";
    MockCuFile::forget();
    OnMockGpu::TearDown();
  }
  // Not dependent on the page cache.
  static Engine past_the_cache(unsigned workers = 0) {
    return Engine(by_route(Route::direct, workers));
  }
};

std::string gpu_reason(const Engine& engine, const std::string& path) {
  for (const std::string& reason : engine.explain(path).reasons) {
    if (reason.starts_with("a GPU's memory: ")) return reason;
  }
  return "";
}

TEST_F(GpuDirect, ReadsAnyRangeIntoAnyAddress) {
  const std::string wanted = made(3 << 20 | 777, 1);
  for (const char* words : {"p2p", "nvidia-fs short"}) {
    MockCuFile::answer(words);
    MockCuFile::set("short_bytes", 100001);
    MockCuFile::set("bytes_read", 0);
    const Engine engine = past_the_cache();
    const File file(engine, path);
    expect_ranges(file, wanted, [] {});
    const EngineStatistics statistics = engine.statistics();
    EXPECT_GT(statistics.gpu_direct_tasks, 0U);
    EXPECT_GT(statistics.gpu_tasks, statistics.gpu_direct_tasks) << "small ones take the slots";
    EXPECT_EQ(static_cast<long>(statistics.gpu_direct_bytes), MockCuFile::get("bytes_read"));
    EXPECT_EQ(statistics.failed_parts, 0U);
  }
}

TEST_F(GpuDirect, TakesNoMemoryOfTheHost) {
  const std::string wanted = made(8 << 20, 2);
  const Engine engine = past_the_cache();
  const File file(engine, path);
  expect_read(file, wanted);
  const EngineStatistics statistics = engine.statistics();
  EXPECT_EQ(statistics.pinned_bytes, 0U);
  EXPECT_EQ(statistics.gpu_direct_bytes, wanted.size());
  EXPECT_EQ(statistics.gpu_direct_tasks, 8U);
  EXPECT_EQ(statistics.gpu_tasks, 8U);
  EXPECT_EQ(statistics.direct_tasks, 8U);
  EXPECT_EQ(statistics.bytes_read, wanted.size());
}

TEST_F(GpuDirect, WritesWholeBlocksAndLeavesTheEdgesToTheSlots) {
  const Engine engine;
  File file(engine, path, O_RDWR | O_CREAT | O_TRUNC | O_DIRECT);
  const std::string wanted = write_all(file, {4 << 20, 3000001, 4096, 100});
  file.close();
  EXPECT_TRUE(same_bytes(read_file(path), wanted));
  const EngineStatistics statistics = engine.statistics();
  // The first write, and the gap between the first and the last piece of the second.
  EXPECT_EQ(statistics.gpu_direct_bytes, 5U << 20);
  EXPECT_EQ(MockCuFile::get("bytes_written"), 5 << 20);
  EXPECT_EQ(statistics.bytes_written, (4U << 20) + 3000001U + 4096U + 100U);
}

TEST_F(GpuDirect, AWriteThatEndsInsideABlockIsWrittenAgainThroughTheSlots) {
  MockCuFile::answer("p2p short");
  MockCuFile::set("short_bytes", 5000);
  const std::string wanted = pattern(2 << 20, 3);
  const GpuBuffer source(gpu, wanted.size());
  source.fill(wanted);
  const Engine engine;
  File file(engine, path, O_RDWR | O_CREAT | O_DIRECT);
  EXPECT_EQ(file.write_at(source.data(), wanted.size(), 0), wanted.size());
  file.close();
  EXPECT_TRUE(same_bytes(read_file(path), wanted));
  EXPECT_EQ(MockCuFile::get("bytes_written"), 2 * 5000) << "once for each piece";
  EXPECT_EQ(engine.statistics().gpu_direct_bytes, 0U);
  EXPECT_EQ(engine.statistics().bytes_written, wanted.size());
}

TEST_F(GpuDirect, IsNotUsedWhereItIsNone) {
  const std::string wanted = made(2 << 20, 4);
  const auto reason = [&](const char* words, const char* setting) {
    MockCuFile::answer(words);
    setenv("FERRY_GPUDIRECT", setting, 1);
    const Engine engine = past_the_cache();
    const File file(engine, path);
    expect_read(file, wanted);
    EXPECT_EQ(engine.statistics().gpu_direct_tasks, 0U) << words;
    EXPECT_GT(engine.statistics().pinned_bytes, 0U);
    return gpu_reason(engine, path);
  };
  EXPECT_EQ(reason("compatibility", "on"),
            "a GPU's memory: pinned staging (no GPUDirect: cuFile runs in compatibility mode only: "
            "the kernel module nvidia-fs is not loaded), tasks of 1 MiB");
  EXPECT_NE(reason("refuses", "on").find("cuFileDriverOpen failed"), std::string::npos);
  EXPECT_NE(reason("p2p no-handles", "on").find("refuses this file with error 5008"),
            std::string::npos);
  EXPECT_NE(reason("p2p", "off").find("FERRY_GPUDIRECT=off"), std::string::npos);
}

TEST_F(GpuDirect, SaysWhatIsBeneath) {
  write_file(path, pattern(1 << 20, 5));
  const Engine engine;
  EXPECT_EQ(gpu_reason(engine, path),
            "a GPU's memory: GPUDirect Storage (cuFile with the kernel's PCI P2PDMA) for what goes "
            "past the page cache, pinned staging for the rest, tasks of 1 MiB");
}

TEST_F(GpuDirect, AFileThatIsRefusedIsGivenUpForGood) {
  const std::string wanted = made(4 << 20, 6);
  const Engine engine = past_the_cache();
  for (const char* words : {"p2p no-io", "p2p invalid"}) {
    MockCuFile::answer(words);
    const File file(engine, path);
    const std::uint64_t before = engine.statistics().gpu_direct_tasks;
    expect_read(file, wanted);
    MockCuFile::answer("p2p");
    expect_read(file, wanted);
    EXPECT_EQ(engine.statistics().gpu_direct_tasks, before) << words;
    const File another(engine, path);
    expect_read(another, wanted);
    EXPECT_GT(engine.statistics().gpu_direct_tasks, before);
  }
  EXPECT_EQ(engine.statistics().failed_parts, 0U);
}

TEST_F(GpuDirect, MemoryThatIsRefusedTakesTheSlotsAlone) {
  const std::string wanted = made(4 << 20, 7);
  const Engine engine = past_the_cache();
  const File file(engine, path);
  MockCuFile::answer("p2p no-memory");
  expect_read(file, wanted);
  EXPECT_EQ(engine.statistics().gpu_direct_tasks, 0U);
  MockCuFile::answer("p2p");
  expect_read_into_managed(file, wanted);
  EXPECT_EQ(engine.statistics().gpu_direct_tasks, 0U) << "managed memory";
  expect_read(file, wanted);
  EXPECT_EQ(engine.statistics().gpu_direct_tasks, 4U);
}

TEST_F(GpuDirect, AnErrorOfTheDiskFailsItsPartOnly) {
  const std::string wanted = made(4 << 20, 8);
  const Engine engine = past_the_cache(1);
  const File file(engine, path);
  const GpuBuffer large(gpu, 3 << 20);
  const GpuBuffer small(gpu, 5000);
  MockCuFile::answer("p2p io-error");
  const Future future = engine.read(std::vector<Part>{{&file, large.data(), large.bytes(), 4096},
                                                      {&file, small.data(), small.bytes(), 77}});
  future.wait();
  const std::vector<Failure> failures = future.failures();
  ASSERT_EQ(failures.size(), 1U);
  EXPECT_EQ(failures[0].part, 0U);
  EXPECT_EQ(failures[0].error_number, EIO);
  EXPECT_TRUE(same_bytes(small.contents(), wanted.substr(77, 5000)));
  MockCuFile::answer("p2p");
  expect_read(file, wanted);
  EXPECT_GT(engine.statistics().gpu_direct_bytes, 0U) << "an error of the disk is not a refusal";
}

TEST_F(GpuDirect, ALostGpuFailsTransfersAndLosesNoThread) {
  const std::string wanted = made(4 << 20, 9);
  const Engine engine = past_the_cache();
  const GpuBuffer target(gpu, wanted.size());
  MockCuda::set("fail_copy", 3);
  {
    const File file(engine, path);
    EXPECT_THROW(file.read_at(target.data(), wanted.size(), 0), TransferError);
  }
  clear_faults();
  const File file(engine, path);
  expect_read(file, wanted);
}

// Every worker blocks in one call; a cancelled future waits for those calls, and starts no more.
TEST_F(GpuDirect, WorkersTransferAtTheSameTimeAndCancelWaitsForThem) {
  constexpr long workers = 4;
  const std::string wanted = made(32 << 20, 10);
  const Engine engine = past_the_cache(static_cast<unsigned>(workers));
  const File file(engine, path);
  const GpuBuffer target(gpu, wanted.size());
  MockCuFile::set("hold", 1);
  const Future future = file.read_at_async(target.data(), wanted.size(), 0);
  ASSERT_TRUE(eventually([] { return MockCuFile::get("under_way") == workers; }));
  future.cancel();
  EXPECT_FALSE(future.wait_for(std::chrono::milliseconds(20)));
  MockCuFile::set("hold", 0);
  future.wait();
  EXPECT_EQ(future.failures().at(0).error_number, ECANCELED);
  EXPECT_EQ(MockCuFile::get("under_way"), 0) << "a transfer after the future was ready";
  EXPECT_EQ(MockCuFile::get("bytes_read"), workers << 20);
  expect_read(file, wanted);
  EXPECT_EQ(MockCuFile::get("under_way_max"), workers);
}

TEST_F(GpuDirect, HandlesEndWithTheirFilesAndTheDriverWithTheLastEngine) {
  const std::string wanted = made(1 << 20, 11);
  std::optional<Engine> one(past_the_cache());
  std::optional<Engine> two(past_the_cache());
  File first(*one, path);
  std::optional<File> second(std::in_place, *two, path);
  EXPECT_EQ(MockCuFile::get("drivers"), 0) << "nobody had a use for it";
  expect_read(first, wanted);
  expect_read(*second, wanted);
  EXPECT_EQ(MockCuFile::get("handles"), 2);
  EXPECT_EQ(MockCuFile::get("drivers"), 1);
  first.close();
  EXPECT_EQ(MockCuFile::get("handles"), 1);
  one.reset();
  two.reset();
  EXPECT_EQ(MockCuFile::get("drivers"), 1) << "the file's engine";
  second.reset();
  EXPECT_EQ(MockCuFile::get("handles"), 0);
}

TEST_F(GpuDirect, AChildOfForkLeavesTheHandlesToItsParent) {
  const std::string wanted = made(1 << 20, 12);
  std::optional<Engine> engine(past_the_cache());
  std::optional<File> file(std::in_place, *engine, path);
  expect_read(*file, wanted);
  const auto work = [&] {
    file.reset();
    engine.reset();
    const bool left = MockCuFile::get("handles") == 1 && MockCuFile::get("drivers") == 1;
    return left && gpu_reason(Engine(), path).find("belongs to the parent") != std::string::npos;
  };
  EXPECT_EQ(in_a_child(work), true);
  expect_read(*file, wanted);
}

// Random reads and writes of several threads, each in its own known region of the file, while
// cuFile is short, fails and refuses at random.
TEST_F(GpuDirect, RandomTransfersBesideAModel) {
  Random random;
  constexpr std::size_t region_bytes = (2 << 20) + 555;
  constexpr std::size_t threads_count = 3;
  std::uint64_t moved = 0;
  for (int trial = 0; trial < 3; ++trial) {
    write_file(path, std::string(threads_count * region_bytes, untouched));
    MockCuFile::answer("p2p random");
    MockCuFile::set("short_bytes", static_cast<long>(4096 * random.between(1, 60)));
    const Engine engine = past_the_cache(static_cast<unsigned>(random.between(1, 4)));
    const File file(engine, path, O_RDWR | O_DIRECT);
    const auto work = [&](std::size_t region, Random stream) {
      std::string model(region_bytes, untouched);
      const GpuBuffer memory(gpu, region_bytes + 64);
      for (std::uint64_t round = 0; round < scaled(80); ++round) {
        std::size_t begin = stream.below(region_bytes - 1);
        // Some that are whole blocks of the file.
        if (stream.one_in(2)) begin = begin / 4096 * 4096;
        std::size_t bytes = stream.between(1, region_bytes - begin);
        if (stream.one_in(2) && bytes > 4096) bytes = bytes / 4096 * 4096;
        const std::size_t at = stream.below(64);
        const std::size_t offset = region * region_bytes + begin;
        if (stream.one_in(2)) {
          const std::string data = pattern(bytes, stream.bits());
          memory.fill(std::string(at, untouched) + data);
          Future future = file.write_at_async(inside(memory, at), bytes, offset);
          if (stream.one_in(5)) future.cancel();
          // The result of a failed or cancelled write is unknown until the next write.
          while (future.results()[0] != static_cast<std::int64_t>(bytes))
            future = file.write_at_async(inside(memory, at), bytes, offset);
          model.replace(begin, bytes, data);
        } else {
          memory.fill(std::string(region_bytes + 64, untouched));
          const Future future = file.read_at_async(inside(memory, at), bytes, offset);
          const std::int64_t result = future.results()[0];
          if (result == -EIO) continue;
          ASSERT_EQ(result, static_cast<std::int64_t>(bytes));
          const std::string got = memory.contents();
          ASSERT_TRUE(same_bytes(std::string_view(got).substr(at, bytes),
                                 std::string_view(model).substr(begin, bytes)));
          ASSERT_EQ(got.substr(0, at), std::string(at, untouched));
          ASSERT_EQ(got.find_first_not_of(untouched, at + bytes), std::string::npos);
        }
      }
    };
    std::vector<std::thread> threads;
    for (std::size_t region = 0; region < threads_count; ++region)
      threads.emplace_back(work, region, random.fork());
    for (std::thread& thread : threads)
      thread.join();
    moved += engine.statistics().gpu_direct_bytes;
  }
  EXPECT_GT(moved, 0U);
}

}  // namespace
}  // namespace ferry::bulk
