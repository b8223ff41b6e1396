// The file calls of a device program. With placement `host` every call is a request to the I/O
// server; with `compute`, reads and writes of regular files go through the page cache; with
// `service` likewise, executed by somebody else; `automatic` is whichever is fastest, by call.
//
// POSIX meaning throughout: bytes transferred (short at end of file), 0 for success, or a negative
// errno; nothing traps and nothing throws. Beyond what POSIX says, every call may return
//   -EIO         the server died or its loop was stopped; the call may or may not have happened
//   -ESHUTDOWN   the runtime is shutting down; the call did not happen
//   -EAGAIN      (asynchronous calls) this group has as many calls in flight as it can
//                (cells_per_group - 1)
// One FileCalls object belongs to one group and is not thread-safe; any number of them work on the
// same files. Every lane of a group must make the same call with the same arguments, and every
// lane gets the same result.
//
// Buffers may lie anywhere. One inside the arena is read or written in place; one outside is
// staged through this group's staging area, slower, and counted (GroupCounters.staged_calls).
#pragma once

#include <cerrno>
#include <cstdint>

#include <ferry/device/coherent_calls.hpp>
#include <ferry/device/control.hpp>
#include <ferry/device/file_position.hpp>
#include <ferry/device/group.hpp>
#include <ferry/device/pending_calls.hpp>
#include <ferry/device/requester.hpp>

namespace ferry::device {

// Its bases, each a subject: the calls that wait for their transfer (transfer_calls.hpp), those on
// the page cache (page_calls.hpp), those that do not wait (pending_calls.hpp). Here: files, their
// status, and the round trip.
template <class Group>
class FileCalls : public PendingCalls<Group> {
 public:
  FERRY_DEVICE FileCalls(const Context& context, Group group, std::uint32_t group_index)
      : Base(context, group, group_index) {}

  // Where this group's reads and writes are executed from now on; the context says where at first.
  // Without a page cache it is the host in any case.
  FERRY_DEVICE void use(Placement placement) { placement_ = placement; }

  // Opens `path` with the flags of open(2) (O_RDONLY, O_CREAT, O_APPEND, O_DIRECT, ...). Returns a
  // handle for this device, from 1 up. O_DIRECT bypasses the kernel's page cache; transfers that
  // are not aligned for it go through the page cache instead. With O_SYNC or O_DSYNC every write is
  // in the storage, and durable there, when it returns.
  FERRY_DEVICE int open(const char* path, int flags, std::uint32_t mode = 0) {
    return leads([&]() -> int {
      Request request{};
      request.opcode = Opcode::open;
      if (const int error = stage_path(path, request); error != 0) return error;
      request.argument = truncates_once_open(flags) ? flags & ~open_flag_truncate : flags;
      request.mode = mode;
      const std::int64_t handle = requester_.call(request).result;
      if (handle >= 0) {
        FilePosition& position = position_of(static_cast<int>(handle));
        // A read() with the handle that was here before may still hold the lock.
        PositionLock::lock(position, requester_.context().hooks);
        position.position = 0;
        // As words that may be looked at without the lock (appends()).
        DeviceRef<std::uint32_t>(position.append)
            .store((flags & open_flag_append) != 0 ? 1 : 0, relaxed);
        position.handle = static_cast<std::int32_t>(handle);
        PositionLock::unlock(position, requester_.context().hooks);
        if (!has_cache()) return static_cast<int>(handle);
        if (const int error = attach(static_cast<int>(handle), flags); error != 0) {
          close_file(static_cast<int>(handle));
          return error;
        }
      }
      return static_cast<int>(handle);
    });
  }

  // Writes back what is dirty, then closes the handle once no call of any thread works on the file
  // any more. Reports what could not be written and what the storage reports on close; the handle
  // is gone either way.
  FERRY_DEVICE int close(int file) {
    return leads([&] { return close_file(file); });
  }

  // Writes back what is dirty in the page cache, without asking for durability.
  FERRY_DEVICE int flush(int file) {
    return leads([&] {
      return with_cached(file,
                         [](cache::CachedFiles& files, auto& entry) { return files.flush(entry); });
    });
  }
  // Makes data and metadata durable; fdatasync leaves out what is not needed to read the data.
  // Both report every failed write-back since the last report, once per handle. A call reports one
  // error: where the storage's sync fails too, that one, and the next call or close() the other.
  FERRY_DEVICE int fsync(int file) {
    return leads([&] { return sync_file(Opcode::sync, file); });
  }
  FERRY_DEVICE int fdatasync(int file) {
    return leads([&] { return sync_file(Opcode::sync_data, file); });
  }

