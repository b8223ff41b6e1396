// The I/O server: its threads, their watchdog, and the table of open files.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include <sys/types.h>

#include <ferry/device/control.hpp>

#include "base/cpus.hpp"
#include "server/file_table.hpp"
#include "server/loop.hpp"
#include "server/standstill.hpp"
#include "storage/storage.hpp"

namespace ferry::server {

struct ServerOptions {
  CpuSet cpus;  // loop i runs on the i-th of them, or on all if there are fewer than loops
  std::chrono::nanoseconds spin{100'000};
  std::chrono::nanoseconds liveness_timeout{5'000'000'000};
  unsigned in_flight_max = 0;  // of each loop; see LoopOptions
  // Executes cached calls on the thread of `loop`; empty: they are refused.
  std::function<std::int64_t(std::uint32_t loop, const device::Request&, Pump&)> execute;
  ReadWord read_word;                                         // see LoopOptions
  std::function<void(std::uint32_t loop, LoopPoint)> inject;  // tests only
};

// What a stopped server could not do.
struct StopReport {
  bool finished = false;      // nothing is left in flight
  unsigned files_closed = 0;  // left open by programs
  std::vector<std::string> errors;
};

// The operating system's counters of one server thread.
struct ThreadUsage {
  std::uint64_t cpu_ns = 0;
  std::uint64_t voluntary_switches = 0;
  std::uint64_t involuntary_switches = 0;
};

// Serves one arena from construction to stop(). Thread-safe.
class Server {
 public:
  Server(const device::ArenaView& arena, storage::Storage& storage, ServerOptions options);
  // Stops, and waits as long as operations are in flight.
  ~Server();
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  // New calls end with -ESHUTDOWN, those in flight are cancelled at the deadline. Then closes open
  // files. Operations that cannot be cancelled are reported, without waiting: a later call, or
  // destruction, finishes them.
  StopReport stop(std::chrono::milliseconds deadline);
  // Before stop(): all calls except this group's end with -ESHUTDOWN. Operations in flight at
  // `deadline` are cancelled.
  void serve_only(std::uint32_t group, std::chrono::steady_clock::time_point deadline);

  // The name this handle was opened by; empty if it names no open file.
  std::string path_of(std::int32_t handle) { return files_.path_of(handle); }

  unsigned loops() const { return static_cast<unsigned>(loops_.size()); }
  LoopStatistics statistics(unsigned loop) const { return loops_[loop]->statistics(); }
  ThreadUsage usage(unsigned loop) const;

 private:
  // What the watchdog saw of a loop.
  struct Seen {
    std::uint64_t iterations = 0;
    std::chrono::nanoseconds still{0};
    ThreadState thread = {};  // at the last look
  };
  void watch(std::vector<Seen>& seen);
  bool wait_for_loops(std::chrono::steady_clock::time_point until);
  void start_threads();
  void end_threads();
  // Returns false if some could not be closed by then.
  bool close_files(StopReport& report, std::chrono::steady_clock::time_point until);
  void close_without_queue(StopReport& report);
  void begin_closes(StopReport& report);

  const device::ArenaView arena_;
  storage::Storage& storage_;
  const ServerOptions options_;
  FileTable files_;
  std::vector<std::unique_ptr<Loop>> loops_;
  std::vector<std::atomic<pid_t>> thread_ids_;
  // Times of ended threads; running ones are queried. Guarded by the mutex.
  std::vector<ThreadUsage> last_usage_;
  mutable std::mutex usage_mutex_;
  std::vector<std::thread> threads_;
  std::mutex stop_mutex_;
  bool stopped_ = false;
  struct Closes;
  std::unique_ptr<Closes> closes_;  // of files that were left open
  std::mutex watch_mutex_;
  std::condition_variable watch_wake_;
  bool watch_ends_ = false;
  std::thread watchdog_;
};

}  // namespace ferry::server
