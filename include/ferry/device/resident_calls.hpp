// Calls on cached data: reads that hit, views, and reads whose lanes share look-ups.
#pragma once

#include <cerrno>
#include <cstdint>

#include <ferry/device/caller.hpp>
#include <ferry/device/coherence.hpp>
#include <ferry/device/copy.hpp>
#include <ferry/device/group_hold.hpp>
#include <ferry/device/open_files.hpp>

namespace ferry::device {

// Whether the handle is a readable, cached file; if so, which.
FERRY_DEVICE_FAST bool may_hit(const cache::View& view, int file, std::int64_t offset,
                               std::uint32_t& inode) {
  if (view.base == nullptr || file <= 0 || offset < 0) return false;
  cache::OpenFile& entry = view.open_file(file);
  inode = DeviceRef<std::uint32_t>(entry.inode).load(acquire);
  return DeviceRef<std::int32_t>(entry.handle).load(acquire) == file &&
         (entry.access & cache::OpenFile::readable) != 0;
}
// Whether reads may be served on the calling core.
FERRY_DEVICE inline bool reads_here(Placement placement) {
  return placement != Placement::host && placement != Placement::service;
}

// A read whose bytes are all in one cached page; returns false if it must go the usual way. For the
// leader.
template <class Group>
FERRY_DEVICE_FAST bool read_hit(Caller<Group>& caller, int file, void* to, std::uint64_t bytes,
                                std::int64_t offset) {
  const cache::View& view = caller.requester.cache();
  std::uint32_t inode = 0;
  if (!reads_here(caller.placement) || to == nullptr || !may_hit(view, file, offset, inode))
    return false;
  if (!cache::read_hit(view, caller.requester.group(), inode, to, bytes,
                       static_cast<std::uint64_t>(offset)))
    return false;
  caller.stream.note(file, offset, bytes);
  return true;
}
// Likewise a view.
FERRY_DEVICE_FAST bool hold_hit(const Requester& requester, int file, std::int64_t offset,
                                std::uint64_t bytes, cache::PinnedView& held) {
  std::uint32_t inode = 0;
  return may_hit(requester.cache(), file, offset, inode) &&
         cache::hold_hit(requester.cache(), requester.group(), inode, bytes,
                         static_cast<std::uint64_t>(offset), held);
}
// The same hit for a group of several lanes, which copy together. For every lane.
template <class Group>
FERRY_DEVICE bool read_hit_together(Caller<Group>& caller, int file, void* to, std::uint64_t bytes,
                                    std::int64_t offset) {
  const Requester& requester = caller.requester;
  cache::PinnedView held;
  const bool hit = caller.leads([&] {
    if (!reads_here(caller.placement) || to == nullptr || bytes == 0 ||
        !hold_hit(requester, file, offset, bytes, held))
      return false;
    if (held.bytes == bytes) {
      caller.stream.note(file, offset, bytes);
      return true;
    }
    cache::release_view(requester.cache(), requester.group(), held);  // more in the next page
    return false;
  });
  if (!hit) return false;
  held = caller.group.broadcast(held);
  copy_bytes(caller.group, to, held.data, bytes);
  if (caller.group.lane() == 0) cache::release_view(requester.cache(), requester.group(), held);
  return true;
}

template <class Group>
FERRY_DEVICE std::int64_t hold_page(Caller<Group>& caller, int file, std::int64_t offset,
                                    std::uint64_t bytes, cache::PinnedView& view) {
  view = cache::PinnedView{};
  if (caller.leads([&] { return hold_hit(caller.requester, file, offset, bytes, view); })) {
    view = caller.group.broadcast(view);
    return static_cast<std::int64_t>(view.bytes);
  }
  const std::int64_t result = hold_together(caller, file, offset, bytes, view);
  if (result != -EBADF) return result;
  return caller.leads([&] {  // of no file, or of an uncached one
    const int error = if_cached(caller.requester, file, [](auto&, auto&) { return -EBADF; });
    return std::int64_t{error != 0 ? error : -EOPNOTSUPP};
  });
}

// One lane's part of pread_each().
struct LaneRead {
  void* to = nullptr;
  std::uint64_t bytes = 0;
  std::int64_t offset = 0;
};
// Serves lane `first`, and those of `lanes` with bytes in the same page; sets the results of the
// lanes served, and returns which. `pread(read)` is the plain call.
template <class Group, class Pread>
FERRY_DEVICE std::uint64_t read_page_of(Caller<Group>& caller, std::uint32_t first,
                                        std::uint64_t lanes, int file, const LaneRead& mine,
                                        std::int64_t& result, Pread pread) {
  const Group& group = caller.group;
  const LaneRead lead = group.shuffle(mine, first);
  const std::uint64_t page_bytes =
      caller.requester.has_cache() ? caller.requester.cache().page_bytes() : 0;
  const auto within = [&](const LaneRead& one) {  // a page, possibly absent
    return page_bytes != 0 && one.to != nullptr && one.bytes > 0 && one.offset >= 0 &&
           one.bytes <= page_bytes - (static_cast<std::uint64_t>(one.offset) & (page_bytes - 1));
  };
  const std::uint64_t page = page_bytes != 0 ? ~(page_bytes - 1) : 0;
  const auto start = static_cast<std::int64_t>(static_cast<std::uint64_t>(lead.offset) & page);
  const bool same =
      within(mine) && within(lead) && reads_here(caller.placement) &&
      (static_cast<std::uint64_t>(mine.offset) & page) == static_cast<std::uint64_t>(start);
  const std::uint64_t served = group.ballot(same) & lanes;
  cache::PinnedView view;
  const std::int64_t held = served != 0 ? hold_page(caller, file, start, page_bytes, view) : -1;
  if (held <= 0) {  // uncached, an error, or the end of the file: like the plain call
    const std::int64_t alone = pread(lead);
    if (group.lane() == first) result = alone;
    return std::uint64_t{1} << first;
  }
  for (std::uint64_t rest = served; rest != 0; rest &= rest - 1) {
    const std::uint32_t lane = lowest_bit(rest);
    const LaneRead one = group.shuffle(mine, lane);
    const auto at = static_cast<std::uint64_t>(one.offset - start);
    const std::uint64_t there = at < view.bytes ? view.bytes - at : 0;
    const std::uint64_t step = one.bytes < there ? one.bytes : there;
    copy_bytes(group, one.to, view.data + at, step);
    if (group.lane() == lane) result = static_cast<std::int64_t>(step);
  }
  group.sync();
  if (group.lane() == 0)
    cache::release_view(caller.requester.cache(), caller.requester.group(), view);
  return served;
}

}  // namespace ferry::device
