// Ends a runtime whose device is in this process: writes dirty data back, then stops the server,
// within a deadline. What remains continues by itself, and the next shutdown() resumes it.
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include <ferry/runtime.hpp>

#include "server/server.hpp"

namespace ferry {

// Thread-safe.
class Ending {
 public:
  using Clock = std::chrono::steady_clock;

  // `group` is the runtime's own, unused otherwise. `stop_services` announces the end to the
  // executors of others' calls, without waiting.
  Ending(const device::Context& context, std::uint32_t group, server::Server& server,
         std::function<void()> stop_services = {});
  // Waits for transfers that cannot be cancelled.
  ~Ending();
  Ending(const Ending&) = delete;
  Ending& operator=(const Ending&) = delete;

  // Like Runtime::shutdown(). While some data cannot be written back, the server stays for that
  // only.
  ShutdownReport shutdown(std::chrono::milliseconds deadline);

 private:
  // With the mutex held at first.
  ShutdownReport end(std::unique_lock<std::mutex>& lock, Clock::time_point until);
  void no_longer_busy(std::unique_lock<std::mutex>& lock);
  // Until then: unwritten data, by file; empty if everything was written.
  std::vector<std::string> write_back(std::unique_lock<std::mutex>& lock, Clock::time_point until);
  void start_writer(std::unique_lock<std::mutex>& lock);
  void write_dirty_pages();
  std::vector<std::string> unwritten() const;
  std::string describe(const device::cache::Inode& inode, std::uint64_t pages) const;

  const device::Context& context_;
  const std::uint32_t group_;
  server::Server& server_;
  const std::function<void()> stop_services_;

  std::mutex mutex_;
  std::condition_variable changed_;
  bool busy_ = false;  // a shutdown() is running; this and the following are guarded by the mutex
  bool written_ = false;  // everything was written back
  bool writing_ = false;  // by the thread
  int error_ = 0;         // its result
  std::thread writer_;
};

}  // namespace ferry
