// Shows a group the bytes of a cached page. What is absent is brought in by all of its lanes where
// that is sooner done than by a copy engine: the storage fills the group's staging area, and the
// lanes copy from there.
#pragma once

#include <cerrno>
#include <cstdint>

#include <ferry/device/cache/cached_files.hpp>
#include <ferry/device/caller.hpp>
#include <ferry/device/copy.hpp>

namespace ferry::device {

// The leader's part of what follows.
FERRY_DEVICE inline std::int64_t lead_hold(Requester& requester, int file, std::int64_t offset,
                                           std::uint64_t bytes, cache::HeldView& view,
                                           cache::Pull* pull) {
  if (!requester.has_cache()) return -EBADF;
  cache::CachedFiles files(requester);
  const cache::OpenFile* entry = files.find(file);
  return entry == nullptr ? -EBADF : files.hold(*entry, file, offset, bytes, view, pull);
}

// Every lane calls with the same arguments, and gets the same result and the same view. As
// PageCache::hold(), and -EBADF where the file is not cached.
template <class Group>
FERRY_DEVICE_CALL std::int64_t hold_together(Caller<Group>& caller, int file, std::int64_t offset,
                                             std::uint64_t bytes, cache::HeldView& view) {
  const Group& group = caller.group;
  for (;;) {
    cache::Pull pull;
    // A lone thread would wait for the bus again and again.
    cache::Pull* may_pull = has_several_lanes(group) ? &pull : nullptr;
    std::int64_t result = caller.leads(
        [&] { return lead_hold(caller.requester, file, offset, bytes, view, may_pull); });
    if (result == cache::pulled) {
      pull = group.broadcast(pull);
      const cache::View& pages = caller.requester.cache();
      for (std::uint32_t i = 0; i < pull.count; ++i)
        copy_bytes(group, pages.page(pull.frames[i]), pull.from + pull.start_of(i, pages),
                   pull.bytes_of(i, pages));
      // The handle may be closed by now; the pull has to end all the same.
      result = caller.leads([&] {
        return cache::CachedFiles(caller.requester)
            .pages()
            .end_pull(pull, static_cast<std::uint64_t>(offset), bytes, view);
      });
      if (result == cache::again) continue;
    }
    view = group.broadcast(view);
    return result;
  }
}

}  // namespace ferry::device
