#include "storage/posix/file.hpp"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <iterator>
#include <memory>
#include <new>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include <dirent.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/forks.hpp"
#include "base/magic.hpp"
#include "base/sanitizer.hpp"
#include "base/times.hpp"
#include "storage/entry_names.hpp"
#include "storage/mounted_layout.hpp"
#include "storage/posix/change_times.hpp"
#include "storage/posix/file_systems.hpp"
#include "storage/posix/local_mounts.hpp"

namespace ferry::storage {
namespace {

// Adds the directory's entries to `entries`, or nothing. Returns 0 or a negative errno.
std::int64_t list_directory(const char* path, std::vector<DirectoryEntry>& entries) {
  const auto close = [](DIR* open) { closedir(open); };
  const std::unique_ptr<DIR, decltype(close)> directory(opendir(path), close);
  if (directory == nullptr) return -errno;
  std::vector<DirectoryEntry> found;
  for (;;) {
    errno = 0;
    const dirent* next = readdir(directory.get());  // NOLINT(concurrency-mt-unsafe): own stream
    if (next == nullptr) break;
    const std::string_view name = next->d_name;
    if (is_dot_name(name)) continue;
    DirectoryEntry entry{std::string(name), {}};
    const std::int64_t error =
        get_status(dirfd(directory.get()), entry.name.c_str(), AT_SYMLINK_NOFOLLOW, entry.status);
    if (error == -ENOENT) continue;  // removed meanwhile
    if (error != 0) return error;
    found.push_back(std::move(entry));
  }
  if (errno != 0) return -errno;
  std::move(found.begin(), found.end(), std::back_inserter(entries));
  return 0;
}

// Whether it is generated, by behaviour: it reports size 0, and is not empty.
bool has_bytes_behind_its_size(int fd, const FileFacts& facts) {
  char byte = 0;
  if (!S_ISREG(facts.mode) || facts.size_bytes != 0 || ::pread(fd, &byte, 1, 0) <= 0) return false;
  struct stat now {};  // another program may be filling it
  return ::fstat(fd, &now) == 0 && now.st_size == 0;
}

std::int64_t nanoseconds(const struct statx_timestamp& time) {
  return time.tv_sec * 1'000'000'000LL + time.tv_nsec;
}

std::uint64_t device_of(const struct statx& status) {
  return (std::uint64_t{status.stx_dev_major} << 32) | status.stx_dev_minor;
}

std::uint64_t version_of(const PosixFile& file, const struct statx& from) {
  // For the whole process: its answers about a file hold for every descriptor.
  auto& times = of_this_process<ChangeTimes>();
  timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);
  const ChangeTimes::File name{device_of(from), from.stx_ino};
  return times.version(name, nanoseconds(from.stx_ctime),
                       now.tv_sec * 1'000'000'000LL + now.tv_nsec,
                       [&] { return file.read_only && has_no_writers(file.fd); });
}

std::int64_t retried(auto call) {
  for (;;) {
    const auto result = call();
    if (result >= 0) return result;
    if (errno != EINTR) return -errno;
  }
}

// 0 where /sys is hidden.
std::uint64_t size_of_device(const struct statx& from) {
  constexpr std::uint64_t sector_bytes = 512;
  char text[64];
  std::snprintf(text, sizeof text, "/sys/dev/block/%u:%u/size", from.stx_rdev_major,
                from.stx_rdev_minor);
  const int fd = ::open(text, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return 0;
  const ssize_t got = ::read(fd, text, sizeof text - 1);
  ::close(fd);
  text[std::max<ssize_t>(got, 0)] = '\0';
  return std::strtoull(text, nullptr, 10) * sector_bytes;
}

}  // namespace

Status to_status(const struct statx& from) {
  Status status;
  // POSIX leaves open what the size of a device is, and Linux says 0. A cache needs to know it.
  status.size_bytes = S_ISBLK(from.stx_mode) ? size_of_device(from) : from.stx_size;
  status.allocated_bytes = from.stx_blocks * 512;
  status.inode = from.stx_ino;
  status.device = device_of(from);
  status.accessed_ns = nanoseconds(from.stx_atime);
  status.modified_ns = nanoseconds(from.stx_mtime);
  status.changed_ns = nanoseconds(from.stx_ctime);
  status.mode = from.stx_mode;
  status.links = from.stx_nlink;
  status.owner = from.stx_uid;
  status.group = from.stx_gid;
  status.block_bytes = from.stx_blksize;
  return status;
}

std::int64_t get_status(int directory, const char* path, int flags, Status& status) {
  struct statx buffer {};
  if (statx(directory, path, flags, STATX_BASIC_STATS, &buffer) != 0) return -errno;
  status = to_status(buffer);
  return 0;
}

namespace {

std::int64_t get_path_status(const char* path, bool follows_last_link, Status& status) {
  struct statx buffer {};
  const int error = look_up(path, follows_last_link, buffer);
  if (error == 0) status = to_status(buffer);
  return error;
}

std::int64_t get_file_status(const PosixFile& file, Status& status) {
  struct statx buffer {};
  if (statx(file.fd, "", AT_EMPTY_PATH, STATX_BASIC_STATS, &buffer) != 0) return -errno;
  status = to_status(buffer);
  status.generated = file.generated;
  if (file.stamps_changes) status.version = version_of(file, buffer);
  return 0;
}

// The alignment for direct I/O; 4 KiB suits every device if the kernel does not report it.
void learn_alignment(PosixFile& file) {
  file.memory_alignment_bytes = 4096;
  file.offset_alignment_bytes = 4096;
#ifdef STATX_DIOALIGN
  struct statx buffer {};
  if (statx(file.fd, "", AT_EMPTY_PATH, STATX_DIOALIGN, &buffer) == 0 &&
      (buffer.stx_mask & STATX_DIOALIGN) != 0 && buffer.stx_dio_offset_align != 0) {
    file.memory_alignment_bytes = buffer.stx_dio_mem_align;
    file.offset_alignment_bytes = buffer.stx_dio_offset_align;
  }
#endif
}

// Opens the same file again, with O_DIRECT, even if its name has changed.
std::int64_t open_direct(PosixFile& file, int flags) {
  char path[64];
  std::snprintf(path, sizeof path, "/proc/self/fd/%d", file.fd);
  const int kept = flags & ~(O_CREAT | O_EXCL | O_TRUNC | O_NOFOLLOW | O_TMPFILE);
  file.direct_fd = ::open(path, kept | O_DIRECT | O_CLOEXEC);
  // Created with a mode that forbids opening it again, or without /proc: use the page cache.
  const bool may_be_buffered = (errno == EACCES && (flags & O_CREAT) != 0) || errno == ENOENT;
  if (file.direct_fd < 0) return may_be_buffered ? 0 : -errno;
  learn_alignment(file);
  return 0;
}

// `flags` without O_DIRECT.
std::int64_t open_with(Operation& operation, int flags) {
  const std::int64_t opened =
      retried([&] { return ::open(operation.path, flags, operation.mode); });
  return opened < 0 ? opened : take_opened(operation, static_cast<int>(opened));
}

std::int64_t open_file(Operation& operation) {
  const int flags = opening_flags(operation);
  if (operation.layout == nullptr) return open_with(operation, flags);
  // A file made with a layout exists before it is opened.
  if ((flags & O_CREAT) == 0 || (flags & O_EXCL) == 0) return -EINVAL;
  const int made = make_with_layout(operation.path, operation.mode, *operation.layout);
  if (made != 0) return made;
  const std::int64_t error = open_with(operation, flags & ~O_EXCL);
  struct stat status {};
  const bool is_empty = ::lstat(operation.path, &status) == 0 && status.st_size == 0;
  if (error != 0 && is_empty) ::unlink(operation.path);
  return error;
}

// close(2) reports late write errors and must not be retried, not even after EINTR.
std::int64_t close_file(PosixFile* file) {
  std::unique_ptr<PosixFile> owned(file);
  if (owned->direct_fd >= 0) ::close(owned->direct_fd);
  const int result = ::close(owned->fd) == 0 || errno == EINTR ? 0 : -errno;
  owned->fd = owned->direct_fd = -1;
  return result;
}

// Holds one blocking write's turn and selects its descriptor.
class WriteTurn {
 public:
  WriteTurn(const PosixFile& file, bool may_be_direct) : file_(file) {
    if (file.turns == nullptr) return;
    direct_ = may_be_direct && file.turns->try_begin_direct();
    if (!direct_) file.turns->begin_buffered();
  }
  ~WriteTurn() {
    if (direct_) {
      file_.turns->end_direct();
    } else if (file_.turns != nullptr) {
      file_.turns->end_buffered();
    }
  }
  WriteTurn(const WriteTurn&) = delete;
  WriteTurn& operator=(const WriteTurn&) = delete;
  int fd() const { return direct_ ? file_.direct_fd : file_.fd; }

