// Keeps a client library with the process that first used it. After fork() the child has copies of
// the library's state and of the parent's sockets; two processes on one connection break it for
// both.
#pragma once

#include <atomic>
#include <cerrno>
#include <cstdint>
#include <string>

#include "base/forks.hpp"
#include "storage/library.hpp"

namespace ferry::storage {

// Of one library. Thread-safe, and takes no lock.
class OwnerProcess {
 public:
  // The error of calls in a child.
  static constexpr int refused = ENOTCONN;

  // To be said before the library makes anything that a child would share.
  void claim() {
    std::uint64_t nobody = 0;
    owner_.compare_exchange_strong(nobody, fork_generation() + 1, std::memory_order_relaxed);
  }
  // Whether an ancestor of this process has it.
  bool is_ancestor() const {
    const std::uint64_t owner = owner_.load(std::memory_order_relaxed);
    return owner != 0 && owner != fork_generation() + 1;
  }
  // Throws Unavailable in a child. `storage`: "pvfs2" and the like.
  void check(const std::string& storage) const {
    if (!is_ancestor()) return;
    throw Unavailable(refused,
                      storage +
                          ": is in use by the parent of this process, and a forked child cannot "
                          "have a client of its own; start processes by spawn "
                          "(multiprocessing.set_start_method(\"spawn\")), or fork before the "
                          "first use of " +
                          storage + ":");
  }

 private:
  // Its fork_generation() + 1. Relaxed: a child reads what its parent had written before it forked.
  std::atomic<std::uint64_t> owner_{0};
};

}  // namespace ferry::storage
