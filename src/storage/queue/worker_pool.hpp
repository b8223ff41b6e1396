// Threads for blocking operations without an asynchronous form.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "base/cpus.hpp"
#include "storage/storage.hpp"

namespace ferry::storage {

// Workers put one queue's finished operations here.
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

// A group of operations that can block each other, such as a file system that does not answer.
using Place = std::uint64_t;

// Executes operations on several threads with `execute`, a blocking call that sets their result.
//
// At most `place_max` operations per place run at once, so a hanging one leaves threads for others.
// Threads start as operations queue up, at most `places_full` times as many; beyond that, only one
// for each place without any. They stay until destruction. They run on `cpus`, else on every CPU
// that the pool's maker may use: bound to the CPU of the thread that started them, they would wait
// for it to stop polling. Where not even one can be started, operations fail with -EAGAIN.
// Thread-safe. Destruction waits for operations in flight.
class WorkerPool {
 public:
  using Execute = std::function<void(Operation&)>;
  // The place of an operation expected at `place`, whose thread asks before executing it: if
  // elsewhere, that place's threads get the operation.
  using Find = std::function<Place(const Operation& operation, Place place)>;
  static constexpr unsigned places_full = 4;

  WorkerPool(unsigned place_max, Execute execute, CpuSet cpus = allowed_cpus(), Find find = {})
      : place_max_(place_max),
        execute_(std::move(execute)),
        find_(std::move(find)),
        cpus_(std::move(cpus)) {}
  ~WorkerPool();
  WorkerPool(const WorkerPool&) = delete;
  WorkerPool& operator=(const WorkerPool&) = delete;

  void execute(Operation& operation, Inbox& inbox, Place place = 0);
  // Takes back an operation that no worker has begun. Returns false if it is too late.
  bool withdraw(Operation& operation);
  // The same for all operations of one queue but closes, without which their files would stay open;
  // returns how many there were.
  unsigned withdraw_all(const Inbox& inbox);

 private:
  struct Job {
    Operation* operation;
    Inbox* inbox;
    std::uint64_t number;  // in order of arrival
    bool found = false;    // its place
  };
  struct Line {
    std::deque<Job> jobs;
    unsigned busy = 0;  // threads that execute one
    bool is_unused() const { return jobs.empty() && busy == 0; }
  };
  using Lines = std::map<Place, Line>;

  void refuse(Operation& operation, Inbox& inbox, int error) const;

  // All under the mutex.
  // Returns false, and has not taken it, if no thread is there and none can be started. Throws
  // std::bad_alloc.
  bool put(Place place, Job job);
  // The line whose operation is the next one, or the end.
  Lines::iterator next_line();
  void leave_line(Place place);
  void drop_if_unused(Place place);
  bool grow(const Line& line);
  std::size_t threads_max() const { return std::size_t{place_max_} * places_full; }
  std::size_t executable(const Line& line) const;
  std::size_t executable() const;
  std::size_t lines_without_a_thread() const;

  Place find(const Operation& operation, Place place) const;
  void work();

  const unsigned place_max_;
  const Execute execute_;
  const Find find_;
  const CpuSet cpus_;
  std::mutex mutex_;
  std::condition_variable more_;
  Lines lines_;  // of places that have an operation
  std::uint64_t last_number_ = 0;
  std::vector<std::thread> threads_;
  unsigned idle_ = 0;  // threads that take the next operation, also those that only begin to run
  unsigned busy_ = 0;
  bool closing_ = false;
};

}  // namespace ferry::storage
