// What stands between a group's file calls and its request ring: the page cache's part in them.
//
// With placement `compute` a transfer is the cache's alone; with `service` too, but somebody else
// executes it. With placement `host` the server does it, and this keeps the cache right: what is
// dirty is written back before the server reads, and cached pages follow what the server writes.
// While something dirty cannot be written back the cache serves these calls, too: the storage does
// not have what the host would read, and would get what is older after what it writes. `automatic`
// is one of these, call by call. Files that are not cached, and runtimes without a cache, pass
// straight through.
#pragma once

#include <cerrno>
#include <cstdint>

#include <ferry/device/cache/cached_files.hpp>
#include <ferry/device/cached_transfer.hpp>
#include <ferry/device/control.hpp>
#include <ferry/device/copy.hpp>
#include <ferry/device/group.hpp>
#include <ferry/device/group_transfer.hpp>
#include <ferry/device/placement_policy.hpp>
#include <ferry/device/requester.hpp>

namespace ferry::device {

// The base of FileCalls. Functions say `leader` where only the group's leader may call them; every
// lane calls the others.
template <class Group>
class CoherentCalls {
 public:
  FERRY_DEVICE CoherentCalls(const Context& context, Group group, std::uint32_t group_index)
      : group_(group), requester_(context, group_index), placement_(context.placement) {}

 protected:
  // O_APPEND, and O_DSYNC, which O_SYNC contains; no <fcntl.h> in a kernel.
  static constexpr int open_flag_append = 02000;
  static constexpr int open_flag_synchronous = 010000;
  static constexpr int open_flag_truncate = 01000;
  static constexpr int open_access_mask = 3;
  static constexpr int open_write_only = 1;
  static constexpr int open_read_write = 2;

  // Runs `work` on the leader and gives every lane its result.
  template <class Work>
  FERRY_DEVICE auto leads(Work work) {
    using Result = decltype(work());
    Result result{};
    group_.sync();
    if (group_.lane() == 0) result = work();
    return group_.broadcast(result);
  }

  FERRY_DEVICE static std::uint64_t clamp(std::uint64_t bytes) { return clamp_transfer(bytes); }

  FERRY_DEVICE bool has_cache() const { return requester_.context().cache.base != nullptr; }

  FERRY_DEVICE int ask_status(int file, Request& request) const {
    request.opcode = Opcode::file_status;
    request.file = file;
    request.buffer = requester_.arena().offset_of(requester_.arena().scratch(requester_.group()));
    return 0;
  }
  // Into the scratch area, by the leader.
  FERRY_DEVICE_CALL int status_of(int file, FileStatus& status) {
    Request request{};
    ask_status(file, request);
    const auto error = static_cast<int>(requester_.call(request).result);
    __builtin_memcpy(&status, requester_.arena().scratch(requester_.group()), sizeof status);
    return error;
  }
  FERRY_DEVICE_CALL int truncate_in_storage(int file, std::int64_t size_bytes) {
    Request request{};
    request.opcode = Opcode::truncate;
    request.file = file;
    request.offset = size_bytes;
    return static_cast<int>(requester_.call(request).result);
  }
  FERRY_DEVICE_CALL int correct_size(unsigned char* status_bytes) {
    FileStatus status;
    __builtin_memcpy(&status, status_bytes, sizeof status);
    cache::CachedFiles files(requester_);
    std::uint32_t inode = 0;
    if (!files.inode_of_file(status, inode)) return 0;
    const std::uint64_t size = files.pages().size(inode);
    // A file that is longer than what can be cached is as long as the storage says.
    if (size < requester_.context().cache.bytes_max() || status.size_bytes < size)
      status.size_bytes = size;
    __builtin_memcpy(status_bytes, &status, sizeof status);
    return 0;
  }

