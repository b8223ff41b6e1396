// The fast path of reads that hit: all bytes are in one page of the cache. Takes no lock, does not
// use the storage, and leaves everything else to PageCache. Also views of pages.
#pragma once

#include <cstdint>

#include <ferry/device/cache/frames.hpp>
#include <ferry/device/cache/hazard_pointers.hpp>
#include <ferry/device/cache/layout.hpp>
#include <ferry/device/cache/page_table.hpp>
#include <ferry/device/copy.hpp>

namespace ferry::device::cache {

// Bytes of a cached page that do not move until released. Read-only; later writes to the file are
// visible. A view of a closed or truncated file keeps its memory.
struct PinnedView {
  const unsigned char* data = nullptr;
  std::uint64_t bytes = 0;
  std::uint32_t frame = no_frame;
};

inline constexpr std::uint32_t views_at_once_max = 16;

// Views may hold half the cache. A group reserves some of that at a time and keeps it, so that most
// views touch nothing shared.
FERRY_DEVICE inline std::uint32_t views_at_once(const View& view) {
  const CacheGeometry& geometry = view.layout.geometry;
  const std::uint32_t share = geometry.frames / (16 * geometry.groups);
  return share < 1 ? 1 : share < views_at_once_max ? share : views_at_once_max;
}

FERRY_DEVICE_FAST void give_back_view(const View& view, Reader& reader) {
  const std::uint32_t some = views_at_once(view);
  ++reader.views;
  if (some > 1 && reader.views < 2 * some) return;
  reader.views -= some;
  DeviceRef<std::uint32_t>(view.shared().held_pages).fetch_sub(some, relaxed);
}

// The frame that most likely holds these bytes of one page, which must be in the file, and the
// page's key.
FERRY_DEVICE_FAST std::uint32_t guess(const View& view, std::uint32_t inode, std::uint64_t bytes,
                                      std::uint64_t offset, std::uint64_t& key) {
  if (offset + bytes > DeviceRef<std::uint64_t>(view.inode(inode).size_bytes).load(acquire))
    return no_frame;
  key = key_of(inode, offset >> view.layout.page_shift);
  return PageTable::guess(view, key);
}
// The check after marking or pinning a frame: whether it is the right page, complete, with nothing
// left to do. Counts the hit then.
FERRY_DEVICE_FAST bool is_hit(const View& view, std::uint32_t group, std::uint32_t number,
                              std::uint64_t key, std::uint64_t state) {
  constexpr std::uint64_t looked_at =
      State::valid | State::filling | State::orphan | State::taken | State::ahead;
  Frame& frame = view.frame(number);
  if ((state & looked_at) != State::valid ||
      DeviceRef<std::uint64_t>(frame.key).load(relaxed) != key)
    return false;
  Reader& reader = view.reader(group);
  if (reader.last_key != key) {
    reader.last_key = key;
    if ((state & State::touched) == 0)
      DeviceRef<std::uint64_t>(frame.state).fetch_or(State::touched, relaxed);
  }
  Frames::add_one(view.counters(group).hits);
  return true;
}

// The usual read, in the fewest instructions: all of it is in the file and in one cached page.
// Returns false otherwise, without effects. With fewer instructions, a core starts more of the
// following reads while the bytes of this one come from memory.
FERRY_DEVICE_FAST bool read_hit(const View& view, std::uint32_t group, std::uint32_t inode,
                                void* to, std::uint64_t bytes, std::uint64_t offset) {
  const std::uint64_t begin = offset & (view.page_bytes() - 1);
  if (bytes - 1 >= view.page_bytes() - begin) return false;
  std::uint64_t key = 0;
  const std::uint32_t number = guess(view, inode, bytes, offset, key);
  if (number == no_frame) return false;
  DeviceRef<std::uint64_t> state(view.frame(number).state);
  if (!view.marks) {
    const bool hit = is_hit(view, group, number, key, state.fetch_add(State::one_pin, acquire));
    if (hit) copy_alone(to, view.page(number) + begin, bytes);
    state.fetch_sub(State::one_pin, release);  // F1
    return hit;
  }
  const HazardGuard mark(view, group, number);  // M1
  if (!is_hit(view, group, number, key, state.load(seq_cst))) return false;
  copy_alone(to, view.page(number) + begin, bytes);
  return true;
}

// Likewise a view of `bytes` bytes at `offset`, up to the end of the page, if the group has one
// reserved (PageCache::take_view).
FERRY_DEVICE_FAST bool hold_hit(const View& view, std::uint32_t group, std::uint32_t inode,
                                std::uint64_t bytes, std::uint64_t offset, PinnedView& held) {
  const std::uint64_t begin = offset & (view.page_bytes() - 1);
  const std::uint64_t room = view.page_bytes() - begin;
  if (bytes > room) bytes = room;
  Reader& reader = view.reader(group);
  if (bytes == 0 || reader.views == 0) return false;
  std::uint64_t key = 0;
  const std::uint32_t number = guess(view, inode, bytes, offset, key);
  if (number == no_frame) return false;
  DeviceRef<std::uint64_t> state(view.frame(number).state);
  if (!is_hit(view, group, number, key, state.fetch_add(State::one_pin, acquire))) {  // F1
    state.fetch_sub(State::one_pin, release);
    return false;
  }
  --reader.views;
  held = PinnedView{view.page(number) + begin, bytes, number};
  return true;
}

// May be repeated.
FERRY_DEVICE_FAST void release_view(const View& view, std::uint32_t group, PinnedView& held) {
  if (held.frame == no_frame) return;
  DeviceRef<std::uint64_t>(view.frame(held.frame).state).fetch_sub(State::one_pin, release);
  give_back_view(view, view.reader(group));
  held = PinnedView{};
}

}  // namespace ferry::device::cache
