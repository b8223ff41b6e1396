#include "bulk/scheduler.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <iterator>
#include <new>
#include <thread>
#include <utility>

#include "base/caught_error.hpp"
#include "bulk/files_job.hpp"
#include "bulk/routing.hpp"
#include "bulk/worker.hpp"
#include "storage/router.hpp"

namespace ferry::bulk {
namespace {

constexpr std::chrono::hours one_year{24 * 365};

// Threads that wait for disks cost nothing; see wake_one().
constexpr unsigned waiting_workers_max = 16;

// Files that a request is about to use: ended unless it takes them over.
struct FileUses {
  std::vector<std::shared_ptr<EngineFile>> files;

  FileUses() = default;
  ~FileUses() {
    for (const std::shared_ptr<EngineFile>& file : files)
      file->end_use();
  }
  FileUses(const FileUses&) = delete;
  FileUses& operator=(const FileUses&) = delete;
  void add(const std::shared_ptr<EngineFile>& file) {
    if (!files.empty() && files.back() == file) return;
    if (!file->begin_use()) throw Error(EBADF, file->path() + " is closed");
    files.push_back(file);
  }
};

std::unique_ptr<storage::Storage> make_storage(const EngineOptions& options) {
  try {
    return storage::make_router({.engine = options.storage});
  } catch (const std::system_error& error) {
    throw Error(error);
  }
}

}  // namespace

Scheduler::Scheduler(const EngineOptions& options) : Scheduler(options, make_storage(options)) {}

Scheduler::Scheduler(const EngineOptions& options, std::unique_ptr<storage::Storage> storage)
    : wish_(options),
      options_(choose_options(options)),
      lanes_(std::make_shared<Lanes>(std::move(storage))) {}

std::shared_ptr<Scheduler> Scheduler::make(const EngineOptions& options) {
  return {new Scheduler(options), [](Scheduler* scheduler) {
            if (scheduler->made_here()) delete scheduler;
          }};
}

Scheduler::~Scheduler() {
  stop();
}

void Scheduler::check_made_here() const {
  if (!made_here_) {
    throw Error(ECHILD, "the engine belongs to the parent of this process; make one after fork()");
  }
}

void Scheduler::check_usable() const {
  check_made_here();
  const std::lock_guard lock(mutex_);
  if (stopping_) throw Error(ESHUTDOWN, "the engine was shut down");
}

std::shared_ptr<BulkRequest> Scheduler::submit(
    Direction direction, std::span<const Part> parts,
    const std::vector<std::shared_ptr<EngineFile>>& files, bool caller_helps) {
  check_usable();
  std::vector<PartState> states;
  FileUses used;
  used.files.reserve(parts.size());
  states.reserve(parts.size());
  for (std::size_t index = 0; index < parts.size(); ++index) {
    const std::shared_ptr<EngineFile>& file = files[index];
    used.add(file);
    if (direction == Direction::write && file->appends()) {
      throw Error(
          EINVAL,
          file->path() +
              ": opened with O_APPEND, where each write must be waited for before the next");
    }
    const Part& part = parts[index];
    constexpr auto offset_max = static_cast<std::uint64_t>(INT64_MAX) - piece_alignment_bytes;
    if (part.offset > offset_max || part.bytes > offset_max - part.offset) {
      throw Error(EINVAL, file->path() + ": a range beyond what a file can have");
    }
    std::shared_ptr<const cuda::PrimaryContext> gpu;
    try {
      gpu = gpus_->owner_of(part.data);
    } catch (const Error& error) {
      throw Error(error.code().value(), file->path() + ": " + error.reason());
    }
    states.push_back(PartState{file.get(), static_cast<std::byte*>(part.data), part.bytes,
                               part.offset, 0, 0, std::move(gpu)});
  }
  const TransferPlan plan = plan_for(direction, states);
  auto request = std::make_shared<BulkRequest>(direction, std::move(states), std::move(used.files),
                                               BulkRequest::Cuts{plan.task_bytes, plan.workers},
                                               callbacks_, counters_);
  counters_.add(&EngineStatistics::transfers);
  counters_.add(&EngineStatistics::parts, parts.size());
  if (parts.empty()) {
    request->end_if_empty();
    return request;
  }
  const std::uint64_t tasks = request->bytes_total() / plan.task_bytes + parts.size() / 16 + 1;
  const std::uint64_t others = std::min<std::uint64_t>(tasks, plan.workers);
  const bool help_comes = caller_helps && !request->on_gpu();
  offer(request, static_cast<unsigned>(help_comes ? others - 1 : others));
  return request;
}

// Decided by the first large part. Small ones are handed out by number, without a choice.
TransferPlan Scheduler::plan_for(Direction direction, const std::vector<PartState>& parts) const {
  const auto large = std::find_if(parts.begin(), parts.end(), [](const PartState& part) {
    return part.bytes > small_part_bytes;
  });
  if (large == parts.end()) return {Source::memory, options_.workers, options_.task_bytes};
  std::uint64_t bytes = 0;
  for (const PartState& part : parts)
    bytes += part.bytes;
  const Source source =
      source_of(*large->file, direction, large->offset, large->bytes, options_.route);
  TransferPlan plan = choose_plan(wish_, options_, source, bytes);
  const bool all_on_gpus = std::all_of(parts.begin(), parts.end(),
                                       [](const PartState& part) { return part.gpu != nullptr; });
  // Host memory may need bounce buffers, whose slots fit smaller tasks.
  if (all_on_gpus && wish_.task_bytes == 0) plan.task_bytes = gpu_task_bytes;
  return plan;
}

void Scheduler::offer(const std::shared_ptr<BulkRequest>& request, unsigned count) {
  const std::uint64_t place = request->place();
  {
    const std::lock_guard lock(mutex_);
    if (stopping_) {  // since the request was made
      request->cancel();
      throw Error(ESHUTDOWN, "the engine was shut down");
    }
    if (alive_.size() >= alive_max_) {
      std::erase_if(alive_, [](const std::weak_ptr<BulkRequest>& one) { return one.expired(); });
      alive_max_ = 2 * alive_.size() + 64;
    }
    try {
      alive_.push_back(request);
      line_of(place, request->cuts().sharers).requests.push_back(request);
    } catch (const std::bad_alloc&) {
      request->cancel();
      throw;
    }
  }
  if (wake(place, count)) return;
  request->cancel();
  forget(*request);
  // Another call may have got a thread since, which may have begun with this one.
  request->wait(one_year);
  check_usable();  // if it was shut down, that is why
  throw Error(EAGAIN, "no thread could be started for transfers");
}

// Under the mutex.
bool Scheduler::start_worker() {
  if (stopping_) return false;
  try {
    workers_.reserve(workers_.size() + 1);  // before its thread runs
    workers_.push_back(std::make_unique<Worker>(*this, workers_.size()));
  } catch (const std::exception&) {
    return false;
  }
  return true;
}

Scheduler::Line& Scheduler::line_of(std::uint64_t place, unsigned workers) {
  Line& line = lines_[place];
  line.workers_max = std::max({line.workers_max, workers, options_.workers});
  return line;
}

void Scheduler::drop_if_unused(std::uint64_t place) {
  const auto line = lines_.find(place);
  if (line != lines_.end() && line->second.is_empty() && line->second.workers == 0)
    lines_.erase(line);
}

void Scheduler::leave_line(Worker& worker) {
  const std::uint64_t place = *std::exchange(worker.line, std::nullopt);
  --lines_.at(place).workers;
  drop_if_unused(place);
}

// Whether each line without a worker gets one of those that look for work.
bool Scheduler::has_worker_to_come() const {
  const auto looking = std::ranges::count_if(workers_, [](const std::unique_ptr<Worker>& worker) {
    return !worker->asleep && !worker->line;
  });
  return looking >=
         std::ranges::count_if(lines_, [](const auto& one) { return one.second.has_nobody(); });
}

// Takes a request out of its line, all of which is handed out or cancelled.
void Scheduler::forget(const BulkRequest& request) {
  const std::lock_guard lock(mutex_);
  const auto found = lines_.find(request.place());
  if (found == lines_.end()) return;
  std::erase_if(found->second.requests, [&](const auto& one) { return one.get() == &request; });
  drop_if_unused(request.place());
}

bool Scheduler::wake(std::uint64_t place, unsigned count) {
  // Needs no memory: what was offered cannot be taken back.
  std::array<Worker*, workers_max> all;
  const std::size_t most = std::min<std::size_t>(count, all.size());
  std::size_t woken = 0;
  bool found = true;
  {
    const std::lock_guard lock(mutex_);
    for (const std::unique_ptr<Worker>& worker : workers_) {
      if (woken < most && worker->asleep && worker->line.value_or(place) == place) {
        worker->asleep = false;
        all[woken++] = worker.get();
      }
    }
    // Workers that are awake, as new ones are, look for work themselves.
    bool starts = true;
    for (std::size_t ready = woken;
         starts && ready < most && workers_.size() < std::max(options_.workers, count); ++ready)
      starts = start_worker();
    if (const auto line = lines_.find(place); count > 0 && line != lines_.end()) {
      line->second.wants_worker = true;
      if (starts) {
        start_for_lines_with_nobody();
      } else {  // those that are there try again
        lacks_thread_.store(true, std::memory_order_relaxed);
      }
    }
    found = count == 0 || !workers_.empty();
    ringing_.fetch_add(1, std::memory_order_relaxed);
  }
  // A worker that is woken under the mutex waits for it at once: 15 us in the place of 11 for a
  // transfer of 128 KiB.
  for (std::size_t i = 0; i < woken; ++i)
    all[i]->ring();
  ringing_.fetch_sub(1, std::memory_order_release);
  return found;
}

// Under the mutex.
void Scheduler::start_for_lines_with_nobody() {
  const bool is_any =
      std::ranges::any_of(lines_, [](const auto& one) { return one.second.has_nobody(); });
  const bool lacks = is_any && !has_worker_to_come() && workers_.size() < workers_max;
  lacks_thread_.store(lacks && !start_worker(), std::memory_order_relaxed);
}

void Scheduler::try_thread_again() {
  if (!lacks_thread_.load(std::memory_order_relaxed)) return;
  const std::lock_guard lock(mutex_);
  start_for_lines_with_nobody();
}

void Scheduler::wake_one() {
  const std::lock_guard lock(mutex_);
  if (stopping_) return;
  for (const std::unique_ptr<Worker>& worker : workers_) {
    if (!worker->asleep || worker->line) continue;
    worker->asleep = false;
    worker->ring();
    return;
  }
  if (workers_.size() < waiting_workers_max) start_worker();
}

bool Scheduler::Line::take(Claim& claim, std::shared_ptr<FilesJob>& files) {
  if (!returned.empty()) {
    claim = std::move(returned.front());
    returned.pop_front();
    return true;
  }
  while (!requests.empty()) {
    if (requests.front()->cut(claim)) {
      claim.request = requests.front();
      return true;
    }
    requests.pop_front();
  }
  if (job != nullptr && job->exhausted()) job = nullptr;
  files = job;
  return files != nullptr;
}

bool Scheduler::next(Worker& worker, bool in_flight, Claim& claim, std::shared_ptr<FilesJob>& job) {
  const std::lock_guard lock(mutex_);
  worker.asleep = false;
  if (worker.line) {
    if (lines_.at(*worker.line).take(claim, job)) return true;
    if (in_flight) {
      worker.asleep = true;
      return false;
    }
    leave_line(worker);
  }
  for (;;) {
    auto first = lines_.end();
    for (auto line = lines_.begin(); line != lines_.end(); ++line) {
      const Line& one = line->second;
      if (!one.is_empty() && one.workers < one.workers_max &&
          (first == lines_.end() || one.comes_before(first->second)))
        first = line;
    }
    if (first == lines_.end()) break;
    if (first->second.take(claim, job)) {
      worker.line = first->first;
      ++first->second.workers;
      return true;
    }
    drop_if_unused(first->first);
  }
  worker.asleep = true;
  return false;
}

void Scheduler::help(const std::shared_ptr<BulkRequest>& request,
                     std::chrono::steady_clock::time_point deadline) {
  if (request->ready() || request->on_gpu()) return;
  const Lanes::Use lane(*lanes_);
  Claim claim;
  const bool bounded = deadline != std::chrono::steady_clock::time_point::max();
  for (;;) {
    if (bounded && std::chrono::steady_clock::now() >= deadline) {
      wake(request->place(), request->cuts().sharers);  // one fewer was woken because of the caller
      return;
    }
    if (!request->cut(claim)) break;
    while (claim.count > 0) {
      const RoutedPiece piece = request->next_piece(claim);
      try {
        if (!request->cancelled() && choose_way(piece, options_.route) != DataPath::copy) {
          claim.request = request;
          if (hand_back(claim)) return;
        }
        copy_now(*lane, *request, claim.first, claim.begin, piece.bytes);
      } catch (...) {
        request->record(claim.first, claim.begin, piece.bytes, -caught_error());
      }
      request->advance(claim, piece.bytes);
    }
    request->end_claim();
  }
  forget(*request);  // possibly, no worker was woken that would notice
}

// Returns a claim that help() has taken to the workers. Returns false if none will have it.
bool Scheduler::hand_back(const Claim& claim) {
  const std::uint64_t place = claim.request->place();
  const unsigned sharers = claim.request->cuts().sharers;
  try {
    const std::lock_guard lock(mutex_);
    line_of(place, sharers).returned.push_back(claim);
  } catch (const std::bad_alloc&) {
    return false;
  }
  if (wake(place, sharers)) return true;
  const std::lock_guard lock(mutex_);
  const auto line = lines_.find(place);
  if (line == lines_.end()) return true;
  const auto taken_back = std::erase_if(
      line->second.returned, [&](const Claim& one) { return one.request == claim.request; });
  drop_if_unused(place);
  return taken_back == 0;
}

std::size_t Scheduler::backlog() const {
  const std::lock_guard lock(mutex_);
  return static_cast<std::size_t>(
      std::ranges::count_if(lines_, [](const auto& one) { return !one.second.is_empty(); }));
}

void Scheduler::copy_now(Lane& lane, BulkRequest& request, std::size_t index, std::uint64_t begin,
                         std::uint64_t bytes) {
  const PartState& part = request.part(index);
  const std::int64_t result = request.cancelled()
                                  ? -ECANCELED
                                  : lane.transfer(part.file->buffered(), request.direction(),
                                                  part.data + begin, bytes, part.offset + begin);
  counters_.add(&EngineStatistics::copied_tasks);
  if (result > 0) {
    counters_.add_bytes(request.direction(), static_cast<std::uint64_t>(result));
  }
  request.record(index, begin, bytes, result);
}

void Scheduler::cancel(BulkRequest& request) {
  request.cancel();
  counters_.add(&EngineStatistics::cancelled_transfers);
  if (made_here_) ring_all();
}

void Scheduler::run_files(const std::shared_ptr<FilesJob>& job) {
  check_usable();
  const Lanes::Use lane(*lanes_);
  const auto place = static_cast<std::uint64_t>(reinterpret_cast<std::uintptr_t>(job.get()));
  {
    const std::lock_guard lock(mutex_);
    line_of(place, waiting_workers_max).job = job;
  }
  // This thread works too.
  if (options_.workers > 1) wake(place, options_.workers - 1);
  bool slow = false;
  while (job->read_some(*lane, slow)) {
    if (slow) wake_one();
  }
  job->wait();
  const std::lock_guard lock(mutex_);
  if (const auto line = lines_.find(place); line != lines_.end()) line->second.job = nullptr;
  drop_if_unused(place);
}

void Scheduler::ring_all() {
  const std::lock_guard lock(mutex_);
  for (const std::unique_ptr<Worker>& worker : workers_) {
    worker->asleep = false;
    worker->ring();
  }
}

unsigned Scheduler::workers_started() const {
  const std::lock_guard lock(mutex_);
  return static_cast<unsigned>(workers_.size());
}

void Scheduler::stop() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;  // from now on alive_ stays as it is
  }
  for (const std::weak_ptr<BulkRequest>& one : alive_)
    if (const std::shared_ptr<BulkRequest> request = one.lock()) request->cancel();
  ring_all();
  for (const std::weak_ptr<BulkRequest>& one : alive_)
    if (const std::shared_ptr<BulkRequest> request = one.lock()) request->wait(one_year);
  std::vector<std::unique_ptr<Worker>> workers;
  {
    const std::lock_guard lock(mutex_);
    workers.swap(workers_);
  }
  while (ringing_.load(std::memory_order_acquire) > 0)
    std::this_thread::yield();
  for (const std::unique_ptr<Worker>& worker : workers)
    worker->leave();
  workers.clear();
  callbacks_->stop();
}

}  // namespace ferry::bulk
