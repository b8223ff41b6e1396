// The end of a loop: requested, declared dead by the watchdog, or by its own fault.
#include <cerrno>

#include "base/futex.hpp"
#include "server/loop.hpp"

namespace ferry::server {

using device::LoopPhase;
using device::seq_cst;
using device::SystemRef;

namespace {

constexpr std::chrono::milliseconds dying_nap{1};

}  // namespace

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
      if (request.sequence != 0) respond(request, -EIO);
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
    respond(request, -EIO);
  // All others learn it from the phase.
  SystemRef<LoopPhase>(state_.phase).store(LoopPhase::dead, seq_cst);
}

// Answers or waits for everything except cached calls, and takes the gate for good. Returns false
// if the loop was declared dead and must not touch anything.
bool Loop::end_operations() {
  // The watchdog must not take this wait for a hang.
  if (!gate_.enter()) return false;
  if (current_ != nullptr && current_->sequence != 0) respond(*current_, -EIO);
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
