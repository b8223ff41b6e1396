// File calls of a GPU's kernels, run by threads on a mock GPU: differences from the `cpu` device.
#include <chrono>
#include <cstdint>
#include <string>
#include <thread>
#include <vector>

#include <fcntl.h>
#include <gtest/gtest.h>

#include <ferry/device/service.hpp>
#include <ferry/gpu.hpp>

#include "support/error_of.hpp"
#include "support/files.hpp"
#include "support/kernel_threads.hpp"
#include "support/programs.hpp"
#include "support/server_rig.hpp"
#include "support/within.hpp"

namespace ferry {
namespace {

using device::FileCalls;
using device::Placement;
using device::ThreadGroup;
using test::KernelThreads;
using test::MockCuda;
using test::pattern;
using test::read_file;

class KernelCalls : public test::OnMockGpu {
 protected:
  static RuntimeOptions options() {
    RuntimeOptions made = test::small_runtime(1, 8 << 20);
    made.cache_bytes = 64 * 4096;
    return made;
  }
  void make(const RuntimeOptions& wishes = options(),
            const GpuOptions& groups = test::small_gpu()) {
    runtime = std::make_unique<GpuRuntime>(wishes, groups);
    kernel = std::make_unique<KernelThreads>(*runtime);
  }
  // And a file that holds this text.
  void make_with_file(const std::string& text) {
    make();
    test::write_file(path, text);
  }
  FileCalls<ThreadGroup> calls(std::uint32_t group = 0) const {
    return FileCalls(kernel->context(), ThreadGroup{}, group);
  }

