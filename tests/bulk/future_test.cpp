// How transfers end: by waiting, cancelling, partial failure, and concurrently.
#include <array>
#include <atomic>
#include <cerrno>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>
#include <pthread.h>

#include <ferry/bulk.hpp>

#include "bulk/scheduler.hpp"
#include "support/error_of.hpp"
#include "support/failing_storage.hpp"
#include "support/fake_storage.hpp"
#include "support/files.hpp"
#include "support/no_threads.hpp"
#include "support/two_storages.hpp"
#include "support/within.hpp"

namespace ferry::bulk {
namespace {

using namespace test;

constexpr std::uint64_t task_bytes = 64 << 10;

constexpr EngineOptions small_options{.workers = 2, .depth = 4, .task_bytes = task_bytes};

// Transfers finish when the test releases them.
struct HeldTransfers : testing::Test {
  HeldTransfers() : storage(new FakeStorage) { storage->hold(); }
  ~HeldTransfers() override { storage->release(); }
  FakeStorage* storage;
  Engine engine{
      std::make_shared<Scheduler>(small_options, std::unique_ptr<storage::Storage>(storage))};
  File file{engine, "/nowhere/held"};
  std::string memory = std::string(8 * task_bytes, '.');
};

TEST_F(HeldTransfers, AreReadyOnlyWhenNothingTouchesTheirMemory) {
  memory.resize(200 * task_bytes);  // more than is in flight at a time
  const Future future = file.read_at_async(memory.data(), memory.size(), 0);
  ASSERT_TRUE(eventually([&] { return storage->counts.held > 0; }));
  EXPECT_FALSE(future.ready());
  EXPECT_FALSE(future.wait_for(std::chrono::milliseconds(10)));
  future.cancel();  // this storage cannot cancel
  EXPECT_FALSE(future.wait_for(std::chrono::milliseconds(10)));
  storage->release();
  within_patience("a cancelled transfer",
                  [&] { EXPECT_EQ(error_of([&] { future.get(); }), ECANCELED); });
  EXPECT_EQ(future.results()[0], -ECANCELED);
  EXPECT_LT(future.progress().bytes_done, memory.size());
}

TEST_F(HeldTransfers, CanBeCancelled) {
  storage->can_cancel = true;
  const Future future = file.read_at_async(memory.data(), memory.size(), 0);
  ASSERT_TRUE(eventually([&] { return storage->counts.held > 0; }));
  future.cancel();
  within_patience("a cancelled transfer", [&] { future.wait(); });
  EXPECT_EQ(storage->counts.held, 0);
  EXPECT_EQ(memory, std::string(memory.size(), '.'));
  EXPECT_EQ(engine.statistics().cancelled_transfers, 1U);
  EXPECT_EQ(engine.statistics().failed_parts, 1U);
}

TEST_F(HeldTransfers, EndBeforeTheirFutureIsGone) {
  storage->can_cancel = true;
  {
    const Future future = file.read_at_async(memory.data(), memory.size(), 0);
    ASSERT_TRUE(eventually([&] { return storage->counts.held > 0; }));
  }
  EXPECT_EQ(storage->counts.held, 0);
}

TEST_F(HeldTransfers, KeepTheirFileOpen) {
  Future future = file.read_at_async(memory.data(), task_bytes, 0);
  ASSERT_TRUE(eventually([&] { return storage->counts.held > 0; }));
  std::atomic<bool> closed{false};
  std::thread closer([&] {
    file.close();
    closed = true;
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(5));
  EXPECT_FALSE(closed);
  EXPECT_EQ(storage->counts.closed, 0);
  storage->release();
  within_patience("closing", [&] { closer.join(); });
  EXPECT_EQ(future.get(), task_bytes);
}

TEST_F(HeldTransfers, AnyAndAll) {
  std::vector<Future> futures;
  for (std::size_t i = 0; i < 3; ++i)
    futures.push_back(file.read_at_async(memory.data() + i * 4096, 4096, i * 4096));
  std::vector<const Future*> all;
  for (const Future& future : futures)
    all.push_back(&future);
  storage->can_cancel = true;
  ASSERT_TRUE(eventually([&] { return storage->counts.held == 3; }));
  futures[1].cancel();
  within_patience("any", [&] { EXPECT_EQ(wait_any(all), 1U); });
  EXPECT_FALSE(futures[0].ready());
  EXPECT_FALSE(futures[2].ready());
  storage->release();
  within_patience("all", [&] { wait_all(all); });
  EXPECT_EQ(futures[0].get(), 4096U);
}

TEST_F(HeldTransfers, ShuttingDownCancelsAndRefuses) {
  storage->can_cancel = true;
  const Future future = file.read_at_async(memory.data(), memory.size(), 0);
  ASSERT_TRUE(eventually([&] { return storage->counts.held > 0; }));
  std::atomic<bool> told{false};
  future.then([&] { told = true; });
  within_patience("shutting down", [&] { engine.shut_down(); });
  EXPECT_TRUE(future.ready());
  EXPECT_TRUE(told);
  EXPECT_THROW(file.read_at_async(memory.data(), 1, 0), Error);
  EXPECT_THROW(file.read_at(memory.data(), 1, 0), Error);
}

TEST_F(HeldTransfers, CallbacksRunOnceAndHinderNobody) {
  std::atomic<int> told{0};
  std::atomic<bool> leave{false};
  const Future first = file.read_at_async(memory.data(), 4096, 0);
  first.then([&] {
    ++told;
    while (!leave)
      std::this_thread::yield();
  });
  storage->release();
  ASSERT_TRUE(eventually([&] { return told == 1; }));
  // The callback holds its thread; transfers continue.
  EXPECT_EQ(file.read_at_async(memory.data(), 4096, 0).get(), 4096U);
  leave = true;
  first.then([&] { ++told; });  // ready: at once
  EXPECT_EQ(told, 2);
  engine.shut_down();  // waits for the callback
}

TEST(BulkBatch, EveryFailedPartIsReported) {
  auto* storage = new FailingStorage(Random(1));
  for (const char* name : {"/a", "/b"})
    storage->set_contents(name, pattern(10 * task_bytes, 1));
  const Engine engine(
      std::make_shared<Scheduler>(small_options, std::unique_ptr<storage::Storage>(storage)));
  const File a(engine, "/a");
  const File b(engine, "/b");
  std::array<std::string, 4> memory;
  std::vector<Part> parts;
  for (std::size_t i = 0; i < memory.size(); ++i) {
    memory[i].resize(3 * task_bytes);
    parts.push_back(Part{i % 2 == 0 ? &a : &b, memory[i].data(), memory[i].size(), i * 1000});
  }
  storage->faults.reads = 1;
  storage->faults.error = EREMOTEIO;
  const Future failing = engine.read(parts);
  try {
    failing.get();
    FAIL() << "every read fails";
  } catch (const TransferError& error) {
    EXPECT_EQ(error.code().value(), EREMOTEIO);
    ASSERT_EQ(error.failures().size(), 4U);
    EXPECT_EQ(error.failures()[3].part, 3U);
    EXPECT_EQ(error.failures()[3].path, "/b");
    EXPECT_EQ(error.failures()[3].offset, 3000U);
    EXPECT_NE(std::string(error.what()).find(" (and 3 more parts)"), std::string::npos);
  }
  storage->faults.stop();
  EXPECT_EQ(engine.read(parts).get(), 4 * 3 * task_bytes);
  const Future nothing = engine.read({});
  EXPECT_TRUE(nothing.ready());
  EXPECT_EQ(nothing.get(), 0U);
}

// Also if the caller did everything and no worker was woken.
TEST(BulkBacklog, IsEmptyOnceEverythingIsDone) {
  const ScratchDirectory scratch;
  write_file(scratch / "file", pattern(8 * task_bytes, 1));
  EngineOptions options = small_options;
  options.workers = 1;
  const auto scheduler = std::make_shared<Scheduler>(options);
  const Engine engine(scheduler);
  const File file(engine, scratch / "file");
  std::string to(8 * task_bytes, ' ');
  const std::vector<std::string> paths(3, scratch / "file");
  for (int i = 0; i < 10; ++i) {
    EXPECT_EQ(file.read_at(to.data(), to.size(), 0), to.size());
    EXPECT_EQ(engine.read_files(paths).size(), 3U);
  }
  EXPECT_EQ(scheduler->backlog(), 0U);
}

// Several large transfers of a storage that hangs leave workers for those of others, though nobody
// helps with them.
TEST(HungStorageTransfers, LeaveOthersAWorker) {
  const ScratchDirectory scratch;
  const std::string wanted = pattern(8 * task_bytes, 4);
  write_file(scratch / "file", wanted);
  auto* storage = new TwoStorages(Random());
  const Engine engine(
      std::make_shared<Scheduler>(small_options, std::unique_ptr<storage::Storage>(storage)));
  const File hanging(engine, "failing:file", O_RDWR | O_CREAT);
  const File file(engine, scratch / "file");
  storage->failing().all_hang = true;
  std::string never(200 * task_bytes, '.');
  std::vector<Future> held;
  for (int i = 0; i < 3; ++i)
    held.push_back(hanging.read_at_async(never.data(), never.size(), 0));
  // As much as two workers begin.
  ASSERT_TRUE(eventually([&] { return storage->failing().reads >= 2 * 64; }));
  bool all_ready = true;
  for (int i = 0; i < 3 && all_ready; ++i) {
    std::string to(wanted.size(), ' ');
    Future other = file.read_at_async(to.data(), to.size(), 0);
    all_ready = eventually([&] { return other.ready(); });
    EXPECT_EQ(other.get(), wanted.size());
    EXPECT_TRUE(same_bytes(to, wanted));
  }
  EXPECT_TRUE(all_ready);
  for (const Future& future : held)
    EXPECT_FALSE(future.ready());
  storage->failing().all_hang = false;
  within_patience("transfers that hung", [&] {
    for (Future& future : held)
      EXPECT_EQ(future.get(), 0U);
  });
}

// The only worker has transfers that hang when no other can be started. Later one can.
TEST(HungStorageTransfers, LeaveOthersAWorkerOnceOneCanBeStarted) {
  const ScratchDirectory scratch;
  const std::string wanted = pattern(8 * task_bytes, 4);
  write_file(scratch / "file", wanted);
  auto* storage = new TwoStorages(Random());
  EngineOptions options = small_options;
  options.workers = 1;
  const auto scheduler =
      std::make_shared<Scheduler>(options, std::unique_ptr<storage::Storage>(storage));
  const Engine engine(scheduler);
  const File hanging(engine, "failing:file", O_RDWR | O_CREAT);
  const File file(engine, scratch / "file");
  storage->failing().all_hang = true;
  std::string never(200 * task_bytes, '.');
  const Future held = hanging.read_at_async(never.data(), never.size(), 0);
  ASSERT_TRUE(eventually([&] { return storage->failing().reads >= 64; }));
  std::string to(wanted.size(), ' ');
  const Future other = [&] {
    const NoThreads none;
    Future begun = file.read_at_async(to.data(), to.size(), 0);
    EXPECT_EQ(scheduler->workers_started(), 1U);
    return begun;
  }();
  EXPECT_TRUE(eventually([&] { return other.ready(); }));
  EXPECT_FALSE(held.ready());
  storage->failing().all_hang = false;
  within_patience("transfers that hung", [&] {
    EXPECT_EQ(held.get(), 0U);
    EXPECT_EQ(other.get(), wanted.size());
  });
  EXPECT_TRUE(same_bytes(to, wanted));
}

// Nor does a batch that reads from both hold up the other storage's transfers.
TEST(HungStorageTransfers, InABatchWithOthersHoldUpNoneOfThose) {
  const ScratchDirectory scratch;
  const std::string wanted = pattern(8 * task_bytes, 4);
  write_file(scratch / "file", wanted);
  auto* storage = new TwoStorages(Random());
  const Engine engine(
      std::make_shared<Scheduler>(small_options, std::unique_ptr<storage::Storage>(storage)));
  const File hanging(engine, "failing:file", O_RDWR | O_CREAT);
  const File file(engine, scratch / "file");
  storage->failing().all_hang = true;
  std::string never(200 * task_bytes, '.');
  std::string some(100, ' ');
  const std::vector<Part> parts = {Part{&file, some.data(), some.size(), 0},
                                   Part{&hanging, never.data(), never.size(), 0}};
  const Future batch = engine.read(parts);
  // As much as two workers begin.
  EXPECT_TRUE(eventually([&] { return storage->failing().reads >= 2 * 64; }));
  std::string to(wanted.size(), ' ');
  const Future other = file.read_at_async(to.data(), to.size(), 0);
  EXPECT_TRUE(eventually([&] { return other.ready(); }));
  EXPECT_FALSE(batch.ready());
  storage->failing().all_hang = false;
  within_patience("transfers that hung", [&] {
    EXPECT_EQ(batch.get(), some.size());
    EXPECT_EQ(other.get(), wanted.size());
  });
  EXPECT_TRUE(same_bytes(to, wanted));
  EXPECT_EQ(some, wanted.substr(0, some.size()));
}

// A worker has been woken for another's transfer when a job begins whose files hang. It takes the
// transfer, which nobody else has, and not the job, which has a thread.
TEST(HungStorageTransfers, OfAJobWithAThreadTakeNoWorkerFromOthers) {
  auto* storage = new FailingStorage(Random());
  std::atomic<bool> stalls{false};
  std::atomic<bool> stalled{false};
  storage->after_wait = [&] {
    char name[16] = {};
    pthread_getname_np(pthread_self(), name, sizeof name);
    if (std::string(name) != "ferry-bulk") return;
    stalled = stalls.load();
    while (stalls)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
  };
  const std::string wanted = pattern(8 * task_bytes, 4);
  storage->set_contents("/file", wanted);
  storage->put_on_device("/file", ~std::uint64_t{0});  // the last in the engine's order
  storage->set_contents("/hung", "?");
  EngineOptions options = small_options;
  options.workers = 1;
  const auto scheduler =
      std::make_shared<Scheduler>(options, std::unique_ptr<storage::Storage>(storage));
  const Engine engine(scheduler);
  const File file(engine, "/file");
  std::string to(wanted.size(), ' ');
  ASSERT_EQ(file.read_at_async(to.data(), to.size(), 0).get(), wanted.size());
  // The worker sleeps, is woken, and has not looked for work yet.
  stalls = true;
  ASSERT_TRUE(eventually([&] {
    scheduler->ring_all();
    return stalled.load();
  }));
  storage->hang("/hung");
  const std::vector<std::string> paths(64, "/hung");
  std::thread job([&] { EXPECT_EQ(engine.read_files(paths).size(), paths.size()); });
  EXPECT_TRUE(eventually([&] { return storage->held > 0; }));
  to.assign(wanted.size(), ' ');
  const Future other = file.read_at_async(to.data(), to.size(), 0);
  stalls = false;
  EXPECT_TRUE(eventually([&] { return other.ready(); }));
  storage->let_go();
  within_patience("files that hung", [&] { job.join(); });
  EXPECT_EQ(other.get(), wanted.size());
  EXPECT_TRUE(same_bytes(to, wanted));
}

TEST(BulkProgress, IsToldAndReachesTheEnd) {
  const ScratchDirectory scratch;
  write_file(scratch / "file", pattern(8 * task_bytes, 1));
  const Engine engine(small_options);
  const File file(engine, scratch / "file");
  std::string to(8 * task_bytes, ' ');
  Progress last;
  file.read_at_async(to.data(), to.size(), 0)
      .get([&](const Progress& progress) { last = progress; }, std::chrono::milliseconds(1));
  EXPECT_EQ(last.bytes_done, to.size());
  EXPECT_EQ(last.bytes_total, to.size());
}

}  // namespace
}  // namespace ferry::bulk
