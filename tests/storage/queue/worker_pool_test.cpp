#include "storage/queue/worker_pool.hpp"

#include <atomic>
#include <vector>

#include <gtest/gtest.h>
#include <unistd.h>

#include "storage/posix/file.hpp"
#include "support/blocked_file.hpp"
#include "support/depth.hpp"
#include "support/threads.hpp"
#include "support/within.hpp"

namespace ferry::storage {
namespace {

using test::BlockedFile;

class Pool : public testing::Test {
 protected:
  // Collects the inbox's contents, in order.
  std::size_t gather() {
    std::size_t count = 0;
    for (Operation* next = inbox.take_all(); next != nullptr; next = next->next)
      ++count;
    return count;
  }
  bool gather_all(std::size_t count) {
    std::size_t sum = 0;
    return test::eventually([&] { return (sum += gather()) == count; });
  }

  // Puts so many operations into the pool that end at once.
  std::vector<Operation> execute_quick(WorkerPool& pool, std::size_t count, Place places = 1) {
    std::vector<Operation> quick(count);
    for (std::size_t i = 0; i < count; ++i) {
      quick[i].kind = Kind::path_status;
      quick[i].path = "/";
      quick[i].result = 77;
      pool.execute(quick[i], inbox, 100 + i % places);
    }
    return quick;
  }

  std::uint32_t word = 0;
  Inbox inbox{Doorbell{&word}};
};

TEST_F(Pool, ExecutesEverythingAndRingsForEach) {
  WorkerPool pool(4, execute_blocking);
  const std::vector<Operation> operations = execute_quick(pool, 500);
  ASSERT_TRUE(gather_all(operations.size()));
  EXPECT_TRUE(test::eventually(
      [&] { return std::atomic_ref<std::uint32_t>(word).load() == operations.size(); }));
  for (const Operation& operation : operations)
    EXPECT_EQ(operation.result, 0);
}

TEST_F(Pool, ABlockedWorkerHoldsNobodyElseUp) {
  BlockedFile blocked;
  WorkerPool pool(2, execute_blocking);
  Operation slow = blocked.operation();
  pool.execute(slow, inbox);
  Operation quick{.kind = Kind::path_status, .path = "/"};
  pool.execute(quick, inbox);
  ASSERT_TRUE(gather_all(1));
  EXPECT_EQ(quick.result, 0);
  blocked.release();
  ASSERT_TRUE(gather_all(1));
}

// Many calls hang on several file systems; one that answers is still served.
TEST_F(Pool, PlacesThatHangHoldNoOtherOneUp) {
  constexpr unsigned place_max = 2;
  constexpr Place hung = 5;
  constexpr std::size_t each = 10;
  std::vector<BlockedFile> blocked(hung * each);
  std::vector<Operation> waiting;
  WorkerPool pool(place_max, execute_blocking);
  for (BlockedFile& file : blocked)
    waiting.push_back(file.operation());
  for (std::size_t i = 0; i < waiting.size(); ++i)
    pool.execute(waiting[i], inbox, 1 + i % hung);
  const std::vector<Operation> quick = execute_quick(pool, 20, 2);
  ASSERT_TRUE(gather_all(quick.size())) << "while the others hang";
  for (const Operation& operation : quick)
    EXPECT_EQ(operation.result, 0);
  // Two for each that hangs, until four such are full; then one for each that has none.
  EXPECT_LE(test::threads_named("ferry-worker"), place_max * WorkerPool::places_full + 3);
  for (BlockedFile& file : blocked)
    file.release();
  ASSERT_TRUE(gather_all(waiting.size()));
}

TEST_F(Pool, AnOperationIsExecutedWhereItIsFoundToLie) {
  constexpr Place words = 1;
  constexpr Place truth = 2;
  BlockedFile blocked;
  std::atomic<int> asked{0};
  WorkerPool pool(1, execute_blocking, allowed_cpus(), [&](const Operation& operation, Place) {
    ++asked;
    return operation.file != nullptr ? truth : words;
  });
  Operation slow = blocked.operation();
  pool.execute(slow, inbox, words);
  ASSERT_TRUE(test::eventually([&] { return asked == 1; }));
  Operation quick{.kind = Kind::path_status, .path = "/"};
  pool.execute(quick, inbox, words);
  ASSERT_TRUE(gather_all(1)) << "the other one holds up its own place only";
  EXPECT_EQ(quick.result, 0);
  blocked.release();
  ASSERT_TRUE(gather_all(1));
  EXPECT_EQ(asked, 2) << "once for each";
}

TEST_F(Pool, WithdrawsOnlyWhatNobodyHasBegun) {
  BlockedFile blocked;
  WorkerPool pool(1, execute_blocking);
  Operation begun = blocked.operation();
  pool.execute(begun, inbox);
  ASSERT_TRUE(test::eventually(
      [&] { return !pool.withdraw(begun) || (pool.execute(begun, inbox), false); }));
  Operation waiting{.kind = Kind::path_status, .path = "/"};
  waiting.result = 77;
  pool.execute(waiting, inbox);
  EXPECT_TRUE(pool.withdraw(waiting));
  EXPECT_FALSE(pool.withdraw(waiting)) << "a second time";
  blocked.release();
  ASSERT_TRUE(gather_all(1));
  EXPECT_EQ(gather(), 0U);
  EXPECT_EQ(waiting.result, 77) << "executed all the same";
}

// Of a queue that ends: its files would stay open.
TEST_F(Pool, WithdrawsNoClose) {
  BlockedFile blocked;
  std::atomic<bool> closed = false;
  WorkerPool pool(1, [&](Operation& operation) {
    operation.kind == Kind::close ? closed.store(true) : execute_blocking(operation);
  });
  Operation begun = blocked.operation();
  Operation waiting{.kind = Kind::path_status, .path = "/"};
  Operation close{.kind = Kind::close};
  pool.execute(begun, inbox);
  ASSERT_TRUE(test::eventually(
      [&] { return !pool.withdraw(begun) || (pool.execute(begun, inbox), false); }));
  pool.execute(waiting, inbox);
  pool.execute(close, inbox);
  EXPECT_EQ(pool.withdraw_all(inbox), 1U);
  blocked.release();
  ASSERT_TRUE(gather_all(2));
  EXPECT_TRUE(closed);
}

TEST_F(Pool, DestructionFinishesWhatWasGivenToIt) {
  std::vector<Operation> operations;
  {
    WorkerPool pool(2, execute_blocking);
    operations = execute_quick(pool, 50);
  }
  EXPECT_EQ(gather(), operations.size());
  for (const Operation& operation : operations)
    EXPECT_EQ(operation.result, 0);
}

TEST_F(Pool, ServesManyQueuesAtOnce) {
  WorkerPool pool(4, execute_blocking);
  test::at_once("calls of many queues", 3, [&](std::uint32_t) {
    std::uint32_t own_word = 0;
    Inbox own(Doorbell{&own_word});
    for (std::uint64_t round = 0; round < test::scaled(2000); ++round) {
      Operation operation{.kind = Kind::path_status, .path = "/"};
      pool.execute(operation, own);
      Operation* got = nullptr;
      EXPECT_TRUE(test::eventually([&] { return (got = own.take_all()) != nullptr; }));
      EXPECT_TRUE(got == &operation && operation.next == nullptr);
      // The bell is rung after the operation is handed over; the word must live that long.
      EXPECT_TRUE(test::eventually(
          [&] { return std::atomic_ref<std::uint32_t>(own_word).load() == round + 1; }));
    }
  });
}

}  // namespace
}  // namespace ferry::storage
