// The core of an engine: transfers with work to hand out, and workers.
//
//   S1  A worker without work first reads its bell's value, looks again, and then marks itself
//       `asleep` under the mutex; a thread with work takes the worker from the sleeping ones under
//       the same mutex and then rings. So no work goes unseen.
//   S2  A claim that a waiting caller will not execute, because it would block, returns to its
//       line, where workers take it first.
//   S3  Work waits in the line of its place, a disk or server. A worker in a line takes nothing
//       from others as long as there is work or it has some in flight: what hangs holds no other
//       worker up. Each line that wants a worker has one, or a worker without a line is awake for
//       it, which takes such a line first: who finds fewer of those than lines starts a worker, up
//       to workers_max. Where no thread can be started, workers try again before they sleep.
#pragma once

#include <atomic>
#include <chrono>
#include <deque>
#include <map>
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

  // The work of one place that is left to hand out, and the workers that have some of it.
  struct Line {
    std::deque<Claim> returned;
    std::deque<std::shared_ptr<BulkRequest>> requests;
    std::shared_ptr<FilesJob> job;  // a place of its own: its files may lie anywhere
    unsigned workers = 0;
    unsigned workers_max = 0;
    bool wants_worker = false;  // else the threads of its callers will do

    bool is_empty() const { return !is_offered() && job == nullptr; }
    // To workers alone: a job has a thread of its own.
    bool is_offered() const { return !returned.empty() || !requests.empty(); }
    bool has_nobody() const { return wants_worker && is_offered() && workers == 0; }
    // Whether a worker without a line takes this one rather than the other.
    bool comes_before(const Line& other) const {
      return has_nobody() != other.has_nobody() ? has_nobody() : workers < other.workers;
    }
    bool take(Claim& claim, std::shared_ptr<FilesJob>& files);
  };
  using Lines = std::map<std::uint64_t, Line>;

  // A claim for a worker, which has some `in_flight` or not. Returns false if there is none, and
  // marks the worker asleep.
  bool next(Worker& worker, bool in_flight, Claim& claim, std::shared_ptr<FilesJob>& job);
  // Of a worker that is about to sleep: it may have something in flight that hangs.
  void try_thread_again();
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
  // For work in that place's line. Returns false if workers are wanted and none is there:
  // otherwise, those that are must do.
  bool wake(std::uint64_t place, unsigned count);
  // All under the mutex.
  Line& line_of(std::uint64_t place, unsigned workers);
  void drop_if_unused(std::uint64_t place);
  void leave_line(Worker& worker);
  bool has_worker_to_come() const;
  void start_for_lines_with_nobody();
  bool hand_back(const Claim& claim);
  void offer(const std::shared_ptr<BulkRequest>& request, unsigned count);
  void forget(const BulkRequest& request);

  const EngineOptions wish_;     // as given
  const EngineOptions options_;  // in force
  const MadeHere made_here_;
  std::shared_ptr<Lanes> lanes_;
  std::shared_ptr<cuda::Gpus> gpus_ = std::make_shared<cuda::Gpus>();
  std::shared_ptr<Callbacks> callbacks_ = std::make_shared<Callbacks>();
  SchedulerCounters counters_;
  std::atomic<bool> lacks_thread_{false};  // orders nothing: workers look again and again
  std::atomic<unsigned> ringing_{0};       // threads that ring workers, which stop() may end

  mutable std::mutex mutex_;  // guards what follows
  bool stopping_ = false;
  Lines lines_;                                    // that have work or a worker
  std::vector<std::weak_ptr<BulkRequest>> alive_;  // for stop()
  std::size_t alive_max_ = 64;                     // limit before ended ones are dropped
  std::vector<std::unique_ptr<Worker>> workers_;
};

}  // namespace ferry::bulk
