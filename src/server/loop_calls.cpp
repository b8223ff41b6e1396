// Cached calls on a loop's thread: executes one at a time while the loop keeps serving.
#include <algorithm>
#include <cerrno>
#include <thread>

#include "base/futex.hpp"
#include "server/loop.hpp"

namespace ferry::server {

using device::LoopPhase;

namespace {

// A cached call that waits for another thread's work gets no doorbell.
constexpr std::chrono::microseconds call_nap{50};
constexpr std::chrono::milliseconds ended_nap{1};

}  // namespace

// A cached call needs no job: its own requests come through the ring like all others.
void Loop::begin_call(const device::Request& request) {
  // Every call in flight has a cell of its own.
  const bool refused = !options_.execute || calls_.size() >= arena_.cell_count();
  if (refused) {
    add(statistics_.refused, 1);
    respond(request, options_.execute ? -EAGAIN : -EINVAL);
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
    // This loop delivers the answer that the call waits for. Nothing rings for other waits.
    idle(std::min<std::chrono::nanoseconds>(timeout, is_cell(word) ? timeout : call_nap));
  }
}

bool Loop::is_cell(const std::uint32_t* word) const {
  const auto address = reinterpret_cast<std::uintptr_t>(word);
  const auto first = reinterpret_cast<std::uintptr_t>(&arena_.cell(0));
  return address >= first && address < first + arena_.cell_count() * sizeof(device::Cell);
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

}  // namespace ferry::server