 private:
  const PosixFile& file_;
  bool direct_ = false;
};

std::int64_t read_once(const PosixFile& file, const Operation& operation, int count, off_t offset) {
  const bool direct = file.direct_fd >= 0 && fits_direct(file, operation);
  const int fd = direct ? file.direct_fd : file.fd;
  return retried([&] { return preadv(fd, operation.vectors.data(), count, offset); });
}

std::int64_t write_once(const PosixFile& file, const Operation& operation, int count,
                        off_t offset) {
  const WriteTurn turn(file, file.direct_fd >= 0 && fits_direct(file, operation));
  // A page of a device's cache may change during its write-back; the change is written later
  // (device/cache/frames.hpp, F3).
  const UnseenReads unseen;
  return retried([&] { return pwritev(turn.fd(), operation.vectors.data(), count, offset); });
}

// Reads or writes until all is moved, the file ends, or an error comes after some bytes.
std::int64_t transfer(Operation& operation) {
  auto& file = static_cast<PosixFile&>(*operation.file);
  for (;;) {
    const off_t offset = operation.offset + operation.done_bytes;
    const auto count = static_cast<int>(operation.vectors.size());
    const std::int64_t moved = operation.kind == Kind::read
                                   ? read_once(file, operation, count, offset)
                                   : write_once(file, operation, count, offset);
    if (moved < 0) return operation.done_bytes > 0 ? operation.done_bytes : moved;
    if (advance(operation, moved) || moved == 0) return operation.done_bytes;
  }
}

std::int64_t append(Operation& operation) {
  auto& file = static_cast<PosixFile&>(*operation.file);
  const WriteTurn turn(file, false);
  while (file.appending.test_and_set(std::memory_order_acquire))
    std::this_thread::yield();
  const std::int64_t written = retried([&] {
    return writev(file.fd, operation.vectors.data(), static_cast<int>(operation.vectors.size()));
  });
  if (written >= 0) operation.value = static_cast<std::uint64_t>(lseek(file.fd, 0, SEEK_CUR));
  file.appending.clear(std::memory_order_release);
  return written;
}

// The rest of an open, once the file has its descriptor.
std::int64_t learn_of(PosixFile& file, Operation& operation, const FileFacts& facts) {
  file.append = (operation.flags & O_APPEND) != 0;
  file.synchronous = (operation.flags & O_DSYNC) != 0;  // O_SYNC contains it
  file.read_only = (operation.flags & O_ACCMODE) == O_RDONLY;
  // Every transfer has an offset, which pipes and sockets do not.
  if (S_ISFIFO(facts.mode) || S_ISSOCK(facts.mode)) return -ESPIPE;
  file.place = facts.device;
  file.small = facts.size_bytes <= LocalMounts::emptied_bytes_max;
  if ((operation.flags & O_NONBLOCK) == 0)
    fcntl(file.fd, F_SETFL, opening_flags(operation) & ~O_NONBLOCK);
  if (const long type = file_system_types().of(file.fd, facts.mount); type != 0) {
    file.file_system = static_cast<std::uint64_t>(type);
    file.in_memory = type == TMPFS_MAGIC || type == ramfs_magic;
    const bool keeps_files = stamps_changes(type) || file.in_memory;
    file.generated =
        S_ISREG(facts.mode) &&
        (generates_files(type) || (!keeps_files && has_bytes_behind_its_size(file.fd, facts)));
    file.special = file.generated || (!S_ISREG(facts.mode) && !S_ISBLK(facts.mode));
    file.remote =
        is_remote(type) || file.generated || !(S_ISREG(facts.mode) || S_ISDIR(facts.mode));
    file.in_user_space = type == FUSE_SUPER_MAGIC;
    file.stamps_changes = S_ISREG(facts.mode) && stamps_changes(type);
    if (!file.remote && !generates_files(type)) file.mount = facts.mount;
  }
  if (!file.read_only && !file.special) file.turns = WriteTurns::of(facts.device, facts.inode);
  if ((operation.flags & O_DIRECT) != 0) {
    if (const std::int64_t error = open_direct(file, operation.flags); error != 0) return error;
  }
  if (operation.layout != nullptr) {
    const int error = mounted_layout(operation.path, *operation.layout);
    if (error != 0) return error;
  }
  return 0;
}

}  // namespace

PosixFile::PosixFile() : identity(std::make_shared<Identity>()) {
  static std::atomic<std::uint64_t> last{0};
  identity->number = last.fetch_add(1, std::memory_order_relaxed) + 1;
}

PosixFile::~PosixFile() {
  if (direct_fd >= 0) ::close(direct_fd);
  if (fd >= 0) ::close(fd);
}

// A FIFO without a writer must not hold up the thread that opens it, and neither must the holder of
// a lease on a file (execute_waiting()): so it is opened with O_NONBLOCK.
int opening_flags(const Operation& operation) {
  return (operation.flags & ~O_DIRECT) | O_CLOEXEC | O_NONBLOCK;
}

std::int64_t take_opened(Operation& operation, int fd, const FileFacts& facts) {
  std::unique_ptr<PosixFile> file;
  try {
    file = std::make_unique<PosixFile>();
    file->fd = fd;
    const std::int64_t error = learn_of(*file, operation, facts);
    if (error == 0) operation.opened = std::move(file);
    return error;
  } catch (const std::bad_alloc&) {
    if (file == nullptr) ::close(fd);
    return -ENOMEM;
  }
}

std::int64_t take_opened(Operation& operation, int fd) {
  FileFacts facts;
  if (const int error = look_at(fd, facts); error != 0) {
    ::close(fd);
    return error;
  }
  return take_opened(operation, fd, facts);
}

bool fits_direct(const PosixFile& file, const Operation& operation) {
  if (file.append && operation.kind == Kind::write) return false;
  std::uint64_t offsets = static_cast<std::uint64_t>(operation.offset + operation.done_bytes);
  std::uint64_t addresses = 0;
  for (const iovec& vector : operation.vectors) {
    offsets |= vector.iov_len;
    addresses |= reinterpret_cast<std::uintptr_t>(vector.iov_base);
  }
  return offsets % file.offset_alignment_bytes == 0 && addresses % file.memory_alignment_bytes == 0;
}

std::int64_t read_file_blocking(const char* path, std::span<std::byte> memory) {
  const std::int64_t opened =
      retried([&] { return ::open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY); });
  if (opened < 0) return opened;
  const auto fd = static_cast<int>(opened);
  const auto closed = [fd](std::int64_t result) {
    ::close(fd);
    return result;
  };
  struct stat status {};
  if (fstat(fd, &status) != 0) return closed(-errno);
  if (!S_ISREG(status.st_mode)) return closed(-ENOTSUP);
  const auto expected = static_cast<std::size_t>(status.st_size);
  if (expected >= memory.size()) return closed(-EFBIG);
  std::size_t got = 0;
  for (;;) {
    if (got == memory.size()) return closed(-EFBIG);
    const std::int64_t more =
        retried([&] { return ::read(fd, memory.data() + got, memory.size() - got); });
    if (more < 0) return closed(more);
    got += static_cast<std::size_t>(more);
    // Asked for more, it stopped at the end; a file that changes size meanwhile is read until its
    // end is seen. Files of /proc report that they are empty.
    if (more == 0 || (got == expected && expected > 0))
      return closed(static_cast<std::int64_t>(got));
  }
}

