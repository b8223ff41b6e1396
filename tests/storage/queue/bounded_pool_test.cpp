#include "storage/queue/bounded_pool.hpp"

#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <memory>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "support/no_threads.hpp"
#include "support/within.hpp"

namespace ferry::storage {
namespace {

using namespace std::chrono_literals;
using test::eventually;
using test::NoThreads;
using test::within_patience;

constexpr std::size_t late_max = 64;

// Opens once; shared with threads that may outlive the test.
struct Gate {
  std::atomic<bool> is_open{false};
  std::atomic<unsigned> waiting{0};
  void pass() {
    ++waiting;
    is_open.wait(false);
    --waiting;
  }
  void open() {
    is_open = true;
    is_open.notify_all();
  }
};

// A library call that waits for a gate, if any, and then writes into its operation.
class Call final : public BoundedCall {
 public:
  Call(Operation& operation, Inbox& inbox, std::chrono::milliseconds timeout,
       std::shared_ptr<Gate> gate = nullptr)
      : BoundedCall(operation, inbox, timeout), gate_(std::move(gate)) {}
  std::int64_t work(std::vector<char>& /*memory*/) override {
    if (gate_ != nullptr) gate_->pass();
    touch([](Operation& operation) { operation.value = 5; });
    return 7;
  }

 private:
  const std::shared_ptr<Gate> gate_;
};

// An open whose answer is held up when its file is there.
class Opening final : public BoundedCall {
 public:
  Opening(Operation& operation, Inbox& inbox, std::chrono::milliseconds timeout,
          std::shared_ptr<Gate> gate)
      : BoundedCall(operation, inbox, timeout), gate_(std::move(gate)) {}
  std::int64_t work(std::vector<char>& /*memory*/) override {
    if (!touch([](Operation& operation) { operation.opened = std::make_unique<File>(); }))
      return -ECANCELED;
    gate_->pass();
    return 0;
  }

 private:
  const std::shared_ptr<Gate> gate_;
};

// A read whose memory hangs, as that of a mapped file of a server that does not answer.
class Copying final : public BoundedCall {
 public:
  Copying(Operation& operation, Inbox& inbox, std::chrono::milliseconds timeout,
          std::shared_ptr<Gate> gate)
      : BoundedCall(operation, inbox, timeout), gate_(std::move(gate)) {}
  std::int64_t work(std::vector<char>& /*memory*/) override {
    touch([&](Operation& operation) {
      gate_->pass();
      operation.value = 5;
    });
    return over() ? -ECANCELED : 7;
  }

 private:
  const std::shared_ptr<Gate> gate_;
};

// A write of many pieces, before each of which it takes the lock that a cancellation wants.
class Changing final : public BoundedCall {
 public:
  Changing(Operation& operation, Inbox& inbox) : BoundedCall(operation, inbox, 10s) {}
  std::int64_t work(std::vector<char>& /*memory*/) override {
    const auto file = LateChanges::of(0, 0);
    while (begin_change(file) == 0) {
      begun = true;
      end_change();
    }
    return 0;
  }
  std::atomic<bool> begun{false};
};

class BoundedPoolTest : public testing::Test {
 protected:
  ~BoundedPoolTest() override {
    gate->open();
    pool.reset();
    while (inbox.in_use()) {
    }
  }
  std::shared_ptr<Call> start(Operation& operation, std::chrono::milliseconds timeout,
                              const std::shared_ptr<Gate>& through = nullptr) {
    auto call = std::make_shared<Call>(operation, inbox, timeout, through);
    pool->execute(call);
    return call;
  }
  // Starts the only call, which waits at the gate before its deadline. On a busy machine no thread
  // may have begun it by then: once more, with more time.
  template <class Made = Call>
  std::shared_ptr<Made> hold(Operation& operation, std::chrono::milliseconds timeout) {
    for (;; timeout *= 4) {
      auto call = std::make_shared<Made>(operation, inbox, timeout, gate);
      pool->execute(call);
      EXPECT_TRUE(eventually([&] { return gate->waiting == 1 || call->over(); }));
      if (gate->waiting == 1 || HasFailure()) return call;
      EXPECT_TRUE(ends(operation, -ETIMEDOUT));
      gate->open();  // a thread may have begun it after all
      gate = std::make_shared<Gate>();
    }
  }
  // Makes a pool whose threads are all late, at the gate.
  void hold_all() {
    for (auto timeout = 300ms;; timeout *= 4) {
      pool = std::make_unique<BoundedPool>(late_max, allowed_cpus());
      held = std::vector<Operation>(late_max);
      for (Operation& operation : held)
        start(operation, timeout, gate);
      finish(late_max);
      if (gate->waiting == late_max || HasFailure()) return;
      gate->open();  // not all were begun in time
      gate = std::make_shared<Gate>();
    }
  }
  // Until none of them is in flight.
  void finish(std::size_t operations) {
    EXPECT_TRUE(eventually([&] {
      for (Operation* found = inbox.take_all(); found != nullptr; found = found->next)
        --operations;
      return operations == 0;
    }));
  }
  // Whether this is the next operation to finish, and has this result.
  bool ends(const Operation& operation, std::int64_t result) {
    Operation* found = nullptr;
    EXPECT_TRUE(eventually([&] { return (found = inbox.take_all()) != nullptr; }));
    EXPECT_EQ(operation.result, result);
    return found == &operation;
  }

