// Threads that execute blocking operations, for whatever has no asynchronous form.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "base/cpus.hpp"
#include "storage/storage.hpp"

namespace ferry::storage {

// Where the workers leave finished operations for one queue.
class Inbox {
 public:
  explicit Inbox(Doorbell doorbell) : doorbell_(doorbell) {}
  void put(Operation& operation);
  // All finished operations, linked by `next`; null if there are none. Cheap when there are none.
  Operation* take_all();
  // Whether a worker is still about to ring the doorbell; the inbox and the word must outlive that.
  bool in_use() const { return users_.load(std::memory_order_acquire) != 0; }
  bool empty() const { return first_.load(std::memory_order_acquire) == nullptr; }

 private:
  std::atomic<Operation*> first_{nullptr};
  std::atomic<unsigned> users_{0};
  Doorbell doorbell_;
};

// Executes operations with `execute`, a blocking call that sets their result, on several threads.
// Grows to `threads_max` threads as operations queue up; threads stay until destruction. They run
// on `cpus`, else on every CPU that the thread might use which made the pool: bound to the CPU of
// the thread that started them, they would wait for it to stop polling.
// Thread-safe. Destruction waits for the operations under way.
class WorkerPool {
 public:
  using Execute = std::function<void(Operation&)>;
  WorkerPool(unsigned threads_max, Execute execute, CpuSet cpus = allowed_cpus())
      : threads_max_(threads_max), execute_(std::move(execute)), cpus_(std::move(cpus)) {}
  ~WorkerPool();
  WorkerPool(const WorkerPool&) = delete;
  WorkerPool& operator=(const WorkerPool&) = delete;

  void execute(Operation& operation, Inbox& inbox);
  // Takes back an operation that no worker has begun. False: it is too late.
  bool withdraw(Operation& operation);
  // The same for all operations of one queue; returns how many there were.
  unsigned withdraw_all(const Inbox& inbox);

 private:
  struct Job {
    Operation* operation;
    Inbox* inbox;
  };
  void work();

  const unsigned threads_max_;
  const Execute execute_;
  const CpuSet cpus_;
  std::mutex mutex_;
  std::condition_variable more_;
  std::vector<Job> jobs_;  // in order of arrival
  std::vector<std::thread> threads_;
  unsigned idle_ = 0;
  bool closing_ = false;
};

}  // namespace ferry::storage
