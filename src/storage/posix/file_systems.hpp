// What is known of a local path's file system by its type, and the types of those that this process
// has met.
#pragma once

#include <cstdint>
#include <mutex>
#include <unordered_map>

namespace ferry::storage {

// Whether another machine or a process serves file systems of this type, from statfs(2).
bool is_remote(long type);
// Whether every change sets the time of change, in the way that change_times.hpp needs.
bool stamps_changes(long type);
// Whether files are generated while they are read: their size is meaningless.
bool generates_files(long type);

// The types by mount, whose numbers are unique while the machine runs; 0 is no number, and no type.
// Thread-safe.
class FileSystemTypes {
 public:
  // Of the mount that `fd` is on. statfs(2), which may wait for a server, is asked once for each.
  long of(int fd, std::uint64_t mount);
  // What statfs(2) has said of it.
  void add(std::uint64_t mount, long type);
  // 0 where of() was not asked for it. Also while another thread is here, rather than wait for it.
  long met(std::uint64_t mount) const;

 private:
  static constexpr std::size_t most = 1024;  // then all are forgotten
  mutable std::mutex mutex_;
  std::unordered_map<std::uint64_t, long> types_;
};

// This process's.
FileSystemTypes& file_system_types();

}  // namespace ferry::storage
