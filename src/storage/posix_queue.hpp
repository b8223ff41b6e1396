// What the two engines of the `posix` storage share: which operations run where they are, and
// which are given away.
//
// A queue's thread polls for others, so it must not block. It executes on the spot
//   - reads from the page cache that cannot wait (RWF_NOWAIT), and reads from tmpfs and ramfs;
//   - buffered writes and truncations on local file systems: a copy into the page cache is
//     cheaper than any hand-over. They can block when the kernel throttles a writer, so a call
//     that took long sends the following ones to the worker threads for a while (InlinePolicy),
//     and so does a write that the medium is to begin with, where the engine cannot have that done;
// and gives away everything else: paths, syncs, remote file systems.
#pragma once

#include <atomic>
#include <chrono>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "storage/posix_file.hpp"
#include "storage/storage.hpp"
#include "storage/worker_pool.hpp"

namespace ferry::storage {

// Allows inline calls until one is slow, and again after a pause.
class InlinePolicy {
 public:
  using Clock = std::chrono::steady_clock;
  bool allows(Clock::time_point now) const { return now >= not_before_; }
  void took(Clock::time_point begin, Clock::time_point end) {
    if (end - begin > slow) not_before_ = end + pause;
  }

  static constexpr std::chrono::milliseconds slow{5};
  static constexpr std::chrono::milliseconds pause{200};

 private:
  Clock::time_point not_before_{};
};

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

// What the queues of one storage share.
struct PosixShared {
  static constexpr unsigned workers_max = 16;
  WorkerPool pool{workers_max};
  // Grows with every close, so that the queues know when to drop what they have registered.
  std::atomic<std::uint64_t> closes{0};
  // What the engine could not have, for `ferry info`.
  std::mutex mutex;
  std::vector<std::string> notes;
  void note(const std::string& text);
};

// The threads engine, and the base of the io_uring one.
class PosixQueue : public Queue {
 public:
  PosixQueue(PosixShared& shared, const QueueOptions& options);
  ~PosixQueue() override;

  void submit(Operation& operation) override;
  void flush() override;
  Operation* reap() override;
  void wait(std::uint32_t seen, std::chrono::nanoseconds timeout) override;
  void cancel(Operation& operation) override;
  QueueStatistics statistics() const override;

 protected:
  // Executes a read that cannot block. False: it would have had to wait; what it did move is kept
  // in done_bytes.
  bool read_now(Operation& operation);
  // The same by plain pread, which costs the kernel some 100 ns less than preadv2 and can block:
  // only for small reads of files that have long been found in the page cache. A tick of the kernel
  // that falls into one ends the trust: one in thousands by chance, but reads that wait for a disk
  // meet one before they have held up the queue for much longer than a tick in all.
  std::int64_t read_trusting(Operation& operation);
  void execute_now(Operation& operation);
  void give_to_pool(Operation& operation);
  void finish(Operation& operation) { finished_.push(operation); }
  // What to do with a transfer that is not executed on the spot.
  virtual void transfer(Operation& operation) { give_to_pool(operation); }
  void count_engine_operation() { count(statistics_.engine_operations); }

  // Has the engine begin_write_out(), without waiting for it. The queue's own thread must not do
  // it.
  virtual bool can_write_out() const { return false; }
  virtual void write_out(const Operation& /*operation*/) {}

  // Whether reads that could be executed on the spot go to the engine all the same.
  virtual bool batches_reads() const { return false; }
  bool nothing_finished() const { return finished_.empty() && inbox_.empty(); }

  PosixShared& shared_;
  const QueueOptions options_;
  unsigned submitted_count_ = 0;

 private:
  void start(Operation& operation);
  static void count(std::uint64_t& counter);

  OperationList submitted_;
  Inbox inbox_;
  InlinePolicy policy_;
  OperationList finished_;
  unsigned in_pool_ = 0;
  QueueStatistics statistics_;  // own thread writes, others read: through atomic_ref
};

}  // namespace ferry::storage