  // Leader. `work(files, entry)` where the file is cached; elsewhere there is nothing to do but to
  // tell whether the handle is one: `uncached` then.
  template <class Result = int, class Work>
  FERRY_DEVICE_CALL Result with_cached(int file, Work work, int uncached = 0) {
    if (has_cache()) {
      cache::CachedFiles files(requester_);
      if (cache::OpenFile* entry = files.find(file); entry != nullptr) return work(files, *entry);
      if (files.has_left(file)) return Result{-EBADF};
    }
    FileStatus status{};
    const int error = status_of(file, status);
    return error != 0 ? error : uncached;
  }
  FERRY_DEVICE_FAST int release_pages(cache::HeldView view) {
    if (has_cache()) cache::release_view(requester_.context().cache, requester_.group(), view);
    return 0;
  }
  // Leader.
  FERRY_DEVICE_CALL int truncate_file(int file, std::int64_t size_bytes) {
    if (has_cache()) {
      cache::CachedFiles files(requester_);
      if (const cache::OpenFile* entry = files.find(file); entry != nullptr) {
        return files.truncate(*entry, static_cast<std::uint64_t>(size_bytes),
                              [&] { return truncate_in_storage(file, size_bytes); });
      }
      if (files.has_left(file)) return -EBADF;
    }
    return truncate_in_storage(file, size_bytes);
  }

  FERRY_DEVICE static bool opens_for_writing(int flags) {
    const int access = flags & open_access_mask;
    return access == open_write_only || access == open_read_write;
  }
  // Whether an open with these flags leaves the truncation to attach(), which does it in turn with
  // what the cache has of the file, dirty or under way to the storage.
  FERRY_DEVICE bool truncates_once_open(int flags) const {
    return has_cache() && (flags & open_flag_truncate) != 0 && opens_for_writing(flags);
  }
  // Leader. Tells the cache of a file that was opened just now. One that it cannot take is served
  // past it. 0, or an error: then what the cache has of the file would not be right.
  FERRY_DEVICE_CALL int attach(int file, int flags) {
    FileStatus status{};
    if (const int error = status_of(file, status); error != 0) return error;
    std::uint32_t access = 0;
    if ((flags & open_access_mask) != open_write_only) access |= cache::OpenFile::readable;
    if (opens_for_writing(flags)) access |= cache::OpenFile::writable;
    if ((flags & open_flag_append) != 0) access |= cache::OpenFile::appends;
    if ((flags & open_flag_synchronous) != 0) access |= cache::OpenFile::synchronous;
    const bool truncates = truncates_once_open(flags) && truncates_existing(flags, status);
    cache::CachedFiles files(requester_);
    const cache::OpenFile* entry = files.attach(file, access, status) ? files.find(file) : nullptr;
    if (entry == nullptr) return truncates ? truncate_in_storage(file, 0) : 0;
    // O_RDONLY | O_TRUNC, which POSIX leaves undefined, has cut the file when it was opened. What
    // another handle wrote before and is not in the storage yet must not make it longer again.
    int writer = truncates ? file : 0;
    if ((flags & open_flag_truncate) != 0 && !opens_for_writing(flags))
      writer = files.writer(*entry);
    if (writer != 0)
      return files.truncate(*entry, 0, [&] { return truncate_in_storage(writer, 0); });
    // Asked again: others may have written and closed since.
    return files.revalidate(*entry, [&](FileStatus& now) { return status_of(file, now); });
  }
  // Whether O_TRUNC has something to do: it leaves devices alone, and a file that the open has
  // created may have been written by others since.
  FERRY_DEVICE static bool truncates_existing(int flags, const FileStatus& status) {
    constexpr int creates = 0100;
    constexpr int exclusively = 0200;
    constexpr int must_create = creates | exclusively;
    return is_regular(status) && (flags & must_create) != must_create;
  }

  // Leader.
  FERRY_DEVICE_CALL int close_file(int file) {
    return write_back_first(Opcode::close, file, [&](auto& files, auto& entry) {
      return files.detach(entry, file, [&](FileStatus& now) { return status_of(file, now); });
    });
  }
  // Leader. Writes back, then has the storage make it durable. Where both fail this reports the
  // storage's error, which it tells once, and the next report of the handle is the other one.
  FERRY_DEVICE_CALL int sync_file(Opcode opcode, int file) {
    int written = 0;
    const int error = write_back_first(opcode, file, [&](auto& files, auto& entry) {
      written = files.flush(entry, true);
      return 0;
    });
    if (error == 0 || written == 0) return error != 0 ? error : written;
    cache::CachedFiles files(requester_);
    if (cache::OpenFile* entry = files.find(file); entry != nullptr) files.report_again(*entry);
    return error;
  }

