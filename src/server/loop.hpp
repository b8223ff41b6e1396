// One thread of the I/O server: polls its rings, starts storage operations, answers.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <vector>

#include <ferry/device/control.hpp>

#include "server/file_table.hpp"
#include "server/gate.hpp"
#include "server/job.hpp"
#include "server/kept_pieces.hpp"
#include "storage/storage.hpp"

namespace ferry::server {

// Where a test may stop a loop inside a request.
enum class LoopPoint : std::uint8_t { taken, validated, submitted, finished };

// Thrown by an injection to end a loop like a fault.
struct LoopStopped : std::runtime_error {
  LoopStopped() : std::runtime_error("the server loop was stopped by injection") {}
};

// Passed to the code that executes a cached call on a loop's thread: instead of sleeping, that code
// keeps the loop serving, which may bring about what it waits for.
class Pump {
 public:
  // Serves pending requests; if there are none, sleeps until *word may have changed from `value`,
  // or for a short time if it is no cell's. Without a word it only lets others run.
  virtual void pump(const std::uint32_t* word, std::uint32_t value,
                    std::chrono::nanoseconds timeout) noexcept = 0;

 protected:
  ~Pump() = default;
};

// Executes a cached call (device::is_cached_call) and returns its result. Must not throw. Uses a
// ring of its own loop for requests.
using ExecuteCall = std::function<std::int64_t(const device::Request&, Pump&)>;

// Reads a word of the device's own part of the arena, as of some time after the call began.
using ReadWord = std::function<std::uint64_t(const std::uint64_t*)>;

struct LoopOptions {
  std::uint32_t index = 0;
  std::chrono::nanoseconds spin{100'000};  // polling without work before the loop parks
  // Requests in the storage at most; 0: as many as callers can have, up to Loop::jobs_max.
  unsigned in_flight_max = 0;
  ExecuteCall execute;                    // empty: cached calls are refused
  ReadWord read_word;                     // empty: such words can be loaded
  std::function<void(LoopPoint)> inject;  // tests only; may throw LoopStopped, or not return
};

// Consistent enough: each number is exact, but they may be read at slightly different times.
struct LoopStatistics {
  std::uint64_t requests = 0;
  std::uint64_t refused = 0;  // answered with an errno after validation
  std::uint64_t bytes_read = 0;
  std::uint64_t bytes_written = 0;
  std::uint64_t parks = 0;
  storage::QueueStatistics storage;
};

class Loop final : private Pump {
 public:
  using Clock = std::chrono::steady_clock;
  static constexpr std::size_t jobs_max = 16'384;

  Loop(const device::ArenaView& arena, storage::Storage& storage, FileTable& files,
       LoopOptions options);

  // The thread's body; returns after stop(), or when the loop has died.
  void run();

  // Announces the end: new calls get -ESHUTDOWN; those in flight may continue until `deadline` and
  // are then cancelled.
  void stop(Clock::time_point deadline);

  // From now on only serves this group's calls and transfers of the page cache that belong to no
  // call; others get -ESHUTDOWN. Operations in flight at `deadline` are cancelled.
  void serve_only(std::uint32_t group, Clock::time_point deadline);

  // For the watchdog. Counts iterations; stands still while the loop is stuck.
  std::uint64_t iterations() const { return iterations_.load(std::memory_order_relaxed); }
  // Whether the loop reports that it is inside the storage or a cached call: slow is not dead.
  bool in_storage() const { return gate_.state() == Gate::State::storage; }
  // Declares a stuck loop dead, unless it is inside the storage. From then on it touches no file
  // and no program's buffer, even if it continues.
  bool declare_dead();

  // Whether run() has returned.
  bool ended() const { return ended_.load(std::memory_order_acquire); }

  LoopStatistics statistics() const;

 private:
  // So that one busy ring cannot keep finished operations waiting.
  static constexpr unsigned takes_per_round = 64;

  void serve();
  std::size_t jobs_limit() const;
  void add_jobs(std::size_t more);
  bool has_free_job();
  bool take_requests();
  void begin(Job& job);
  void begin_call(const device::Request& request);
  bool serve_call();
  void pump(const std::uint32_t* word, std::uint32_t value,
            std::chrono::nanoseconds timeout) noexcept override;
  void serve_beside_call(const std::uint32_t* word, std::uint32_t value,
                         std::chrono::nanoseconds timeout);
  void end_beside_call(bool declared);
  void rest_after_end(const std::uint32_t* word, std::uint32_t value);
  bool is_owned(std::uint32_t cell) const;
  bool answers_itself(const std::uint32_t* word) const;
  void begin_close(Job& job);
  bool takes_piece(Job& job);
  bool run_deferred_closes();
  bool serve_storage();
  void submit(Job& job);
  void finish(Job& job);
  void free_job(Job& job);
  void deliver(Job& job);
  void respond(const device::Request& request, std::int64_t result, std::uint64_t value = 0);
  void refuse(const device::Request& request, std::int64_t error);
  bool may_answer(const device::Request& request) const;
  std::uint64_t outstanding(const device::RingConsumer& ring) const;
  bool drained() const;
  bool gives_up() const;
  bool serves_all() const { return only_group_.load(std::memory_order_relaxed) == all_groups; }
  bool admits(const device::Request& request) const;
  bool cancelled() const { return cancelled_at_ == stop_deadline_.load(std::memory_order_relaxed); }
  void cancel_overdue();
  void idle(std::chrono::nanoseconds nap);
  void park(std::chrono::nanoseconds nap);
  device::LoopPhase phase() const;
  void die();
  bool end_operations();
  void refuse_waiting();
  void drop_queue();

  void point(LoopPoint where) {
    if (options_.inject) options_.inject(where);
  }
  void add(std::uint64_t& counter, std::uint64_t amount);

  const device::ArenaView arena_;
  storage::Storage& storage_;
  FileTable& files_;
  const LoopOptions options_;
  device::LoopState& state_;
  device::LoopDoorbell& doorbell_;
  std::vector<device::RingConsumer> rings_;

  std::deque<Job> jobs_;  // before the queue, which may still hold some when it is destroyed
  // Made and destroyed by the loop's own thread, under the mutex because of statistics().
  std::unique_ptr<storage::Queue> queue_;
  mutable std::mutex queue_mutex_;
  Job* free_ = nullptr;
  unsigned in_storage_jobs_ = 0;
  const device::Request* current_ = nullptr;  // taken or finished, not answered yet
  std::vector<Job*> deferred_closes_;
  KeptPieces kept_pieces_{arena_};
  // Waiting cached calls: one is executed at a time, without nesting.
  std::deque<device::Request> calls_;
  const std::uint32_t* awaited_ = nullptr;  // the word that the one in flight waits for now
  std::exception_ptr ended_in_call_;        // what ended the loop during one
  bool operations_ended_ = false;           // end_operations() has run
  static constexpr std::uint32_t all_groups = ~0U;
  std::atomic<std::uint32_t> only_group_{all_groups};  // the only group served
  std::atomic<Clock::time_point> stop_deadline_{Clock::time_point::max()};
  Clock::time_point cancelled_at_{};  // the deadline of the last cancellation
  Clock::time_point last_work_{};
  unsigned idle_polls_ = 0;

  std::atomic<std::uint64_t> iterations_{0};
  std::atomic<bool> ended_{false};
  Gate gate_;
  LoopStatistics statistics_;
};

}  // namespace ferry::server
