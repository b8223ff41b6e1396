// Each system call that the library makes fails, for every one of a program: with it, a runtime or
// an engine is made or refused, and leaves nothing behind.

#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <iostream>
#include <string>
#include <thread>

#include <fcntl.h>
#include <gtest/gtest.h>

#include <ferry/runtime.hpp>
#include <ferry/signals.hpp>

#include "bulk/scheduler.hpp"
#include "faults/bulk_program.hpp"
#include "faults/each_system_call.hpp"
#include "faults/resources.hpp"
#include "faults/runtime_program.hpp"
#include "faults/system_calls.hpp"
#include "storage/queue/worker_pool.hpp"
#include "support/depth.hpp"
#include "support/error_of.hpp"
#include "support/files.hpp"
#include "support/server_rig.hpp"
#include "support/small_runtimes.hpp"
#include "support/within.hpp"

namespace ferry::test {
namespace {

class RuntimeSetups : public testing::TestWithParam<RuntimeSetup> {};

TEST_P(RuntimeSetups, EachCallFailsOnce) {
  const ScratchDirectory scratch(build_folder());
  const ByteSources sources;
  fail_each_call(
      [&] { run_runtime(GetParam(), scratch / "file", sources, system_calls(), struck_with); });
}

INSTANTIATE_TEST_SUITE_P(, RuntimeSetups, testing::ValuesIn(runtime_setups()), name_of_setup);

// ---- single calls

// The n-th call of this name fails, while this lives.
class FailingCall {
 public:
  explicit FailingCall(const char* name, std::uint64_t n = 1) {
    count_only(name);
    choose_system_error(0);
    system_calls().arm(n);
  }
  ~FailingCall() {
    system_calls().disarm();
    count_only(nullptr);
  }
  FailingCall(const FailingCall&) = delete;
  FailingCall& operator=(const FailingCall&) = delete;
};

RuntimeOptions small_options() {
  RuntimeOptions options = small_runtime(3, 1 << 20);
  options.placement = device::Placement::compute;
  return options;
}

// A program may wait for its other threads.
TEST(FailingSetup, AProgramRunsOnAllThreadsOrOnNone) {
  Runtime runtime(small_options());
  std::atomic<int> ran = 0;
  {
    const FailingCall third("pthread_create", 3);
    EXPECT_THROW(runtime.run([&](DeviceThread&) { ++ran; }), Error);
  }
  EXPECT_EQ(ran, 0);
  runtime.run([&](DeviceThread&) { ++ran; });
  EXPECT_EQ(ran, 3);
}

TEST(FailingSetup, ASignalThreadThatCannotStartLeavesNoDescriptor) {
  const Resources before = resources_now();
  {
    const FailingCall first("pthread_create");
    EXPECT_THROW(SignalThread([] {}), Error);
  }
  expect_resources(before);
}

TEST(FailingSetup, AShutdownWithoutAThreadWritesBack) {
  const ScratchDirectory scratch;
  Runtime runtime(small_options());
  runtime.run([&](DeviceThread& self) {
    if (self.index > 0) return;
    const int file = self.files.open((scratch / "file").c_str(), O_RDWR | O_CREAT, 0600);
    EXPECT_EQ(self.files.pwrite(file, "written", 7, 0), 7);
  });
  const FailingCall first("pthread_create");
  const ShutdownReport report = runtime.shutdown(std::chrono::seconds(10));
  EXPECT_TRUE(system_calls().struck());
  EXPECT_TRUE(report.finished);
  EXPECT_EQ(read_file(scratch / "file"), "written");
}

// The first ring is a trial of whether the kernel grants any.
TEST(FailingSetup, AServerThatGetsNoRingServesWithoutOne) {
  const ScratchDirectory scratch;
  write_file(scratch / "file", "written");
  const FailingCall second("io_uring_queue_init_params", 2);
  Runtime runtime(small_options());
  if (runtime.info().storage_engine != "io_uring") GTEST_SKIP() << "the kernel refuses io_uring";
  runtime.run([&](DeviceThread& self) {
    const int file = self.files.open((scratch / "file").c_str(), O_RDONLY);
    EXPECT_EQ(read_at(self.files, file, 100, 0), "written");
    EXPECT_EQ(self.files.close(file), 0);
  });
  EXPECT_TRUE(system_calls().struck());
}

// All of a transfer whose file needs a thread of the storage, and no thread.
TEST(FailingSetup, AnOperationThatGetsNoThreadFails) {
  const ScratchDirectory scratch;
  RuntimeOptions options = small_options();
  options.engine = StorageEngine::threads;
  Runtime runtime(options);
  runtime.run([&](DeviceThread& self) {
    if (self.index > 0) return;
    const std::string path = scratch / "file";
    const FailingCall first("pthread_create");
    EXPECT_EQ(self.files.open(path.c_str(), O_RDWR | O_CREAT | O_EXCL, 0600), -EAGAIN);
    EXPECT_GT(self.files.open(path.c_str(), O_RDWR | O_CREAT | O_EXCL, 0600), 0);
  });
}

// A close that must run on the thread that asked for it, because no other can be started: it may
// hang there, and others go on.
TEST(FailingSetup, ACloseWithoutAThreadHoldsNobodyUp) {
  std::atomic<bool> closes = false;
  std::atomic<bool> may_end = false;
  storage::WorkerPool pool(1, [&](storage::Operation& operation) {
    operation.result = 0;
    if (operation.kind != storage::Kind::close) return;
    closes = true;
    eventually([&] { return may_end.load(); });
  });
  std::uint32_t word = 0;
  storage::Inbox inbox{storage::Doorbell{&word}};
  storage::Operation close{.kind = storage::Kind::close};
  storage::Operation quick{.kind = storage::Kind::path_status, .result = 77};
  std::atomic<bool> armed = false;
  std::thread closer([&] {
    eventually([&] { return armed.load(); });
    pool.execute(close, inbox);
  });
  std::thread other([&] {
    eventually([&] { return closes.load(); });
    pool.execute(quick, inbox);
  });
  {
    const FailingCall first("pthread_create");
    armed = true;
    EXPECT_TRUE(eventually([&] { return closes.load(); }));
    EXPECT_TRUE(system_calls().struck());
  }
  storage::Operation* done = nullptr;
  EXPECT_TRUE(eventually([&] { return (done = inbox.take_all()) != nullptr; }, patience / 4));
  EXPECT_EQ(done, &quick);
  EXPECT_EQ(quick.result, 0);
  may_end = true;
  closer.join();
  other.join();
  EXPECT_EQ(close.result, 0);
}

TEST(FailingSetup, ATransferWithoutAThreadLeavesNothing) {
  const ScratchDirectory scratch(build_folder());
  write_file(scratch / "file", std::string(1 << 20, 'x'));
  const auto scheduler = bulk::Scheduler::make({});
  const bulk::Engine engine(scheduler);
  const bulk::File file(engine, scratch / "file");
  std::string got(1 << 20, ' ');
  {
    const FailingCall first("pthread_create");
    EXPECT_EQ(error_of([&] { file.read_at_async(got.data(), got.size(), 0); }), EAGAIN);
    EXPECT_TRUE(system_calls().struck());
  }
  EXPECT_EQ(scheduler->backlog(), 0U);
  EXPECT_EQ(file.read_at_async(got.data(), got.size(), 0).get(), got.size());
}

// Whether it is a directory, and which one, would be unknown.
TEST(FailingSetup, AFileThatTellsNothingIsRefused) {
  const ScratchDirectory scratch;
  write_file(scratch / "file", "abc");
  const bulk::Engine engine;
  const auto open = [&] { return error_of([&] { bulk::File(engine, scratch / "file"); }); };
  EXPECT_EQ(open(), 0);
  std::uint64_t refused = 0;
  const Resources before = resources_now();
  for (std::uint64_t n = 1;; ++n) {
    const FailingCall nth("statx", n);
    const int error = open();
    if (!system_calls().struck()) break;
    EXPECT_EQ(error, struck_error());
    ++refused;
  }
  EXPECT_GT(refused, 0U);
  expect_resources(before);
}

class BulkSetups : public testing::TestWithParam<bulk::Route> {};

TEST_P(BulkSetups, EachCallFailsOnce) {
  const ScratchDirectory scratch(build_folder());
  fail_each_call([&] { run_engine(GetParam(), scratch, system_calls(), is_of_a_system_call); });
}

INSTANTIATE_TEST_SUITE_P(, BulkSetups, testing::Values(bulk::Route::automatic, bulk::Route::direct),
                         name_of_route);

}  // namespace
}  // namespace ferry::test