  test::ScratchDirectory directory;
  const std::string path = directory / "file";
  std::unique_ptr<GpuRuntime> runtime;
  std::unique_ptr<KernelThreads> kernel;
};

TEST_F(KernelCalls, ReadAndWriteInEveryPlacement) {
  const std::string text = pattern(3'000'000, 7);
  make_with_file(text);
  const Buffer memory = runtime->allocate(4 << 20);
  char* buffer = kernel->address(memory.as<char>());
  auto files = calls();
  for (const Placement placement :
       {Placement::host, Placement::compute, Placement::service, Placement::automatic}) {
    SCOPED_TRACE(static_cast<int>(placement));
    files.use(placement);
    const int file = files.open(path.c_str(), O_RDWR);
    ASSERT_GT(file, 0);
    EXPECT_EQ(files.pread(file, buffer, text.size() + 10, 0), std::ssize(text));
    EXPECT_EQ(std::string(buffer, text.size()), text);
    EXPECT_EQ(files.pread(file, buffer, 100, 5000), 100);
    EXPECT_EQ(std::string(buffer, 100), text.substr(5000, 100));
    EXPECT_EQ(files.pwrite(file, buffer, 100, 5000), 100);
    EXPECT_EQ(test::read_at(files, file, 300, 77), text.substr(77, 300));
    device::FileStatus status{};
    EXPECT_EQ(files.fstat(file, &status), 0);
    EXPECT_EQ(status.size_bytes, text.size());
    EXPECT_EQ(files.fsync(file), 0);
    EXPECT_EQ(files.close(file), 0);
  }
  EXPECT_EQ(read_file(path), text);
  EXPECT_EQ(runtime->dirty_pages(), 0U);
  EXPECT_GE(runtime->statistics().bytes_read, text.size());
  EXPECT_GT(runtime->statistics().cache.hits, 0U);
}

TEST_F(KernelCalls, ReportErrors) {
  make();
  auto files = calls();
  EXPECT_EQ(files.open((directory / "absent").c_str(), O_RDONLY), -ENOENT);
  EXPECT_EQ(files.pread(77, nullptr, 0, 0), -EBADF);
  const int full = files.open("/dev/full", O_WRONLY);
  const Buffer memory = runtime->allocate(1 << 20);
  EXPECT_EQ(files.pwrite(full, kernel->address(memory.as<char>()), 1 << 20, 0), -ENOSPC);
  files.close(full);
}

// Lists of pieces are in the shared part; their memory is not.
TEST_F(KernelCalls, TakeManyPieces) {
  const std::string text = pattern(200'000, 3);
  make_with_file(text);
  const Buffer memory = runtime->allocate(400'000);
  char* buffer = kernel->address(memory.as<char>());
  auto files = calls();
  const int file = files.open(path.c_str(), O_RDONLY);
  std::vector<device::IoVector> pieces;
  for (std::size_t i = 0; i < 100; ++i)
    pieces.push_back({buffer + i * 4000, 2000});
  EXPECT_EQ(files.preadv(file, pieces.data(), 100, 0), 200'000);
  for (std::size_t i = 0; i < 100; ++i)
    ASSERT_EQ(std::string(buffer + i * 4000, 2000), text.substr(i * 2000, 2000)) << i;
  files.close(file);
}

// Opens the file and reads a range through the page cache.
struct ReadRange {
  const device::Context* context;
  const char* path;
  char* buffer;
  std::uint64_t bytes;
  std::int64_t offset;
  test::Checks checks;

  template <class Group>
  void operator()(Group group, std::uint32_t index) const {
    FileCalls files(*context, group, index);
    files.use(Placement::compute);
    const int file = files.open(path, O_RDONLY);
    checks.equal(files.pread(file, buffer, bytes, offset), static_cast<std::int64_t>(bytes));
    checks.equal(files.close(file), 0);
  }
};

TEST_F(KernelCalls, OfSeveralLanesFetchFewAbsentPagesThemselves) {
  const std::string text = pattern(64 * 4096, 7);
  make_with_file(text);
  const Buffer memory = runtime->allocate(1 << 20);
  char* buffer = kernel->address(memory.as<char>());
  const test::ProgramReport report;
  const auto copies_for = [&](auto kind, std::uint64_t bytes, std::int64_t offset) {
    const long before = MockCuda::get("copies");
    test::run_groups<decltype(kind)>(
        1, ReadRange{&kernel->context(), path.c_str(), buffer, bytes, offset, report.checks()});
    EXPECT_EQ(report.text(), "");
    EXPECT_EQ(std::string(buffer, bytes), text.substr(static_cast<std::size_t>(offset), bytes));
    return MockCuda::get("copies") - before;
  };
  // Far from one another, so that nothing is read ahead. The staging area has 8 KiB.
  EXPECT_EQ(copies_for(test::Warps{}, 4096, 40 * 4096), 0);
  EXPECT_EQ(copies_for(test::Parts{}, 2 * 4096, 10 * 4096), 0);
  EXPECT_EQ(copies_for(test::Blocks{}, 100, 55 * 4096 - 50), 0) << "two pages";
  EXPECT_GT(copies_for(test::Warps{}, 3 * 4096, 20 * 4096), 0) << "more than the area";
  EXPECT_GT(copies_for(test::Threads{}, 4096, 30 * 4096), 0) << "a lone thread";
  EXPECT_EQ(runtime->statistics().cache.misses, 1U + 2U + 2U + 3U + 1U);
}

TEST_F(KernelCalls, SayThatTheCopyFailed) {
  make_with_file(pattern(100'000, 1));
  const Buffer memory = runtime->allocate(100'000);
  auto files = calls();
  const int file = files.open(path.c_str(), O_RDONLY);
  MockCuda::set("fail_copy_call", 1);
  EXPECT_EQ(files.pread(file, kernel->address(memory.as<char>()), 100'000, 0), -EIO);
  EXPECT_EQ(files.pread(file, kernel->address(memory.as<char>()), 100'000, 0), 100'000);
  files.close(file);
}

TEST_F(KernelCalls, EndWhenTheRuntimeDoes) {
  make_with_file(pattern(100'000, 1));
  auto files = calls();
  files.use(Placement::compute);
  const int file = files.open(path.c_str(), O_RDWR);
  std::string text = "dirty";
  EXPECT_EQ(files.pwrite(file, text.data(), text.size(), 0), 5);
  EXPECT_EQ(runtime->dirty_pages(), 1U);
  test::write_file(directory / "other", "text");
  const int other = files.open((directory / "other").c_str(), O_RDONLY);
  std::thread busy([&] {
    auto mine = calls(1);
    char byte = 0;
    while (mine.pread(other, &byte, 1, 0) >= 0) {
    }
  });
  const ShutdownReport report = runtime->shutdown(test::patience);
  busy.join();
  EXPECT_TRUE(report.finished);
  EXPECT_EQ(report.files_closed, 2U);
  ASSERT_EQ(report.errors.size(), 1U);
  EXPECT_NE(report.errors[0].find("1 pages of the GPU's cache"), std::string::npos);
  EXPECT_EQ(files.open(path.c_str(), O_RDONLY), -ESHUTDOWN);
  EXPECT_TRUE(runtime->shutdown(std::chrono::seconds(0)).errors.empty());
}

// An earlier kernel ended without drain(): its transfer is answered while the next one runs.
TEST_F(KernelCalls, LeaveTheCellsOfAnEarlierLaunchAlone) {
  const std::string text = pattern(1 << 20, 4);
  make_with_file(text);
  const Buffer memory = runtime->allocate(2 << 20);
  char* buffer = kernel->address(memory.as<char>());
  const int file = calls().open(path.c_str(), O_RDONLY);
  ASSERT_GT(file, 0);
  MockCuda::set("hold_copies", 1);
  device::Pending former;
  {
    auto files = calls();
    former = files.pread_async(file, buffer, 1 << 20, 0);
  }
  auto files = calls();
  device::Pending latter = files.pread_async(file, buffer + (1 << 20), 1 << 20, 0);
  ASSERT_FALSE(latter.finished);
  EXPECT_NE(latter.ticket.cell, former.ticket.cell);
  EXPECT_TRUE(test::same_bytes(test::read_at(files, file, 4096, 8192), text.substr(8192, 4096)));
  MockCuda::set("hold_copies", 0);
  test::within_patience("a call beside a late answer",
                        [&] { EXPECT_EQ(files.wait(latter), 1 << 20); });
  EXPECT_TRUE(test::same_bytes({buffer + (1 << 20), 1 << 20}, text));
  files.drain();
  EXPECT_TRUE(test::same_bytes({buffer, 1 << 20}, text)) << "drain() waits for the former, too";
  EXPECT_EQ(kernel->context().arena.group(0).in_flight, 0U);
  EXPECT_EQ(files.close(file), 0);
}

// The driver may delay allocations of page-locked memory until every kernel has ended, including
// one that waits for the allocating server.
TEST_F(KernelCalls, NeedNothingOfTheDriverThatWaitsForThem) {
  RuntimeOptions wishes = options();
  wishes.server_threads = 2;
  make(wishes);
  MockCuda::set("kernel_runs", 1);
  const long waits = MockCuda::get("waits_for_kernels");
  const long pinned = MockCuda::get("pinned_bytes");
  const long pageable = MockCuda::get("pageable_copies");
  const std::string text = pattern(3'000'000, 8);
  test::write_file(path, text);
  const Buffer memory = runtime->allocate(3'000'000);
  char* buffer = kernel->address(memory.as<char>());
  for (const std::uint32_t group : {0U, 1U}) {  // of one server thread and of the other
    auto files = calls(group);
    for (const Placement placement : {Placement::host, Placement::compute}) {
      files.use(placement);
      const int file = files.open(path.c_str(), O_RDWR);
      ASSERT_GT(file, 0);
      EXPECT_EQ(files.pread(file, buffer, text.size(), 0), 3'000'000);
      EXPECT_TRUE(test::same_bytes({buffer, text.size()}, text));
      EXPECT_EQ(files.pwrite(file, buffer + 4096, 100'000, 4096), 100'000);
      EXPECT_EQ(files.fsync(file), 0);
      if (placement == Placement::host) {
        EXPECT_EQ(files.close(file), 0);
      }
    }
  }
  EXPECT_EQ(runtime->dirty_pages(), 0U);
  EXPECT_GT(runtime->statistics().calls, 0U);
  const ShutdownReport report = runtime->shutdown(test::patience);
  EXPECT_TRUE(report.finished);
  EXPECT_EQ(report.files_closed, 2U);
  EXPECT_EQ(calls().ping(), -ESHUTDOWN);
  EXPECT_EQ(MockCuda::get("waits_for_kernels") - waits, 0);
  EXPECT_EQ(MockCuda::get("pinned_bytes"), pinned);
  EXPECT_EQ(MockCuda::get("pageable_copies"), pageable);
}

// What ferry::gpu::write_back() does in a kernel of its own.
TEST_F(KernelCalls, WriteBackWhatWasLeft) {
  make();
  auto files = calls();
  files.use(Placement::compute);
  const int file = files.open(path.c_str(), O_RDWR | O_CREAT, 0644);
  const std::string text = pattern(50'000, 5);
  EXPECT_EQ(files.pwrite(file, text.data(), text.size(), 0), 50'000);
  EXPECT_GT(runtime->dirty_pages(), 0U);
  device::Requester requester(kernel->context(), runtime->own_group());
  EXPECT_EQ(device::cache::CachedFiles(requester).write_back_all(), 0);
  EXPECT_EQ(runtime->dirty_pages(), 0U);
  EXPECT_EQ(read_file(path), text);
  EXPECT_TRUE(runtime->shutdown(test::patience).errors.empty());
}

// Services start and end with a launch; without one, callers make such calls themselves.
TEST_F(KernelCalls, AreServedWhileALaunchHasServices) {
  GpuOptions groups = test::small_gpu();
  groups.services = 1;
  make(options(), groups);
  const std::string text = pattern(100'000, 9);
  test::write_file(path, text);
  const device::Context& context = kernel->context();
  const std::uint32_t loop = context.arena.layout.geometry.loops;
  const auto read_all = [&] {
    auto files = calls();
    files.use(Placement::service);
    const int file = files.open(path.c_str(), O_RDONLY);
    EXPECT_EQ(test::read_at(files, file, text.size(), 0), text);
    EXPECT_EQ(files.close(file), 0);
    return runtime->statistics().served_calls;
  };
  EXPECT_EQ(read_all(), 0U);
  for (int launch = 0; launch < 3; ++launch) {
    device::SystemRef<device::LoopPhase>(context.arena.loop_state(loop).phase)
        .store(device::LoopPhase::running, device::seq_cst);
    std::thread service([&] {
      device::ServiceLoop(context, ThreadGroup{}, 0, runtime->first_service_group()).run();
    });
    const std::uint64_t before = runtime->statistics().served_calls;
    // Its thread may get a CPU so late that callers take their calls back.
    EXPECT_TRUE(test::eventually([&] { return read_all() > before; }));
    device::announce_stop(context, 0);
    test::within_patience("the service ends", [&] { service.join(); });
  }
  const std::uint64_t before = runtime->statistics().served_calls;
  EXPECT_EQ(read_all(), before);
}

TEST(GpuRuntimes, RefuseWhatCannotBe) {
  const auto error_of = [](const RuntimeOptions& options, const GpuOptions& gpu) {
    return test::error_of([&] { const GpuRuntime runtime(options, gpu); });
  };
  GpuOptions gpu = test::small_gpu();
  gpu.ordinal = 99;
  EXPECT_EQ(error_of({}, gpu), ENODEV);
  gpu = test::small_gpu();
  gpu.groups = 0;
  EXPECT_EQ(error_of({}, gpu), EINVAL);
  gpu = test::small_gpu();
  gpu.calls_per_group = 65;
  EXPECT_EQ(error_of({}, gpu), EINVAL);
  gpu = test::small_gpu();
  for (const unsigned services : {65'536U, ~0U}) {
    gpu.services = services;
    EXPECT_EQ(error_of({}, gpu), EINVAL) << services;
  }
  RuntimeOptions options;
  options.cache_bytes = 100;
  EXPECT_EQ(error_of(options, test::small_gpu()), EINVAL);
  EXPECT_EQ(error_of({}, test::small_gpu()), 0);
}

}  // namespace
}  // namespace ferry
