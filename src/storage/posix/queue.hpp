// Shared by the two engines of storage `posix`: which operations run in place, and which on other
// threads.
//
// A queue's thread polls for others, so it must not block. It executes in place
//   - reads from the page cache that cannot wait (RWF_NOWAIT), and reads from tmpfs and ramfs;
//   - buffered writes and truncations on local file systems: a copy into the page cache is cheaper
//     than any hand-over. They can block when the kernel throttles a writer, so after such a call
//     the next ones go to worker threads for a while (InlinePolicy), as do writes that must start
//     write-out, if the engine cannot do that;
//   - opening, closing, status and removal of existing files, and creation of new ones, on local
//     file systems with an earlier open or status, if the kernel has the whole path in memory, or
//     that of the new file's folder (LocalMounts). Under the same policy: a change of names may
//     wait for the file system's journal, as a write may, or for the folder's blocks; a device node
//     in the file system of the root or the working directory may be slow to open, and a program
//     that watches openings (fanotify) or a slow layer of overlayfs may hold one up;
// and hands over everything else: other paths, syncs, remote file systems, truncations, removals
// and closes that free much, and changes where they may copy (overlayfs).
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "base/waits.hpp"
#include "storage/posix/file.hpp"
#include "storage/posix/local_mounts.hpp"
#include "storage/posix/places.hpp"
#include "storage/posix/registered_buffers.hpp"
#include "storage/queue/inbox_queue.hpp"
#include "storage/storage.hpp"

namespace ferry::storage {

// Allows inline calls until one is slow, and again after a pause. A call is slow if it has waited,
// which shows in the thread's count of waits. One that was only held up, by a
// busy machine or a hypervisor, or that computed for long, is forgiven unless others follow soon.
class InlinePolicy {
 public:
  using Clock = std::chrono::steady_clock;
  bool allows(Clock::time_point now) const { return now >= not_before_; }
  // The thread has slept by itself, and has waited so often in its life.
  void rested(std::uint64_t waits) { waits_ = waits; }
  // Of a call; `waits()` tells how often the thread has waited by now.
  template <class Waits>
  void took(Clock::time_point begin, Clock::time_point end, Waits waits) {
    if (end - begin <= slow) return;
    const std::uint64_t now = waits();
    const bool waited = now != waits_;
    waits_ = now;
    if (begin - last_long_ > pause) long_calls_ = 0;
    last_long_ = end;
    if (!waited && ++long_calls_ < long_calls_max) return;
    not_before_ = end + pause;
  }

  static constexpr std::chrono::milliseconds slow{5};
  static constexpr std::chrono::milliseconds pause{200};
  static constexpr unsigned long_calls_max = 3;  // that did not wait, less than a pause apart

 private:
  Clock::time_point not_before_{};
  std::uint64_t waits_ = 0;
  Clock::time_point last_long_{};
  unsigned long_calls_ = 0;
};

// Shared by the queues of one storage.
struct PosixShared {
  static constexpr unsigned workers_max = 16;  // of one file system
  // Before the pool, whose threads use this to their end.
  std::mutex mutex;  // guards the next two
  // Of the queues that register files.
  std::vector<Doorbell> doorbells;
  // Features the engine lacks, for `ferry info`.
  std::vector<std::string> notes;
  // Null: io_uring is not used.
  std::unique_ptr<RegisteredBufferTrials> registered_buffers;
  Places places;
  WorkerPool pool{
      workers_max,
      [this](Operation& operation) {
        await_registered(operation);
        execute_waiting(operation);
        learn_registered_buffers(operation, true);
        if (wants_write_out(operation)) begin_write_out(operation);
      },
      allowed_cpus(),
      [this](const Operation& operation, Place place) { return places.find(operation, place); }};
  // Grows with every close, so that queues know when to drop registered files.
  std::atomic<std::uint64_t> closes{0};
  void note(const std::string& text);
  // Of a file that was just opened. `may_test`: on a thread that may block.
  void learn_registered_buffers(const Operation& operation, bool may_test) const;
  // Before a close that may free much, on a thread that may wait: has the queues that registered
  // the file drop it, because the last of them would free it on its own thread.
  void await_registered(const Operation& operation);
};

// The threads engine, and the base of the io_uring one.
class PosixQueue : public InboxQueue {
 public:
  PosixQueue(PosixShared& shared, const QueueOptions& options);
  ~PosixQueue() override;

  Operation* reap() override;
  void wait(std::uint32_t seen, std::chrono::nanoseconds timeout) override;
  void cancel(Operation& operation) override;

 protected:
  // How long a wait may last before reap() tries again what was put off.
  std::chrono::nanoseconds limited(std::chrono::nanoseconds timeout) const {
    return put_off_.empty() ? timeout : std::min(timeout, retry_time);
  }
  // This thread has slept by itself.
  void rested() { policy_.rested(waits_so_far()); }
  // Executes a read that cannot block. Returns false if it would have to wait; done_bytes has the
  // bytes moved.
  bool read_now(Operation& operation);
  // The same by plain pread, which costs the kernel some 100 ns less than preadv2 and can block:
  // only for small reads of files that have long been found in the page cache. A tick of the kernel
  // that falls into one ends the trust: one in thousands by chance, but reads that wait for a disk
  // meet one before they have held up the queue for much longer than a tick in all.
  std::int64_t read_trusting(Operation& operation);
  void execute_now(Operation& operation, InlinePolicy::Clock::time_point begin);
  bool write_at_once(Operation& operation, const PosixFile& file);
  bool execute_if_allowed(Operation& operation);
  // Returns false if this open takes another way.
  bool open_at_once(Operation& operation);
  // The same for an open that makes the file.
  bool create_at_once(Operation& operation);
  bool status_at_once(Operation& operation);
  // Whether the path can be opened, removed, or queried, without waiting.
  bool is_at_hand(const Operation& operation);
  bool finds(const Operation& operation, struct statx& status);
  void give_to_pool(Operation& operation);
  // What to do with a transfer that is not executed in place.
  virtual void transfer(Operation& operation) { give_to_pool(operation); }
  // Has the engine begin_write_out(), without waiting for it. The queue's own thread must not do
  // it.
  virtual bool can_write_out() const { return false; }
  virtual void write_out(const Operation& /*operation*/) {}
  // Whether reads that could be executed on the spot go to the engine all the same.
  virtual bool batches_reads() const { return false; }

  PosixShared& shared_;

 private:
  void start(Operation& operation) override;
  // Ends an operation that this thread has executed since `begin`.
  void executed(Operation& operation, InlinePolicy::Clock::time_point begin);

  static constexpr std::chrono::nanoseconds retry_time = std::chrono::milliseconds(10);

  InlinePolicy policy_;
  LocalMounts mounts_;
  // Closes that the pool had no memory for. They may hang, so this thread does not make them.
  OperationList put_off_;
};

// For threads that may block: each operation is a plain system call on the thread that flushes.
class BlockingQueue final : public Queue {
 public:
  explicit BlockingQueue(PosixShared& shared) : shared_(shared) {}

  void submit(Operation& operation) override;
  void flush() override;
  Operation* reap() override { return finished_.pop(); }
  // Returns immediately: flushed operations have finished.
  void wait(std::uint32_t, std::chrono::nanoseconds) override {}
  void cancel(Operation&) override {}
  QueueStatistics statistics() const override;
  std::int64_t read_file(const char* path, std::span<std::byte> memory) override;

 private:
  PosixShared& shared_;
  OperationList submitted_;
  OperationList finished_;
  std::uint64_t executed_ = 0;
};

}  // namespace ferry::storage
