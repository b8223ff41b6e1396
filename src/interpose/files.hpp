// The files that are buffered below an unmodified program.
//
// A file is *released* where further buffering would be wrong: its buffers are written, the
// kernel's position is set to the program's, and later calls go straight to the kernel.
#pragma once

#include <array>
#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include <sys/stat.h>
#include <sys/types.h>

#include <ferry/buffered_file.hpp>

#include "interpose/settings.hpp"
#include "interpose/unbuffered_files.hpp"

namespace ferry::iobuf {

// Functions return what system calls return: -1 with errno set.
class TrackedFile {
 public:
  TrackedFile(int descriptor, std::string path, int flags, const struct stat& status,
              const BufferOptions& options);

  // Lock it for every call; then check that it is still buffered.
  std::unique_lock<std::mutex> lock();
  bool is_released() const { return is_released_; }

  ssize_t read(void* data, std::size_t bytes);
  ssize_t write(const void* data, std::size_t bytes);
  ssize_t pread(void* data, std::size_t bytes, off_t offset);
  ssize_t pwrite(const void* data, std::size_t bytes, off_t offset);
  off_t seek(off_t offset, int whence);
  int resize(off_t size_bytes);
  // 0 or an errno.
  int flush() { return file_.flush(); }
  int release(const char* why);
  // For a file whose descriptor now belongs to another: writes nothing there.
  void abandon();

  bool is(const struct stat& status) const {
    return status.st_dev == device_ && status.st_ino == inode_;
  }
  int descriptor() const { return descriptor_; }
  const std::string& path() const { return path_; }
  const char* why_released() const { return why_; }
  BufferStatistics statistics() { return file_.statistics(); }

 private:
  const int descriptor_;
  const std::string path_;
  const bool may_read_;
  const bool may_write_;
  const dev_t device_;
  const ino_t inode_;
  std::mutex mutex_;
  DescriptorFile below_;
  BufferedFile file_;
  off_t position_ = 0;
  bool is_released_ = false;
  const char* why_ = "";
};

using FilePointer = std::shared_ptr<TrackedFile>;

// All of this process.
class Files {
 public:
  // Never destroyed, because programs use files to their very end.
  static Files& instance();
  // When this library begins, and not before: a program's own malloc may call us.
  static void begin();

  // Whether any file may be buffered. Without that no lock is taken: a handler of a signal, and a
  // child that no handler of fork sees, would find it held by a thread that does not go on. False
  // too where this thread already is in here, and its malloc calls us.
  static bool buffers() { return has_rules.load(std::memory_order_acquire) && !is_inside; }
  // What is called of this thread meanwhile passes by.
  class Inside {
   public:
    Inside() : was_(std::exchange(is_inside, true)) {}
    ~Inside() { is_inside = was_; }
    Inside(const Inside&) = delete;
    Inside& operator=(const Inside&) = delete;

   private:
    const bool was_;
  };

  // Called for a newly opened file: buffers it if a rule matches and it is suitable.
  void opened(int descriptor, const char* path, int flags);
  // Called for a copy of a descriptor, or one that was inherited or received; negative: none.
  void copied(int descriptor);
  // Called before a descriptor is mapped.
  void mapped(int descriptor);
  bool wants(const char* path) const { return buffers() && settings_.rule_for(path) != nullptr; }
  // False for almost all that are not buffered. It comes before every call, so it is one load.
  static bool may_track(int descriptor) {
    return static_cast<unsigned>(descriptor) < descriptors_max &&
           tracked[static_cast<unsigned>(descriptor)].load(std::memory_order_acquire);
  }
  // Null for unbuffered ones.
  FilePointer find(int descriptor);
  // Writes its buffers and forgets it: 0 or an errno. The descriptor stays open.
  int closing(int descriptor);
  void release(int descriptor, const char* why);
  // All that have this `status`.
  void release_file(const struct stat& status, const char* why);
  // That has this name, if any.
  void release_named(int folder, const char* path, const char* why);
  void flush_named(int folder, const char* path);
  // Writes its buffers; false if it has none.
  bool flush_file(const struct stat& status);
  void flush_all();
  void release_all(const char* why);
  // Releases all, and buffers nothing more.
  void stop(const char* why);
  // Releases all and keeps the table locked, so that no other thread adds one; then unlock().
  void release_and_lock(const char* why);
  void unlock() {
    is_inside = false;
    mutex_.unlock();
  }
  // Whether this thread has them locked by release_and_lock().
  static bool are_locked_here() { return is_inside; }
  // Releases all and reports the counters, once; nothing is buffered afterwards.
  void finish();

 private:
  struct Locked {
    explicit Locked(std::mutex& mutex) : lock(mutex) {}
    const std::lock_guard<std::mutex> lock;
    const Inside inside;
  };
  Files();
  void release_all_locked(const char* why);
  void release_file_locked(const struct stat& status, const char* why);
  void forget_stale(int descriptor);
  void buffer(int descriptor, const char* path, int flags, const struct stat& status);
  void add_copy(int descriptor);
  // `add` to the unbuffered ones; without memory nothing more is buffered.
  template <class Add>
  void note(int descriptor, Add&& add);
  void record(TrackedFile& file);
  void print_summary();

  static constexpr unsigned descriptors_max = 65536;
  static inline constinit thread_local bool is_inside = false;
  static inline constinit std::atomic<bool> has_rules{false};
  static inline constinit std::array<std::atomic<bool>, descriptors_max> tracked{};

  BufferingSettings settings_;
  std::mutex mutex_;  // not recursive: that identifies its thread by a number that fork changes
  std::map<int, FilePointer> files_;
  UnbufferedFiles unbuffered_;
  std::vector<std::string> summary_;
  bool is_finished_ = false;
  // A descriptor that is not here may be of any file, or calls come unseen: nothing more is
  // buffered.
  bool is_unsure_ = false;
};

// Around a fork without handlers: in the parent and in a child that returns, too.
class LockedOverFork {
 public:
  LockedOverFork() : is_locked_(Files::buffers()) {
    if (is_locked_) Files::instance().release_and_lock("fork");
  }
  ~LockedOverFork() {
    if (is_locked_) Files::instance().unlock();
  }
  LockedOverFork(const LockedOverFork&) = delete;
  LockedOverFork& operator=(const LockedOverFork&) = delete;

 private:
  const bool is_locked_;
};

}  // namespace ferry::iobuf
