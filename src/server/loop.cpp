#include "server/loop.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <new>
#include <string>
#include <thread>

#include "base/futex.hpp"

namespace ferry::server {
namespace {

using device::LoopPhase;
using device::Opcode;
using device::relaxed;
using device::seq_cst;
using device::SystemRef;
using storage::Kind;

// So many are made at once: the loop serves nobody meanwhile, and keeps their 4.5 KiB each.
constexpr unsigned jobs_step = 256;
constexpr unsigned idle_polls_before_pausing = 64;
constexpr unsigned idle_polls_per_clock_read = 16;
constexpr std::chrono::nanoseconds storage_spin{5'000};
constexpr std::chrono::milliseconds park_slice{1000};
// While a close waits for another loop to release the file, no doorbell rings.
constexpr std::chrono::microseconds deferred_close_nap{200};

// A cached call that waits for another thread's work gets no doorbell.
constexpr std::chrono::microseconds call_nap{50};
constexpr std::chrono::milliseconds ended_nap{1};

constexpr std::chrono::milliseconds dying_nap{1};

}  // namespace

Loop::Loop(const device::ArenaView& arena, storage::Storage& storage, FileTable& files,
           LoopOptions options)
    : arena_(arena),
      storage_(storage),
      files_(files),
      options_(std::move(options)),
      state_(arena.loop_state(options_.index)),
      doorbell_(arena.doorbell(options_.index)) {
  const device::Geometry& geometry = arena_.layout.geometry;
  for (std::uint32_t ring = options_.index; ring < geometry.rings; ring += geometry.loops) {
    rings_.emplace_back(arena_.ring(ring));
  }
  add_jobs(std::min<std::size_t>(jobs_step, jobs_limit()));
}

std::size_t Loop::jobs_limit() const {
  if (options_.in_flight_max > 0) return options_.in_flight_max;
  return std::clamp<std::size_t>(arena_.cell_count(), jobs_step, jobs_max);
}

void Loop::add_jobs(std::size_t more) {
  deferred_closes_.reserve(jobs_.size() + more);  // a close that has begun needs no memory
  for (; more > 0; --more) {
    Job& job = jobs_.emplace_back();
    job.next = free_;
    free_ = &job;
  }
}

// A storage that hangs may keep all jobs: requests for others need more.
bool Loop::has_free_job() {
  if (free_ == nullptr && jobs_.size() < jobs_limit()) {
    try {
      add_jobs(std::min<std::size_t>(jobs_step, jobs_limit() - jobs_.size()));
    } catch (const std::bad_alloc&) {  // those that are there will do
    }
  }
  return free_ != nullptr;
}

void Loop::run() {
  try {
    storage::QueueOptions options;
    options.doorbell = storage::Doorbell{&doorbell_.count};
    const device::Control& layout = arena_.layout;
    options.arena = {reinterpret_cast<std::byte*>(arena_.base),
                     arena_.local == arena_.base ? layout.geometry.arena_bytes : layout.local};
    options.depth = options_.in_flight_max > 0 ? options_.in_flight_max : jobs_step;
    auto queue = storage_.make_queue(options);
    {
      const std::lock_guard lock(queue_mutex_);
      queue_ = std::move(queue);
    }
    serve();
    drop_queue();
    // Release: a caller that sees `stopped` sees every answer. Does not overwrite `dead`.
    LoopPhase expected = LoopPhase::stopping;
    SystemRef<LoopPhase>(state_.phase)
        .compare_exchange_strong(expected, LoopPhase::stopped, device::acq_rel);
  } catch (const Gate::Closed&) {
    // The watchdog has set the phase already. What the kernel still holds ends here, on the
    // engine's own thread.
    if (queue_ != nullptr) drop_queue();
  } catch (const std::exception&) {
    die();
  }
  ended_.store(true, std::memory_order_release);
}

void Loop::serve() {
  last_work_ = Clock::now();
  for (;;) {
    iterations_.store(iterations() + 1, std::memory_order_relaxed);  // the only writer
    const bool stopping = phase() != LoopPhase::running;
    bool worked = take_requests();
    if (!deferred_closes_.empty()) worked = run_deferred_closes() || worked;
    if (in_storage_jobs_ > 0) worked = serve_storage() || worked;
    if (!calls_.empty()) worked = serve_call() || worked;
    if (stopping && !worked && (drained() || gives_up())) return;
    if (stopping || !serves_all()) cancel_overdue();
    if (worked) {
      idle_polls_ = 0;
    } else {
      idle(park_slice);
    }
  }
}

// seq_cst, so that a look at the tails after a look that saw `stopping` counts (R5).
LoopPhase Loop::phase() const {
  return SystemRef<LoopPhase>(state_.phase).load(seq_cst);
}

bool Loop::take_requests() {
  unsigned taken = 0;
  for (device::RingConsumer& ring : rings_) {
    for (unsigned i = 0; i < takes_per_round && has_free_job(); ++i) {
      Job& job = *free_;
      if (!ring.take(job.request)) break;
      ++taken;
      begin(job);
      current_ = nullptr;
    }
  }
  return taken > 0;
}

// `job` is the first free one; it leaves the list only if the storage gets it.
void Loop::begin(Job& job) {
  add(statistics_.requests, 1);
  const device::Request& request = job.request;
  current_ = &request;
  point(LoopPoint::taken);
  if (request.sequence == 0) return;  // an abandoned ticket
  if (const LoopPhase now = phase(); now != LoopPhase::running || !admits(request)) {
    refuse(request, now == LoopPhase::dead ? -EIO : -ESHUTDOWN);
    return;
  }
  if (request.opcode == Opcode::nop) {
    respond(request, 0);
    return;
  }
  if (device::is_cached_call(request.opcode)) {
    begin_call(request);
    return;
  }
  const int error = validate(job, arena_, files_);
  if (error != 0) {
    add(statistics_.refused, 1);
    respond(request, error);
    return;
  }
  if (request.opcode == Opcode::write && KeptPieces::is_piece(request) && takes_piece(job)) return;
  if (job.kind == Kind::open) {
    job.reserved = files_.reserve();
    if (!job.reserved) {
      respond(request, -ENFILE);
      return;
    }
  }
  point(LoopPoint::validated);
  free_ = static_cast<Job*>(job.next);
  if (job.kind == Kind::close) {
    begin_close(job);
    return;
  }
  submit(job);
  current_ = nullptr;  // the storage has it
  point(LoopPoint::submitted);
}

// A validated piece of a write: returns true if it is answered. With the last piece the whole is
// written.
bool Loop::takes_piece(Job& job) {
  const device::Request& request = job.request;
  const bool more = (request.flags & device::flag_more) != 0;
  int error = 0;
  if (more) {
    const Gate::Section section(gate_);  // reads a program's memory
    error = kept_pieces_.keep(job);
  } else {
    error = kept_pieces_.complete(job);
  }
  if (!more && error == 0) return false;
  files_.release(request.file);
  job.holds_file = false;
  if (error != 0) add(statistics_.refused, 1);
  respond(request, error);
  return true;
}

void Loop::begin_close(Job& job) {
  if (!files_.begin_close(job.request.file)) {
    respond(job.request, -EBADF);
    free_job(job);
    return;
  }
  deferred_closes_.push_back(&job);
}

// Closes a file once it is unused: other loops may still be reading from it.
bool Loop::run_deferred_closes() {
  const auto still_used = [&](Job* job) {
    if (!files_.unused(job->request.file)) {
      if (!files_.held_for_ever()) return true;
      // By a loop declared dead: the file stays open until the process ends.
      respond(job->request, -EIO);
      free_job(*job);
      return false;
    }
    job->file = files_.finish_close(job->request.file);
    submit(*job);
    return false;
  };
  const auto kept = std::remove_if(deferred_closes_.begin(), deferred_closes_.end(),
                                   [&](Job* job) { return !still_used(job); });
  const bool progress = kept != deferred_closes_.end();
  deferred_closes_.erase(kept, deferred_closes_.end());
  return progress;
}

// Starts submitted operations, and answers finished ones.
bool Loop::serve_storage() {
  std::array<storage::Operation*, takes_per_round> finished;  // set below, `count` of them
  unsigned count = 0;
  {
    const Gate::Section section(gate_);
    queue_->flush();
    while (count < finished.size() && count < in_storage_jobs_) {
      finished[count] = queue_->reap();
      if (finished[count] == nullptr) break;
      static_cast<Job*>(finished[count])->in_storage = false;
      static_cast<Job*>(finished[count])->reaped = true;
      ++count;
    }
    in_storage_jobs_ -= count;
  }
  for (unsigned i = 0; i < count; ++i)
    finish(static_cast<Job&>(*finished[i]));
  return count > 0;
}

void Loop::submit(Job& job) {
  queue_->submit(job);
  job.in_storage = true;
  ++in_storage_jobs_;
}

void Loop::finish(Job& job) {
  current_ = &job.request;
  point(LoopPoint::finished);
  if (job.holds_file) files_.release(job.request.file);
  job.holds_file = false;
  deliver(job);
  // Cancelled because a shutdown's deadline has passed.
  const std::int64_t result = job.result == -ECANCELED ? -ESHUTDOWN : job.result;
  respond(job.request, result, job.value);
  current_ = nullptr;
  free_job(job);
}

void Loop::free_job(Job& job) {
  job.reaped = false;
  if (!job.kept.empty()) job.kept = {};
  job.next = free_;
  free_ = &job;
}

// The effect of a result on the server and the arena.
void Loop::deliver(Job& job) {
  if (job.reserved) {
    job.reserved = false;
    if (job.result < 0) files_.give_back();
  }
  if (job.result < 0) return;
  switch (job.kind) {
    case Kind::open:
      try {
        std::string path = job.path;
        job.result = files_.insert_reserved(std::move(job.opened), std::move(path));
      } catch (const std::bad_alloc&) {
        files_.give_back();
        job.opened.reset();
        job.result = -ENOMEM;
      }
      break;
    case Kind::file_status:
    case Kind::path_status: {
      const device::FileStatus status = to_device(job.status);
      const Gate::Section section(gate_);  // writes to a program's memory
      std::memcpy(arena_.address_of(job.request.buffer), &status, sizeof status);
      break;
    }
    case Kind::read:
      add(statistics_.bytes_read, static_cast<std::uint64_t>(job.result));
      break;
    case Kind::write:
    case Kind::append:
      add(statistics_.bytes_written, static_cast<std::uint64_t>(job.result));
      break;
    default:
      break;
  }
}

void Loop::respond(const device::Request& request, std::int64_t result, std::uint64_t value) {
  if (request.cell >= arena_.cell_count()) return;  // a program that wants no answer gets none
  device::AnswerCell& cell = arena_.cell(request.cell);
  const bool asleep = device::answer(cell, request.sequence, result, value);
  // A call executed by this thread polls itself. Others may wait at an unowned cell as well.
  const bool is_polled = &cell.sequence == awaited_ && is_owned(request.cell);
  if (asleep && !is_polled) futex_wake_all(&cell.sequence);
}

// Whether the request is still its caller's question to this loop (R9).
bool Loop::may_answer(const device::Request& request) const {
  if (!device::is_cached_call(request.opcode)) return true;
  return request.cell < arena_.cell_count() &&
         device::take_over(arena_.cell(request.cell), request.sequence);
}

// Answers a request that was not begun.
void Loop::refuse(const device::Request& request, std::int64_t error) {
  if (may_answer(request)) respond(request, error);
}

std::uint64_t Loop::outstanding(const device::RingConsumer& ring) const {
  return options_.read_word ? ring.outstanding(options_.read_word(ring.tail()))
                            : ring.outstanding();
}

// R5: `stopping` was announced before the tails are read here.
bool Loop::drained() const {
  return in_storage_jobs_ == 0 && deferred_closes_.empty() &&
         std::all_of(rings_.begin(), rings_.end(),
                     [&](const device::RingConsumer& ring) { return outstanding(ring) == 0; });
}

// After the deadline, tickets that were claimed and never published do not count.
bool Loop::gives_up() const {
  return in_storage_jobs_ == 0 && deferred_closes_.empty() &&
         Clock::now() > stop_deadline_.load(std::memory_order_relaxed);
}

bool Loop::admits(const device::Request& request) const {
  const std::uint32_t group = only_group_.load(std::memory_order_relaxed);
  if (group == all_groups || !is_owned(request.cell)) return true;
  return request.cell / arena_.layout.geometry.cells_per_group == group;
}

// Once per deadline.
void Loop::cancel_overdue() {
  const Clock::time_point deadline = stop_deadline_.load(std::memory_order_relaxed);
  if (cancelled() || Clock::now() < deadline) return;
  cancelled_at_ = deadline;
  const Gate::Section section(gate_);
  for (Job& job : jobs_) {
    if (job.in_storage) queue_->cancel(job);
  }
}

// Returns immediately while polling is worthwhile, else sleeps for up to `nap`.
void Loop::idle(std::chrono::nanoseconds nap) {
  if (options_.spin.count() > 0) {
    // The next request of a busy device is a few hundred cycles away: look again immediately. Only
    // then starts the time since the last work.
    if (++idle_polls_ < idle_polls_before_pausing) return;
    device::pause_briefly();
    if (idle_polls_ == idle_polls_before_pausing) last_work_ = Clock::now();
    if (idle_polls_ % idle_polls_per_clock_read != 0) return;
    // Whatever is still in the storage is slow: it ends a sleep in the kernel soon enough, and a
    // polling core may be the one that the device's driver or emulator needs.
    const auto patience =
        in_storage_jobs_ > 0 ? std::min(options_.spin, storage_spin) : options_.spin;
    if (Clock::now() - last_work_ < patience) return;
  }
  park(nap);
}

void Loop::park(std::chrono::nanoseconds nap) {
  const std::uint32_t seen = SystemRef<std::uint32_t>(doorbell_.count).load(device::acquire);
  SystemRef<std::uint32_t> parked(state_.parked);
  parked.store(1, seq_cst);
  // R6: look again. A stop rings the doorbell, so `seen` covers it. Without a free job only
  // finished operations can help, and those end the wait too.
  const bool work = free_ != nullptr && std::any_of(rings_.begin(), rings_.end(),
                                                    [](const auto& ring) { return ring.ready(); });
  if (!work) {
    add(statistics_.parks, 1);
    // While stopping, claimed tickets may still be unpublished, and passing time rings no doorbell.
    const bool ending = phase() != LoopPhase::running || !(serves_all() || cancelled());
    const bool busy = !deferred_closes_.empty() || ending;
    const Gate::Section section(gate_);
    queue_->wait(seen, busy ? std::min<std::chrono::nanoseconds>(nap, deferred_close_nap) : nap);
  }
  parked.store(0, relaxed);
}

void Loop::add(std::uint64_t& counter, std::uint64_t amount) {
  std::atomic_ref<std::uint64_t> value(counter);
  value.store(value.load(std::memory_order_relaxed) + amount, std::memory_order_relaxed);
}

LoopStatistics Loop::statistics() const {
  const auto read = [](const std::uint64_t& counter) {
    return std::atomic_ref<std::uint64_t>(const_cast<std::uint64_t&>(counter))
        .load(std::memory_order_relaxed);
  };
  LoopStatistics copy;
  copy.requests = read(statistics_.requests);
  copy.refused = read(statistics_.refused);
  copy.bytes_read = read(statistics_.bytes_read);
  copy.bytes_written = read(statistics_.bytes_written);
  copy.parks = read(statistics_.parks);
  const std::lock_guard lock(queue_mutex_);
  copy.storage = queue_ != nullptr ? queue_->statistics() : statistics_.storage;
  return copy;
}

// ---- cached calls: executes one at a time while the loop keeps serving

// A cached call needs no job: its own requests come through the ring like all others.
void Loop::begin_call(const device::Request& request) {
  // Every call in flight has a cell of its own, but those that were taken back.
  if (calls_.size() >= arena_.cell_count())
    std::erase_if(calls_, [&](const device::Request& call) {
      return call.cell >= arena_.cell_count() ||
             !device::is_unbegun(arena_.cell(call.cell), call.sequence);
    });
  const bool refused = !options_.execute || calls_.size() >= arena_.cell_count();
  if (refused) {
    add(statistics_.refused, 1);
    refuse(request, options_.execute ? -EAGAIN : -EINVAL);
    return;
  }
  calls_.push_back(request);
}

// Executes the cached call that has waited longest; meanwhile, pump() serves everything else.
// Returns only when it no longer uses its caller's buffer. Other threads may wait for its fills, so
// it always returns: after a fault, because nothing stays unanswered.
bool Loop::serve_call() {
  const device::Request request = calls_.front();
  calls_.pop_front();
  if (!may_answer(request)) return true;
  if (const LoopPhase now = phase(); now != LoopPhase::running) {
    respond(request, now == LoopPhase::dead ? -EIO : -ESHUTDOWN);
    return true;
  }
  if (!gate_.enter()) throw Gate::Closed{};
  const std::int64_t result = options_.execute(request, *this);
  if (ended_in_call_ != nullptr) {
    // Not if the loop was declared dead: the caller knows, and the cell may have another's word.
    if (operations_ended_) respond(request, result);
    std::rethrow_exception(ended_in_call_);
  }
  gate_.leave();
  respond(request, result);
  return true;
}

void Loop::pump(const std::uint32_t* word, std::uint32_t value,
                std::chrono::nanoseconds timeout) noexcept {
  if (ended_in_call_ != nullptr) {
    rest_after_end(word, value);
    return;
  }
  awaited_ = word;
  gate_.leave();
  try {
    serve_beside_call(word, value, timeout);
    if (!gate_.enter()) throw Gate::Closed{};
  } catch (const Gate::Closed&) {
    ended_in_call_ = std::current_exception();
    end_beside_call(true);
  } catch (const std::exception&) {
    ended_in_call_ = std::current_exception();
    end_beside_call(false);
  }
  awaited_ = nullptr;
}

// One round of serve(), without cached calls.
void Loop::serve_beside_call(const std::uint32_t* word, std::uint32_t value,
                             std::chrono::nanoseconds timeout) {
  iterations_.store(iterations() + 1, std::memory_order_relaxed);
  bool worked = take_requests();
  if (!deferred_closes_.empty()) worked = run_deferred_closes() || worked;
  if (in_storage_jobs_ > 0) worked = serve_storage() || worked;
  if (phase() != LoopPhase::running) cancel_overdue();
  if (worked) {
    idle_polls_ = 0;
  } else if (word == nullptr) {
    std::this_thread::yield();
  } else if (std::atomic_ref(const_cast<std::uint32_t&>(*word)).load(device::acquire) == value) {
    // Nothing rings for what another party brings about.
    idle(std::min<std::chrono::nanoseconds>(timeout, answers_itself(word) ? timeout : call_nap));
  }
}

// Cells are ordered by group; the unowned ones follow.
bool Loop::is_owned(std::uint32_t cell) const {
  const device::Geometry& geometry = arena_.layout.geometry;
  return cell < geometry.groups * geometry.cells_per_group;
}

// Whether the word is a cell's whose answer this loop delivers. That of an unowned one, another
// loop may.
bool Loop::answers_itself(const std::uint32_t* word) const {
  const auto address = reinterpret_cast<std::uintptr_t>(word);
  const auto first = reinterpret_cast<std::uintptr_t>(&arena_.cell(0));
  if (address < first) return false;
  const std::uint64_t cell = (address - first) / sizeof(device::AnswerCell);
  if (cell >= arena_.cell_count()) return false;
  return arena_.layout.geometry.loops == 1 || is_owned(static_cast<std::uint32_t>(cell));
}

// The loop's end came while it executes a call. No fault may pass through that, and others may wait
// for pages that it is about to fill: so everything else ends first, and the call finds that its
// own requests have failed.
void Loop::end_beside_call(bool declared) {
  if (!declared && end_operations()) return;
  // Declared dead, now or meanwhile. What the kernel still holds of the call's pages ends here.
  ended_in_call_ = std::make_exception_ptr(Gate::Closed{});
  if (queue_ != nullptr) drop_queue();
}

// The rest of a call whose loop has ended: refuses its requests and those of groups it waits for,
// unless the loop was declared dead, which the phase tells them.
void Loop::rest_after_end(const std::uint32_t* word, std::uint32_t value) {
  if (operations_ended_) refuse_waiting();
  if (word == nullptr) {
    std::this_thread::yield();
  } else {
    futex_wait(word, value,
               static_cast<std::uint64_t>(std::chrono::nanoseconds(ended_nap).count()));
  }
}

// ---- the end: requested, declared dead by the watchdog, or by its own fault

void Loop::stop(Clock::time_point deadline) {
  stop_deadline_.store(deadline, std::memory_order_relaxed);
  LoopPhase expected = LoopPhase::running;
  SystemRef<LoopPhase>(state_.phase)
      .compare_exchange_strong(expected, LoopPhase::stopping, seq_cst);
  SystemRef<std::uint32_t>(doorbell_.count).fetch_add(1, device::release);
  futex_wake_all(&doorbell_.count);
}

void Loop::serve_only(std::uint32_t group, Clock::time_point deadline) {
  stop_deadline_.store(deadline, std::memory_order_relaxed);
  only_group_.store(group, std::memory_order_release);
  SystemRef<std::uint32_t>(doorbell_.count).fetch_add(1, device::release);
  futex_wake_all(&doorbell_.count);
}

bool Loop::declare_dead() {
  if (!gate_.close()) return false;
  SystemRef<LoopPhase>(state_.phase).store(LoopPhase::dead, seq_cst);
  files_.hold_for_ever();
  return true;
}

// Answers the requests in the rings without executing them.
void Loop::refuse_waiting() {
  device::Request request;
  for (device::RingConsumer& ring : rings_) {
    // Groups that retry immediately must not delay finished operations.
    for (unsigned i = 0; i < takes_per_round && ring.take(request); ++i)
      if (request.sequence != 0) refuse(request, -EIO);
  }
}

// The loop ends by its own fault. Waits for operations in flight first, so that no call returns
// while its buffer may still change.
void Loop::die() {
  if (!operations_ended_ && !end_operations()) {
    if (queue_ != nullptr) drop_queue();
    return;
  }
  for (const device::Request& request : calls_)
    refuse(request, -EIO);
  // All others learn it from the phase.
  SystemRef<LoopPhase>(state_.phase).store(LoopPhase::dead, seq_cst);
}

// Answers or waits for everything except cached calls, and takes the gate for good. Returns false
// if the loop was declared dead and must not touch anything.
bool Loop::end_operations() {
  // The watchdog must not take this wait for a hang.
  if (!gate_.enter()) return false;
  if (current_ != nullptr && current_->sequence != 0) refuse(*current_, -EIO);
  // Reaped together with the one whose answer failed.
  for (Job& job : jobs_) {
    if (!job.reaped || &job.request == current_) continue;
    respond(job.request, -EIO);
  }
  if (queue_ != nullptr) {
    queue_->flush();
    for (Job& job : jobs_) {
      if (job.in_storage) queue_->cancel(job);
    }
    for (;;) {
      refuse_waiting();
      while (storage::Operation* operation = queue_->reap()) {
        Job& job = static_cast<Job&>(*operation);
        --in_storage_jobs_;
        job.in_storage = false;
        respond(job.request, -EIO);
      }
      if (in_storage_jobs_ == 0) break;
      // Callers do not ring for a loop that is not parked, so this polls.
      queue_->wait(SystemRef<std::uint32_t>(doorbell_.count).load(device::acquire), dying_nap);
    }
    drop_queue();
  }
  // Releases files, so that others need not wait for this loop.
  for (Job& job : jobs_) {
    if (job.holds_file) files_.release(job.request.file);
    job.holds_file = false;
    if (job.reserved) files_.give_back();
    job.reserved = false;
  }
  for (Job* job : deferred_closes_)
    respond(job->request, -EIO);
  operations_ended_ = true;
  return true;
}

void Loop::drop_queue() {
  const std::lock_guard lock(queue_mutex_);
  statistics_.storage = queue_->statistics();
  queue_.reset();
}

}  // namespace ferry::server
