// The files that ferryd serves: each with a lease, a handle in the runtime and an entry in the
// shared table. One thread calls all but on_break() and handle().
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>

#include <sys/types.h>

#include <ferry/runtime.hpp>

#include "daemon/lease_watch.hpp"
#include "daemon/shared_table.hpp"

namespace ferry::daemon {

using Calls = device::FileCalls<device::ThreadGroup>;

class ServedFiles {
 public:
  // A file stays for `least_stay` after it was offered, if nothing else ends it.
  ServedFiles(SharedTable& table, const device::cache::View& cache,
              std::chrono::milliseconds least_stay);

  // Serves the file behind an open descriptor, which stays the caller's. 0, or an errno:
  //   EBUSY       a process has it open for writing
  //   EOPNOTSUPP  such files are not served
  //   EACCES      another user's
  //   ENODATA     empty
  //   ESTALE      deleted
  //   ENFILE      every entry is in use by a file that was offered within `least_stay`
  //   others      as from open
  // A file that is served already costs no more than a look. With every entry in use, the file that
  // was offered longest ago goes.
  int offer(Calls& calls, int descriptor, ServedFile& file);
  // Closes what a break has ended.
  void close_broken(Calls& calls);
  // Closes files that have no name any more: their space is free only then.
  void close_deleted(Calls& calls);
  void close_all(Calls& calls);
  // The one that was offered longest ago, if any: its descriptors are needed.
  void close_oldest(Calls& calls);

  // The handle of an entry; 0: none. On any thread: a handle that is closed meanwhile gives EBADF.
  std::int32_t handle(std::uint32_t entry) const {
    return files_[entry].handle.load(std::memory_order_acquire);
  }
  std::uint64_t count() const;
  std::uint64_t breaks() const { return breaks_.load(std::memory_order_relaxed); }

 private:
  using Clock = std::chrono::steady_clock;

  struct File {
    dev_t device = 0;
    ino_t inode = 0;
    int lease = -1;  // the descriptor that has the lease; keeps the inode from being reused
    std::atomic<std::int32_t> handle{0};
    std::atomic<bool> broken{false};
    Clock::time_point offered;
    ServedFile known;
  };

  static std::uint64_t any_odd_number();
  void on_break(int entry);
  int find_room(Calls& calls, std::uint32_t& entry);
  const File* oldest() const;
  std::uint32_t number_of(const File& file) const {
    return static_cast<std::uint32_t>(&file - files_.data());
  }
  int serve(Calls& calls, std::uint32_t entry, std::uint64_t size_bytes);
  void close_entry(Calls& calls, std::uint32_t entry);

  SharedTable& table_;
  const device::cache::View& cache_;
  const std::chrono::milliseconds least_stay_;
  std::array<File, files_max> files_;
  std::uint64_t last_mark_ = any_odd_number();  // that no other ferryd has used: D4
  std::atomic<std::uint64_t> breaks_{0};
  LeaseWatch watch_;  // last: its thread uses the others
};

}  // namespace ferry::daemon
