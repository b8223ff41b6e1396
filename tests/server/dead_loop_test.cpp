// Loops that end by a fault or hang inside a request. Callers get -EIO and never hang; nothing
// touches their buffers afterwards; other loops continue.
#include <cerrno>
#include <chrono>
#include <cstring>
#include <memory>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

#include <fcntl.h>
#include <gtest/gtest.h>

#include "server/server.hpp"
#include "support/files.hpp"
#include "support/server_rig.hpp"

namespace ferry::server {
namespace {

using device::LoopPhase;
using device::Pending;
using device::Request;
using std::chrono::milliseconds;
using storage::Engine;
using test::Injection;
using test::pattern;
using test::ServerRig;
using test::small_geometry;

constexpr milliseconds liveness{300};

ServerOptions injected(Injection& injection) {
  ServerOptions options;
  options.liveness_timeout = liveness;
  options.inject = injection.hook();
  return options;
}

// Group 0 is served by the loop that dies, group 1 by the other one.
class DeadLoop : public testing::TestWithParam<std::tuple<LoopPoint, Engine>> {
 protected:
  static constexpr std::size_t bytes = 64 * 1024;

  void SetUp() override {
    test::write_file(directory / "f", pattern(bytes, 1));
    std::unique_ptr<storage::Storage> storage;
    try {
      storage = storage::make_posix(std::get<Engine>(GetParam()));
    } catch (const std::system_error& error) {
      GTEST_SKIP() << error.what();
    }
    rig =
        std::make_unique<ServerRig>(small_geometry(2, 4), std::move(storage), injected(injection));
    file = rig->calls(1).open((directory / "f").c_str(), O_RDWR);
    ASSERT_GT(file, 0);
    buffer = reinterpret_cast<char*>(rig->heap());
  }
  LoopPoint where() const { return std::get<LoopPoint>(GetParam()); }

  void expect_failed_read(test::Calls& calls) const {
    test::within_patience("a call of the dead loop",
                          [&] { EXPECT_EQ(calls.pread(file, buffer, bytes, 0), -EIO); });
  }
  // The buffer is the caller's again: its new contents stay.
  void expect_untouched(const std::function<void()>& meanwhile) {
    std::memset(buffer, 'u', bytes);
    meanwhile();
    std::this_thread::sleep_for(milliseconds(50));
    EXPECT_TRUE(test::same_bytes({buffer, bytes}, std::string(bytes, 'u')));
  }
  void expect_other_loop_serves() {
    auto calls = rig->calls(1);
    char* other = buffer + 2 * bytes;
    EXPECT_EQ(calls.pread(file, other, bytes, 0), static_cast<std::int64_t>(bytes));
    EXPECT_TRUE(test::same_bytes({other, bytes}, pattern(bytes, 1)));
    const int second = calls.open((directory / "g").c_str(), O_RDWR | O_CREAT, 0644);
    EXPECT_GT(second, 0);
    EXPECT_EQ(calls.pwrite(second, other, 100, 0), 100);
    EXPECT_EQ(calls.close(second), 0);
  }