  // `work(files, entry)` where the file is cached, then the request; the first error of the two.
  // Leader.
  template <class Work>
  FERRY_DEVICE_CALL int write_back_first(Opcode opcode, int file, Work work) {
    int error = 0;
    if (has_cache()) {
      cache::CachedFiles files(requester_);
      if (cache::OpenFile* entry = files.find(file); entry != nullptr) {
        error = work(files, *entry);
      } else if (files.has_left(file)) {
        return -EBADF;
      }
    }
    Request request{};
    request.opcode = opcode;
    request.file = file;
    const auto result = static_cast<int>(requester_.call(request).result);
    return error != 0 ? error : result;
  }

  // Leader. A read that finds all it wants in one cached page; false: it has to go the usual way.
  FERRY_DEVICE_FAST bool read_hit(int file, void* to, std::uint64_t bytes, std::int64_t offset) {
    const cache::View& view = requester_.context().cache;
    std::uint32_t inode = 0;
    if (!reads_cached() || to == nullptr || !may_hit(file, offset, inode)) return false;
    if (!cache::read_hit(view, requester_.group(), inode, to, bytes,
                         static_cast<std::uint64_t>(offset)))
      return false;
    stream_.note(file, offset, bytes);
    return true;
  }
  // Likewise.
  FERRY_DEVICE_FAST bool hold_hit(int file, std::int64_t offset, std::uint64_t bytes,
                                  cache::HeldView& held) {
    std::uint32_t inode = 0;
    return may_hit(file, offset, inode) &&
           cache::hold_hit(requester_.context().cache, requester_.group(), inode, bytes,
                           static_cast<std::uint64_t>(offset), held);
  }
  // The same hit for a group of several lanes, which copy together. Every lane.
  FERRY_DEVICE bool read_hit_together(int file, void* to, std::uint64_t bytes,
                                      std::int64_t offset) {
    cache::HeldView held;
    const bool hit = leads([&] {
      if (!reads_cached() || to == nullptr || bytes == 0 || !hold_hit(file, offset, bytes, held))
        return false;
      if (held.bytes == bytes) {
        stream_.note(file, offset, bytes);
        return true;
      }
      release_pages(held);  // it goes on in the next page
      return false;
    });
    if (!hit) return false;
    held = group_.broadcast(held);
    copy_bytes(group_, to, held.data, bytes);
    if (group_.lane() == 0) release_pages(held);
    return true;
  }

  // Whether the handle is of a cached file that it may read; which one, then.
  FERRY_DEVICE_FAST bool may_hit(int file, std::int64_t offset, std::uint32_t& inode) const {
    const cache::View& view = requester_.context().cache;
    if (view.base == nullptr || file <= 0 || offset < 0) return false;
    cache::OpenFile& entry = view.open_file(file);
    inode = DeviceRef<std::uint32_t>(entry.inode).load(acquire);
    return DeviceRef<std::int32_t>(entry.handle).load(acquire) == file &&
           (entry.access & cache::OpenFile::readable) != 0;
  }
  // Whether reads may be served on the calling core.
  FERRY_DEVICE bool reads_cached() const {
    return placement_ != Placement::host && placement_ != Placement::service;
  }

