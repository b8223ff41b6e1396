// Shared by queues whose operations run on other threads: a list of submitted operations, an inbox
// of finished ones, and counters.
#pragma once

#include "storage/queue/worker_pool.hpp"
#include "storage/storage.hpp"

namespace ferry::storage {

// A first-in first-out list through Operation::next.
class OperationList {
 public:
  void push(Operation& operation);
  Operation* pop();
  Operation* first() const { return first_; }
  bool empty() const { return first_ == nullptr; }

 private:
  Operation* first_ = nullptr;
  Operation* last_ = nullptr;
};

class InboxQueue : public Queue {
 public:
  explicit InboxQueue(const QueueOptions& options) : options_(options), inbox_(options.doorbell) {}

  void submit(Operation& operation) override;
  void flush() override;
  Operation* reap() override;
  void wait(std::uint32_t seen, std::chrono::nanoseconds timeout) override;
  QueueStatistics statistics() const override;
  // Whether reap() has nothing.
  bool nothing_finished() const { return finished_.empty() && inbox_.empty(); }

 protected:
  void finish(Operation& operation) { finished_.push(operation); }
  // Another thread has the operation, and will put it into the inbox.
  void give_away() { ++away_; }
  // `count` operations were taken back before anybody began with them.
  void take_back(unsigned count) { away_ -= count; }
  // Waits until no thread has an operation of this queue, or its inbox. Results are lost.
  void await_others();
  void count_inline_operation() { count(statistics_.inline_operations); }
  void count_engine_operation() { count(statistics_.engine_operations); }
  void count_pool_operation() { count(statistics_.pool_operations); }

  const QueueOptions options_;
  OperationList submitted_;
  unsigned submitted_count_ = 0;
  Inbox inbox_;

 private:
  // Executes the operation or has it executed; once for each that was submitted.
  virtual void start(Operation& operation) = 0;
  static void count(std::uint64_t& counter);

  OperationList finished_;
  unsigned away_ = 0;
  QueueStatistics statistics_;  // own thread writes, others read: through atomic_ref
};

}  // namespace ferry::storage
