#include "daemon/served_files.hpp"

#include <algorithm>
#include <cerrno>
#include <random>

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/magic.hpp"
#include "daemon/descriptor_path.hpp"

namespace ferry::daemon {
namespace {

// File systems whose files change only through this kernel, so that a lease tells of every change.
// Not overlayfs: a mapping of a file that was closed may still change it, unseen by leases.
// 0 or an errno.
int find_true_leases(int descriptor) {
  struct statfs status {};
  if (fstatfs(descriptor, &status) != 0) return errno;
  switch (static_cast<std::uint64_t>(status.f_type)) {
    case EXT4_SUPER_MAGIC:
    case static_cast<std::uint64_t>(xfs_magic):
    case BTRFS_SUPER_MAGIC:
    case F2FS_SUPER_MAGIC:
    case TMPFS_MAGIC:
      return 0;
    default:
      return EOPNOTSUPP;
  }
}

}  // namespace

std::uint64_t ServedFiles::any_odd_number() {
  std::random_device random;
  return std::uint64_t{random()} << 32 | random() | 1;
}

ServedFiles::ServedFiles(SharedTable& table, const device::cache::View& cache,
                         std::chrono::milliseconds least_stay)
    : table_(table),
      cache_(cache),
      least_stay_(least_stay),
      watch_([this](int entry) { on_break(entry); }) {}

void ServedFiles::on_break(int entry) {
  File& file = files_[static_cast<std::size_t>(entry)];
  // Before the lease ends (D1). Even: nobody's.
  table_.files[entry].mark.store(0, std::memory_order_seq_cst);
  file.broken.store(true, std::memory_order_release);
  breaks_.fetch_add(1, std::memory_order_relaxed);
}

int ServedFiles::offer(Calls& calls, int descriptor, ServedFile& file) {
  struct stat status {};
  if (fstat(descriptor, &status) != 0) return errno;
  if (!S_ISREG(status.st_mode)) return EOPNOTSUPP;
  if (status.st_nlink == 0) return ESTALE;
  close_broken(calls);
  for (File& one : files_) {
    if (one.lease < 0 || one.device != status.st_dev || one.inode != status.st_ino) continue;
    one.offered = Clock::now();
    file = one.known;
    return 0;
  }
  if (const int error = find_true_leases(descriptor); error != 0) return error;
  if (status.st_size == 0) return ENODATA;
  std::uint32_t entry = 0;
  if (const int error = find_room(calls, entry); error != 0) return error;
  File& mine = files_[entry];
  // The client's is of O_PATH, which takes no lease.
  mine.lease = open(DescriptorPath(descriptor).text, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (mine.lease < 0) return errno;
  mine.device = status.st_dev;
  mine.inode = status.st_ino;
  mine.offered = Clock::now();
  mine.broken.store(false, std::memory_order_relaxed);
  int error = watch_.take(mine.lease, static_cast<int>(entry));
  // The size again, now that it cannot change.
  if (error == 0 && fstat(mine.lease, &status) != 0) error = errno;
  if (error == 0) error = serve(calls, entry, static_cast<std::uint64_t>(status.st_size));
  if (error != 0) {
    close_entry(calls, entry);
    return error;
  }
  file = mine.known;
  return 0;
}

// With the lease held: opens the file in the runtime and publishes the entry.
int ServedFiles::serve(Calls& calls, std::uint32_t entry, std::uint64_t size_bytes) {
  File& mine = files_[entry];
  const int handle = calls.open(DescriptorPath(mine.lease).text, O_RDONLY);
  if (handle < 0) return -handle;
  mine.handle.store(handle, std::memory_order_release);
  const device::cache::OpenFile& cached = cache_.open_file(handle);
  if (device::DeviceRef<std::int32_t>(const_cast<std::int32_t&>(cached.handle))
          .load(device::acquire) != handle)
    return EOPNOTSUPP;
  last_mark_ += 2;  // D4
  mine.known = {entry, cached.inode, last_mark_};
  FileEntry& shared = table_.files[entry];
  shared.size_bytes.store(size_bytes, std::memory_order_relaxed);
  const bool held = watch_.while_held(
      mine.lease, [&] { shared.mark.store(last_mark_, std::memory_order_release); });
  return held ? 0 : EBUSY;
}

// 0 with a free entry, or ENFILE. A program that goes round more files than there are entries would
// otherwise have one closed and opened for every third read.
int ServedFiles::find_room(Calls& calls, std::uint32_t& entry) {
  const auto unused =
      std::find_if(files_.begin(), files_.end(), [](const File& one) { return one.lease < 0; });
  if (unused != files_.end()) {
    entry = number_of(*unused);
    return 0;
  }
  const File& last = *oldest();
  if (Clock::now() - last.offered < least_stay_) return ENFILE;
  entry = number_of(last);
  close_entry(calls, entry);
  return 0;
}

const ServedFiles::File* ServedFiles::oldest() const {
  const File* found = nullptr;
  for (const File& one : files_)
    if (one.lease >= 0 && (found == nullptr || one.offered < found->offered)) found = &one;
  return found;
}

void ServedFiles::close_entry(Calls& calls, std::uint32_t entry) {
  File& file = files_[entry];
  table_.files[entry].mark.store(0, std::memory_order_seq_cst);
  watch_.give_up(file.lease);
  if (const std::int32_t handle = file.handle.exchange(0); handle != 0) calls.close(handle);
  close(file.lease);
  file.lease = -1;
}

void ServedFiles::close_broken(Calls& calls) {
  for (std::uint32_t entry = 0; entry < files_max; ++entry) {
    if (files_[entry].lease >= 0 && files_[entry].broken.load(std::memory_order_acquire))
      close_entry(calls, entry);
  }
}

void ServedFiles::close_deleted(Calls& calls) {
  for (std::uint32_t entry = 0; entry < files_max; ++entry) {
    struct stat status {};
    if (files_[entry].lease >= 0 && fstat(files_[entry].lease, &status) == 0 &&
        status.st_nlink == 0)
      close_entry(calls, entry);
  }
}

void ServedFiles::close_all(Calls& calls) {
  for (std::uint32_t entry = 0; entry < files_max; ++entry) {
    if (files_[entry].lease >= 0) close_entry(calls, entry);
  }
}

void ServedFiles::close_oldest(Calls& calls) {
  if (const File* one = oldest(); one != nullptr) close_entry(calls, number_of(*one));
}

std::uint64_t ServedFiles::count() const {
  return static_cast<std::uint64_t>(
      std::count_if(files_.begin(), files_.end(), [](const File& one) { return one.lease >= 0; }));
}

}  // namespace ferry::daemon
