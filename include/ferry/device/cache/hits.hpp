// The ways of a read that hits: all that it wants lies in one page, which is there. They take no
// lock, know nothing of the storage, and leave everything else to PageCache. Views of pages, too.
#pragma once

#include <cstdint>

#include <ferry/device/cache/frames.hpp>
#include <ferry/device/cache/layout.hpp>
#include <ferry/device/cache/marks.hpp>
#include <ferry/device/cache/page_table.hpp>
#include <ferry/device/copy.hpp>

namespace ferry::device::cache {

// Bytes of a cached page that stay where they are until they are released. Read-only; they follow
// what other calls write to the file. A view of a file that was closed or cut keeps its memory.
struct HeldView {
  const unsigned char* data = nullptr;
  std::uint64_t bytes = 0;
  std::uint32_t frame = no_frame;
};

inline constexpr std::uint32_t views_at_once_max = 16;

// Views may hold half the cache. A group takes the right to some of that at a time and keeps it,
// so that most views cost nothing that is shared.
FERRY_DEVICE inline std::uint32_t views_at_once(const View& view) {
  const Geometry& geometry = view.layout.geometry;
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

// The frame that most likely holds these bytes of one page, which the file must have; and their
// page's key.
FERRY_DEVICE_FAST std::uint32_t guess(const View& view, std::uint32_t inode, std::uint64_t bytes,
                                      std::uint64_t offset, std::uint64_t& key) {
  if (offset + bytes > DeviceRef<std::uint64_t>(view.inode(inode).size_bytes).load(acquire))
    return no_frame;
  key = key_of(inode, offset >> view.layout.page_shift);
  return PageTable::guess(view, key);
}
// What a fast way found when it had marked or pinned the frame: whether that is its page, with
// every byte, and nothing is to be done about it. Counts it, then.
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

// The usual read, in as few instructions as it can be: all of it lies in the file and in one
// page, which is there. False: anything else, and nothing has happened. The fewer they are, the
// more of the following reads does a core begin while the bytes of this one come from memory.
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
  const FrameMark mark(view, group, number);  // M1
  if (!is_hit(view, group, number, key, state.load(seq_cst))) return false;
  copy_alone(to, view.page(number) + begin, bytes);
  return true;
}

// Likewise a view of `bytes` bytes at `offset`, as far as their page goes, if the group may hold
// one more without asking (PageCache::take_view).
FERRY_DEVICE_FAST bool hold_hit(const View& view, std::uint32_t group, std::uint32_t inode,
                                std::uint64_t bytes, std::uint64_t offset, HeldView& held) {
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
  held = HeldView{view.page(number) + begin, bytes, number};
  return true;
}

// A second time is harmless.
FERRY_DEVICE_FAST void release_view(const View& view, std::uint32_t group, HeldView& held) {
  if (held.frame == no_frame) return;
  DeviceRef<std::uint64_t>(view.frame(held.frame).state).fetch_sub(State::one_pin, release);
  give_back_view(view, view.reader(group));
  held = HeldView{};
}

}  // namespace ferry::device::cache
