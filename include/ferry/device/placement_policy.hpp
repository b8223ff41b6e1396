// Placement `automatic`: chooses where a call runs.
//
// It decides before any byte moves, from direction and size, whether the call continues the group's
// last one, and what the page cache holds. Small calls of a stream cost only a comparison; others
// look up their first and last page, small ones only sometimes.
//
// Resident data is fastest here. For other data, the host is faster for large or random reads, but
// then it never becomes resident: so pages that are repeatedly read past the cache are brought in
// once that has cost about as much as bringing them in. For any pattern this takes at most about
// twice the time of the better choice. A write is faster into the cache, unless a flush follows: so
// what followed the group's earlier writes decides.
#pragma once

#include <cstdint>

#include <ferry/device/cache/frames.hpp>
#include <ferry/device/requester.hpp>

namespace ferry::device {

// The facts behind the decision.
struct CallFacts {
  TransferDirection direction = TransferDirection::read;
  bool continues = false;  // where the group's last call on this file ended
  std::uint64_t bytes = 0;
  bool flush_follows = false;  // probably, if it writes: what it writes leaves the cache soon
};

// `resident()` returns whether the first and the last page are cached, and `may_bypass()` whether
// absent ones may stay absent; called only if needed, in this order. Never returns `automatic`.
template <class Resident, class MayBypass>
FERRY_DEVICE Placement choose_placement(const Crossovers& crossovers, const CallFacts& call,
                                        Resident resident, MayBypass may_bypass) {
  const bool reads = call.direction == TransferDirection::read;
  const std::uint64_t write_bytes_min =
      call.flush_follows ? crossovers.host_write_bytes_min : Crossovers::never;
  const std::uint64_t host_bytes_min = !reads           ? write_bytes_min
                                       : call.continues ? crossovers.host_stream_read_bytes_min
                                                        : crossovers.host_read_bytes_min;
  if (call.bytes >= host_bytes_min && !resident() && may_bypass()) return Placement::host;
  const std::uint64_t service_bytes_min =
      reads ? crossovers.service_read_bytes_min : crossovers.service_write_bytes_min;
  return call.bytes >= service_bytes_min ? Placement::service : Placement::compute;
}

// Whether the page is cached now, or about to be. Changes nothing, and may be stale on return.
FERRY_DEVICE inline bool is_resident(const Context& context, std::uint32_t inode,
                                     std::uint64_t page) {
  const cache::Frames frames(context.cache, context.hooks);
  const std::uint64_t key = cache::key_of(inode, page);
  return cache::PageTable(context.cache).find(cache::hash_of(key), key, [&](std::uint32_t frame) {
    return frames.key(frame) == key;
  }) != cache::no_frame;
}
FERRY_DEVICE inline bool are_ends_resident(const Context& context, std::uint32_t inode,
                                           std::uint64_t offset, std::uint64_t bytes) {
  const std::uint32_t shift = context.cache.layout.page_shift;
  const std::uint64_t first = offset >> shift;
  const std::uint64_t last = (offset + (bytes > 0 ? bytes - 1 : 0)) >> shift;
  return is_resident(context, inode, first) && (first == last || is_resident(context, inode, last));
}

// How often a read of this size may leave an absent page absent: a fill costs about as much as this
// many such reads save.
FERRY_DEVICE inline std::uint32_t bypass_limit(const Crossovers& crossovers,
                                               std::uint32_t page_bytes, std::uint64_t bytes) {
  constexpr std::uint64_t least = 3;
  const std::uint64_t worth = least + page_bytes / (4 * (bytes > 0 ? bytes : 1));
  return worth < crossovers.bypasses_max ? static_cast<std::uint32_t>(worth)
                                         : crossovers.bypasses_max;
}
// Unlike the page table's hash, it separates neighbouring pages, and has 64 bits.
FERRY_DEVICE inline std::uint64_t bypass_hash(std::uint64_t key) {
  const std::uint64_t mixed = key * 0x9e3779b97f4a7c15ULL;
  return mixed ^ (mixed >> 32);
}
// Counts a read that could bypass the cache. Returns true if it should not.
FERRY_DEVICE inline bool bypass_pays_off(const Context& context, std::uint32_t inode,
                                         std::uint64_t offset, std::uint64_t bytes) {
  if (context.bypassed.entries == nullptr) return false;
  const std::uint64_t page = offset >> context.cache.layout.page_shift;
  return count_bypass(
      context.bypassed, bypass_hash(cache::key_of(inode, page)),
      bypass_limit(context.cache.tuning(inode).crossovers, context.cache.page_bytes(), bytes));
}

// Evicting a file shows that its pages are not worth caching: earlier reads past the cache no
// longer count for them. A file with more pages than the table has entries has displaced other
// files' counts: then all are reset.
FERRY_DEVICE inline void forget_bypasses(const Context& context, std::uint32_t inode,
                                         std::uint64_t size_bytes) {
  const BypassTable& table = context.bypassed;
  if (table.entries == nullptr) return;
  const std::uint64_t pages = context.cache.pages_of(0, size_bytes).end;
  if (pages > table.mask) {
    for (std::uint32_t i = 0; i <= table.mask; ++i)
      DeviceRef<std::uint32_t>(table.entries[i]).store(0, relaxed);
    return;
  }
  for (std::uint64_t page = 0; page < pages; ++page)
    forget_bypasses(table, bypass_hash(cache::key_of(inode, page)));
}

// Whether a flush, or a sync, follows a group's writes. Guesses from the earlier ones, with a
// counter of two bits, so that one exception changes nothing (Smith 1981, strategy 7). At first it
// expects none.
class FlushHabit {
 public:
  FERRY_DEVICE explicit FlushHabit(cache::Reader& reader) : reader_(reader) {}

  FERRY_DEVICE bool expects_flush() const { return reader_.flushes > most / 2; }

  FERRY_DEVICE void wrote(int file) {
    if (reader_.unflushed != file) closed(reader_.unflushed);
    reader_.unflushed = file;
  }
  FERRY_DEVICE void flushed(int file) {
    if (end(file) && reader_.flushes < most) ++reader_.flushes;
  }
  FERRY_DEVICE void closed(int file) {
    if (end(file) && reader_.flushes > 0) --reader_.flushes;
  }

 private:
  static constexpr std::uint32_t most = 3;
  // Returns whether anything of the file was not flushed until now.
  FERRY_DEVICE bool end(int file) {
    if (file == 0 || reader_.unflushed != file) return false;
    reader_.unflushed = 0;
    return true;
  }

  cache::Reader& reader_;
};

// Recognises the group's sequential stream.
class StreamWatch {
 public:
  // Records the call. Returns whether it begins where the last one on the same file ended, or where
  // most streams begin.
  FERRY_DEVICE bool continues(int file, std::int64_t offset, std::uint64_t bytes) {
    const bool does = (file == file_ && offset == next_) || offset == 0;
    note(file, offset, bytes);
    return does;
  }
  FERRY_DEVICE void note(int file, std::int64_t offset, std::uint64_t bytes) {
    file_ = file;
    next_ = offset + static_cast<std::int64_t>(bytes);
  }

 private:
  int file_ = -1;
  std::int64_t next_ = 0;
};

}  // namespace ferry::device