  std::uint32_t word = 0;
  Inbox inbox{Doorbell{&word}};
  std::shared_ptr<Gate> gate = std::make_shared<Gate>();
  std::vector<Operation> held;
  std::unique_ptr<BoundedPool> pool = std::make_unique<BoundedPool>(1, allowed_cpus());
};

TEST_F(BoundedPoolTest, GivesTheResult) {
  Operation operation;
  start(operation, 1h);
  EXPECT_TRUE(ends(operation, 7));
  EXPECT_EQ(operation.value, 5U);
}

TEST_F(BoundedPoolTest, AnswersAtTheDeadlineAndReplacesTheThread) {
  Operation stuck;
  start(stuck, 20ms, gate);
  EXPECT_TRUE(ends(stuck, -ETIMEDOUT));
  Operation other;
  start(other, 1h);
  EXPECT_TRUE(ends(other, 7));
  // Late results touch nothing.
  gate->open();
  EXPECT_TRUE(eventually([&] { return gate->waiting == 0; }));
  pool.reset();
  EXPECT_EQ(stuck.value, 0U);
  EXPECT_EQ(stuck.result, -ETIMEDOUT);
  EXPECT_EQ(inbox.take_all(), nullptr);
}

TEST_F(BoundedPoolTest, CallsThatNobodyHasBegunEndInTimeToo) {
  Operation stuck;
  Operation behind;
  start(stuck, 1h, gate);
  start(behind, 20ms);
  EXPECT_TRUE(ends(behind, -ETIMEDOUT));
  gate->open();
  EXPECT_TRUE(ends(stuck, 7));
  EXPECT_EQ(behind.value, 0U);
}

TEST_F(BoundedPoolTest, CallsThatWaitBehindLateOnesAreBegun) {
  Operation stuck;
  Operation behind[2];
  hold(stuck, 200ms);
  start(behind[0], 1h);
  start(behind[1], 1h);
  finish(3);
  EXPECT_EQ(gate->waiting, 1U) << "still";
  EXPECT_EQ(stuck.result, -ETIMEDOUT);
  EXPECT_EQ(behind[0].result, 7);
  EXPECT_EQ(behind[1].result, 7);
}

// There are no further threads besides the useful ones.
TEST_F(BoundedPoolTest, AThreadThatComesBackTakesTheNextCall) {
  hold_all();
  Operation behind;
  start(behind, 1h);
  gate->open();
  EXPECT_TRUE(ends(behind, 7));
  for (const Operation& operation : held)
    EXPECT_EQ(operation.result, -ETIMEDOUT);
}

TEST_F(BoundedPoolTest, AnswersWhereNoThreadCanBeStarted) {
  Operation refused;
  {
    const NoThreads none;
    start(refused, 1h);
  }
  EXPECT_TRUE(ends(refused, -EAGAIN));
  EXPECT_EQ(refused.value, 0U);
  Operation next;
  start(next, 1h);
  EXPECT_TRUE(ends(next, 7));
  EXPECT_EQ(inbox.take_all(), nullptr) << "the refused one has not been done after all";
}

TEST_F(BoundedPoolTest, CallsWaitForAThreadWhereNoOtherCanBeStarted) {
  pool = std::make_unique<BoundedPool>(2, allowed_cpus());
  Operation first;
  start(first, 1h, gate);
  EXPECT_TRUE(eventually([&] { return gate->waiting == 1; }));
  Operation second;
  {
    const NoThreads none;
    start(second, 1h);
  }
  gate->open();
  finish(2);
  EXPECT_EQ(first.result, 7);
  EXPECT_EQ(second.result, 7);
}

// Nothing else makes the pool look again.
TEST_F(BoundedPoolTest, CallsThatWaitGetAThreadOnceOneCanBeStarted) {
  Operation stuck;
  Operation behind;
  hold(stuck, 200ms);
  start(behind, 1h);
  {
    const NoThreads none;
    EXPECT_TRUE(ends(stuck, -ETIMEDOUT));
    std::this_thread::sleep_for(50ms);  // the watcher finds none
  }
  EXPECT_TRUE(ends(behind, 7));
  EXPECT_EQ(gate->waiting, 1U) << "still";
}

// Otherwise its caller would have to know that an operation that failed may have opened a file.
TEST_F(BoundedPoolTest, AnOpenThatIsAnsweredTooLateLeavesNoFile) {
  Operation operation;
  hold<Opening>(operation, 200ms);
  EXPECT_TRUE(ends(operation, -ETIMEDOUT));
  EXPECT_EQ(operation.opened, nullptr);
}

// Its call cannot be answered as long as that may change its memory. Others can.
TEST_F(BoundedPoolTest, AThreadAtMemoryThatHangsHoldsUpNoOtherCall) {
  Operation stuck;
  const auto call = hold<Copying>(stuck, 20ms);
  std::this_thread::sleep_until(call->deadline() + 50ms);
  Operation other;
  std::jthread starter([&] { start(other, 1h); });
  EXPECT_TRUE(ends(other, 7));
  gate->open();
  starter.join();
  finish(1);
  EXPECT_EQ(stuck.value, 5U);
  EXPECT_TRUE(stuck.result == 7 || stuck.result == -ETIMEDOUT) << stuck.result;
}

TEST_F(BoundedPoolTest, CancellingACallAtMemoryThatHangsDoesNotWait) {
  Operation stuck;
  const auto call = hold<Copying>(stuck, 1h);
  within_patience("a cancellation", [&] { call->cancel(); });
  EXPECT_FALSE(call->over());
  gate->open();
  finish(1);
  EXPECT_EQ(stuck.value, 5U);
  EXPECT_EQ(stuck.result, -ECANCELED);
}

TEST_F(BoundedPoolTest, ACancelledCallChangesNothingMore) {
  for (int i = 0; i < 100 && !HasFailure(); ++i) {
    Operation operation;
    const auto call = std::make_shared<Changing>(operation, inbox);
    pool->execute(call);
    ASSERT_TRUE(eventually([&] { return call->begun.load(); }));
    call->cancel();
    EXPECT_TRUE(ends(operation, -ECANCELED));
  }
}

TEST_F(BoundedPoolTest, CanBeEndedEarly) {
  Operation operation;
  const auto call = start(operation, 1h, gate);
  EXPECT_TRUE(eventually([&] { return gate->waiting == 1; }));
  call->end_early(-ECANCELED);
  EXPECT_TRUE(ends(operation, -ECANCELED));
  call->end_early(-ETIMEDOUT);  // it is over
  EXPECT_EQ(operation.result, -ECANCELED);
  gate->open();
  pool.reset();
  EXPECT_EQ(inbox.take_all(), nullptr);
}

TEST_F(BoundedPoolTest, IsLeftWithoutWaitingForCancelledCalls) {
  Operation operation;
  const auto call = start(operation, 1h, gate);
  ASSERT_TRUE(eventually([&] { return gate->waiting == 1; }));
  call->end_early(-ECANCELED);
  EXPECT_TRUE(ends(operation, -ECANCELED));
  pool.reset();
  EXPECT_EQ(gate->waiting, 1U);
}

// All threads are late, and there can be no others.
TEST_F(BoundedPoolTest, TakesCallsThatNobodyBeganWithIt) {
  hold_all();
  Operation operation;
  const std::weak_ptr<Call> behind = start(operation, 1h);
  behind.lock()->end_early(-ECANCELED);
  EXPECT_TRUE(ends(operation, -ECANCELED));
  pool.reset();
  EXPECT_TRUE(behind.expired());
}

TEST_F(BoundedPoolTest, IsLeftWithoutWaitingForLateThreads) {
  Operation stuck;
  hold(stuck, 20ms);
  EXPECT_TRUE(ends(stuck, -ETIMEDOUT));
  test::within_patience("the end of the pool", [&] { pool.reset(); });
  EXPECT_EQ(gate->waiting, 1U);
}

}  // namespace
}  // namespace ferry::storage
