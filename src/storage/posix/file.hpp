// A file on a mounted file system, with the blocking form of every operation.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

#include "storage/posix/local_mounts.hpp"
#include "storage/posix/write_turns.hpp"
#include "storage/storage.hpp"

namespace ferry::storage {

struct PosixFile final : File {
  PosixFile();
  ~PosixFile() override;

  int descriptor() const override { return fd; }
  int direct_descriptor() const override { return direct_fd; }
  bool may_hang() const override { return remote; }

  int fd = -1;                               // through the page cache
  int direct_fd = -1;                        // O_DIRECT; -1 unless the file was opened with it
  std::uint32_t memory_alignment_bytes = 1;  // address alignment for direct I/O
  std::uint32_t offset_alignment_bytes = 1;  // and of offsets and lengths
  std::shared_ptr<WriteTurns> turns;         // where it may be written
  bool append = false;       // O_APPEND: a write's position is unknown, so it is never direct
  bool synchronous = false;  // O_SYNC, O_DSYNC: a write waits for the medium
  // Neither a regular file nor a block device, or one whose contents are generated.
  bool special = false;
  // A remote or user-space file system may stop answering for any time: its calls never run on a
  // thread that others wait for.
  bool remote = false;
  // FUSE. For an asynchronous read past its page cache that reaches the end of the file, Linux 6.18
  // reports all requested bytes as read; so reads are blocking calls.
  bool in_user_space = false;
  // A file generated while it is read, as in /proc and /sys: its size is meaningless, and calls on
  // it may do anything, so threads that may wait make them.
  bool generated = false;
  bool read_only = false;         // opened with O_RDONLY
  bool small = false;             // had no more bytes than a close may free, when it was opened
  bool stamps_changes = false;    // its change time can prove its contents (change_times.hpp)
  std::uint64_t file_system = 0;  // its type, from statfs(2)
  // io_uring may use its registered buffers for it (registered_buffers.hpp).
  bool registered_buffers = false;
  std::uint64_t place = 0;  // its file system (worker_pool.hpp)
  std::uint64_t mount = 0;  // the mount's number if local (local_mounts.hpp), else 0
  // Data lives in memory (tmpfs, ramfs): a read never waits for a device.
  bool in_memory = false;
  // Reads with RWF_NOWAIT work here. Set to false by the first refusal.
  std::atomic<bool> nowait{true};
  // Reads in a row that found their data in the page cache; see PosixQueue::read_trusting().
  std::atomic<std::uint32_t> cached_reads{0};
  // Identifies this file in the process, and whether it is closed: for the engines' tables of
  // registered descriptors, which outlive it.
  struct Identity {
    std::uint64_t number = 0;
    std::atomic<bool> closed{false};
    std::atomic<unsigned> registered{0};  // entries of those tables
  };
  std::shared_ptr<Identity> identity;
  // Keeps write() + lseek() of an append together.
  std::atomic_flag appending;

 private:
  bool begin_direct_write() override { return turns == nullptr || turns->try_begin_direct(); }
  void end_direct_write() override {
    if (turns != nullptr) turns->end_direct();
  }
};

// Whether direct I/O can execute this transfer; otherwise it uses the page cache.
bool fits_direct(const PosixFile& file, const Operation& operation);

// statx(2) of `path` in an open directory, or of what `flags` say. 0 or a negative errno.
std::int64_t get_status(int directory, const char* path, int flags, Status& status);
Status to_status(const struct statx& from);

// The flags that an open passes to the kernel.
int opening_flags(const Operation& operation);
// The rest of an open, with the descriptor that these flags gave, which becomes the file's or is
// closed. 0 or a negative errno.
std::int64_t take_opened(Operation& operation, int fd, const FileFacts& facts);
// The same, looking at what it is.
std::int64_t take_opened(Operation& operation, int fd);

// Executes the operation with blocking calls; fills in result, value, status or opened.
void execute_blocking(Operation& operation);
// The same on a thread that may wait. If execute_blocking() fails to open a file because of another
// process's lease (-EAGAIN), this gives that process some time to end it.
void execute_waiting(Operation& operation);

// Whether to start the kernel's write-out for this finished operation immediately: a sync follows,
// and much data went to a disk's page cache.
bool wants_write_out(const Operation& operation);
// Does so. May block for as long as it takes to queue the bytes at the device.
void begin_write_out(const Operation& operation);

// Queue::read_file() with blocking calls.
std::int64_t read_file_blocking(const char* path, std::span<std::byte> memory);

// Continues a transfer that has moved `bytes` more: trims the vectors. Returns true when it is
// complete.
bool advance(Operation& operation, std::int64_t bytes);

}  // namespace ferry::storage
