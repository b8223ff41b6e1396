// What an engine is made of: the transfers that have something to hand out, and the workers.
//
//   S1  A worker that finds nothing to do says so (`asleep`) under the mutex, having noted its
//       bell's value before it looked; whoever brings work takes it from the sleeping ones under
//       the same mutex and rings after. So no work is brought unseen.
//   S2  A claim that a waiting caller will not execute, because it would block, goes back to
//       `returned_`, which workers look at first.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <deque>
#include <memory>
#include <mutex>
#include <vector>

#include <ferry/bulk.hpp>

#include "backend/cuda/gpus.hpp"
#include "bulk/callbacks.hpp"
#include "bulk/forks.hpp"
#include "bulk/lanes.hpp"
#include "bulk/plan.hpp"
#include "bulk/request.hpp"

namespace ferry::bulk {

class Worker;
class FilesJob;

struct Counters {
  std::atomic<std::uint64_t> transfers{0};
  std::atomic<std::uint64_t> parts{0};
  std::atomic<std::uint64_t> failed_parts{0};
  std::atomic<std::uint64_t> cancelled_transfers{0};
  std::atomic<std::uint64_t> bytes_read{0};
  std::atomic<std::uint64_t> bytes_written{0};
  std::atomic<std::uint64_t> copied_tasks{0};
  std::atomic<std::uint64_t> cached_tasks{0};
  std::atomic<std::uint64_t> direct_tasks{0};
  std::atomic<std::uint64_t> staged_tasks{0};
  std::atomic<std::uint64_t> staging_bytes{0};
  std::atomic<std::uint64_t> gpu_tasks{0};
  std::atomic<std::uint64_t> gpu_direct_tasks{0};
  std::atomic<std::uint64_t> gpu_direct_bytes{0};
  std::atomic<std::uint64_t> pinned_bytes{0};

  void add(std::atomic<std::uint64_t>& counter, std::uint64_t amount = 1) {
    counter.fetch_add(amount, std::memory_order_relaxed);
  }
};

class Scheduler {
 public:
  // Throws ferry::Error.
  explicit Scheduler(const EngineOptions& options);
  // The same. In a child of fork() it is never destroyed: its threads are not there, its locks may
  // be held for ever, and a list may be as one of those threads was changing it.
  static std::shared_ptr<Scheduler> make(const EngineOptions& options);
  // For tests: on this storage.
  Scheduler(const EngineOptions& options, std::unique_ptr<storage::Storage> storage);
  ~Scheduler();
  Scheduler(const Scheduler&) = delete;
  Scheduler& operator=(const Scheduler&) = delete;

  const EngineOptions& options() const { return options_; }
  const EngineOptions& wish() const { return wish_; }
  const std::shared_ptr<Lanes>& lanes() const { return lanes_; }
  cuda::Gpus& gpus() { return *gpus_; }
  Counters& counters() { return counters_; }
  bool made_here() const { return static_cast<bool>(made_here_); }
  // Throws ferry::Error (ECHILD) in a child of the process that made it.
  void check_made_here() const;
  // The same, and ESHUTDOWN after stop().
  void check_usable() const;

  // Makes a request of the parts and offers it to the workers; to one less where the caller is
  // about to help. Throws ferry::Error.
  std::shared_ptr<Request> submit(bool writing, std::span<const Part> parts,
                                  const std::vector<std::shared_ptr<OpenFile>>& files,
                                  bool caller_helps);
  // Executes what can be executed here without waiting for a disk, and begins nothing after the
  // deadline; the caller is about to wait.
  void help(const std::shared_ptr<Request>& request,
            std::chrono::steady_clock::time_point deadline =
                std::chrono::steady_clock::time_point::max());
  void cancel(Request& request);
  // Runs the job on this thread and on workers.
  void run_files(const std::shared_ptr<FilesJob>& job);

  // A claim for a worker. False: there is none, and the worker is noted as asleep.
  bool next(Worker& worker, Claim& claim, std::shared_ptr<FilesJob>& job);
  // One more worker has a use.
  void wake_one();
  // Executes a piece here, blocking, and records it.
  void copy_now(Lane& lane, Request& request, std::size_t part, std::uint64_t begin,
                std::uint64_t bytes);
  void ring_all();
  unsigned workers_started() const;
  // Transfers and claims that are noted for workers, for tests.
  std::size_t backlog() const;

  void stop();

 private:
  Plan plan_for(bool writing, const std::vector<PartState>& parts) const;
  void wake(unsigned count);
  void offer(const std::shared_ptr<Request>& request, unsigned count);

  const EngineOptions wish_;     // as it was given
  const EngineOptions options_;  // in force
  const MadeHere made_here_;
  std::shared_ptr<Lanes> lanes_;
  std::shared_ptr<cuda::Gpus> gpus_ = std::make_shared<cuda::Gpus>();
  std::shared_ptr<Callbacks> callbacks_ = std::make_shared<Callbacks>();
  Counters counters_;

  mutable std::mutex mutex_;  // guards what follows
  bool stopping_ = false;
  std::deque<Claim> returned_;
  std::deque<std::shared_ptr<Request>> requests_;  // with something left to hand out
  std::deque<std::shared_ptr<FilesJob>> jobs_;
  std::vector<std::weak_ptr<Request>> alive_;  // for stop()
  std::size_t alive_max_ = 64;                 // before those that are over are dropped
  std::vector<std::unique_ptr<Worker>> workers_;
};

}  // namespace ferry::bulk
