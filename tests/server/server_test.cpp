// A server's life: stopping with and without work, deadlines, slow storages.
#include "server/server.hpp"

#include <atomic>
#include <cerrno>
#include <chrono>
#include <thread>
#include <vector>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sched.h>

#include "base/cpus.hpp"
#include "support/depth.hpp"
#include "support/failing_storage.hpp"
#include "support/server_rig.hpp"
#include "support/threads.hpp"

namespace ferry::server {
namespace {

using device::LoopPhase;
using device::Pending;
using std::chrono::milliseconds;
using test::small_geometry;

class ServerTest : public test::OnFakeStorage {
 protected:
  StopReport stop(milliseconds deadline) {
    StopReport report;
    test::within_patience("stop", [&] { report = rig->server->stop(deadline); });
    return report;
  }
  // A read of group 0, which the storage holds.
  Pending held_read(test::Calls& calls) {
    const Pending pending = held_reads(calls, 1)[0];
    EXPECT_TRUE(holds(1));
    return pending;
  }
};

TEST_F(ServerTest, StopsWhenIdle) {
  make(small_geometry(2, 4));
  EXPECT_EQ(rig->calls(0).ping(), 0);
  StopReport report;
  EXPECT_TRUE(test::eventually([&] {
    report = stop(milliseconds(0));
    return report.finished;
  })) << "on a busy machine its threads may be late for the first";
  EXPECT_TRUE(report.errors.empty());
  EXPECT_EQ(report.files_closed, 0U);
  for (std::uint32_t group = 0; group < 4; ++group) {
    auto calls = rig->calls(group);
    for (int i = 0; i < 200; ++i)  // more than the ring has slots
      ASSERT_EQ(calls.ping(), -ESHUTDOWN);
    EXPECT_EQ(calls.open("any", O_RDWR), -ESHUTDOWN);
    EXPECT_EQ(calls.pread(1, rig->heap(), 1, 0), -ESHUTDOWN);
    Pending pending = calls.pread_async(1, rig->heap(), 1, 0);
    EXPECT_EQ(calls.wait(pending), -ESHUTDOWN);
    calls.drain();
  }
  EXPECT_TRUE(stop(milliseconds(0)).finished) << "a second time";
}

TEST_F(ServerTest, ClosesWhatIsLeftOpen) {
  make(small_geometry(2, 2));
  EXPECT_GT(rig->calls(0).open("one", O_RDWR), 0);
  EXPECT_GT(rig->calls(1).open("other", O_RDWR), 0);
  const StopReport report = stop(test::patience);
  EXPECT_TRUE(report.finished);
  EXPECT_EQ(report.files_closed, 2U);
  EXPECT_TRUE(report.errors.empty());
  EXPECT_EQ(storage->counts.closed, 2);
  EXPECT_EQ(storage->counts.files, 0);
}

TEST_F(ServerTest, DestructionAloneStopsAndClosesToo) {
  make(small_geometry(1, 1));
  EXPECT_GT(rig->calls(0).open("one", O_RDWR), 0);
  test::within_patience("destruction", [&] { rig->server.reset(); });
  EXPECT_EQ(storage->counts.closed, 1);
}

TEST_F(ServerTest, DestructionWaitsForWhatCannotBeCancelled) {
  make(small_geometry(1, 1));
  auto calls = rig->calls(0);
  Pending pending = held_read(calls);
  std::atomic<bool> gone{false};
  std::thread destroyer([&] {
    rig->server.reset();
    gone = true;
  });
  std::this_thread::sleep_for(milliseconds(200));  // longer than a stop without a deadline
  EXPECT_FALSE(gone) << "the storage still writes to the arena";
  storage->release();
  test::within_patience("destruction", [&] { destroyer.join(); });
  EXPECT_EQ(calls.wait(pending), 64);
  EXPECT_EQ(storage->counts.closed, 1);
}

TEST(ServerOnFiles, NamesWhatWasLeftOpenAndFailsToClose) {
  auto failing = std::make_unique<test::FailingStorage>(test::Random());
  failing->instead = [](storage::Operation& operation) {
    if (operation.kind != storage::Kind::close) return false;
    delete operation.file;
    operation.result = -ENOSPC;
    return true;
  };
  test::ServerRig rig(small_geometry(1, 1), std::move(failing));
  EXPECT_GT(rig.calls(0).open("/somewhere/full", O_RDWR), 0);
  StopReport report;
  test::within_patience("stop", [&] { report = rig.server->stop(test::patience); });
  EXPECT_TRUE(report.finished);
  EXPECT_EQ(report.files_closed, 1U);
  ASSERT_EQ(report.errors.size(), 1U);
  EXPECT_EQ(report.errors[0],
            "closing /somewhere/full, which was left open: No space left on device");
}

TEST_F(ServerTest, LetsWorkUnderWayFinishBeforeTheDeadline) {
  make(small_geometry(1, 2));
  auto calls = rig->calls(0);
  Pending pending = held_read(calls);
  StopReport report;
  std::thread stopper([&] { report = rig->server->stop(test::patience); });
  ASSERT_TRUE(test::eventually([&] { return rig->phase(0) != LoopPhase::running; }));
  EXPECT_EQ(rig->calls(1).ping(), -ESHUTDOWN) << "new work while stopping";
  EXPECT_FALSE(calls.ready(pending));
  storage->release();
  EXPECT_EQ(calls.wait(pending), 64);
  test::within_patience("stop", [&] { stopper.join(); });
  EXPECT_TRUE(report.finished);
  EXPECT_EQ(report.files_closed, 1U);
  EXPECT_EQ(storage->counts.cancels, 0);
}

TEST_F(ServerTest, CancelsWorkAtTheDeadline) {
  make(small_geometry(1, 1), {}, true);
  auto calls = rig->calls(0);
  std::vector<Pending> pending = held_reads(calls, 5);
  ASSERT_TRUE(holds(5));
  // On a busy machine the loop may be late for the first.
  EXPECT_TRUE(test::eventually([&] { return stop(milliseconds(30)).finished; }));
  for (Pending& one : pending)
    EXPECT_EQ(calls.wait(one), -ESHUTDOWN);
  EXPECT_EQ(storage->counts.files, 0);
}

TEST_F(ServerTest, ReportsWorkThatCannotBeCancelledAndFinishesItLater) {
  make(small_geometry(2, 2));
  auto calls = rig->calls(0);
  Pending pending = held_read(calls);
  const StopReport first = stop(milliseconds(10));
  EXPECT_FALSE(first.finished);
  EXPECT_FALSE(first.errors.empty());
  EXPECT_FALSE(calls.ready(pending)) << "its buffer is still in use";
  EXPECT_EQ(rig->calls(1).ping(), -ESHUTDOWN);
  storage->release();
  EXPECT_EQ(calls.wait(pending), 64);
  const StopReport second = stop(test::patience);
  EXPECT_TRUE(second.finished);
  EXPECT_TRUE(second.errors.empty());
  EXPECT_EQ(second.files_closed, 1U);
}

// A loop that has ended in good order is not dead, however long another one takes.
TEST_F(ServerTest, AStoppedLoopStaysStoppedWhileAnotherIsBusy) {
  make(small_geometry(2, 2), milliseconds(200));
  auto calls = rig->calls(0);
  Pending pending = held_read(calls);
  EXPECT_FALSE(stop(milliseconds(10)).finished);
  ASSERT_TRUE(test::eventually([&] { return rig->phase(1) == LoopPhase::stopped; }));
  std::this_thread::sleep_for(milliseconds(800));
  EXPECT_EQ(rig->phase(1), LoopPhase::stopped);
  EXPECT_EQ(rig->calls(1).ping(), -ESHUTDOWN);
  storage->release();
  EXPECT_EQ(calls.wait(pending), 64);
  const StopReport report = stop(test::patience);
  EXPECT_TRUE(report.finished);
  EXPECT_TRUE(report.errors.empty()) << report.errors.front();
}

TEST_F(ServerTest, SlowIsNotDead) {
  make(small_geometry(1, 2), milliseconds(100));
  auto calls = rig->calls(0);
  const int file = calls.open("any", O_RDWR);
  storage->hold();
  std::atomic<std::int64_t> result{77};
  std::thread reader([&] { result = calls.pread(file, rig->heap(), 64, 0); });
  std::this_thread::sleep_for(milliseconds(700));
  EXPECT_EQ(result, 77);
  EXPECT_EQ(rig->phase(0), LoopPhase::running);
  EXPECT_EQ(rig->calls(1).ping(), 0);
  storage->release();
  test::within_patience("the read", [&] { reader.join(); });
  EXPECT_EQ(result, 64);
}

TEST_F(ServerTest, IdleIsNotDead) {
  make(small_geometry(1, 1), milliseconds(50));
  std::this_thread::sleep_for(milliseconds(500));
  EXPECT_EQ(rig->calls(0).ping(), 0);
}

// Threads of ordinary priority that leave nothing of a CPU.
class BusyThreads {
 public:
  BusyThreads(int count, int cpu) {
    for (int i = 0; i < count; ++i) {
      threads_.emplace_back([this, cpu] {
        run_this_thread_on({cpu});
        ++begun_;
        while (!ended_)
          continue;
      });
    }
    while (begun_ < count)
      std::this_thread::sleep_for(milliseconds(1));
  }
  ~BusyThreads() {
    ended_ = true;
    for (std::thread& thread : threads_)
      thread.join();
  }
  BusyThreads(const BusyThreads&) = delete;
  BusyThreads& operator=(const BusyThreads&) = delete;

