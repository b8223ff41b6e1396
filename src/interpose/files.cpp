#include "interpose/files.hpp"

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <new>

#include <dirent.h>
#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/kernel_call.hpp"
#include "interpose/cached_reads.hpp"
#include "interpose/say.hpp"

namespace ferry::iobuf {
namespace {

using ferry::run::put_pieces;
using ferry::run::say;

// The number of bytes, or a negative errno, as a system call returns it.
ssize_t returned(std::int64_t moved) {
  if (moved >= 0) return static_cast<ssize_t>(moved);
  errno = static_cast<int>(-moved);
  return -1;
}

int failed(int error) {
  errno = error;
  return -1;
}

// 0 or a negative errno.
long find_status(int descriptor, struct stat& status) {
  return kernel_call(SYS_newfstatat, descriptor, "", &status, AT_EMPTY_PATH);
}

int release_now(TrackedFile& file, const char* why) {
  const auto held = file.lock();
  return file.release(why);
}

std::string describe(const char* what, std::uint64_t calls, std::uint64_t bytes,
                     std::uint64_t requests, std::uint64_t request_bytes) {
  const auto mean = [](std::uint64_t total, std::uint64_t count) {
    return std::to_string(count == 0 ? 0 : total / count);
  };
  return std::to_string(calls) + " " + what + "s of " + mean(bytes, calls) + " bytes became " +
         std::to_string(requests) + " of " + mean(request_bytes, requests);
}

}  // namespace

TrackedFile::TrackedFile(int descriptor, std::string path, int flags, const struct stat& status,
                         const BufferOptions& options)
    : descriptor_(descriptor),
      path_(std::move(path)),
      may_read_((flags & O_ACCMODE) != O_WRONLY),
      may_write_((flags & O_ACCMODE) != O_RDONLY),
      device_(status.st_dev),
      inode_(status.st_ino),
      below_(descriptor),
      file_(below_, options) {}

std::unique_lock<std::mutex> TrackedFile::lock() {
  return std::unique_lock(mutex_);
}

ssize_t TrackedFile::read(void* data, std::size_t bytes) {
  const ssize_t moved = pread(data, bytes, position_);
  if (moved > 0) position_ += moved;
  return moved;
}

ssize_t TrackedFile::write(const void* data, std::size_t bytes) {
  const ssize_t moved = pwrite(data, bytes, position_);
  if (moved > 0) position_ += moved;
  return moved;
}

ssize_t TrackedFile::pread(void* data, std::size_t bytes, off_t offset) {
  if (!may_read_) return failed(EBADF);
  if (offset < 0) return failed(EINVAL);
  return returned(file_.pread(data, bytes, static_cast<std::uint64_t>(offset)));
}

ssize_t TrackedFile::pwrite(const void* data, std::size_t bytes, off_t offset) {
  if (!may_write_) return failed(EBADF);
  if (offset < 0) return failed(EINVAL);
  return returned(file_.pwrite(data, bytes, static_cast<std::uint64_t>(offset)));
}

off_t TrackedFile::seek(off_t offset, int whence) {
  off_t base = 0;
  if (whence == SEEK_CUR) base = position_;
  if (whence == SEEK_END) {
    base = returned(file_.size_bytes());
    if (base < 0) return -1;
  }
  if (whence == SEEK_DATA || whence == SEEK_HOLE) {
    if (const int error = file_.flush()) return failed(error);
    const off_t found = kernel_call(SYS_lseek, descriptor_, offset, whence);
    if (found < 0) return failed(static_cast<int>(-found));
    position_ = found;
    return found;
  }
  if (whence != SEEK_SET && whence != SEEK_CUR && whence != SEEK_END) return failed(EINVAL);
  off_t wanted = 0;
  if (__builtin_add_overflow(base, offset, &wanted)) return failed(EOVERFLOW);
  if (wanted < 0) return failed(EINVAL);
  position_ = wanted;
  return position_;
}

int TrackedFile::resize(off_t size_bytes) {
  if (!may_write_ || size_bytes < 0) return failed(EINVAL);
  const int error = file_.resize(static_cast<std::uint64_t>(size_bytes));
  return error == 0 ? 0 : failed(error);
}

int TrackedFile::release(const char* why) {
  if (is_released_) return 0;
  const int error = file_.flush();
  if (error != 0) {
    say({"ferry-iobuf: ", path_,
         ": buffered data could not be written and is lost: ", ferry::run::text_of(error), "\n"});
  }
  file_.discard();
  kernel_call(SYS_lseek, descriptor_, position_, SEEK_SET);
  is_released_ = true;
  why_ = why;
  return error;
}

void TrackedFile::abandon() {
  const std::lock_guard lock(mutex_);
  if (!is_released_)
    say({"ferry-iobuf: ", path_,
         ": was closed unseen, and buffered data is lost; leave it out of FERRY_IOBUF\n"});
  file_.discard();
  is_released_ = true;
}

namespace {

alignas(Files) constinit std::byte files_memory[sizeof(Files)];

}  // namespace

Files& Files::instance() {
  return *std::launder(reinterpret_cast<Files*>(files_memory));
}

void Files::begin() {
  const auto* files = new (files_memory) Files;
  has_rules.store(!files->settings_.rules.empty(), std::memory_order_release);
}

Files::Files() {
  const char* text = std::getenv("FERRY_IOBUF");
  try {
    settings_ = parse_settings(text != nullptr ? text : "");
  } catch (const std::bad_alloc&) {
    say({"ferry-iobuf: no memory for the settings; nothing is buffered\n"});
  }
  if (!settings_.error.empty())
    say({"ferry-iobuf: FERRY_IOBUF: ", settings_.error, "; nothing is buffered\n"});
  if (settings_.rules.empty()) return;
  DIR* const folder = opendir("/proc/self/fd");
  if (folder == nullptr) return;
  while (const dirent* const one = readdir(folder))
    if (one->d_name[0] != '.' && std::atoi(one->d_name) != dirfd(folder))
      add_copy(std::atoi(one->d_name));
  closedir(folder);
}

void Files::opened(int descriptor, const char* path, int flags) {
  if (!buffers() || run::CachedReads::instance().is_in_child()) return;
  struct stat status {};
  if (const long error = find_status(descriptor, status); error != 0) {
    if (error == -EBADF) return;  // another thread has closed it
    // It may be one that is buffered, or that will be by another descriptor.
    const Locked lock(mutex_);
    release_all_locked("a file could not be told");
    is_unsure_ = true;
    return;
  }
  if (!S_ISREG(status.st_mode)) return;
  const int saved = errno;
  const Locked lock(mutex_);
  forget_stale(descriptor);
  try {
    buffer(descriptor, path, flags, status);
  } catch (const std::bad_alloc&) {  // then do not buffer it, nor another descriptor of the file
    files_.erase(descriptor);
    is_unsure_ = true;
  }
  errno = saved;
}

void Files::buffer(int descriptor, const char* path, int flags, const struct stat& status) {
  constexpr int refused = O_APPEND | O_DIRECT | O_SYNC | O_DSYNC | (O_TMPFILE & ~O_DIRECTORY);
  unbuffered_.remove(descriptor);     // another file's, which has been closed
  if ((flags & O_PATH) != 0) return;  // it moves no data
  const auto other = std::find_if(files_.begin(), files_.end(),
                                  [&](const auto& one) { return one.second->is(status); });
  // Two descriptors of one file would each have their own buffers.
  if (other != files_.end()) release_now(*other->second, "opened twice");
  const Rule* rule = settings_.rule_for(path);
  if (other != files_.end() || rule == nullptr || (flags & refused) != 0 || is_finished_ ||
      is_unsure_ || static_cast<unsigned>(descriptor) >= descriptors_max ||
      unbuffered_.has(status)) {
    unbuffered_.add(descriptor, status);
    return;
  }
  files_[descriptor] =
      std::make_shared<TrackedFile>(descriptor, path, flags, status, rule->options);
  tracked[static_cast<std::size_t>(descriptor)] = true;
}

void Files::copied(int descriptor) {
  if (buffers()) add_copy(descriptor);
}

void Files::add_copy(int descriptor) {
  note(descriptor, [&](const struct stat& status) {
    release_file_locked(status, "another descriptor");
    unbuffered_.add(descriptor, status);
  });
}

void Files::mapped(int descriptor) {
  if (!buffers()) return;
  release(descriptor, "mmap");
  note(descriptor, [&](const struct stat& status) { unbuffered_.add_mapped(status); });
}

template <class Add>
void Files::note(int descriptor, Add&& add) {
  struct stat status {};
  if (descriptor < 0 || run::CachedReads::instance().is_in_child()) return;
  const int saved = errno;
  const Locked lock(mutex_);
  try {
    const long error = find_status(descriptor, status);
    if (error != 0) {
      is_unsure_ = is_unsure_ || error != -EBADF;
    } else if (S_ISREG(status.st_mode)) {
      add(status);
    }
  } catch (const std::bad_alloc&) {
    is_unsure_ = true;
  }
  errno = saved;
}

// The C library closes files from fdopen without the program's close.
void Files::forget_stale(int descriptor) {
  const auto found = files_.find(descriptor);
  if (found == files_.end()) return;
  found->second->abandon();
  record(*found->second);
  files_.erase(found);
  tracked[static_cast<std::size_t>(descriptor)] = false;
}

FilePointer Files::find(int descriptor) {
  if (!may_track(descriptor)) return nullptr;
  const Locked lock(mutex_);
  const auto found = files_.find(descriptor);
  return found != files_.end() ? found->second : nullptr;
}

int Files::closing(int descriptor) {
  const FilePointer file = find(descriptor);
  if (file == nullptr || run::CachedReads::instance().is_in_child()) return 0;
  const Locked lock(mutex_);
  files_.erase(descriptor);
  tracked[static_cast<std::size_t>(descriptor)] = false;
  const int error = release_now(*file, "");
  record(*file);
  return error;
}

void Files::release(int descriptor, const char* why) {
  if (const FilePointer file = find(descriptor)) release_now(*file, why);
}

void Files::release_file(const struct stat& status, const char* why) {
  if (!buffers()) return;
  const Locked lock(mutex_);
  release_file_locked(status, why);
}

void Files::release_file_locked(const struct stat& status, const char* why) {
  for (const auto& [descriptor, file] : files_)
    if (file->is(status)) release_now(*file, why);
}

void Files::release_named(int folder, const char* path, const char* why) {
  if (!buffers()) return;
  struct stat status {};
  if (kernel_call(SYS_newfstatat, folder, path, &status, 0) == 0) release_file(status, why);
}

void Files::flush_named(int folder, const char* path) {
  if (!buffers()) return;
  struct stat status {};
  if (kernel_call(SYS_newfstatat, folder, path, &status, 0) == 0) flush_file(status);
}

void Files::flush_all() {
  if (!buffers()) return;
  const Locked lock(mutex_);
  for (const auto& [descriptor, file] : files_) {
    const auto held = file->lock();
    if (!file->is_released()) file->flush();
  }
}

bool Files::flush_file(const struct stat& status) {
  if (!buffers()) return false;
  const Locked lock(mutex_);
  bool is_buffered = false;
  for (const auto& [descriptor, file] : files_) {
    if (!file->is(status)) continue;
    const auto held = file->lock();
    if (file->is_released()) continue;
    is_buffered = true;
    file->flush();
  }
  return is_buffered;
}

void Files::release_all(const char* why) {
  if (!buffers()) return;
  const Locked lock(mutex_);
  release_all_locked(why);
}

void Files::stop(const char* why) {
  if (!buffers()) return;
  const Locked lock(mutex_);
  release_all_locked(why);
  is_unsure_ = true;
}

void Files::release_and_lock(const char* why) {
  mutex_.lock();
  is_inside = true;
  release_all_locked(why);
}

void Files::release_all_locked(const char* why) {
  for (const auto& [descriptor, file] : files_)
    release_now(*file, why);
}

// Without memory the summary lacks a line.
void Files::record(TrackedFile& file) try {
  const BufferStatistics counts = file.statistics();
  std::string line = file.path() + ": ";
  if (counts.writes > 0) {
    line += describe("write", counts.writes, counts.written_bytes, counts.requests_written,
                     counts.request_written_bytes);
  }
  if (counts.reads > 0) {
    if (counts.writes > 0) line += "; ";
    line += describe("read", counts.reads, counts.read_bytes, counts.requests_read,
                     counts.request_read_bytes);
  }
  if (counts.writes + counts.reads == 0) line += "neither read nor written";
  if (file.why_released()[0] != '\0')
    line += "; buffering ended: " + std::string(file.why_released());
  summary_.push_back(std::move(line));
} catch (const std::bad_alloc&) {
}

void Files::finish() {
  if (!buffers()) return;
  const Locked lock(mutex_);
  if (is_finished_) return;
  is_finished_ = true;
  for (const auto& [descriptor, file] : files_) {
    release_now(*file, "");
    record(*file);
  }
  print_summary();
}

void Files::print_summary() {
  const char* target = std::getenv("FERRY_IOBUF_SUMMARY");
  if (summary_.empty() || (target != nullptr && target[0] == '\0')) return;
  if (target == nullptr) {
    for (const std::string& line : summary_)
      say({"ferry-iobuf: ", line, "\n"});
    return;
  }
  const int file = static_cast<int>(
      kernel_call(SYS_openat, AT_FDCWD, target, O_CREAT | O_APPEND | O_WRONLY | O_CLOEXEC, 0644));
  if (file < 0) {
    say({"ferry-iobuf: FERRY_IOBUF_SUMMARY: ", target, ": ", ferry::run::text_of(-file), "\n"});
    return;
  }
  for (const std::string& line : summary_)
    put_pieces(file, {line, "\n"});
  kernel_call(SYS_close, file);
}

}  // namespace ferry::iobuf
