// The page cache's part in every read or write, wherever it runs.
//
// With placement `compute` the cache executes a transfer; with `service` it does so on another
// core. With placement `host` the server does, and this keeps the cache coherent: dirty data is
// written back before the server reads, and cached pages follow the server's writes. While dirty
// data cannot be written back, the cache serves these calls too: the host would read stale data,
// and older data would later overwrite what it writes. `automatic` chooses one of these for each
// call. Uncached files, and runtimes without a cache, pass straight through.
#pragma once

#include <cerrno>
#include <cstdint>

#include <ferry/device/cache/cached_files.hpp>
#include <ferry/device/caller.hpp>
#include <ferry/device/group_transfer.hpp>
#include <ferry/device/open_files.hpp>
#include <ferry/device/placement_policy.hpp>
#include <ferry/device/sending.hpp>

namespace ferry::device {

enum class CacheRole : std::uint8_t {
  none,     // the host transfers, past the cache
  serves,   // the calling core transfers, through the cache
  lends,    // a service does
  flushes,  // dirty data is written back, then the host reads
  follows,  // the host writes, and cached pages follow
};

FERRY_DEVICE inline bool appends(const cache::OpenFile& entry, std::uint8_t flags) {
  return (flags & flag_append) != 0 || (entry.access & cache::OpenFile::appends) != 0;
}
// Whether a write must reach storage through its own handle before it returns.
FERRY_DEVICE inline bool writes_through(const cache::OpenFile& entry, std::uint8_t flags) {
  return appends(entry, flags) || (entry.access & cache::OpenFile::synchronous) != 0;
}

// Whether what the group writes now is likely to be written back soon: it usually flushes, or half
// of the cache is dirty. For the latter alone only large writes go to the host, where those of
// several threads to one file take turns.
FERRY_DEVICE inline bool is_flushed_soon(const cache::View& view, const FlushHabit& habit,
                                         std::uint64_t bytes) {
  constexpr std::uint64_t large_bytes = 4 << 20;
  if (habit.expects_flush()) return true;
  return bytes >= large_bytes &&
         DeviceRef<std::uint64_t>(view.shared().dirty_pages).load(relaxed) > view.layout.dirty_low;
}

// The leader's part of `automatic`.
FERRY_DEVICE inline Placement choose_for(const Context& context, std::uint32_t group,
                                         StreamWatch& stream, const cache::OpenFile& entry,
                                         const TransferCall& call) {
  const auto at = static_cast<std::uint64_t>(call.offset);
  CallFacts facts{direction_of(call.opcode), stream.continues(call.file, call.offset, call.bytes),
                  call.bytes};
  const Crossovers& crossovers = context.cache.tuning(entry.inode).crossovers;
  if (!call.reads() && call.bytes >= crossovers.host_write_bytes_min) {
    FlushHabit habit(context.cache.reader(group));
    facts.flush_follows = is_flushed_soon(context.cache, habit, call.bytes);
    habit.wrote(call.file);
  }
  const auto resident = [&] { return are_ends_resident(context, entry.inode, at, call.bytes); };
  const auto may_bypass = [&] {
    if (!call.reads()) return true;
    // The host would have to write back first.
    std::uint64_t& dirty = context.cache.inode(entry.inode).dirty_pages;
    if (DeviceRef<std::uint64_t>(dirty).load(relaxed) != 0) return false;
    return !bypass_pays_off(context, entry.inode, at, call.bytes);
  };
  return choose_placement(crossovers, facts, resident, may_bypass);
}

// The leader's part of cache_role().
template <class Group>
FERRY_DEVICE_CALL CacheRole lead_role(Caller<Group>& caller, const TransferCall& call) {
  const cache::CachedFiles files(caller.requester);
  const cache::OpenFile* entry = files.find(call.file);
  // There, a handle that a close has removed from the cache is refused.
  if (entry == nullptr) return files.has_left(call.file) ? CacheRole::serves : CacheRole::none;
  const CacheRole by_host = call.reads() ? CacheRole::flushes : CacheRole::follows;
  if (!call.reads() && writes_through(*entry, call.flags)) return by_host;
  const auto accepted = [&] {
    const std::uint32_t access =
        call.reads() ? cache::OpenFile::readable : cache::OpenFile::writable;
    return cache::CachedFiles::refusal(*entry, access, call.bytes, call.offset) == 0;
  };
  if (files.ends_past_the_cache(call.bytes, call.offset) && accepted()) return by_host;
  const Placement placement = caller.placement == Placement::automatic
                                  ? choose_for(caller.requester.context(), caller.requester.group(),
                                               caller.stream, *entry, call)
                                  : caller.placement;
  if (placement == Placement::host) return by_host;
  // Refused here already, so that the error does not depend on staging.
  const bool lends = placement == Placement::service && caller.requester.is_served() && accepted();
  return lends ? CacheRole::lends : CacheRole::serves;
}
template <class Group>
FERRY_DEVICE CacheRole cache_role(Caller<Group>& caller, const TransferCall& call) {
  if (!caller.requester.has_cache()) return CacheRole::none;
  return caller.leads([&] { return lead_role(caller, call); });
}

// Called by the leader before the host reads these pages: whether anything of the file was dirty,
// or the error that keeps some of them from storage; -EBADF if the handle is being closed.
FERRY_DEVICE_CALL inline int flush_for_host(Requester& requester, int file, cache::Pages pages) {
  cache::CachedFiles files(requester);
  const cache::OpenFile* entry = files.find(file);
  if (entry == nullptr) return files.has_left(file) ? -EBADF : 0;
  if (files.pages().is_clean(entry->inode)) return 0;
  // A read does not repeat a request that the storage has just refused.
  if (const auto last = static_cast<int>(files.pages().last_error(entry->inode)); last != 0)
    return last;
  const auto error = static_cast<int>(files.pages().flush(entry->inode, pages));
  return error != 0 ? error : 1;
}

// A write by the host as the cache sees it: an outside call. For the leader.
class HostWrite {
 public:
  // 1: end() must follow. 0: the file is not cached. Else the error that keeps dirty data from
  // storage, or -EBADF as above, and nothing has begun.
  FERRY_DEVICE_CALL int begin(Requester& requester, const TransferCall& call) {
    cache::CachedFiles files(requester);
    const cache::OpenFile* entry = files.find(call.file);
    if (entry == nullptr) return files.has_left(call.file) ? -EBADF : 0;
    inode_ = entry->inode;
    appends_ = appends(*entry, call.flags);
    const cache::View& view = requester.cache();
    // Appended bytes go after everything dirty: write all of that first.
    const cache::Pages pages =
        appends_ ? cache::Pages{}
                 : view.pages_of(static_cast<std::uint64_t>(call.offset), call.bytes);
    cache::Pages changed = pages;
    size_before_ = files.pages().size(inode_);
    if (appends_) changed.first = size_before_ >> view.layout.page_shift;
    changed_ = changed;
    files.pages().begin_outside(inode_, pages, changed);
    const auto error = static_cast<int>(files.pages().flush(inode_, pages));
    if (error != 0) files.pages().end_outside(inode_);
    return error != 0 ? error : 1;
  }