 private:
  std::atomic<int> begun_{0};
  std::atomic<bool> ended_{false};
  std::vector<std::thread> threads_;
};

TEST_F(ServerTest, WaitingForACpuIsNotDead) {
  const int cpu = allowed_cpus().front();
  ServerOptions options;
  options.cpus = {cpu};
  options.liveness_timeout = milliseconds(50);
  options.spin = std::chrono::seconds(100);  // it never sleeps, which counts as inside the storage
  make(small_geometry(1, 1), std::move(options));
  ASSERT_EQ(rig->calls(0).ping(), 0);
  const std::vector<pid_t> loops = test::ids_of_threads_named("ferry-server");
  ASSERT_EQ(loops.size(), 1U);
  const sched_param none{};
  ASSERT_EQ(sched_setscheduler(loops[0], SCHED_IDLE, &none), 0);
  {
    const BusyThreads busy(16, cpu);
    std::this_thread::sleep_for(milliseconds(700));
    EXPECT_EQ(rig->phase(0), LoopPhase::running);
  }
  EXPECT_EQ(rig->calls(0).ping(), 0);
}

// R5: a ticket claimed before the stop and published after it gets its answer.
TEST_F(ServerTest, AnswersLateTickets) {
  make(small_geometry(1, 1));
  const device::RequestRing ring = rig->arena.view().ring(0);
  const std::uint64_t ticket = test::claim(ring, 1);
  StopReport report;
  std::thread stopper([&] { report = rig->server->stop(test::patience); });
  ASSERT_TRUE(test::eventually([&] { return rig->phase(0) == LoopPhase::stopping; }));
  std::this_thread::sleep_for(milliseconds(20));
  EXPECT_EQ(rig->phase(0), LoopPhase::stopping) << "does not wait for the ticket";
  device::Request request = test::request_of(device::Opcode::unlink);
  request.cell = 3;
  request.sequence = 9;
  ring.publish(ticket, &request, 1);
  test::within_patience("stop", [&] { stopper.join(); });
  EXPECT_TRUE(report.finished);
  EXPECT_EQ(rig->arena.view().cell(3).sequence, 9U);
  EXPECT_EQ(rig->arena.view().cell(3).result, -ESHUTDOWN);
}

// A device thread that ended between claim and publish must not block the server for ever.
TEST_F(ServerTest, GivesUpOnTicketsThatAreNeverPublished) {
  make(small_geometry(1, 1));
  test::claim(rig->arena.view().ring(0));
  stop(milliseconds(50));
  test::within_patience("the server waits for a ticket that never comes",
                        [&] { rig->server.reset(); });
}

TEST_F(ServerTest, StopsUnderLoadWithoutLosingACall) {
  for (std::uint64_t round = 0; round < test::scaled(60); ++round) {
    make(small_geometry(2, 3));
    std::vector<std::jthread> threads;
    std::atomic<int> wrong{0};
    for (std::uint32_t group = 0; group < 3; ++group) {
      threads.emplace_back([&, group] {
        auto calls = rig->calls(group);
        const int file = calls.open("any", O_RDWR);
        for (;;) {
          Pending pending[3];
          for (Pending& one : pending)
            one = calls.pread_async(file, rig->heap() + group * 64, 64, 0);
          bool over = false;
          for (Pending& one : pending) {
            const std::int64_t got = calls.wait(one);
            over = over || got == -ESHUTDOWN;
            if (got != 64 && got != -ESHUTDOWN && !(file < 0 && got == -EBADF)) ++wrong;
          }
          if (over) break;
        }
      });
    }
    std::this_thread::sleep_for(std::chrono::microseconds(round * 37 % 3000));
    EXPECT_TRUE(stop(test::patience).finished);
    test::within_patience("callers", [&] { threads.clear(); });
    EXPECT_EQ(wrong, 0);
    EXPECT_EQ(storage->counts.files, 0);
    rig.reset();
  }
}

TEST_F(ServerTest, CountsTheTimeOfItsThreads) {
  make(small_geometry(1, 1));
  auto calls = rig->calls(0);
  EXPECT_TRUE(test::eventually([&] {
    calls.ping();
    return rig->server->usage(0).cpu_ns > 0;
  }));
  EXPECT_TRUE(test::eventually([&] {
    calls.ping();
    return rig->server->usage(0).voluntary_switches > 0;
  }));
}

}  // namespace
}  // namespace ferry::server
