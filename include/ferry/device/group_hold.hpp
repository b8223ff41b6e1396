// Shows a group the bytes of a cached page. All lanes bring a missing page in if that is faster
// than a copy engine: the storage fills the group's staging area, and the lanes copy from there.
#pragma once

#include <cerrno>
#include <cstdint>

#include <ferry/device/cache/cached_files.hpp>
#include <ferry/device/caller.hpp>
#include <ferry/device/copy.hpp>

namespace ferry::device {

// Runs `work(files, entry)` on the leader if the file is cached, and returns its result on every
// lane; else -EBADF.
template <class Result = std::int64_t, class Group, class Work>
FERRY_DEVICE Result leads_on_file(Caller<Group>& caller, int file, Work work) {
  return caller.leads([&] {
    if (!caller.requester.has_cache()) return Result(-EBADF);
    cache::CachedFiles files(caller.requester);
    const cache::OpenFile* entry = files.find(file);
    return entry == nullptr ? Result(-EBADF) : Result(work(files, *entry));
  });
}

// Every lane calls it with the same arguments, and gets the same view. Like PageCache::hold():
// bytes or an error.
template <class Group>
FERRY_DEVICE_CALL std::int64_t hold_together(Caller<Group>& caller, int file, std::int64_t offset,
                                             std::uint64_t bytes, cache::PinnedView& view) {
  const Group& group = caller.group;
  for (;;) {
    cache::Pull pull;
    // A single thread would wait for the bus repeatedly.
    cache::Pull* may_pull = has_several_lanes(group) ? &pull : nullptr;
    cache::StepResult held =
        leads_on_file<cache::StepResult>(caller, file, [&](auto& files, auto& entry) {
          return files.hold(entry, file, offset, bytes, view, may_pull);
        });
    if (held.step == cache::Step::pulled) {
      pull = group.broadcast(pull);
      const cache::View& pages = caller.requester.cache();
      for (std::uint32_t i = 0; i < pull.count; ++i)
        copy_bytes(group, pages.page(pull.frames[i]), pull.from + pull.start_of(i, pages),
                   pull.bytes_of(i, pages));
      // The handle may be closed by now; the pull must still end.
      const auto at = static_cast<std::uint64_t>(offset);
      held = caller.leads([&] {
        return cache::CachedFiles(caller.requester).pages().end_pull(pull, at, bytes, view);
      });
      if (held.step == cache::Step::again) continue;
    }
    view = group.broadcast(view);
    return held.value;
  }
}

}  // namespace ferry::device