  // The handle may have been closed meanwhile, while others of the file are open.
  FERRY_DEVICE_CALL int end(Requester& requester, const TransferCall& call, std::int64_t result) {
    cache::CachedFiles files(requester);
    const std::uint64_t written = result > 0 ? static_cast<std::uint64_t>(result) : 0;
    if (written > 0 && appends_) {
      // Its position is unknown here, and others may have appended too.
      FileStatus status{};
      // Unless the storage reports it, assume only this device's changes. The next open asks again.
      if (storage_status(requester, call.file, status) != 0)
        status.size_bytes = files.pages().size(inode_) + written;
      files.pages().appended(inode_, size_before_, written, status.size_bytes);
    }
    if (result < 0) {
      // The storage may have written some of it, and made the file longer.
      FileStatus status{};
      const bool is_known = storage_status(requester, call.file, status) == 0;
      files.pages().renew(inode_, changed_, is_known ? status.size_bytes : 0);
    }
    std::uint64_t left = appends_ ? 0 : written;
    auto at = static_cast<std::uint64_t>(call.offset);
    for (int i = 0; i < call.count && left > 0; ++i) {
      const std::uint64_t step = call.pieces[i].bytes < left ? call.pieces[i].bytes : left;
      files.pages().update(inode_, call.pieces[i].base, step, at);
      at += step;
      left -= step;
    }
    files.pages().end_outside(inode_);
    return 0;
  }