  test::ScratchDirectory directory;
  Injection injection;
  std::unique_ptr<ServerRig> rig;
  int file = 0;
  char* buffer = nullptr;
};

TEST_P(DeadLoop, StoppedInTheMiddleOfACall) {
  injection.arm(Injection::Action::stop, 0, where());
  auto calls = rig->calls(0);
  expect_failed_read(calls);
  expect_untouched([] {});
  // From now on, all calls of that loop's groups, immediately.
  test::within_patience("calls after the death", [&] {
    EXPECT_EQ(calls.pread(file, buffer, bytes, 0), -EIO);
    EXPECT_EQ(rig->calls(2).ping(), -EIO);
    for (int i = 0; i < 200; ++i)
      ASSERT_EQ(calls.ping(), -EIO);
    calls.drain();
  });
  expect_other_loop_serves();
  // The dead loop held the file; that must not delay its closing.
  test::within_patience("close after the death", [&] { EXPECT_EQ(rig->calls(1).close(file), 0); });
  const StopReport report = rig->server->stop(test::patience);
  EXPECT_TRUE(report.finished);
  EXPECT_EQ(report.errors.size(), 1U);
}

TEST_P(DeadLoop, StoppedWithMuchInFlight) {
  auto calls = rig->calls(0);
  std::vector<Pending> pending(12);
  std::vector<device::BatchTransfer> transfers;
  for (std::size_t i = 0; i < pending.size(); ++i) {
    transfers.push_back(
        device::BatchTransfer{file, buffer + i * 4096, 4096, static_cast<std::int64_t>(i * 4096)});
  }
  injection.arm(Injection::Action::stop, 0, where());
  calls.pread_batch(transfers.data(), 12, pending.data());
  int failed = 0;
  test::within_patience("transfers of the dead loop", [&] {
    for (Pending& one : pending) {
      const std::int64_t result = calls.wait(one);
      EXPECT_TRUE(result == -EIO || result == 4096) << result;
      failed += result == -EIO ? 1 : 0;
    }
  });
  EXPECT_GT(failed, 0);
  expect_untouched([] {});
  expect_other_loop_serves();
}

TEST_P(DeadLoop, StandingStill) {
  injection.arm(Injection::Action::stall, 0, where());
  auto calls = rig->calls(0);
  expect_failed_read(calls);
  EXPECT_EQ(rig->phase(0), LoopPhase::dead);
  expect_other_loop_serves();
  expect_untouched([&] { injection.release(); });
  EXPECT_EQ(calls.ping(), -EIO);
  EXPECT_EQ(rig->phase(0), LoopPhase::dead);
  const StopReport report = rig->server->stop(test::patience);
  EXPECT_TRUE(report.finished);
}

// It hangs with a CPU of its own.
TEST_P(DeadLoop, Spinning) {
  injection.arm(Injection::Action::spin, 0, where());
  auto calls = rig->calls(0);
  expect_failed_read(calls);
  EXPECT_EQ(rig->phase(0), LoopPhase::dead);
  expect_untouched([&] { injection.release(); });
}

// The stuck loop may hold a file, whose closing must not wait for ever.
TEST_P(DeadLoop, AFileHeldByALoopThatStandsStillCanBeClosed) {
  injection.arm(Injection::Action::stall, 0, where());
  EXPECT_EQ(rig->calls(0).pread(file, buffer, bytes, 0), -EIO);
  int result = 77;
  test::within_patience("close of a file that a stuck loop holds",
                        [&] { result = rig->calls(1).close(file); });
  EXPECT_TRUE(result == 0 || result == -EIO) << result;
  injection.release();
}

// Others, also of other loops, may wait for the position meanwhile.
TEST_P(DeadLoop, NobodyWaitsForThePositionOfACallThatDied) {
  injection.arm(Injection::Action::stall, 0, where());
  std::thread holder([&] { EXPECT_EQ(rig->calls(0).read(file, buffer, bytes), -EIO); });
  EXPECT_TRUE(injection.reached());
  std::int64_t result = 0;
  test::within_patience("a read at a position that a dead call held",
                        [&] { result = rig->calls(1).read(file, buffer + bytes, 4096); });
  holder.join();
  EXPECT_EQ(result, 4096);
  EXPECT_TRUE(test::same_bytes({buffer + bytes, 4096}, pattern(bytes, 1).substr(0, 4096)));
  injection.release();
}

// The same with the status, which the loop writes into the caller's memory.
TEST_P(DeadLoop, StandingStillItForgetsTheStatusToo) {
  injection.arm(Injection::Action::stall, 0, where());
  device::Requester requester(rig->arena.context(), 0);
  Request request =
      test::request_of(device::Opcode::file_status, file, rig->arena.view().offset_of(buffer));
  test::within_patience("fstat of the stuck loop",
                        [&] { EXPECT_EQ(requester.call(request).result, -EIO); });
  expect_untouched([&] { injection.release(); });
}

// It was declared dead, comes back, and fails itself.
TEST_P(DeadLoop, StandingStillAndThenStopped) {
  std::atomic<bool> faulty{false};
  ServerOptions options;
  options.liveness_timeout = liveness;
  options.inject = [&](std::uint32_t loop, LoopPoint point) {
    injection(loop, point);
    if (loop == 0 && faulty) throw LoopStopped();
  };
  ServerRig other(small_geometry(2, 4), storage::make_posix(std::get<Engine>(GetParam())),
                  std::move(options));
  auto calls = other.calls(0);
  const int own = calls.open((directory / "f").c_str(), O_RDWR);
  ASSERT_GT(own, 0);
  injection.arm(Injection::Action::stall, 0, where());
  std::vector<Pending> pending;
  for (std::size_t i = 0; i < 8; ++i) {
    pending.push_back(calls.pread_async(own, reinterpret_cast<char*>(other.heap()) + i * 4096, 4096,
                                        static_cast<std::int64_t>(i * 4096)));
  }
  test::within_patience("transfers of a stuck loop", [&] {
    for (Pending& one : pending)
      calls.wait(one);
  });
  faulty = true;
  injection.release();
  test::within_patience("the server's destruction", [&] { other.server.reset(); });
}

std::string name_of(const testing::TestParamInfo<std::tuple<LoopPoint, Engine>>& info) {
  constexpr const char* points[] = {"taken", "validated", "submitted", "finished"};
  const auto& [where, engine] = info.param;
  return std::string(points[static_cast<int>(where)]) +
         (engine == Engine::io_uring ? "_uring" : "_threads");
}

INSTANTIATE_TEST_SUITE_P(Points, DeadLoop,
                         testing::Combine(testing::Values(LoopPoint::taken, LoopPoint::validated,
                                                          LoopPoint::submitted,
                                                          LoopPoint::finished),
                                          testing::Values(Engine::io_uring, Engine::threads)),
                         name_of);

// A storage that is still at work when the loop fails.
class DeadLoopBusyStorage : public test::OnFakeStorage {
 protected:
  void SetUp() override {
    make(small_geometry(1, 2), injected(injection));
    file = rig->calls(0).open("any", O_RDWR);
    ASSERT_GT(file, 0);
    storage->hold();
    reader = std::thread([this] {
      result = rig->calls(0).pread(file, rig->heap(), 4096, 0);
      held_on_return = storage->counts.held;
    });
    ASSERT_TRUE(holds(1));
  }
  void TearDown() override {
    injection.release();
    storage->release();
    if (!reader.joinable()) return;
    test::within_patience("the reader", [this] { reader.join(); });
    EXPECT_EQ(held_on_return, 0) << "returned while the storage could still write to its buffer";
  }
  Injection injection;
  int file = 0;
  std::atomic<std::int64_t> result{77};
  int held_on_return = 77;
  std::thread reader;
};

TEST_F(DeadLoopBusyStorage, NoCallReturnsBeforeItsTransferHasEndedWhenTheLoopDies) {
  injection.arm(Injection::Action::stop, 0, LoopPoint::taken);
  // Whether this one must wait for the other's transfer is unspecified.
  std::thread other([&] { EXPECT_EQ(rig->calls(1).ping(), -EIO); });
  EXPECT_TRUE(injection.reached());
  std::this_thread::sleep_for(4 * liveness);
  EXPECT_EQ(storage->counts.held, 1);
  storage->release();
  test::within_patience("the other caller", [&] { other.join(); });
}

// The one exception (docs/internals/architecture.md, "Who may touch a buffer"): only a hung loop
// can reap its engine's operations, so the caller's -EIO comes first there.
TEST_F(DeadLoopBusyStorage, ACallEndsBeforeItsTransferOnlyWhenTheLoopStandsStill) {
  injection.arm(Injection::Action::stall, 0, LoopPoint::taken);
  std::thread other([&] { rig->calls(1).ping(); });
  EXPECT_TRUE(injection.reached());
  test::within_patience("both callers", [&] {
    other.join();
    reader.join();
  });
  EXPECT_EQ(result, -EIO);
  EXPECT_EQ(held_on_return, 1);
  injection.release();
  storage->release();
}

using DeadLoopOnFakeStorage = test::OnFakeStorage;

// The close waits for a transfer of another loop, which goes on.
TEST_F(DeadLoopOnFakeStorage, RefusesACloseThatWaits) {
  Injection injection;
  make(small_geometry(2, 4), injected(injection));
  auto reader = rig->calls(1);
  const int file = reader.open("any", O_RDWR);
  ASSERT_GT(file, 0);
  storage->hold();
  Pending pending = reader.pread_async(file, rig->heap(), 64, 0);
  ASSERT_TRUE(holds(1));
  ASSERT_EQ(reader.fsync(file), 0);
  auto closer = rig->calls(0);
  std::int64_t closed = 77;
  std::thread closing([&] { closed = closer.close(file); });
  EXPECT_TRUE(test::eventually([&] { return reader.fsync(file) == -EBADF; }));
  injection.arm(Injection::Action::stop, 0, LoopPoint::taken);
  test::within_patience("calls of the dead loop", [&] {
    EXPECT_EQ(rig->calls(2).ping(), -EIO);
    closing.join();
  });
  EXPECT_EQ(closed, -EIO);
  storage->release();
  EXPECT_EQ(reader.wait(pending), 64);
  test::within_patience("destruction of the server", [&] { rig->server.reset(); });
  EXPECT_EQ(storage->counts.held, 0);
}

// The kernel still works for a loop declared dead: the server's end waits for that, with a bound.
TEST(DeadLoopInTheKernel, DestructionWaitsForTheKernelAndEnds) {
  test::ScratchDirectory directory;
  constexpr std::size_t bytes = 256 * 1024;
  test::write_file(directory / "f", pattern(bytes, 1));
  {
    const test::Descriptor fd(::open((directory / "f").c_str(), O_RDONLY));
    ASSERT_EQ(fsync(fd), 0);
    ASSERT_EQ(posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED), 0);
  }
  std::unique_ptr<storage::Storage> storage;
  try {
    storage = storage::make_posix(Engine::io_uring);
  } catch (const std::system_error& error) {
    GTEST_SKIP() << error.what();
  }
  // While the loop begins a read from the second ring, the request it will hang in enters the
  // first.
  device::Geometry geometry = small_geometry(1, 2);
  geometry.rings = 2;
  Injection injection;
  std::atomic<int> stage{0};
  ServerRig* live = nullptr;
  ServerOptions options;
  options.liveness_timeout = liveness;
  options.inject = [&](std::uint32_t loop, LoopPoint where) {
    if (stage == 1 && where == LoopPoint::submitted) {
      stage = 2;
      const device::RequestRing ring = live->arena.view().ring(0);
      const Request nothing{};
      ring.publish(test::claim(ring, 1), &nothing, 1);  // the loop is awake: no doorbell
      injection.arm(Injection::Action::stall, 0, LoopPoint::taken);
      return;
    }
    injection(loop, where);
  };
  ServerRig rig(geometry, std::move(storage), std::move(options));
  live = &rig;
  auto calls = rig.calls(1);
  const int file = calls.open((directory / "f").c_str(), O_RDONLY | O_DIRECT);
  if (file == -EINVAL) GTEST_SKIP() << "no direct I/O here";
  ASSERT_GT(file, 0);
  stage = 1;
  std::thread releaser([&] {
    injection.reached();
    std::this_thread::sleep_for(3 * liveness);
    injection.release();
  });
  std::int64_t result = 0;
  test::within_patience("the read", [&] { result = calls.pread(file, rig.heap(), bytes, 0); });
  EXPECT_TRUE(result == -EIO || result == static_cast<std::int64_t>(bytes)) << result;
  // From here on the buffer is the caller's: when the loop returns, it does not begin what it had
  // only prepared.
  auto* buffer = reinterpret_cast<char*>(rig.heap());
  if (result == -EIO) std::memset(buffer, 'u', bytes);
  releaser.join();
  test::within_patience("the server's destruction", [&] { rig.server.reset(); });
  if (result == -EIO) {
    EXPECT_TRUE(test::same_bytes({buffer, bytes}, std::string(bytes, 'u')));
  }
}

}  // namespace
}  // namespace ferry::server
