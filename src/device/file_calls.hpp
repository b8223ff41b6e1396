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
#include <ferry/device/copy.hpp>
#include <ferry/device/file_position.hpp>
#include <ferry/device/group.hpp>
#include <ferry/device/requester.hpp>

namespace ferry::device {

// One transfer of a batch.
struct Transfer {
  int file = -1;
  void* buffer = nullptr;
  std::uint64_t bytes = 0;
  std::int64_t offset = 0;
};

// A transfer in flight. Its buffer belongs to Ferry until wait() returns.
struct Pending {
  Ticket ticket;
  std::int64_t result = 0;  // once `finished`
  bool finished = true;
};

template <class Group>
class FileCalls : private CoherentCalls<Group> {
 public:
  FERRY_DEVICE FileCalls(const Context& context, Group group, std::uint32_t group_index)
      : CoherentCalls<Group>(context, group, group_index) {}

  // Where this group's reads and writes are executed from now on; the context says where at first.
  // Without a page cache it is the host in any case.
  FERRY_DEVICE void use(Placement placement) { placement_ = placement; }

  // ---- files -----------------------------------------------------------------------------------

  // Opens `path` with the flags of open(2) (O_RDONLY, O_CREAT, O_APPEND, O_DIRECT, ...). Returns a
  // handle for this device, from 1 up. O_DIRECT bypasses the kernel's page cache; transfers that
  // are not aligned for it go through the page cache instead.
  FERRY_DEVICE int open(const char* path, int flags, std::uint32_t mode = 0) {
    return leads([&]() -> int {
      Request request{};
      request.opcode = Opcode::open;
      if (const int error = stage_path(path, request); error != 0) return error;
      request.argument = flags;
      request.mode = mode;
      const std::int64_t handle = requester_.call(request).result;
      if (handle >= 0) {
        FilePosition& position = position_of(static_cast<int>(handle));
        // A read() with the handle that was here before may still hold the lock.
        PositionLock::lock(position, requester_.context().hooks);
        position.position = 0;
        position.append = (flags & open_flag_append) != 0 ? 1 : 0;
        position.handle = static_cast<std::int32_t>(handle);
        PositionLock::unlock(position, requester_.context().hooks);
        if (!has_cache()) return static_cast<int>(handle);
        if (const int error = attach(static_cast<int>(handle), flags); error != 0) {
          write_back_first(Opcode::close, static_cast<int>(handle),
                           [](auto& files, auto& entry) { return files.detach(entry); });
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
    return after_writing_back(Opcode::close, file, [](cache::CachedFiles& files, auto& entry) {
      return files.detach(entry);
    });
  }

  // Writes back what is dirty in the page cache, without asking for durability.
  FERRY_DEVICE int flush(int file) {
    return leads([&] {
      return with_cached(file,
                         [](cache::CachedFiles& files, auto& entry) { return files.flush(entry); });
    });
  }
  // Makes data and metadata durable; fdatasync leaves out what is not needed to read the data.
  // Both report every failed write-back since the last report, once per handle.
  FERRY_DEVICE int fsync(int file) {
    return after_writing_back(Opcode::sync, file, [](cache::CachedFiles& files, auto& entry) {
      return files.flush(entry, true);
    });
  }
  FERRY_DEVICE int fdatasync(int file) {
    return after_writing_back(Opcode::sync_data, file, [](cache::CachedFiles& files, auto& entry) {
      return files.flush(entry, true);
    });
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

  // ---- transfers at an explicit offset ---------------------------------------------------------

  FERRY_DEVICE std::int64_t pread(int file, void* buffer, std::uint64_t bytes,
                                  std::int64_t offset) {
    if (leads([&] { return read_hit(file, buffer, bytes, offset); }))
      return static_cast<std::int64_t>(bytes);
    return transfer(Opcode::read, file, buffer, bytes, offset);
  }
  // On a file opened with O_APPEND the data goes to the end of the file, as on Linux.
  FERRY_DEVICE std::int64_t pwrite(int file, const void* buffer, std::uint64_t bytes,
                                   std::int64_t offset) {
    return transfer(Opcode::write, file, const_cast<void*>(buffer), bytes, offset);
  }

  // At most extents_max (1024) pieces, else -EINVAL. One request when every piece lies in the
  // arena; staged one staging area at a time otherwise.
  FERRY_DEVICE std::int64_t preadv(int file, const IoVector* pieces, int count,
                                   std::int64_t offset) {
    return transfer_vector(Opcode::read_vector, file, pieces, count, offset);
  }
  FERRY_DEVICE std::int64_t pwritev(int file, const IoVector* pieces, int count,
                                    std::int64_t offset) {
    return transfer_vector(Opcode::write_vector, file, pieces, count, offset);
  }

  // ---- transfers at the file's position --------------------------------------------------------

  // The position is shared by all threads that use the handle; calls on it take turns.
  FERRY_DEVICE std::int64_t read(int file, void* buffer, std::uint64_t bytes) {
    return at_position(Opcode::read, file, buffer, bytes);
  }
  FERRY_DEVICE std::int64_t write(int file, const void* buffer, std::uint64_t bytes) {
    return at_position(Opcode::write, file, const_cast<void*>(buffer), bytes);
  }

  // ---- the page cache --------------------------------------------------------------------------

  // Asks for a range to be brought into the page cache, and does not wait for it. Advice: a runtime
  // without a cache, a file that is not cached and a cache that is busy do nothing. 0 or an errno.
  FERRY_DEVICE int prefetch(int file, std::int64_t offset, std::uint64_t bytes) {
    return leads([&] {
      return with_cached(file, [&](cache::CachedFiles& files, auto& entry) {
        return files.prefetch(entry, file, offset, bytes);
      });
    });
  }

  // Writes the file's dirty pages back and drops all of them, for whoever will not read them again
  // soon. Advice, too. 0, or the error that keeps something from the storage.
  FERRY_DEVICE int evict(int file) {
    return leads([&] {
      return with_cached(file, [&](cache::CachedFiles& files, auto& entry) {
        const Context& context = requester_.context();
        forget_bypasses(context, entry.inode, files.pages().size(entry.inode));
        return files.evict(entry);
      });
    });
  }

  // Shows up to `bytes` bytes at `offset` where they lie in the page cache, as far as their page
  // and the file go, until release(). Returns how many, 0 at the end of the file, or a negative
  // errno: -EOPNOTSUPP for files that are not cached, -EAGAIN where views hold half the cache. The
  // view is read-only; it follows what calls of any placement write there.
  FERRY_DEVICE std::int64_t hold(int file, std::int64_t offset, std::uint64_t bytes,
                                 cache::HeldView& view) {
    const std::int64_t result = leads([&] {
      if (hold_hit(file, offset, bytes, held_)) return static_cast<std::int64_t>(held_.bytes);
      held_ = cache::HeldView{};
      return Base::template with_cached<std::int64_t>(
          file,
          [&](cache::CachedFiles& files, auto& entry) {
            return files.hold(entry, file, offset, bytes, held_);
          },
          -EOPNOTSUPP);
    });
    view = group_.broadcast(held_);
    return result;
  }
  // Every view has to be released, by the group that holds it; once, though a second time is
  // harmless.
  FERRY_DEVICE void release(cache::HeldView& view) {
    leads([&] { return release_pages(view); });
    view = cache::HeldView{};
  }

  // ---- asynchronous transfers ------------------------------------------------------------------

  // Starts a transfer and returns at once; wait() gives its result, exactly once. A buffer outside
  // the arena is transferred before the call returns, and so is what goes through the page cache on
  // this core.
  FERRY_DEVICE Pending pread_async(int file, void* buffer, std::uint64_t bytes,
                                   std::int64_t offset) {
    const Transfer one{file, buffer, bytes, offset};
    Pending pending;
    start(Opcode::read, &one, 1, &pending);
    return pending;
  }
  FERRY_DEVICE Pending pwrite_async(int file, const void* buffer, std::uint64_t bytes,
                                    std::int64_t offset) {
    const Transfer one{file, const_cast<void*>(buffer), bytes, offset};
    Pending pending;
    start(Opcode::write, &one, 1, &pending);
    return pending;
  }
  // Starts `count` transfers with as few doorbells as possible (one per 16).
  FERRY_DEVICE void pread_batch(const Transfer* transfers, std::uint32_t count, Pending* pending) {
    start(Opcode::read, transfers, count, pending);
  }
  FERRY_DEVICE void pwrite_batch(const Transfer* transfers, std::uint32_t count, Pending* pending) {
    start(Opcode::write, transfers, count, pending);
  }

  // Waits for one transfer: bytes or a negative errno.
  FERRY_DEVICE std::int64_t wait(Pending& pending) {
    if (!pending.finished) {
      pending.result = leads([&] { return requester_.wait(pending.ticket).result; });
      pending.finished = true;
    }
    return pending.result;
  }
  // Waits until at least one of `count` (> 0) transfers is ready and returns its index, by turns
  // where several are. wait() on it returns at once. A transfer that was waited for counts as
  // ready, so start a new one in its place or leave it out.
  FERRY_DEVICE std::uint32_t wait_any(const Pending* pending, std::uint32_t count) {
    return leads([&] {
      std::uint32_t found = next_any_ % count;
      requester_.wait_until(
          [&] {
            for (std::uint32_t i = 0; i < count; ++i) {
              const std::uint32_t index = found + i < count ? found + i : found + i - count;
              if (!pending[index].finished && !requester_.done(pending[index].ticket)) continue;
              found = index;
              return true;
            }
            return false;
          },
          pending[found].ticket);
      next_any_ = found + 1;
      return found;
    });
  }
  // Whether wait() would return at once.
  FERRY_DEVICE bool ready(const Pending& pending) const {
    return pending.finished ||
           group_.broadcast(group_.lane() == 0 && requester_.done(pending.ticket));
  }

  // Waits for every transfer of this group that nobody has waited for, and forgets the results. The
  // device calls it when a program ends, so that nothing writes into a buffer afterwards.
  FERRY_DEVICE void drain() {
    group_.sync();
    if (group_.lane() == 0) requester_.drain();
    group_.sync();
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
  static constexpr std::int64_t offset_max = 0x7fffffffffffffff;
  static constexpr std::uint32_t batch_max = 16;
  using Base = CoherentCalls<Group>;
  using Base::after_writing_back;
  using Base::ask_status;
  using Base::attach;
  using Base::before_host_read;
  using Base::clamp;
  using Base::coherently;
  using Base::correct_size;
  using Base::group_;
  using Base::has_cache;
  using Base::hold_hit;
  using Base::leads;
  using Base::open_flag_append;
  using Base::placement_;
  using Base::read_hit;
  using Base::release_pages;
  using Base::requester_;
  using Base::truncate_file;
  using Base::way_of;
  using Base::with_cached;
  using Base::write_back_first;
  using typename Base::Way;

  FERRY_DEVICE FilePosition& position_of(int file) const {
    return requester_.arena().position(handle_index(file) %
                                       requester_.arena().layout.geometry.files);
  }

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

  FERRY_DEVICE Request transfer_request(Opcode opcode, int file, const void* buffer,
                                        std::uint64_t bytes, std::int64_t offset) const {
    Request request{};
    request.opcode = opcode;
    request.file = file;
    request.offset = offset;
    request.buffer = requester_.arena().offset_of(buffer);
    request.length = bytes;
    return request;
  }

  FERRY_DEVICE_CALL std::int64_t transfer(Opcode opcode, int file, void* buffer,
                                          std::uint64_t bytes, std::int64_t offset) {
    bytes = clamp(bytes);
    if (buffer == nullptr && bytes > 0) return -EFAULT;
    return transfer_one(opcode, file, IoVector{buffer, bytes}, offset, 0).result;
  }

  FERRY_DEVICE Answer transfer_one(Opcode opcode, int file, const IoVector& piece,
                                   std::int64_t offset, std::uint8_t flags) {
    return coherently(opcode == Opcode::read, file, &piece, 1, offset, flags, [&](Target target) {
      if (!requester_.arena().contains(piece.base, piece.bytes)) {
        return transfer_staged(opcode, file, &piece, 1, offset, flags, target);
      }
      return leads([&] {
        Request request = transfer_request(opcode, file, piece.base, piece.bytes, offset);
        request.flags = flags;
        return call_by(target, request);
      });
    });
  }

  FERRY_DEVICE Answer call_by(Target target, Request& request) {
    if (target == Target::service) request.opcode = cached_call(request.opcode);
    return requester_.call(request, target);
  }

  // Moves `pieces` through the staging area, one area's worth per request, until everything is
  // moved or the storage gives less than was asked for.
  FERRY_DEVICE Answer transfer_staged(Opcode opcode, int file, const IoVector* pieces, int count,
                                      std::int64_t offset, std::uint8_t flags, Target target) {
    const bool reading = opcode == Opcode::read || opcode == Opcode::read_vector;
    const std::uint64_t area_bytes = requester_.arena().layout.geometry.staging_bytes;
    unsigned char* area = requester_.arena().staging(requester_.group());
    std::uint64_t total = 0;
    for (int i = 0; i < count; ++i)
      total = clamp(total + clamp(pieces[i].bytes));
    // A range that no file has; in steps it would be refused half way.
    if (offset < 0 || total > static_cast<std::uint64_t>(offset_max - offset)) {
      return Answer{-EINVAL, 0};
    }
    Answer sum{0, 0};
    do {
      const auto done = static_cast<std::uint64_t>(sum.result);
      const std::uint64_t left = total - done;
      const std::uint64_t step = left < area_bytes ? left : area_bytes;
      if (!reading) move(pieces, count, done, area, step, true);
      const Answer answer = leads([&] {
        Request request = transfer_request(reading ? Opcode::read : Opcode::write, file, area, step,
                                           offset + static_cast<std::int64_t>(done));
        request.flags = flags;
        GroupCounters& counters = requester_.counters();
        if (done == 0) add_to(counters.staged_calls, 1);
        add_to(counters.staged_bytes, step);
        return call_by(target, request);
      });
      // As POSIX has it: an error after some bytes were moved is reported by the next call.
      if (answer.result < 0) return done > 0 ? sum : answer;
      const auto got = static_cast<std::uint64_t>(answer.result);
      if (reading) move(pieces, count, done, area, got, false);
      sum.result += answer.result;
      sum.value = answer.value;
      if (got < step) break;
    } while (static_cast<std::uint64_t>(sum.result) < total);
    return sum;
  }

  // Copies bytes [from, from + bytes) of the concatenated pieces to or from `area`.
  FERRY_DEVICE void move(const IoVector* pieces, int count, std::uint64_t from, unsigned char* area,
                         std::uint64_t bytes, bool into_area) {
    std::uint64_t start = 0;  // of piece i in the concatenation
    for (int i = 0; i < count && bytes > 0; start += pieces[i].bytes, ++i) {
      const std::uint64_t end = start + pieces[i].bytes;
      if (from >= end) continue;
      const std::uint64_t step = end - from < bytes ? end - from : bytes;
      auto* memory = static_cast<unsigned char*>(pieces[i].base) + (from - start);
      copy_bytes(group_, into_area ? area : memory, into_area ? memory : area, step);
      area += step;
      from += step;
      bytes -= step;
    }
  }

  FERRY_DEVICE std::int64_t transfer_vector(Opcode opcode, int file, const IoVector* pieces,
                                            int count, std::int64_t offset) {
    if (count < 0 || static_cast<std::uint32_t>(count) > extents_max) return -EINVAL;
    if (pieces == nullptr && count > 0) return -EFAULT;
    bool direct = true;
    for (int i = 0; i < count; ++i) {
      if (pieces[i].bytes > static_cast<std::uint64_t>(offset_max)) return -EINVAL;
      if (pieces[i].base == nullptr && pieces[i].bytes > 0) return -EFAULT;
      direct = direct && requester_.arena().contains(pieces[i].base, pieces[i].bytes);
    }
    const bool reading = opcode == Opcode::read_vector;
    const auto transfer_extents = [&](Target target) {
      if (!direct) return transfer_staged(opcode, file, pieces, count, offset, 0, target);
      return leads([&] {
        const ArenaView& arena = requester_.arena();
        auto* extents = reinterpret_cast<Extent*>(arena.scratch(requester_.group()));
        for (int i = 0; i < count; ++i) {
          extents[i] = Extent{arena.offset_of(pieces[i].base), pieces[i].bytes};
        }
        Request request =
            transfer_request(opcode, file, extents, static_cast<std::uint64_t>(count), offset);
        return call_by(target, request);
      });
    };
    return coherently(reading, file, pieces, count, offset, 0, transfer_extents).result;
  }

  FERRY_DEVICE std::int64_t at_position(Opcode opcode, int file, void* buffer,
                                        std::uint64_t bytes) {
    if (buffer == nullptr && bytes > 0) return -EFAULT;
    FilePosition& position = position_of(file);
    // The leader holds the lock for the whole group, across the staged steps.
    if (group_.lane() == 0) PositionLock::lock(position, requester_.context().hooks);
    group_.sync();
    const bool append = opcode == Opcode::write && group_.broadcast(position.append != 0);
    const auto offset = static_cast<std::int64_t>(group_.broadcast(position.position));
    const std::uint8_t flags = append ? flag_append : 0;
    const Answer answer = transfer_one(opcode, file, IoVector{buffer, clamp(bytes)}, offset, flags);
    if (group_.lane() == 0) {
      if (answer.result > 0 && position.handle == file) {
        position.position =
            append ? answer.value : static_cast<std::uint64_t>(offset + answer.result);
      }
      PositionLock::unlock(position, requester_.context().hooks);
    }
    group_.sync();
    return answer.result;
  }

  FERRY_DEVICE void start(Opcode opcode, const Transfer* transfers, std::uint32_t count,
                          Pending* pending) {
    for (std::uint32_t at = 0; at < count;) {
      const std::uint32_t step = count - at < batch_max ? count - at : batch_max;
      start_some(opcode, transfers + at, step, pending + at);
      at += step;
    }
  }

  // One doorbell (and one more for a service) for at most batch_max transfers.
  FERRY_DEVICE void start_some(Opcode opcode, const Transfer* transfers, std::uint32_t count,
                               Pending* pending) {
    std::uint32_t served = 0;  // one bit each
    for (std::uint32_t i = 0; i < count; ++i) {
      const Transfer& one = transfers[i];
      pending[i] = Pending{};
      Way way = has_cache() ? leads([&] {
        return way_of(opcode == Opcode::read, one.file, clamp(one.bytes), one.offset, 0);
      })
                            : Way::past;
      // While something dirty cannot be written back, the host would read what is older.
      if (way == Way::watching &&
          leads([&] { return before_host_read(one.file, cache::Pages{}); }) < 0)
        way = Way::cached;
      // What the page cache does on this core, or has to follow, is done at once.
      if (!requester_.arena().contains(one.buffer, clamp(one.bytes)) || way == Way::cached ||
          way == Way::changing) {
        pending[i].result = transfer(opcode, one.file, one.buffer, one.bytes, one.offset);
      } else {
        pending[i].finished = false;
        if (way == Way::served) served |= 1U << i;
      }
    }
    group_.sync();
    if (group_.lane() == 0) {
      submit_in_arena(opcode, transfers, count, pending, ~served, Target::server);
      if (served != 0) submit_in_arena(opcode, transfers, count, pending, served, Target::service);
    }
    for (std::uint32_t i = 0; i < count; ++i)
      pending[i] = group_.broadcast(pending[i]);
  }

  // The leader's part: requests for those in `chosen` that are not finished yet.
  FERRY_DEVICE void submit_in_arena(Opcode opcode, const Transfer* transfers, std::uint32_t count,
                                    Pending* pending, std::uint32_t chosen, Target target) {
    Request requests[batch_max];
    std::uint32_t ready = 0;
    for (std::uint32_t i = 0; i < count; ++i) {
      if (pending[i].finished || (chosen & (1U << i)) == 0) continue;
      const Transfer& one = transfers[i];
      requests[ready] = transfer_request(target == Target::service ? cached_call(opcode) : opcode,
                                         one.file, one.buffer, clamp(one.bytes), one.offset);
      const int error = requester_.prepare(requests[ready], pending[i].ticket, 1);
      if (error != 0) {
        pending[i].result = error;
        pending[i].finished = true;
      } else {
        ++ready;
      }
    }
    if (ready == 0) return;
    const int error = requester_.submit(requests, ready, target);
    for (std::uint32_t i = 0; error != 0 && i < count; ++i) {
      if (pending[i].finished || (chosen & (1U << i)) == 0) continue;
      pending[i].result = error;
      pending[i].finished = true;
    }
  }

  cache::HeldView held_;        // the leader's
  std::uint32_t next_any_ = 0;  // where the next wait_any() begins to look
};

}  // namespace ferry::device
