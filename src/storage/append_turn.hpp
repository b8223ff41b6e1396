// Appends to a file on a server take turns: each asks where the file ends, and then writes there.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>

#include "storage/of_inode.hpp"

namespace ferry::storage {

// Of one file. Thread-safe. A lock, for std::lock_guard and std::unique_lock: in place of a timed
// mutex, which the thread sanitizer of GCC 12 does not know.
class AppendTurn {
 public:
  // The same for every opening of the file in this process, as Status names it, whichever storage
  // opened it.
  static std::shared_ptr<AppendTurn> of(std::uint64_t device, std::uint64_t inode) {
    return of_inode<AppendTurn>(device, inode);
  }

  void lock() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return !is_taken_; });
    is_taken_ = true;
  }
  bool try_lock() { return try_lock_until(std::chrono::steady_clock::time_point::min()); }
  bool try_lock_until(std::chrono::steady_clock::time_point deadline) {
    std::unique_lock lock(mutex_);
    if (!changed_.wait_until(lock, deadline, [this] { return !is_taken_; })) return false;
    is_taken_ = true;
    return true;
  }
  void unlock() {
    const std::lock_guard lock(mutex_);
    is_taken_ = false;
    changed_.notify_one();
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool is_taken_ = false;
};

}  // namespace ferry::storage
