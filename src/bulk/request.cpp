#include "bulk/request.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <functional>
#include <new>
#include <string_view>
#include <utility>

#include "base/futex.hpp"

namespace ferry::bulk {
namespace {

constexpr std::size_t run_max = 64;

constexpr std::array counted = {
    &EngineStatistics::transfers,        &EngineStatistics::parts,
    &EngineStatistics::failed_parts,     &EngineStatistics::cancelled_transfers,
    &EngineStatistics::bytes_read,       &EngineStatistics::bytes_written,
    &EngineStatistics::copied_tasks,     &EngineStatistics::cached_tasks,
    &EngineStatistics::direct_tasks,     &EngineStatistics::staged_tasks,
    &EngineStatistics::gpu_tasks,        &EngineStatistics::gpu_direct_tasks,
    &EngineStatistics::gpu_direct_bytes, &EngineStatistics::staging_bytes,
    &EngineStatistics::pinned_bytes};

// A batch with files of several places has one of its own, which others of the same places share.
std::uint64_t place_of(const std::vector<PartState>& parts) {
  if (parts.empty()) return 0;
  std::vector<std::uint64_t> places;
  const EngineFile* const first = parts.front().file;
  const std::uint64_t place_of_first = first->place();
  for (const PartState& part : parts) {
    if (part.file == first) continue;
    const std::uint64_t place = part.file->place();
    if (place != place_of_first && std::ranges::find(places, place) == places.end())
      places.push_back(place);
  }
  if (places.empty()) return place_of_first;
  places.push_back(place_of_first);
  std::ranges::sort(places);
  return std::hash<std::string_view>{}(
      {reinterpret_cast<const char*>(places.data()), places.size() * sizeof places.front()});
}

}  // namespace

EngineStatistics SchedulerCounters::values() {
  EngineStatistics now;
  for (const Counter counter : counted)
    now.*counter = std::atomic_ref(values_.*counter).load(std::memory_order_relaxed);
  return now;
}

BulkRequest::BulkRequest(Direction direction, std::vector<PartState> parts,
                         std::vector<std::shared_ptr<EngineFile>> files, const Cuts& cuts,
                         std::shared_ptr<Callbacks> callbacks, SchedulerCounters& counters)
    : direction_(direction),
      cuts_(cuts),
      parts_(std::move(parts)),
      files_(std::move(files)),
      callbacks_(std::move(callbacks)),
      counters_(counters) {
  try {
    results_.reserve(parts_.size());
    place_ = place_of(parts_);
  } catch (const std::bad_alloc&) {
    for (const std::shared_ptr<EngineFile>& file : files_)
      file->end_use();
    throw;
  }
  for (PartState& part : parts_) {
    part.end = part.bytes;
    bytes_total_ += part.bytes;
    on_gpu_ = on_gpu_ || part.gpu != nullptr;
  }
}

RoutedPiece BulkRequest::piece(std::size_t index, std::uint64_t begin, std::uint64_t bytes) const {
  const PartState& part = parts_[index];
  return {part.file, part.data + begin, bytes, part.offset + begin, direction_, part.gpu.get()};
}

RoutedPiece BulkRequest::next_piece(const Claim& claim, std::uint64_t bytes_max) const {
  const PartState& part = parts_[claim.first];
  std::uint64_t bytes = std::min(claim.bytes, part.bytes - claim.begin);
  if (bytes > bytes_max) {
    const std::uint64_t start = part.offset + claim.begin;
    bytes = (start + bytes_max) / piece_alignment_bytes * piece_alignment_bytes - start;
  }
  return piece(claim.first, claim.begin, bytes);
}

void BulkRequest::advance(Claim& claim, std::uint64_t bytes) const {
  claim.bytes -= bytes;
  claim.begin += bytes;
  const bool more = claim.bytes > 0 && claim.begin < parts_[claim.first].bytes;
  if (more) return;
  ++claim.first;
  claim.begin = 0;
  --claim.count;
}

void BulkRequest::skip_useless() {
  const auto is_useless = [&](const PartState& part) {
    return part.error_number != 0 || part.end <= next_byte_;
  };
  while (!at_end() && next_byte_ > 0 && is_useless(parts_[next_part_])) {
    ++next_part_;
    next_byte_ = 0;
  }
}

bool BulkRequest::cut(Claim& claim) {
  const std::lock_guard lock(mutex_);
  skip_useless();
  if (at_end()) return false;
  ++outstanding_;
  claim.first = next_part_;
  claim.begin = next_byte_;
  const PartState& part = parts_[next_part_];
  if (next_byte_ == 0 && part.bytes <= small_part_bytes) {
    // A fair share of a small batch, so that all threads have work.
    const std::size_t run =
        std::clamp<std::size_t>((parts_.size() - next_part_) / (2 * cuts_.sharers), 1, run_max);
    claim.count = claim.bytes = 0;
    while (claim.count < run && !at_end() && parts_[next_part_].bytes <= small_part_bytes &&
           claim.bytes < cuts_.task_bytes) {
      claim.bytes += parts_[next_part_].bytes;
      ++claim.count;
      ++next_part_;
    }
    return true;
  }
  const std::uint64_t start = part.offset + next_byte_;
  const std::uint64_t limit =
      (start + cuts_.task_bytes) / piece_alignment_bytes * piece_alignment_bytes - part.offset;
  const std::uint64_t end = std::min(part.bytes, limit);
  claim.count = 1;
  claim.bytes = end - next_byte_;
  next_byte_ = end;
  if (end == part.bytes) {
    ++next_part_;
    next_byte_ = 0;
  }
  return true;
}

void BulkRequest::record(std::size_t index, std::uint64_t begin, std::uint64_t bytes,
                         std::int64_t result) {
  PartState& part = parts_[index];
  const auto apply = [&] {
    if (result < 0) {
      if (part.error_number == 0) part.error_number = static_cast<int>(-result);
    } else if (static_cast<std::uint64_t>(result) < bytes) {
      part.end = std::min(part.end, begin + static_cast<std::uint64_t>(result));
    }
  };
  if (result > 0)
    bytes_done_.fetch_add(static_cast<std::uint64_t>(result), std::memory_order_relaxed);
  if (bytes == part.bytes) {  // no other thread has any of it
    apply();
    return;
  }
  const std::lock_guard lock(mutex_);
  apply();
}

void BulkRequest::end_claim() {
  std::unique_lock lock(mutex_);
  --outstanding_;
  finish_if_over(lock);
}

void BulkRequest::end_if_empty() {
  std::unique_lock lock(mutex_);
  finish_if_over(lock);
}

void BulkRequest::cancel() {
  std::unique_lock lock(mutex_);
  if (over_) return;
  cancelled_.store(true, std::memory_order_release);
  // Parts never handed out end with an error. A part in progress keeps its prefix only if all of
  // its handed-out pieces arrive, so it too ends with an error.
  for (std::size_t index = next_part_; index < parts_.size(); ++index) {
    PartState& part = parts_[index];
    if (part.error_number == 0) part.error_number = ECANCELED;
  }
  next_part_ = parts_.size();
  next_byte_ = 0;
  finish_if_over(lock);
}

void BulkRequest::finish_if_over(std::unique_lock<std::mutex>& lock) {
  skip_useless();
  if (over_ || outstanding_ > 0 || !at_end()) return;
  over_ = true;
  lock.unlock();
  for (const PartState& part : parts_) {
    results_.push_back(part.error_number != 0 ? -part.error_number
                                              : static_cast<std::int64_t>(part.end));
    if (part.error_number != 0) counters_.add(&EngineStatistics::failed_parts);
  }
  for (const std::shared_ptr<EngineFile>& file : files_)
    file->end_use();
  std::vector<std::function<void()>> callbacks;
  std::vector<std::function<void()>> watchers;
  lock.lock();
  ready_.store(1, std::memory_order_seq_cst);
  callbacks.swap(callbacks_waiting_);
  watchers.swap(watchers_);
  lock.unlock();
  if (waiters_.load(std::memory_order_seq_cst) != 0) {
    futex_wake_all(reinterpret_cast<const std::uint32_t*>(&ready_));
  }
  for (const std::function<void()>& watcher : watchers)
    watcher();
  for (std::function<void()>& callback : callbacks)
    callbacks_->post(std::move(callback));
}

bool BulkRequest::wait(std::chrono::nanoseconds timeout) const {
  static_assert(sizeof ready_ == sizeof(std::uint32_t));
  const auto until = std::chrono::steady_clock::now() + timeout;
  while (!ready()) {
    const auto left = until - std::chrono::steady_clock::now();
    if (left.count() <= 0) return false;
    waiters_.fetch_add(1, std::memory_order_seq_cst);
    if (ready_.load(std::memory_order_seq_cst) == 0) {
      futex_wait(reinterpret_cast<const std::uint32_t*>(&ready_), 0,
                 static_cast<std::uint64_t>(left.count()));
    }
    waiters_.fetch_sub(1, std::memory_order_seq_cst);
  }
  return true;
}

void BulkRequest::run_when_ready(std::vector<std::function<void()>>& waiting,
                                 std::function<void()> function) {
  {
    const std::lock_guard lock(mutex_);
    if (!ready()) {
      waiting.push_back(std::move(function));
      return;
    }
  }
  function();
}

std::vector<Failure> BulkRequest::failures() const {
  std::vector<Failure> failures;
  for (std::size_t index = 0; index < parts_.size(); ++index) {
    const PartState& part = parts_[index];
    if (part.error_number == 0) continue;
    failures.push_back(
        Failure{index, part.file->path(), part.offset, part.bytes, part.error_number});
  }
  return failures;
}

}  // namespace ferry::bulk
