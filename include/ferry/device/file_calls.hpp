// The file calls of a device program. With placement `host` every call is a request to the I/O
// server; with `compute`, reads and writes of regular files go through the page cache; with
// `service` likewise, on another core; `automatic` chooses the fastest for each call.
//
// POSIX semantics: a call returns the bytes transferred (fewer at the end of the file), 0 for
// success, or a negative errno; nothing traps or throws. Beyond POSIX, every call may return
//   -EIO         the server died or its loop was stopped; the call may or may not have happened
//   -ESHUTDOWN   the runtime is shutting down; the call did not happen
//   -EAGAIN      (asynchronous calls) the group has its maximum of calls in flight
//                (cells_per_group - 1)
// A FileCalls object belongs to one group and is not thread-safe; many of them may use the same
// files. All lanes of a group must make the same call with the same arguments, and get the same
// result.
//
// Buffers may be anywhere. One inside the arena is read or written in place; another goes through
// the group's staging area, which is slower and counted (GroupCounters.staged_calls).
#pragma once

#include <cerrno>
#include <cstdint>

#include <ferry/device/caller.hpp>
#include <ferry/device/coherence.hpp>
#include <ferry/device/control.hpp>
#include <ferry/device/group.hpp>
#include <ferry/device/open_files.hpp>
#include <ferry/device/pending.hpp>
#include <ferry/device/resident_calls.hpp>

namespace ferry::device {

template <class Group>
class FileCalls {
 public:
  FERRY_DEVICE FileCalls(const Context& context, Group group, std::uint32_t group_index)
      : caller_{group, Requester(context, group_index), context.placement} {}

  // Sets where this group's reads and writes run from now on; the context has the initial
  // placement. Without a page cache it is always the host.
  FERRY_DEVICE void use(Placement placement) { caller_.placement = placement; }

  // ---- files -----------------------------------------------------------------------------------

  // Opens `path` with the flags of open(2) (O_RDONLY, O_CREAT, O_APPEND, O_DIRECT, ...). Returns a
  // handle for this device, from 1 up. O_DIRECT bypasses the kernel's page cache, except for
  // unaligned transfers. With O_SYNC or O_DSYNC every write is durable in storage when it returns.
  FERRY_DEVICE int open(const char* path, int flags, std::uint32_t mode = 0) {
    return caller_.leads([&] { return open_file(caller_.requester, path, flags, mode); });
  }
  // Writes back dirty data, then closes the handle once no thread's call uses the file. Reports
  // write-back errors and the storage's error on close; the handle is gone in any case.
  FERRY_DEVICE int close(int file) {
    return caller_.leads([&] { return close_file(caller_.requester, file); });
  }

  // Writes back dirty pages of the cache, without asking for durability.
  FERRY_DEVICE int flush(int file) {
    return leads_if_cached(file, [&](auto& files, auto& entry) {
      note_flush(caller_.requester, file);
      return files.flush(entry);
    });
  }
  // Makes data and metadata durable; fdatasync omits metadata not needed to read the data. Both
  // report every failed write-back since the last report, once per handle. A call reports one
  // error: if the storage's sync fails too, that one, and the next call or close() reports the
  // other.
  FERRY_DEVICE int fsync(int file) {
    return caller_.leads([&] { return sync_file(caller_.requester, Opcode::sync, file); });
  }
  FERRY_DEVICE int fdatasync(int file) {
    return caller_.leads([&] { return sync_file(caller_.requester, Opcode::sync_data, file); });
  }
  FERRY_DEVICE int ftruncate(int file, std::int64_t size_bytes) {
    return caller_.leads([&] { return truncate_file(caller_.requester, file, size_bytes); });
  }

  // Follows symbolic links. `status` may be anywhere.
  FERRY_DEVICE int stat(const char* path, FileStatus* status) {
    return get_status(status, [&](FileStatus& found) {
      Request request{};
      request.opcode = Opcode::path_status;
      const int error = stage_path(caller_.requester, path, request);
      return error != 0 ? error : call_for_status(caller_.requester, request, found);
    });
  }
  FERRY_DEVICE int fstat(int file, FileStatus* status) {
    return get_status(
        status, [&](FileStatus& found) { return storage_status(caller_.requester, file, found); });
  }

  FERRY_DEVICE int unlink(const char* path) {
    return caller_.leads([&] {
      Request request{};
      request.opcode = Opcode::unlink;
      const int error = stage_path(caller_.requester, path, request);
      return error != 0 ? error : static_cast<int>(caller_.requester.call(request).result);
    });
  }

