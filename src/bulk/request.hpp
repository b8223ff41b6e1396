// One transfer: its parts, the pieces handed out to threads, and its end.
//
// Invariants, checked by tests/bulk/random_transfers_test.cpp:
//   B1  Every byte of a part is handed out once, in a claim: the cursor moves under the mutex.
//   B2  `outstanding_` counts the claims handed out and not ended. The request is over when the
//       cursor is at its end and nothing is outstanding; one thread sees that, under the mutex.
//   B3  `ready_` is set only after B2: nothing touches a ready request's memory.
//   B4  A failed part hands out nothing more, nor does one with a short piece, which has met the
//       end of the file; other parts continue. cancel() moves the cursor to the end; the owners of
//       claims end what is in flight.
//   B5  The uses of the files end before `ready_` is set.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include <ferry/bulk.hpp>

#include "bulk/callbacks.hpp"
#include "bulk/open_file.hpp"
#include "bulk/routing.hpp"

namespace ferry::bulk {

// The preferred borders of pieces in the file, for direct I/O and page caches.
inline constexpr std::uint64_t piece_alignment_bytes = 4096;
// Parts up to this size are handed out many at a time.
inline constexpr std::uint64_t small_part_bytes = 64 << 10;

class BulkRequest;

// An engine's counters, in its statistics.
class SchedulerCounters {
 public:
  using Counter = std::uint64_t EngineStatistics::*;

  void add(Counter counter, std::uint64_t amount = 1) {
    std::atomic_ref(values_.*counter).fetch_add(amount, std::memory_order_relaxed);
  }
  void add_bytes(Direction direction, std::uint64_t amount) {
    add(direction == Direction::write ? &EngineStatistics::bytes_written
                                      : &EngineStatistics::bytes_read,
        amount);
  }
  EngineStatistics values();

 private:
  EngineStatistics values_;
};

// A thread's share: `count` whole parts, or a piece of one.
struct Claim {
  std::shared_ptr<BulkRequest> request;
  std::size_t first = 0;
  std::size_t count = 0;
  std::uint64_t begin = 0;  // within the part
  std::uint64_t bytes = 0;
};

struct PartState {
  EngineFile* file = nullptr;
  std::byte* data = nullptr;
  std::uint64_t bytes = 0;
  std::uint64_t offset = 0;
  std::uint64_t end = 0;  // bytes known to exist: less than `bytes` once a piece was short
  int error_number = 0;
  std::shared_ptr<const cuda::PrimaryContext> gpu;  // the memory's GPU; null: the host's
};

class BulkRequest {
 public:
  // The task size of large parts, and the number of threads.
  struct Cuts {
    std::uint64_t task_bytes = 0;
    unsigned sharers = 1;
  };
  // Each of `files` is in use; the request ends that use.
  BulkRequest(Direction direction, std::vector<PartState> parts,
              std::vector<std::shared_ptr<EngineFile>> files, const Cuts& cuts,
              std::shared_ptr<Callbacks> callbacks, SchedulerCounters& counters);

  Direction direction() const { return direction_; }
  const Cuts& cuts() const { return cuts_; }
  const PartState& part(std::size_t index) const { return parts_[index]; }
  std::size_t count() const { return parts_.size(); }
  // EngineFile::place() of its files, or one that only batches with files of the same places have.
  std::uint64_t place() const { return place_; }
  // `bytes` of a part from `begin` on, as a separate piece.
  RoutedPiece piece(std::size_t part, std::uint64_t begin, std::uint64_t bytes) const;
  // Whether a part is in GPU memory: waiting threads cannot help with it.
  bool on_gpu() const { return on_gpu_; }
  std::uint64_t bytes_total() const { return bytes_total_; }
  std::uint64_t bytes_done() const { return bytes_done_.load(std::memory_order_relaxed); }

  // The next part of a claim: the rest of its piece, or its next part; limited in size, and to
  // where a piece of the file may end.
  RoutedPiece next_piece(const Claim& claim, std::uint64_t bytes_max = UINT64_MAX) const;
  // Advances: this much of next_piece() is in flight. `count` 0: all of the claim is.
  void advance(Claim& claim, std::uint64_t bytes) const;

  // Hands out the next claim. Returns false if nothing is left.
  bool cut(Claim& claim);
  // The result of a piece of a part, or of the whole: bytes or a negative errno.
  void record(std::size_t part, std::uint64_t begin, std::uint64_t bytes, std::int64_t result);
  // Ends a claim: its memory is not touched any more.
  void end_claim();
  // Ends an empty request.
  void end_if_empty();

  void cancel();
  bool cancelled() const { return cancelled_.load(std::memory_order_acquire); }

  bool ready() const { return ready_.load(std::memory_order_acquire) != 0; }
  bool wait(std::chrono::nanoseconds timeout) const;
  void then(std::function<void()> callback) {
    run_when_ready(callbacks_waiting_, std::move(callback));
  }
  // Runs once, on the thread that ends the request, or immediately. Must be quick.
  void watch(std::function<void()> watcher) { run_when_ready(watchers_, std::move(watcher)); }

  // Once ready.
  const std::vector<std::int64_t>& results() const { return results_; }
  std::vector<Failure> failures() const;

 private:
  bool at_end() const { return next_part_ >= parts_.size(); }
  // The rest of a part that has failed, or that lies behind the end of the file.
  void skip_useless();
  void run_when_ready(std::vector<std::function<void()>>& waiting, std::function<void()> function);
  // With the mutex held, which it may release: ends the request if it is over.
  void finish_if_over(std::unique_lock<std::mutex>& lock);

  const Direction direction_;
  const Cuts cuts_;
  std::vector<PartState> parts_;
  std::vector<std::shared_ptr<EngineFile>> files_;
  const std::shared_ptr<Callbacks> callbacks_;
  SchedulerCounters& counters_;  // the scheduler's, which outlives every transfer
  std::uint64_t place_ = 0;
  std::uint64_t bytes_total_ = 0;
  bool on_gpu_ = false;
  std::atomic<std::uint64_t> bytes_done_{0};
  std::atomic<bool> cancelled_{false};
  mutable std::atomic<std::uint32_t> waiters_{0};
  std::atomic<std::uint32_t> ready_{0};

  std::mutex mutex_;  // guards what follows, and the parts' end and error_number
  std::size_t next_part_ = 0;
  std::uint64_t next_byte_ = 0;
  std::size_t outstanding_ = 0;
  bool over_ = false;
  std::vector<std::function<void()>> callbacks_waiting_;
  std::vector<std::function<void()>> watchers_;

  std::vector<std::int64_t> results_;  // written before ready_
};

}  // namespace ferry::bulk
