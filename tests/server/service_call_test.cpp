// A loop that executes a cached call keeps serving, one call at a time, and ends it at its end.
#include <atomic>
#include <cerrno>
#include <memory>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "server/server.hpp"
#include "support/server_rig.hpp"

namespace ferry::server {
namespace {

using device::LoopPhase;
using device::Opcode;
using device::Request;
using device::Requester;
using device::Target;
using device::Ticket;
using test::Injection;
using test::small_geometry;

// A loop whose cached calls run until the test releases them. Group 0 is the caller.
class ServiceCall : public test::OnFakeStorage {
 protected:
  void make_service(bool executes = true) {
    ServerOptions options;
    options.liveness_timeout = std::chrono::milliseconds(300);
    options.inject = injection.hook();
    if (executes) {
      options.execute = [this](std::uint32_t, const Request& request, Pump& pump) {
        return execute(request, pump);
      };
    }
    make(small_geometry(1, 4), std::move(options));
    requester = std::make_unique<Requester>(rig->arena.context(), 0);
  }
  ~ServiceCall() override { let_go = true; }

  std::int64_t execute(const Request& request, Pump& pump) {
    if (++inside > 1) nested = true;
    ++executed;
    const std::uint32_t word = 0;
    for (long round = 0; !let_go && rig->phase(0) != LoopPhase::dead && !gives_up; ++round)
      pump.pump(round % 2 == 0 ? &word : nullptr, 0, std::chrono::milliseconds(1));
    --inside;
    return static_cast<std::int64_t>(request.length);
  }
  Ticket start(std::uint64_t length) {
    Request request = test::request_of(Opcode::cached_read, 0, 0, length);
    Ticket ticket;
    EXPECT_EQ(requester->prepare(request, ticket, 0, Target::service), 0);
    EXPECT_EQ(requester->submit(&request, 1), 0);
    return ticket;
  }
  std::int64_t result_of(const Ticket& ticket) {
    std::int64_t result = 0;
    test::within_patience("a cached call", [&] { result = requester->wait(ticket).result; });
    return result;
  }
  // A call that is being executed.
  Ticket start_and_be_inside() {
    const Ticket ticket = start(5);
    EXPECT_TRUE(test::eventually([&] { return inside == 1; }));
    return ticket;
  }