  FERRY_DEVICE int ftruncate(int file, std::int64_t size_bytes) {
    return leads([&] { return truncate_file(file, size_bytes); });
  }

  // Follows symbolic links. `status` may lie anywhere.
  FERRY_DEVICE int stat(const char* path, FileStatus* status) {
    return get_status(status, [&](Request& request) {
      request.opcode = Opcode::path_status;
      return stage_path(path, request);
    });
  }
  FERRY_DEVICE int fstat(int file, FileStatus* status) {
    return get_status(status, [&](Request& request) { return ask_status(file, request); });
  }

  FERRY_DEVICE int unlink(const char* path) {
    return leads([&] {
      Request request{};
      request.opcode = Opcode::unlink;
      if (const int error = stage_path(path, request); error != 0) return error;
      return static_cast<int>(requester_.call(request).result);
    });
  }

  // An empty request: answered by the server without touching a storage. Measures the round trip.
  FERRY_DEVICE int ping() { return simple(Opcode::nop, 0); }
  // `count` (at most 16) of them as one batch.
  FERRY_DEVICE int ping_batch(std::uint32_t count) {
    return leads([&] {
      Request requests[batch_max]{};
      Ticket tickets[batch_max];
      std::uint32_t ready = 0;
      while (ready < count && ready < batch_max &&
             requester_.prepare(requests[ready], tickets[ready], 0) == 0) {
        ++ready;
      }
      int error = requester_.submit(requests, ready);
      if (error != 0) return error;
      for (std::uint32_t i = 0; i < ready; ++i) {
        const auto result = static_cast<int>(requester_.wait(tickets[i]).result);
        if (error == 0) error = result;
      }
      return error;
    });
  }

 private:
  using Base = PendingCalls<Group>;
  using Base::ask_status;
  using Base::attach;
  using Base::batch_max;
  using Base::close_file;
  using Base::correct_size;
  using Base::group_;
  using Base::has_cache;
  using Base::leads;
  using Base::open_flag_append;
  using Base::open_flag_truncate;
  using Base::placement_;
  using Base::position_of;
  using Base::requester_;
  using Base::sync_file;
  using Base::truncate_file;
  using Base::truncates_once_open;
  using Base::with_cached;

  FERRY_DEVICE int simple(Opcode opcode, int file) {
    return leads([&] {
      Request request{};
      request.opcode = opcode;
      request.file = file;
      return static_cast<int>(requester_.call(request).result);
    });
  }

  // Copies the path into the arena, where the server can see it (and copies it again before
  // looking at it).
  FERRY_DEVICE int stage_path(const char* path, Request& request) {
    if (path == nullptr) return -EFAULT;
    unsigned char* scratch = requester_.arena().scratch(requester_.group());
    std::uint64_t length = 0;
    while (path[length] != '\0') {
      if (length + 1 >= path_bytes_max) return -ENAMETOOLONG;
      scratch[length] = static_cast<unsigned char>(path[length]);
      ++length;
    }
    scratch[length] = 0;
    request.buffer = requester_.arena().offset_of(scratch);
    request.length = length + 1;
    return 0;
  }

  template <class Fill>
  FERRY_DEVICE int get_status(FileStatus* status, Fill fill) {
    if (status == nullptr) return -EFAULT;
    unsigned char* scratch = requester_.arena().scratch(requester_.group());
    const int result = leads([&] {
      Request request{};
      if (const int error = fill(request); error != 0) return error;
      // The answer overwrites the path, which the server has copied out by then.
      request.buffer = requester_.arena().offset_of(scratch);
      return static_cast<int>(requester_.call(request).result);
    });
    if (result == 0) {
      // What is dirty counts.
      if (has_cache()) leads([&] { return correct_size(scratch); });
      __builtin_memcpy(status, scratch, sizeof(FileStatus));
    }
    group_.sync();  // nobody uses the scratch area again before every lane has its copy
    return result;
  }
};

}  // namespace ferry::device
