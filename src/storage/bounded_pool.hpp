// Threads that execute blocking calls of a client library which knows no bound and cannot be told
// to stop. Whoever asked is answered in time; a thread that the library keeps is left behind with
// memory of its own.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <deque>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "base/cpus.hpp"
#include "storage/storage.hpp"
#include "storage/worker_pool.hpp"

namespace ferry::storage {

// One operation. From end_early() on, the worker that has it touches neither the operation nor its
// memory.
class BoundedCall {
 public:
  using Clock = std::chrono::steady_clock;

  BoundedCall(Operation& operation, Inbox& inbox, std::chrono::milliseconds timeout)
      : operation_(operation), inbox_(inbox), deadline_(Clock::now() + timeout) {}
  virtual ~BoundedCall() = default;
  BoundedCall(const BoundedCall&) = delete;
  BoundedCall& operator=(const BoundedCall&) = delete;

  // Makes the blocking calls. `memory` is the worker's own; memory of the operation is only touched
  // inside of touch(). Returns the result.
  virtual std::int64_t work(std::vector<char>& memory) = 0;

  // Answers with `error` if the call is still under way. Thread-safe, as all that follows.
  void end_early(int error);
  void finish(std::int64_t result);
  bool over() const;
  Clock::time_point deadline() const { return deadline_; }
  bool belongs_to(const Operation& operation) const { return &operation_ == &operation; }

 protected:
  // Runs `use` with the operation, which nobody takes away meanwhile. False: it was ended early.
  template <class Use>
  bool touch(Use use) {
    const std::lock_guard lock(mutex_);
    if (!over_) use(operation_);
    return !over_;
  }

 private:
  Operation& operation_;
  Inbox& inbox_;
  const Clock::time_point deadline_;
  mutable std::mutex mutex_;
  bool over_ = false;
};

// Executes calls on up to `threads_max` threads, which run on `cpus`; those that the library keeps
// beyond a deadline are replaced, until there are too many of them. Thread-safe. Destruction waits
// for no thread that is late.
class BoundedPool {
 public:
  BoundedPool(unsigned threads_max, CpuSet cpus);
  ~BoundedPool();
  BoundedPool(const BoundedPool&) = delete;
  BoundedPool& operator=(const BoundedPool&) = delete;

  void execute(const std::shared_ptr<BoundedCall>& call);

 private:
  struct State {
    std::mutex mutex;
    std::condition_variable more;     // calls, or the end
    std::condition_variable changed;  // of what the watcher looks at
    std::deque<std::shared_ptr<BoundedCall>> waiting;
    std::vector<std::shared_ptr<BoundedCall>> running;
    unsigned threads = 0;
    unsigned idle = 0;
    unsigned late = 0;  // threads whose call is over for everybody else
    BoundedCall::Clock::time_point next_look = BoundedCall::Clock::time_point::max();
    bool closing = false;
  };
  static void work(const std::shared_ptr<State>& state, const CpuSet& cpus);
  static void watch(const std::shared_ptr<State>& state);
  void grow();  // under the mutex

  const unsigned threads_max_;
  const CpuSet cpus_;
  // Shared with the threads, some of which may outlive the pool.
  const std::shared_ptr<State> state_ = std::make_shared<State>();
  std::thread watcher_;
};

}  // namespace ferry::storage