  // Which part the cache has in a transfer.
  enum class Way : std::uint8_t {
    past,      // none
    cached,    // all
    served,    // all, and somebody else executes it
    watching,  // what is dirty is written back before the host reads
    changing,  // the host writes, and cached pages follow
  };
  // Leader.
  FERRY_DEVICE_CALL Way way_of(bool reading, int file, std::uint64_t bytes, std::int64_t offset,
                               std::uint8_t flags) {
    const cache::CachedFiles files(requester_);
    const cache::OpenFile* entry = files.find(file);
    if (entry == nullptr) return files.has_left(file) ? Way::cached : Way::past;  // it refuses
    if (!reading && writes_through(*entry, flags)) return Way::changing;
    if (files.ends_past_the_cache(bytes, offset) &&
        cache::CachedFiles::refusal(*entry, access_for(reading), bytes, offset) == 0)
      return reading ? Way::watching : Way::changing;
    switch (placement_ == Placement::automatic ? choose(reading, file, *entry, bytes, offset)
                                               : placement_) {
      case Placement::service:
        // What will be refused is refused here, so that the error is the same however it is staged.
        return requester_.is_served() &&
                       cache::CachedFiles::refusal(*entry, access_for(reading), bytes, offset) == 0
                   ? Way::served
                   : Way::cached;
      case Placement::host:
        return reading ? Way::watching : Way::changing;
      default:
        return Way::cached;
    }
  }
  FERRY_DEVICE static std::uint32_t access_for(bool reading) {
    return reading ? cache::OpenFile::readable : cache::OpenFile::writable;
  }
  FERRY_DEVICE Placement choose(bool reading, int file, const cache::OpenFile& entry,
                                std::uint64_t bytes, std::int64_t offset) {
    const Context& context = requester_.context();
    const auto at = static_cast<std::uint64_t>(offset);
    const CallFacts call{reading, stream_.continues(file, offset, bytes), bytes};
    const auto resident = [&] { return are_ends_resident(context, entry.inode, at, bytes); };
    const auto may_bypass = [&] {
      // The host would have to write back first.
      std::uint64_t& dirty = context.cache.inode(entry.inode).dirty_pages;
      if (DeviceRef<std::uint64_t>(dirty).load(relaxed) != 0) return false;
      return !reading || !bypass_pays_off(context, entry.inode, at, bytes);
    };
    const Crossovers& crossovers = context.cache.tuning(entry.inode).crossovers;
    return choose_placement(crossovers, call, resident, may_bypass);
  }

  // Executes the transfer where it belongs; `send(target)` has somebody else do it: the server past
  // the cache, a service through it.
  template <class Send>
  FERRY_DEVICE Answer coherently(bool reading, int file, const IoVector* pieces, int count,
                                 std::int64_t offset, std::uint8_t flags, Send send) {
    if (!has_cache()) return send(Target::server);
    std::uint64_t bytes = 0;
    for (int i = 0; i < count; ++i)
      bytes = clamp(bytes + clamp(pieces[i].bytes));
    switch (leads([&] { return way_of(reading, file, bytes, offset, flags); })) {
      case Way::past:
        break;
      case Way::cached:
        return through_cache(reading, file, pieces, count, offset);
      case Way::served:
        return send(Target::service);
      case Way::watching: {
        const cache::Pages pages = pages_of(offset, bytes);
        // Behind what can be cached nothing is dirty, and the cache could not serve it.
        const int dirty = pages.end == 0 ? 0 : leads([&] { return before_host_read(file, pages); });
        if (dirty < 0) return through_cache(reading, file, pieces, count, offset);
        const Answer answer = send(Target::server);
        // Pages behind these that were dirty may make the file longer than the storage knew.
        const bool ended = answer.result >= 0 && static_cast<std::uint64_t>(answer.result) < bytes;
        if (!ended || dirty == 0) return answer;
        if (leads([&] { return before_host_read(file, cache::Pages{}); }) < 0)
          return through_cache(reading, file, pieces, count, offset);
        break;
      }
      case Way::changing: {
        const int begun = leads([&] { return begin_host_write(file, bytes, offset, flags); });
        if (begun == 0) break;
        if (begun < 0) {
          const bool cannot = leads([&] {
            const cache::OpenFile* entry = cache::CachedFiles(requester_).find(file);
            return entry == nullptr || writes_through(*entry, flags);
          });
          if (cannot) return Answer{begun, 0};
          return through_cache(reading, file, pieces, count, offset);
        }
        const Answer answer = send(Target::server);
        leads([&] { return end_host_write(file, pieces, count, offset, answer.result); });
        return answer;
      }
    }
    return send(Target::server);
  }

  FERRY_DEVICE_CALL Answer through_cache(bool reading, int file, const IoVector* pieces, int count,
                                         std::int64_t offset) {
    const auto piece_of = [&](int i, IoVector& piece) {
      piece = pieces[i];
      return 0;
    };
    return Answer{transfer_together(group_, requester_, reading, file, count, offset, piece_of), 0};
  }