  // An empty request, answered by the server without any storage. Measures the round trip.
  FERRY_DEVICE int ping() {
    return caller_.leads([&] { return ask(caller_.requester, Opcode::nop, 0); });
  }
  // `count` (at most 16) of them as one batch.
  FERRY_DEVICE int ping_batch(std::uint32_t count) {
    return caller_.leads([&] {
      Requester& requester = caller_.requester;
      Request requests[batch_requests_max]{};
      Ticket tickets[batch_requests_max];
      std::uint32_t ready = 0;
      while (ready < count && ready < batch_requests_max &&
             requester.prepare(requests[ready], tickets[ready], 0) == 0) {
        ++ready;
      }
      int error = requester.submit(requests, ready);
      if (error != 0) return error;
      for (std::uint32_t i = 0; i < ready; ++i) {
        const auto result = static_cast<int>(requester.wait(tickets[i]).result);
        if (error == 0) error = result;
      }
      return error;
    });
  }

  // ---- transfers at an explicit offset ---------------------------------------------------------

  FERRY_DEVICE std::int64_t pread(int file, void* buffer, std::uint64_t bytes,
                                  std::int64_t offset) {
    const bool hit = has_several_lanes(caller_.group)
                         ? read_hit_together(caller_, file, buffer, bytes, offset)
                         : read_hit(caller_, file, buffer, bytes, offset);
    if (hit) return static_cast<std::int64_t>(bytes);
    return transfer_piece(caller_, Opcode::read, file, buffer, bytes, offset);
  }
  // On a file opened with O_APPEND the data goes to the end of the file, as on Linux.
  FERRY_DEVICE std::int64_t pwrite(int file, const void* buffer, std::uint64_t bytes,
                                   std::int64_t offset) {
    return transfer_piece(caller_, Opcode::write, file, const_cast<void*>(buffer), bytes, offset);
  }

  // At most extents_max (1024) pieces, else -EINVAL. One request when every piece lies in the
  // arena; staged one staging area at a time otherwise.
  FERRY_DEVICE std::int64_t preadv(int file, const IoVector* pieces, int count,
                                   std::int64_t offset) {
    return transfer_vector(caller_, Opcode::read_vector, file, pieces, count, offset);
  }
  FERRY_DEVICE std::int64_t pwritev(int file, const IoVector* pieces, int count,
                                    std::int64_t offset) {
    return transfer_vector(caller_, Opcode::write_vector, file, pieces, count, offset);
  }

  // A read for each lane: its own range, buffer and result. For groups whose lanes can vote (a
  // warp, or part of one). Lanes with bytes in the same cached page share its lookup, and all lanes
  // copy each lane's bytes.
  FERRY_DEVICE std::int64_t pread_each(int file, void* buffer, std::uint64_t bytes,
                                       std::int64_t offset) {
    std::int64_t result = 0;
    std::uint64_t left = caller_.group.ballot(true);  // lanes that still have nothing
    // The bare name would mean POSIX's with <unistd.h>.
    const auto plain = [&](const LaneRead& one) {
      return this->pread(file, one.to, one.bytes, one.offset);
    };
    while (left != 0) {
      const std::uint32_t first = lowest_bit(left);
      left &=
          ~read_page_of(caller_, first, left, file, LaneRead{buffer, bytes, offset}, result, plain);
    }
    return result;
  }

  // ---- transfers at the file's position --------------------------------------------------------

  // The position is shared by all threads that use the handle; calls on it take turns.
  FERRY_DEVICE std::int64_t read(int file, void* buffer, std::uint64_t bytes) {
    return transfer_at_position(caller_, Opcode::read, file, buffer, bytes);
  }
  FERRY_DEVICE std::int64_t write(int file, const void* buffer, std::uint64_t bytes) {
    return transfer_at_position(caller_, Opcode::write, file, const_cast<void*>(buffer), bytes);
  }

  // ---- transfers that are waited for later -----------------------------------------------------

  // Starts a transfer and returns immediately; wait() returns its result, exactly once. Transfers
  // with buffers outside the arena complete before the call returns, as do those through the page
  // cache on this core.
  FERRY_DEVICE Pending pread_async(int file, void* buffer, std::uint64_t bytes,
                                   std::int64_t offset) {
    const BatchTransfer one{file, buffer, bytes, offset};
    Pending pending;
    start(caller_, Opcode::read, &one, 1, &pending);
    return pending;
  }
  FERRY_DEVICE Pending pwrite_async(int file, const void* buffer, std::uint64_t bytes,
                                    std::int64_t offset) {
    const BatchTransfer one{file, const_cast<void*>(buffer), bytes, offset};
    Pending pending;
    start(caller_, Opcode::write, &one, 1, &pending);
    return pending;
  }
  // Starts `count` transfers with as few doorbells as possible (one per 16).
  FERRY_DEVICE void pread_batch(const BatchTransfer* transfers, std::uint32_t count,
                                Pending* pending) {
    start(caller_, Opcode::read, transfers, count, pending);
  }
  FERRY_DEVICE void pwrite_batch(const BatchTransfer* transfers, std::uint32_t count,
                                 Pending* pending) {
    start(caller_, Opcode::write, transfers, count, pending);
  }