bool advance(Operation& operation, std::int64_t bytes) {
  operation.done_bytes += bytes;
  auto left = static_cast<std::size_t>(bytes);
  while (!operation.vectors.empty() && left >= operation.vectors.front().iov_len) {
    left -= operation.vectors.front().iov_len;
    operation.vectors = operation.vectors.subspan(1);
  }
  if (operation.vectors.empty()) return true;
  iovec& first = operation.vectors.front();
  first.iov_base = static_cast<char*>(first.iov_base) + left;
  first.iov_len -= left;
  return false;
}

bool wants_write_out(const Operation& operation) {
  // Below this the hand-over costs more than the head start is worth.
  constexpr std::int64_t bytes_min = 256 * 1024;
  if (!operation.sync_follows || operation.kind != Kind::write || operation.result < bytes_min)
    return false;
  const auto& file = static_cast<const PosixFile&>(*operation.file);
  return !file.in_memory && !file.special && file.direct_fd < 0;
}

void begin_write_out(const Operation& operation) {
  const auto& file = static_cast<const PosixFile&>(*operation.file);
  // A hint: the sync finds and reports failures again.
  sync_file_range(file.fd, operation.offset, operation.result, SYNC_FILE_RANGE_WRITE);
}

namespace {

timespec time_to_set(const std::optional<std::int64_t>& ns) {
  if (!ns) return {0, UTIME_OMIT};
  if (*ns == NewAttributes::now) return {0, UTIME_NOW};
  return timespec_of(*ns);
}

// In the order of the kernel: a new owner ends setuid and setgid, so the mode comes after it.
std::int64_t set_attributes(const char* path, const NewAttributes& to, int flags) {
  constexpr auto keep = static_cast<std::uint32_t>(-1);
  if ((to.owner || to.group) &&
      ::fchownat(AT_FDCWD, path, to.owner.value_or(keep), to.group.value_or(keep), flags) != 0)
    return -errno;
  if (to.mode && ::fchmodat(AT_FDCWD, path, *to.mode, flags) != 0) return -errno;
  const timespec times[2] = {time_to_set(to.accessed_ns), time_to_set(to.modified_ns)};
  if ((to.accessed_ns || to.modified_ns) && ::utimensat(AT_FDCWD, path, times, flags) != 0)
    return -errno;
  return 0;
}

std::int64_t read_link(const char* path, std::string& text) {
  char found[PATH_MAX];
  const ssize_t bytes = ::readlink(path, found, sizeof found);
  if (bytes < 0) return -errno;
  text.assign(found, static_cast<std::size_t>(bytes));
  return 0;
}

std::int64_t result_of(Operation& operation) {
  auto* file = static_cast<PosixFile*>(operation.file);
  const int of_link = (operation.flags & O_NOFOLLOW) != 0 ? AT_SYMLINK_NOFOLLOW : 0;
  switch (operation.kind) {
    case Kind::open:
      return open_file(operation);
    case Kind::close:
      return close_file(file);
    case Kind::read:
    case Kind::write:
      return transfer(operation);
    case Kind::append:
      return append(operation);
    case Kind::sync:
      return retried([&] { return fsync(file->fd); });
    case Kind::sync_data:
      return retried([&] { return fdatasync(file->fd); });
    case Kind::truncate:
      return retried([&] { return ftruncate(file->fd, operation.offset); });
    case Kind::file_status:
      return get_file_status(*file, operation.status);
    case Kind::path_status:
      return get_path_status(operation.path, of_link == 0, operation.status);
    case Kind::unlink:
      return ::unlink(operation.path) == 0 ? 0 : -errno;
    case Kind::rename:
      return ::rename(operation.path, operation.new_path) == 0 ? 0 : -errno;
    case Kind::path_layout:
      return mounted_layout(operation.path, *operation.layout);
    case Kind::set_layout:
      return set_mounted_layout(operation.path, *operation.layout);
    case Kind::make_directory:
      return ::mkdir(operation.path, operation.mode) == 0 ? 0 : -errno;
    case Kind::remove_directory:
      return ::rmdir(operation.path) == 0 ? 0 : -errno;
    case Kind::list_directory:
      return list_directory(operation.path, *operation.entries);
    case Kind::set_attributes:
      return set_attributes(operation.path, *operation.attributes, of_link);
    case Kind::read_link:
      return read_link(operation.path, *operation.text);
    case Kind::make_link:
      return ::symlink(operation.text->c_str(), operation.path) == 0 ? 0 : -errno;
    case Kind::add_name:
      return ::link(operation.path, operation.new_path) == 0 ? 0 : -errno;
  }
  return -EINVAL;
}

}  // namespace

void execute_blocking(Operation& operation) {
  try {
    operation.result = result_of(operation);
  } catch (const std::bad_alloc&) {
    operation.result = -ENOMEM;
  }
}

void execute_waiting(Operation& operation) {
  constexpr std::chrono::microseconds longest_pause{1'000'000};
  execute_blocking(operation);
  if (operation.kind != Kind::open || (operation.flags & O_NONBLOCK) != 0) return;
  for (std::chrono::microseconds pause{100}; pause < longest_pause; pause *= 2) {
    if (operation.result != -EAGAIN) return;
    std::this_thread::sleep_for(pause);
    execute_blocking(operation);
  }
}

}  // namespace ferry::storage