  FERRY_DEVICE cache::Pages pages_of(std::int64_t offset, std::uint64_t bytes) const {
    return requester_.context().cache.pages_of(static_cast<std::uint64_t>(offset), bytes);
  }
  // Whether anything of the file was dirty, or the error that keeps some of these pages from the
  // storage; -EBADF where the handle is being closed.
  FERRY_DEVICE_CALL int before_host_read(int file, cache::Pages pages) {
    cache::CachedFiles files(requester_);
    const cache::OpenFile* entry = files.find(file);
    if (entry == nullptr) return files.has_left(file) ? -EBADF : 0;
    if (files.pages().is_clean(entry->inode)) return 0;
    // A read does not ask a storage again that has just refused.
    if (const auto last = static_cast<int>(files.pages().last_error(entry->inode)); last != 0)
      return last;
    const auto error = static_cast<int>(files.pages().flush(entry->inode, pages));
    return error != 0 ? error : 1;
  }
  // 1: end_host_write() has to follow. 0: the file is not cached. Else the error that keeps
  // something dirty from the storage, or -EBADF as above, and nothing has begun.
  FERRY_DEVICE_CALL int begin_host_write(int file, std::uint64_t bytes, std::int64_t offset,
                                         std::uint8_t flags) {
    cache::CachedFiles files(requester_);
    const cache::OpenFile* entry = files.find(file);
    if (entry == nullptr) return files.has_left(file) ? -EBADF : 0;
    changing_ = entry->inode;
    // Appended bytes go behind everything that is dirty: all of that first, then.
    appending_ = appends(*entry, flags);
    const cache::Pages pages = appending_ ? cache::Pages{} : pages_of(offset, bytes);
    cache::Pages changed = pages;
    size_before_ = files.pages().size(changing_);
    if (appending_) changed.first = size_before_ >> requester_.context().cache.layout.page_shift;
    files.pages().begin_outside(changing_, pages, changed);
    const auto error = static_cast<int>(files.pages().flush(changing_, pages));
    if (error != 0) files.pages().end_outside(changing_);
    return error != 0 ? error : 1;
  }
  FERRY_DEVICE static bool appends(const cache::OpenFile& entry, std::uint8_t flags) {
    return (flags & flag_append) != 0 || (entry.access & cache::OpenFile::appends) != 0;
  }
  // Whether a write must have reached the storage by its own handle when it returns.
  FERRY_DEVICE static bool writes_through(const cache::OpenFile& entry, std::uint8_t flags) {
    return appends(entry, flags) || (entry.access & cache::OpenFile::synchronous) != 0;
  }
  // The handle may have been closed meanwhile, while others of the file are open.
  FERRY_DEVICE_CALL int end_host_write(int file, const IoVector* pieces, int count,
                                       std::int64_t offset, std::int64_t written) {
    cache::CachedFiles files(requester_);
    if (written > 0 && appending_) {
      // Where it went is not known here, and others may have appended too.
      const auto bytes = static_cast<std::uint64_t>(written);
      FileStatus status{};
      // Unless the storage says it, by this device's own changes. The next open asks again.
      if (status_of(file, status) != 0) status.size_bytes = files.pages().size(changing_) + bytes;
      files.pages().appended(changing_, size_before_, bytes, status.size_bytes);
    }
    auto left = static_cast<std::uint64_t>(written > 0 && !appending_ ? written : 0);
    auto at = static_cast<std::uint64_t>(offset);
    for (int i = 0; i < count && left > 0; ++i) {
      const std::uint64_t step = pieces[i].bytes < left ? pieces[i].bytes : left;
      files.pages().update(changing_, pieces[i].base, step, at);
      at += step;
      left -= step;
    }
    files.pages().end_outside(changing_);
    return 0;
  }

  Group group_;
  Requester requester_;
  Placement placement_;

 private:
  // The leader's.
  std::uint32_t changing_ = 0;     // the file whose outside call is under way
  std::uint64_t size_before_ = 0;  // how long that was before
  bool appending_ = false;         // and whether the call goes to its end
  StreamWatch stream_;             // of calls that `automatic` decided on
};

}  // namespace ferry::device
