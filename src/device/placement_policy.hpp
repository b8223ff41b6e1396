// Placement `automatic`: where one call is executed.
//
// What is known of the call before it moves a byte: its direction and size, whether it goes on
// where the group's last call on the file ended, and what the page cache has of it. Small calls are
// not worth more than one comparison; only for large ones is the cache asked, which then costs
// nothing beside the copy.
#pragma once

#include <cstdint>

#include <ferry/device/cache/frames.hpp>
#include <ferry/device/requester.hpp>

namespace ferry::device {

// What the decision looks at.
struct CallFacts {
  bool reading = true;
  bool continues = false;  // where the group's last call on this file ended
  bool dirty = false;      // the file has pages that the storage has not
  std::uint64_t bytes = 0;
};

// `resident()` tells whether the first and the last page are in the cache; asked only where it
// matters. Never `automatic`.
template <class Resident>
FERRY_DEVICE Placement choose_placement(const Crossovers& crossovers, const CallFacts& call,
                                        Resident resident) {
  const std::uint64_t host_bytes_min = !call.reading    ? crossovers.host_write_bytes_min
                                       : call.continues ? crossovers.host_stream_read_bytes_min
                                                        : crossovers.host_read_bytes_min;
  // Past the cache only where it has nothing of the call: the host would have to write back first
  // what is dirty, and what is resident is nearer here.
  if (call.bytes >= host_bytes_min && !call.dirty && !resident()) return Placement::host;
  const std::uint64_t service_bytes_min =
      call.reading ? crossovers.service_read_bytes_min : crossovers.service_write_bytes_min;
  return call.bytes >= service_bytes_min ? Placement::service : Placement::compute;
}

// Whether the page is in the cache just now, or on its way there.
FERRY_DEVICE inline bool is_resident(const cache::Frames& frames, std::uint32_t inode,
                                     std::uint64_t page) {
  const std::uint32_t frame = frames.find(cache::key_of(inode, page));
  if (frame == cache::no_frame) return false;
  frames.unpin(frame);
  return true;
}
FERRY_DEVICE_CALL inline bool are_ends_resident(const Context& context, std::uint32_t inode,
                                                std::uint64_t offset, std::uint64_t bytes) {
  const cache::Frames frames(context.cache, context.hooks);
  const std::uint32_t shift = context.cache.layout.page_shift;
  const std::uint64_t first = offset >> shift;
  const std::uint64_t last = (offset + (bytes > 0 ? bytes - 1 : 0)) >> shift;
  return is_resident(frames, inode, first) && (first == last || is_resident(frames, inode, last));
}

// Recognises the group's sequential stream.
class StreamWatch {
 public:
  // Notes the call. Returns whether it begins where the last one on the same file ended.
  FERRY_DEVICE bool continues(int file, std::int64_t offset, std::uint64_t bytes) {
    const bool does = file == file_ && offset == next_;
    file_ = file;
    next_ = offset + static_cast<std::int64_t>(bytes);
    return does;
  }

 private:
  int file_ = -1;
  std::int64_t next_ = 0;
};

}  // namespace ferry::device
