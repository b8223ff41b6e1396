#include "storage/posix/local_mounts.hpp"

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstring>
#include <utility>

#include <fcntl.h>
#include <linux/magic.h>
#include <linux/openat2.h>
#include <linux/stat.h>  // <sys/stat.h> may have a `struct statx` without the mount
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>

namespace ferry::storage {
namespace {

constexpr unsigned statx_unique_mount = 0x4000;  // STATX_MNT_ID_UNIQUE, Linux 6.8

// Without asking a server. Returns false on failure.
bool look_at(int fd, const char* path, struct statx& status) {
  return ::syscall(SYS_statx, fd, path, AT_EMPTY_PATH | AT_STATX_DONT_SYNC,
                   STATX_BASIC_STATS | statx_unique_mount, &status) == 0;
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

// What the path names then is in another file system, whose mount is not known.
bool is_mount_root(const struct statx& status) {
  return (status.stx_attributes & STATX_ATTR_MOUNT_ROOT) != 0;
}

// What its end frees: blocks that were allocated in advance may lie beyond the size.
std::uint64_t held_bytes(const struct statx& status) {
  return std::max(status.stx_size, status.stx_blocks * 512);
}

// Where statx(2) is not there, or a sandbox refuses it.
int look_at_by_fstat(int fd, FileFacts& facts) {
  struct stat status {};
  if (::fstat(fd, &status) != 0) return -errno;
  facts = {status.st_mode, status.st_dev, status.st_ino, static_cast<std::uint64_t>(status.st_size),
           0};
  return 0;
}

}  // namespace

int look_at(int fd, FileFacts& facts) {
  struct statx status {};
  if (::syscall(SYS_statx, fd, "", AT_EMPTY_PATH, STATX_BASIC_STATS | statx_unique_mount,
                &status) != 0)
    return errno == ENOSYS || errno == EPERM ? look_at_by_fstat(fd, facts) : -errno;
  facts = {status.stx_mode, makedev(status.stx_dev_major, status.stx_dev_minor), status.stx_ino,
           status.stx_size, mount_number(status)};
  return 0;
}

std::uint64_t mount_number(int fd) {
  struct statx status {};
  return look_at(fd, "", status) ? mount_number(status) : 0;
}

int look_up(const char* path, bool follows_last_link, struct statx& status) {
  if (::statx(AT_FDCWD, path, follows_last_link ? 0 : AT_SYMLINK_NOFOLLOW,
              STATX_BASIC_STATS | statx_unique_mount, &status) != 0)
    return -errno;
  const std::uint64_t mount = mount_number(status);
  if (mount == 0 || file_system_types().met(mount) != 0 || !is_file_or_directory(status.stx_mode))
    return 0;
  const int fd = ::open(path, O_PATH | O_CLOEXEC | (follows_last_link ? 0 : O_NOFOLLOW));
  if (fd < 0) return 0;
  file_system_types().of(fd, mount_number(fd));
  ::close(fd);
  return 0;
}

LocalMounts::Known LocalMounts::known(std::uint64_t mount) {
  if (mount == 0) return {};
  const auto* const found = std::find_if(known_.begin(), known_.end(),
                                         [&](const Known& one) { return one.number == mount; });
  if (found != known_.end()) return *found;
  const long type = types_.met(mount);
  if (type == 0) return {};
  return known_[next_++ % most] = {mount, !is_remote(type) && !generates_files(type),
                                   type == OVERLAYFS_SUPER_MAGIC};
}

bool LocalMounts::allows(std::uint64_t mount, bool writes) {
  const Known found = known(mount);
  return found.local && !(writes && found.copies);
}

int LocalMounts::find(const char* path, const PathUse& use, struct statx& status) {
  Start* failed = std::exchange(failed_, nullptr);
  const int fd =
      open_known(path, O_PATH | O_CLOEXEC | (use.follows_last_link ? 0U : O_NOFOLLOW), 0);
  if (fd < 0) return -1;
  const bool frees = use.empties || use.removes;
  if (look_at(fd, "", status) && is_file_or_directory(status.stx_mode) &&
      allows(mount_number(status), use.writes || frees) &&
      !(frees && held_bytes(status) > emptied_bytes_max) &&
      !(use.removes && is_mount_root(status))) {
    if (failed != nullptr) failed->rests = openings_at_rest;
    return fd;
  }
  ::close(fd);
  return -1;
}

int LocalMounts::open(const char* path, int flags, FileFacts& facts) {
  failed_ = nullptr;
  const bool from_root = path[0] == '/';
  Start& start = from_root ? root_ : working_directory_;
  if (start.has_devices) return -1;
  if (start.rests > 0) {
    --start.rests;
    return -1;
  }
  // Looked at each time, as the program may have gone elsewhere: to a server that does not answer.
  struct statx status {};
  if (!look_at(AT_FDCWD, from_root ? "/" : "", status) ||
      !allows(mount_number(status), (flags & O_ACCMODE) != O_RDONLY))
    return -1;
  const int fd = open_known(path, static_cast<unsigned>(flags), RESOLVE_NO_XDEV);
  if (fd < 0) {
    if (errno == EXDEV || errno == EAGAIN) failed_ = &start;
    return -1;
  }
  if (look_at(fd, facts) != 0) {
    ::close(fd);
    return -1;
  }
  start.has_devices = S_ISCHR(facts.mode) || S_ISBLK(facts.mode);
  return fd;
}

int LocalMounts::create(const char* path, int flags, std::uint32_t mode) {
  char folder[PATH_MAX] = ".";
  const char* const slash = std::strrchr(path, '/');
  const char* const name = slash == nullptr ? path : slash + 1;
  if (std::strlen(path) >= sizeof folder) return -1;  // open(2) refuses it, each half may do
  if (slash != nullptr) {
    const auto bytes = static_cast<std::size_t>(name - path);
    std::memcpy(folder, path, bytes);
    folder[bytes] = '\0';
  }
  struct statx status {};
  const int at = find(folder, {.writes = true}, status);
  if (at < 0) return -1;
  open_how how{};
  how.flags = static_cast<unsigned>(flags);
  how.mode = mode & 07777;        // as open(2) does
  how.resolve = RESOLVE_NO_XDEV;  // to what is mounted at that name
  const auto fd = static_cast<int>(::syscall(SYS_openat2, at, name, &how, sizeof how));
  ::close(at);
  return fd;
}

}  // namespace ferry::storage