  std::atomic<int> inside{0};
  std::atomic<int> executed{0};
  std::atomic<bool> nested{false};
  std::atomic<bool> let_go{false};
  std::atomic<bool> gives_up{false};
  Injection injection;
  std::unique_ptr<Requester> requester;
};

TEST_F(ServiceCall, TheLoopServesOthersMeanwhile) {
  make_service();
  const Ticket ticket = start_and_be_inside();
  auto other = rig->calls(1);
  test::within_patience("other calls", [&] {
    const int file = other.open("f", 0);
    EXPECT_GT(file, 0);
    EXPECT_EQ(other.pread(file, rig->heap(), 10, 0), 10);
    EXPECT_EQ(other.close(file), 0);
    for (int i = 0; i < 1000; ++i)
      ASSERT_EQ(other.ping(), 0);
  });
  EXPECT_FALSE(requester->done(ticket));
  let_go = true;
  EXPECT_EQ(result_of(ticket), 5);
}

TEST_F(ServiceCall, OneAtATimeAndInOrder) {
  make_service();
  std::vector<Ticket> tickets;
  for (std::uint64_t i = 0; i < 10; ++i)
    tickets.push_back(start(i));
  ASSERT_TRUE(test::eventually([&] { return inside == 1; }));
  EXPECT_EQ(rig->calls(1).ping(), 0) << "by then the others are taken out of the ring";
  EXPECT_EQ(executed, 1);
  let_go = true;
  for (std::size_t i = 0; i < tickets.size(); ++i)
    EXPECT_EQ(result_of(tickets[i]), static_cast<std::int64_t>(i));
  EXPECT_EQ(executed, 10);
  EXPECT_FALSE(nested);
}

TEST_F(ServiceCall, WhereNothingExecutesTheyAreRefused) {
  make_service(false);
  EXPECT_EQ(result_of(start(5)), -EINVAL);
  EXPECT_EQ(rig->calls(1).ping(), 0);
}

TEST_F(ServiceCall, MoreThanThereAreCellsAreRefused) {
  make_service();
  const Ticket first = start_and_be_inside();
  // All with one cell: whoever answers it first, answers it for all.
  Ticket ticket;
  Request request = test::request_of(Opcode::cached_read);
  ASSERT_EQ(requester->prepare(request, ticket, 0, Target::service), 0);
  test::within_patience("more calls than there may be", [&] {
    for (std::uint32_t i = 0; i <= rig->arena.view().cell_count() + 1; ++i)
      ASSERT_EQ(requester->submit(&request, 1), 0);
    EXPECT_EQ(requester->wait(ticket).result, -EAGAIN);
  });
  let_go = true;
  EXPECT_EQ(result_of(first), 5);
  EXPECT_EQ(rig->calls(1).ping(), 0);
}

// They leave their places to others.
TEST_F(ServiceCall, ThoseThatWereTakenBackAreForgotten) {
  make_service();
  const Ticket first = start_and_be_inside();
  test::within_patience("calls that are taken back", [&] {
    for (std::uint32_t i = 0; i <= rig->arena.view().cell_count() + 1; ++i)
      ASSERT_EQ(requester->wait_or_take_back(start(6)).result, device::taken_back);
  });
  const Ticket last = start(7);
  let_go = true;
  EXPECT_EQ(result_of(first), 5);
  EXPECT_EQ(result_of(last), 7);
  EXPECT_EQ(executed, 2);
}

TEST_F(ServiceCall, AStopWaitsForTheOneUnderWayAndRefusesTheOthers) {
  make_service();
  const Ticket first = start_and_be_inside();
  const Ticket second = start(6);
  EXPECT_EQ(rig->calls(1).ping(), 0);
  const StopReport early = rig->server->stop(std::chrono::milliseconds(1));
  EXPECT_FALSE(early.finished);
  EXPECT_EQ(rig->calls(1).ping(), -ESHUTDOWN);
  let_go = true;
  EXPECT_EQ(result_of(first), 5);
  EXPECT_EQ(result_of(second), -ESHUTDOWN);
  EXPECT_TRUE(rig->server->stop(test::patience).finished);
  EXPECT_EQ(executed, 1);
}

TEST_F(ServiceCall, AFaultOfWhatIsServedMeanwhileEndsEverything) {
  make_service();
  const Ticket first = start_and_be_inside();
  const Ticket second = start(6);
  EXPECT_EQ(rig->calls(1).ping(), 0);
  injection.arm(Injection::Action::stop, 0, LoopPoint::taken);
  test::within_patience("a call that meets the fault",
                        [&] { EXPECT_EQ(rig->calls(2).ping(), -EIO); });
  // The call in flight still uses its caller's buffer, so the caller must not see the end yet.
  test::within_patience("calls after the fault", [&] {
    for (int i = 0; i < 100; ++i)
      ASSERT_EQ(rig->calls(1).ping(), -EIO);
  });
  EXPECT_EQ(rig->phase(0), LoopPhase::running);
  EXPECT_FALSE(requester->done(first));
  gives_up = true;
  EXPECT_EQ(result_of(first), 5);
  EXPECT_EQ(result_of(second), -EIO);
  EXPECT_TRUE(test::eventually([&] { return rig->phase(0) == LoopPhase::dead; }));
  EXPECT_EQ(executed, 1);
}

TEST_F(ServiceCall, ACallIsNotTakenForStandingStill) {
  make_service();
  const Ticket ticket = start_and_be_inside();
  // Twice a loop's time limit.
  std::this_thread::sleep_for(std::chrono::milliseconds(600));
  EXPECT_EQ(rig->phase(0), LoopPhase::running);
  let_go = true;
  EXPECT_EQ(result_of(ticket), 5);
}

TEST_F(ServiceCall, ALoopThatHangsBesideACallIsDeclaredDead) {
  make_service();
  const Ticket ticket = start_and_be_inside();
  injection.arm(Injection::Action::stall, 0, LoopPoint::taken);
  test::within_patience("a call that meets the stall",
                        [&] { EXPECT_EQ(rig->calls(2).ping(), -EIO); });
  EXPECT_EQ(result_of(ticket), -EIO);
  EXPECT_EQ(rig->phase(0), LoopPhase::dead);
  injection.release();
  EXPECT_TRUE(rig->server->stop(test::patience).finished);
  EXPECT_EQ(inside, 0);
}

// A cached call that waits for the answer of a request of the page cache, in a cell of no group.
class ServiceCallAtAnUnownedCell : public ServiceCall {
 protected:
  void make_waiting_service(std::uint32_t loops) {
    ServerOptions options;
    options.execute = [this](std::uint32_t, const Request&, Pump& pump) {
      std::uint32_t& word = cell().sequence;
      ++inside;
      while (device::SystemRef<std::uint32_t>(word).load(device::acquire) == 0)
        pump.pump(&word, 0, 2 * test::patience);
      return 0;
    };
    make(small_geometry(loops, 4), std::move(options));
    requester = std::make_unique<Requester>(rig->arena.context(), 0);
  }
  device::AnswerCell& cell() const {
    return rig->arena.view().cell(rig->arena.view().shared_cell(0));
  }
  // By the loop of this group.
  void answer_by(std::uint32_t group) const {
    Request request = test::request_of(Opcode::nop);
    request.cell = rig->arena.view().shared_cell(0);
    request.sequence = 1;
    ASSERT_EQ(Requester(rig->arena.context(), group).submit_shared(request), 0);
  }
};

TEST_F(ServiceCallAtAnUnownedCell, OthersThatWaitThereAreWoken) {
  make_waiting_service(1);
  const Ticket ticket = start_and_be_inside();
  std::thread other([&] {
    device::SystemRef<std::uint32_t>(cell().parked).store(1, device::seq_cst);
    const auto timeout = std::chrono::nanoseconds(2 * test::patience);
    futex_wait(&cell().sequence, 0, static_cast<std::uint64_t>(timeout.count()));
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(20));  // it is asleep
  answer_by(1);
  test::within_patience("another that waits for the same answer", [&] { other.join(); });
  EXPECT_EQ(result_of(ticket), 0);
}

TEST_F(ServiceCallAtAnUnownedCell, AnotherLoopsAnswerEndsTheWait) {
  make_waiting_service(2);
  const Ticket ticket = start_and_be_inside();
  std::this_thread::sleep_for(std::chrono::milliseconds(20));  // its loop is asleep
  answer_by(1);
  EXPECT_EQ(result_of(ticket), 0);
}

}  // namespace
}  // namespace ferry::server
