#include "storage/posix/local_mounts.hpp"

#include <algorithm>
#include <cerrno>
#include <mutex>
#include <unordered_map>
#include <utility>

#include <fcntl.h>
#include <linux/openat2.h>
#include <linux/stat.h>  // <sys/stat.h> may have a `struct statx` without the mount
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/forks.hpp"

namespace ferry::storage {
namespace {

constexpr unsigned statx_unique_mount = 0x4000;  // STATX_MNT_ID_UNIQUE, Linux 6.8

// Without asking a server. Returns false on failure.
bool look_at(int fd, const char* path, struct statx& status) {
  return ::syscall(SYS_statx, fd, path, AT_EMPTY_PATH | AT_STATX_DONT_SYNC,
                   STATX_TYPE | statx_unique_mount, &status) == 0;
}

std::uint64_t mount_number(const struct statx& status) {
  return (status.stx_mask & statx_unique_mount) != 0 ? status.stx_mnt_id : 0;
}

bool is_file_or_directory(std::uint32_t mode) {
  return (mode & S_IFMT) == S_IFREG || (mode & S_IFMT) == S_IFDIR;
}

int open_known(const char* path, unsigned flags, unsigned resolve) {
  open_how how{};
  how.flags = flags;
  how.resolve = RESOLVE_CACHED | resolve;
  return static_cast<int>(::syscall(SYS_openat2, AT_FDCWD, path, &how, sizeof how));
}

struct KnownTypes {
  std::mutex mutex;
  std::unordered_map<std::uint64_t, long> types;  // by mount
};

}  // namespace

int look_at(int fd, FileFacts& facts) {
  struct statx status {};
  if (::syscall(SYS_statx, fd, "", AT_EMPTY_PATH, STATX_BASIC_STATS | statx_unique_mount,
                &status) != 0)
    return -errno;
  facts = {status.stx_mode, makedev(status.stx_dev_major, status.stx_dev_minor), status.stx_ino,
           status.stx_size, mount_number(status)};
  return 0;
}

std::uint64_t mount_number(int fd) {
  struct statx status {};
  return look_at(fd, "", status) ? mount_number(status) : 0;
}

long file_system_type(int fd, std::uint64_t mount) {
  auto& [mutex, types] = of_this_process<KnownTypes>();
  constexpr std::size_t most = 1024;
  if (mount != 0) {
    const std::lock_guard lock(mutex);
    if (const auto at = types.find(mount); at != types.end()) return at->second;
  }
  struct statfs file_system {};
  if (::fstatfs(fd, &file_system) != 0) return 0;
  const auto type = static_cast<long>(file_system.f_type);
  if (mount != 0) {
    const std::lock_guard lock(mutex);
    if (types.size() >= most) types.clear();
    types[mount] = type;
  }
  return type;
}

bool LocalMounts::knows(std::uint64_t mount) const {
  return mount != 0 && std::find(numbers_.begin(), numbers_.end(), mount) != numbers_.end();
}

void LocalMounts::learn(std::uint64_t mount) {
  if (mount == 0 || knows(mount)) return;
  numbers_[next_++ % most] = mount;
  for (Start* start : {&root_, &working_directory_}) {
    struct statx status {};
    if (look_at(AT_FDCWD, start->path, status) && mount_number(status) == mount)
      start->mount = mount;
  }
}

int LocalMounts::find(const char* path, bool follows_last_link) {
  Start* failed = std::exchange(failed_, nullptr);
  if (numbers_[0] == 0) return -1;
  const int fd = open_known(path, O_PATH | O_CLOEXEC | (follows_last_link ? 0U : O_NOFOLLOW), 0);
  if (fd < 0) return -1;
  struct statx status {};
  if (look_at(fd, "", status) && is_file_or_directory(status.stx_mode) &&
      knows(mount_number(status))) {
    if (failed != nullptr) failed->rests = openings_at_rest;
    return fd;
  }
  ::close(fd);
  return -1;
}

int LocalMounts::open(const char* path, int flags, FileFacts& facts) {
  Start& start = path[0] == '/' ? root_ : working_directory_;
  if (!knows(start.mount)) return -1;
  if (start.rests > 0) {
    --start.rests;
    return -1;
  }
  const int fd = open_known(path, static_cast<unsigned>(flags), RESOLVE_NO_XDEV);
  if (fd < 0) {
    failed_ = &start;
    return -1;
  }
  if (look_at(fd, facts) != 0) {
    ::close(fd);
    return -1;
  }
  // The program may have gone elsewhere since, and what is no file may take its time: that delays
  // this thread once.
  start.mount = is_file_or_directory(facts.mode) ? facts.mount : 0;
  return fd;
}

}  // namespace ferry::storage
