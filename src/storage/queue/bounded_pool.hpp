// Threads for blocking calls of a client library without time limits or cancellation. Callers are
// answered in time; a thread stuck in the library is left behind with its own memory.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <unordered_map>
#include <vector>

#include "base/cpus.hpp"
#include "base/forks.hpp"
#include "storage/late_changes.hpp"
#include "storage/owner_process.hpp"
#include "storage/queue/bounded_pool.hpp"
#include "storage/queue/inbox_queue.hpp"
#include "storage/queue/worker_pool.hpp"
#include "storage/storage.hpp"

namespace ferry::storage {

// One operation. After end_early(), its worker touches neither the operation nor its memory, and
// begins no call of the library for it: it calls may_begin() or begin_change() once it has all
// locks it needs.
//
// Its last reference may be dropped by the thread of its queue, by the pool's watcher, or under the
// pool's mutex. So its destructor must neither block nor call the library.
class BoundedCall {
 public:
  using Clock = std::chrono::steady_clock;

  BoundedCall(Operation& operation, Inbox& inbox, std::chrono::milliseconds timeout)
      : operation_(operation), inbox_(inbox), deadline_(Clock::now() + timeout) {}
  virtual ~BoundedCall() = default;
  // That of a close, for good.
  void take(std::unique_ptr<File> file) { closed_ = std::move(file); }
  BoundedCall(const BoundedCall&) = delete;
  BoundedCall& operator=(const BoundedCall&) = delete;

  // Makes the blocking calls. `memory` is the worker's own; memory of the operation is only touched
  // inside of touch(). Returns the result.
  virtual std::int64_t work(std::vector<char>& memory) = 0;

  // For a call of the library that takes long: called under the pool's mutex when a worker begins,
  // and then, while it is at it, whenever the time is reached that the last one returned. Must not
  // block.
  virtual Clock::time_point help(Clock::time_point /*now*/) { return Clock::time_point::max(); }

  // Answers with `error` if the call is still in flight. Thread-safe, like everything below.
  void end_early(int error);
  // The same, but returns false at once while the worker is at the operation's memory, which may
  // hang: that must not hold up the pool. Returns whether the call is over.
  bool try_end_early(int error);
  // Ends it with -ECANCELED: now, or else once the worker has left the operation's memory, and
  // before it changes anything.
  void cancel();
  void finish(std::int64_t result);
  bool over() const { return over_.load(std::memory_order_acquire); }
  Clock::time_point deadline() const { return deadline_; }
  bool belongs_to(const Operation& operation) const { return &operation_ == &operation; }

 protected:
  // Runs `use` with the operation, which stays valid meanwhile. Returns false if it was ended
  // early.
  template <class Use>
  bool touch(Use use) {
    {
      const std::lock_guard lock(mutex_);
      if (!over()) use(operation_);
    }
    // After the lock, as cancel() takes it after its own exchange: one of the two sees the other.
    if (cancelled_.exchange(false, std::memory_order_acq_rel)) end_early(-ECANCELED);
    return !over();
  }
  // 0, or -ECANCELED if this was ended early, and the library must not be called any more.
  int may_begin() const { return over() ? -ECANCELED : 0; }
  // The same before a call that changes `file`, or the error of a late change of it. 0: until
  // end_change(), ending this early makes that call a late change of the file.
  int begin_change(const std::shared_ptr<LateChanges>& file);
  void end_change();

 private:
  // Under the mutex, of a call that is not over.
  void answer(int error, std::unique_ptr<File>& unwanted);

  Operation& operation_;
  Inbox& inbox_;
  const Clock::time_point deadline_;
  std::unique_ptr<File> closed_;
  std::mutex mutex_;                       // guards what follows; held while `operation_` is in use
  std::atomic<bool> over_{false};          // may be read without it
  std::atomic<bool> cancelled_{false};     // not guarded by it
  std::shared_ptr<LateChanges> changing_;  // of the file that the library is changing
  std::optional<LateChange> late_;
};

// Executes calls on up to `threads_max` threads, which run on `cpus`; those that the library keeps
// beyond a deadline are replaced, until there are too many of them. Thread-safe. Destruction waits
// for no thread that is late. A child of fork() may only destroy it.
class BoundedPool {
 public:
  BoundedPool(unsigned threads_max, CpuSet cpus);
  ~BoundedPool();
  BoundedPool(const BoundedPool&) = delete;
  BoundedPool& operator=(const BoundedPool&) = delete;

  // A call for which there is no thread, and none can be started, ends early.
  void execute(const std::shared_ptr<BoundedCall>& call);
  bool made_here() const { return static_cast<bool>(made_here_); }

 private:
  struct State {
    std::mutex mutex;
    std::condition_variable more;     // calls, or the end
    std::condition_variable changed;  // for the watcher
    std::deque<std::shared_ptr<BoundedCall>> waiting;
    std::vector<std::shared_ptr<BoundedCall>> running;
    // Abandoned, but not answered: their workers are at their memory.
    std::vector<std::shared_ptr<BoundedCall>> copying;
    unsigned threads = 0;
    unsigned idle = 0;
    unsigned late = 0;  // threads with abandoned calls
    BoundedCall::Clock::time_point next_look = BoundedCall::Clock::time_point::max();
    bool closing = false;
  };
  static void start_thread(const std::shared_ptr<State>& state, const CpuSet& cpus,
                           unsigned threads_max);
  static void work(const std::shared_ptr<State>& state, const CpuSet& cpus, unsigned threads_max);
  static void watch(const std::shared_ptr<State>& state, const CpuSet& cpus, unsigned threads_max);
  void grow();  // under the mutex; throws if no thread can be started

  const MadeHere made_here_;
  const unsigned threads_max_;
  const CpuSet cpus_;
  // Shared with the threads, which may outlive the pool.
  const std::shared_ptr<State> state_ = std::make_shared<State>();
  std::thread watcher_;
};

// The queue of a storage whose calls run on such a pool.
class BoundedQueue : public InboxQueue {
 public:
  BoundedQueue(BoundedPool& pool, const OwnerProcess& owner, const QueueOptions& options)
      : InboxQueue(options), pool_(pool), owner_(owner) {}
  ~BoundedQueue() override;

  Operation* reap() override;
  void cancel(Operation& operation) override;

 private:
  // May throw std::bad_alloc. The call is then given the file of a close.
  virtual std::shared_ptr<BoundedCall> make_call(Operation& operation) = 0;
  void start(Operation& operation) override;
  // 0, or the operation's immediate result.
  int refusal(const Operation& operation) const;
  void end_here(Operation& operation, int result);

  BoundedPool& pool_;
  const OwnerProcess& owner_;
  std::unordered_map<Operation*, std::shared_ptr<BoundedCall>> calls_;  // in flight
};

}  // namespace ferry::storage
