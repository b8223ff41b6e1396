// The core of an engine: transfers with work to hand out, and workers.
//
//   S1  A worker without work first reads its bell's value, looks again, and then marks itself
//       `asleep` under the mutex; whoever brings work takes it from the sleeping ones under the
//       same mutex and then rings. So no work goes unseen.
//   S2  A claim that a waiting caller will not execute, because it would block, returns to
//       `returned_`, which workers check first.
#pragma once

#include <chrono>
#include <deque>
#include <memory>
#include <mutex>
#include <vector>

#include <ferry/bulk.hpp>

#include "backend/cuda/gpus.hpp"
#include "base/forks.hpp"
#include "bulk/callbacks.hpp"
#include "bulk/lanes.hpp"
#include "bulk/request.hpp"

namespace ferry::bulk {

class Worker;
class FilesJob;

class Scheduler {
 public:
  // Throws ferry::Error.
  explicit Scheduler(const EngineOptions& options);
  // The same. Never destroyed in a child of fork(): its threads do not exist there, its locks may
  // be held for ever, and lists may be inconsistent.
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
  SchedulerCounters& counters() { return counters_; }
  bool made_here() const { return static_cast<bool>(made_here_); }
  // Throws ferry::Error (ECHILD) in a child of the process that made it.
  void check_made_here() const;
  // The same, and ESHUTDOWN after stop().
  void check_usable() const;

  // Makes a request of the parts and offers it to the workers; to one fewer if the caller is about
  // to help. Throws ferry::Error.
  std::shared_ptr<BulkRequest> submit(Direction direction, std::span<const Part> parts,
                                      const std::vector<std::shared_ptr<EngineFile>>& files,
                                      bool caller_helps);
  // For callers about to wait: executes what needs no disk; starts nothing after the deadline.
  void help(const std::shared_ptr<BulkRequest>& request,
            std::chrono::steady_clock::time_point deadline =
                std::chrono::steady_clock::time_point::max());
  void cancel(BulkRequest& request);
  // Runs the job on this thread and on workers.
  void run_files(const std::shared_ptr<FilesJob>& job);

  // A claim for a worker. Returns false if there is none, and marks the worker asleep.
  bool next(Worker& worker, Claim& claim, std::shared_ptr<FilesJob>& job);
  // Wakes one more worker if useful.
  void wake_one();
  // Executes a piece here, blocking, and records the result.
  void copy_now(Lane& lane, BulkRequest& request, std::size_t part, std::uint64_t begin,
                std::uint64_t bytes);
  void ring_all();
  unsigned workers_started() const;
  // The transfers and claims held for workers, for tests.
  std::size_t backlog() const;

  void stop();

 private:
  TransferPlan plan_for(Direction direction, const std::vector<PartState>& parts) const;
  // Under the mutex. Returns false if no thread can be started.
  bool start_worker();
  // Returns false if workers are wanted and none is there: otherwise, those that are must do.
  bool wake(unsigned count);
  bool hand_back(const Claim& claim);
  void offer(const std::shared_ptr<BulkRequest>& request, unsigned count);

  const EngineOptions wish_;     // as given
  const EngineOptions options_;  // in force
  const MadeHere made_here_;
  std::shared_ptr<Lanes> lanes_;
  std::shared_ptr<cuda::Gpus> gpus_ = std::make_shared<cuda::Gpus>();
  std::shared_ptr<Callbacks> callbacks_ = std::make_shared<Callbacks>();
  SchedulerCounters counters_;

  mutable std::mutex mutex_;  // guards what follows
  bool stopping_ = false;
  std::deque<Claim> returned_;
  std::deque<std::shared_ptr<BulkRequest>> requests_;  // with work left to hand out
  std::deque<std::shared_ptr<FilesJob>> jobs_;
  std::vector<std::weak_ptr<BulkRequest>> alive_;  // for stop()
  std::size_t alive_max_ = 64;                     // limit before ended ones are dropped
  std::vector<std::unique_ptr<Worker>> workers_;
};

}  // namespace ferry::bulk