 private:
  std::uint32_t inode_ = 0;
  std::uint64_t size_before_ = 0;
  cache::Pages changed_;
  bool appends_ = false;
};

template <class Group>
FERRY_DEVICE_ONCE Answer read_by_host(Caller<Group>& caller, const TransferCall& call) {
  const auto flush = [&](cache::Pages pages) {
    return caller.leads([&] { return flush_for_host(caller.requester, call.file, pages); });
  };
  const cache::Pages pages =
      caller.requester.cache().pages_of(static_cast<std::uint64_t>(call.offset), call.bytes);
  // Nothing is dirty beyond the cacheable part, and the cache could not serve it.
  const int dirty = pages.end == 0 ? 0 : flush(pages);
  if (dirty < 0) return serve_here(caller, call);
  const Answer answer = send(caller, call, Target::server);
  // Dirty pages behind these may make the file longer than the storage knows.
  const bool ended = answer.result >= 0 && static_cast<std::uint64_t>(answer.result) < call.bytes;
  if (!ended || dirty == 0) return answer;
  if (flush(cache::Pages{}) < 0) return serve_here(caller, call);
  return send(caller, call, Target::server);
}

template <class Group>
FERRY_DEVICE_ONCE Answer write_by_host(Caller<Group>& caller, const TransferCall& call) {
  HostWrite write;
  const int begun = caller.leads([&] { return write.begin(caller.requester, call); });
  if (begun < 0) {
    const bool cannot = caller.leads([&] {
      const cache::OpenFile* entry = cache::CachedFiles(caller.requester).find(call.file);
      return entry == nullptr || writes_through(*entry, call.flags);
    });
    return cannot ? Answer{begun, 0} : serve_here(caller, call);
  }
  const Answer answer = send(caller, call, Target::server);
  if (begun > 0) caller.leads([&] { return write.end(caller.requester, call, answer.result); });
  return answer;
}

// Executes the call in its place.
template <class Group>
FERRY_DEVICE_ONCE Answer transfer(Caller<Group>& caller, const TransferCall& call) {
  switch (cache_role(caller, call)) {
    case CacheRole::serves:
      return serve_here(caller, call);
    case CacheRole::lends:
      return send(caller, call, Target::service);
    case CacheRole::flushes:
      return read_by_host(caller, call);
    case CacheRole::follows:
      return write_by_host(caller, call);
    case CacheRole::none:
      break;
  }
  return send(caller, call, Target::server);
}

// The same for one piece.
template <class Group>
FERRY_DEVICE_CALL std::int64_t transfer_piece(Caller<Group>& caller, Opcode opcode, int file,
                                              void* buffer, std::uint64_t bytes,
                                              std::int64_t offset) {
  if (bytes > file_offset_max) return -EINVAL;
  if (buffer == nullptr && bytes > 0) return -EFAULT;
  const IoVector piece{buffer, clamp_transfer(bytes)};
  return transfer(caller, TransferCall{opcode, file, &piece, 1, offset}).result;
}

template <class Group>
FERRY_DEVICE_CALL std::int64_t transfer_vector(Caller<Group>& caller, Opcode opcode, int file,
                                               const IoVector* pieces, int count,
                                               std::int64_t offset) {
  if (count < 0 || static_cast<std::uint32_t>(count) > extents_max) return -EINVAL;
  if (pieces == nullptr && count > 0) return -EFAULT;
  for (int i = 0; i < count; ++i) {
    if (pieces[i].bytes > file_offset_max) return -EINVAL;
    if (pieces[i].base == nullptr && pieces[i].bytes > 0) return -EFAULT;
  }
  return transfer(caller, TransferCall{opcode, file, pieces, count, offset}).result;
}

// One piece at the file's position.
template <class Group>
FERRY_DEVICE_CALL std::int64_t transfer_at_position(Caller<Group>& caller, Opcode opcode, int file,
                                                    void* buffer, std::uint64_t bytes) {
  if (bytes > file_offset_max) return -EINVAL;
  if (buffer == nullptr && bytes > 0) return -EFAULT;
  FilePosition& position = position_of(caller.requester.arena(), file);
  const HostHooks& hooks = caller.requester.context().hooks;
  // The leader holds the lock for the whole group, across the staged steps.
  const std::uint64_t at = caller.leads([&] {
    PositionLock::lock(position, hooks);
    return position.position;
  });
  const auto offset = static_cast<std::int64_t>(at);
  const bool append = opcode == Opcode::write && appends(caller, file, 0);
  const std::uint8_t flags = append ? flag_append : 0;
  const IoVector piece{buffer, clamp_transfer(bytes)};
  const Answer answer = transfer(caller, TransferCall{opcode, file, &piece, 1, offset, flags});
  if (caller.group.lane() == 0) {
    if (answer.result > 0 && position.handle == file) {
      position.position =
          append ? answer.value : static_cast<std::uint64_t>(offset + answer.result);
    }
    PositionLock::unlock(position, hooks);
  }
  caller.group.sync();
  return answer.result;
}

}  // namespace ferry::device