  // Whether wait() knows the transfer: not if another group started it, or if a copy of it was
  // waited for.
  FERRY_DEVICE bool knows(const Pending& pending) const {
    return pending.finished || caller_.group.broadcast(caller_.group.lane() == 0 &&
                                                       caller_.requester.awaits(pending.ticket));
  }
  // Waits for one transfer: bytes or a negative errno.
  FERRY_DEVICE std::int64_t wait(Pending& pending) {
    if (!pending.finished) {
      pending.result = wait_for(caller_, pending);
      pending.finished = true;
    }
    return pending.result;
  }
  // Waits until at least one of `count` (> 0) transfers is ready and returns its index, in turn if
  // several are. wait() on it then does not block. A transfer already waited for counts as ready,
  // so replace or omit it. One that no service begins in time is named as well: wait() executes it.
  FERRY_DEVICE std::uint32_t wait_any(const Pending* pending, std::uint32_t count) {
    return caller_.leads([&] {
      const std::uint32_t found =
          wait_for_any(caller_.requester, pending, count, next_any_ % count);
      next_any_ = found + 1;
      return found;
    });
  }
  // Whether wait() would not block.
  FERRY_DEVICE bool ready(const Pending& pending) const {
    return pending.finished || caller_.group.broadcast(caller_.group.lane() == 0 &&
                                                       caller_.requester.done(pending.ticket));
  }

  // Waits for all of this group's transfers not waited for yet, and discards the results. The
  // device calls it when a program ends, so that nothing writes into a buffer afterwards.
  FERRY_DEVICE void drain() {
    caller_.leads([&] { return caller_.requester.drain(), 0; });
  }

  // ---- the page cache --------------------------------------------------------------------------

  // Requests a range for the page cache, without waiting. Advice: runtimes without a cache,
  // uncached files and busy caches ignore it. Returns 0 or an errno.
  FERRY_DEVICE int prefetch(int file, std::int64_t offset, std::uint64_t bytes) {
    return leads_if_cached(
        file, [&](auto& files, auto& entry) { return files.prefetch(entry, file, offset, bytes); });
  }
  // Writes the file's dirty pages back and drops all of them, if they will not be read again soon.
  // Advice, too. Returns 0, or the error of a write-back.
  FERRY_DEVICE int evict(int file) {
    return leads_if_cached(file, [&](auto& files, auto& entry) {
      const Context& context = caller_.requester.context();
      forget_bypasses(context, entry.inode, files.pages().size(entry.inode));
      return files.evict(entry);
    });
  }

  // Shows up to `bytes` bytes at `offset` in the page cache, up to the end of the page and the
  // file, until release(). Returns how many, 0 at the end of the file, or a negative errno:
  // -EOPNOTSUPP for uncached files, -EAGAIN if views hold half the cache or failing write-back
  // leaves no place. The view is read-only; later writes by calls of any placement are visible.
  FERRY_DEVICE std::int64_t hold(int file, std::int64_t offset, std::uint64_t bytes,
                                 cache::PinnedView& view) {
    return hold_page(caller_, file, offset, bytes, view);
  }
  // The group that holds a view must release it, once; repeating that is harmless.
  FERRY_DEVICE void release(cache::PinnedView& view) {
    caller_.group.sync();
    if (caller_.group.lane() == 0)
      cache::release_view(caller_.requester.cache(), caller_.requester.group(), view);
    view = cache::PinnedView{};
  }

 private:
  template <class Work>
  FERRY_DEVICE int leads_if_cached(int file, Work work) {
    return caller_.leads([&] { return if_cached(caller_.requester, file, work); });
  }

  // `ask(status)` by the leader.
  template <class Ask>
  FERRY_DEVICE int get_status(FileStatus* status, Ask ask) {
    if (status == nullptr) return -EFAULT;
    unsigned char* shown = caller_.requester.arena().scratch(caller_.requester.group());
    const int result = caller_.leads([&] {
      FileStatus found{};
      const int error = ask(found);
      if (error != 0) return error;
      correct_size(caller_.requester, found);
      __builtin_memcpy(shown, &found, sizeof found);
      return 0;
    });
    if (result == 0) __builtin_memcpy(status, shown, sizeof(FileStatus));
    caller_.group.sync();  // no lane reuses the scratch area before every lane has its copy
    return result;
  }

  Caller<Group> caller_;
  std::uint32_t next_any_ = 0;  // where the next wait_any() starts
};

}  // namespace ferry::device
