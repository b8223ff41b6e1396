#include "storage/posix/local_mounts.hpp"

#include <algorithm>

#include <fcntl.h>
#include <linux/openat2.h>
#include <linux/stat.h>  // <sys/stat.h> may have a `struct statx` without the mount
#include <sys/syscall.h>
#include <unistd.h>

namespace ferry::storage {
namespace {

constexpr unsigned statx_unique_mount = 0x4000;  // STATX_MNT_ID_UNIQUE, Linux 6.8

// Without asking a server. Returns false on failure.
bool look_at(int fd, struct statx& status) {
  return ::syscall(SYS_statx, fd, "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC,
                   STATX_TYPE | statx_unique_mount, &status) == 0;
}

std::uint64_t mount_number(const struct statx& status) {
  return (status.stx_mask & statx_unique_mount) != 0 ? status.stx_mnt_id : 0;
}

bool is_file_or_directory(const struct statx& status) {
  const unsigned type = status.stx_mode & S_IFMT;
  return type == S_IFREG || type == S_IFDIR;
}

}  // namespace

std::uint64_t mount_number(int fd) {
  struct statx status {};
  return look_at(fd, status) ? mount_number(status) : 0;
}

void LocalMounts::learn(std::uint64_t mount) {
  if (mount == 0 || std::find(numbers_.begin(), numbers_.end(), mount) != numbers_.end()) return;
  numbers_[next_++ % most] = mount;
}

int LocalMounts::find(const char* path, bool follows_last_link) const {
  if (numbers_[0] == 0) return -1;
  open_how how{};
  how.flags = O_PATH | O_CLOEXEC | (follows_last_link ? 0U : O_NOFOLLOW);
  how.resolve = RESOLVE_CACHED;
  const auto fd = static_cast<int>(::syscall(SYS_openat2, AT_FDCWD, path, &how, sizeof how));
  if (fd < 0) return -1;
  struct statx status {};
  if (look_at(fd, status) && is_file_or_directory(status)) {
    const std::uint64_t mount = mount_number(status);
    if (mount != 0 && std::find(numbers_.begin(), numbers_.end(), mount) != numbers_.end())
      return fd;
  }
  ::close(fd);
  return -1;
}

}  // namespace ferry::storage
