// Frames: pinning, waiting for one another's transfers, written ranges, and giving frames away.
//
// Invariants, together with those of the table:
//   F1  Bytes of a frame are touched only by whoever has pinned it and has seen, after the pin, the
//       right key and neither `orphan` nor `taken`. A frame is given to another page only by a
//       change of its state word from "no pins" to `taken`, in one step: a pinned page is never
//       evicted or reused.
//   F2  Between setting and clearing `filling` one thread writes to the frame's bytes outside its
//       ranges, and nobody else does: it is set only while there are no writers, and writers that
//       find it set step back.
//   F3  A range is entered after its bytes are in place, and taken out before they are written to
//       the storage: bytes that change during a write-back are entered again afterwards.
//   F4  `dirty` is set exactly while there are ranges (both change under range_lock).
#pragma once

#include <cstdint>

#include <ferry/device/cache/layout.hpp>
#include <ferry/device/cache/page_table.hpp>

// Told of every change of a state word, for the test that holds them against the list of those that
// may be (tests/device/cache/transitions_test.cpp).
#ifndef FERRY_CACHE_TRANSITION
#define FERRY_CACHE_TRANSITION(before, after) static_cast<void>(0)
#endif

namespace ferry::device::cache {

// A frame's state word. Every change of one goes through here.
class StateWord {
 public:
  using Order = decltype(relaxed);

  FERRY_DEVICE explicit StateWord(std::uint64_t& word) : word_(word) {}

  FERRY_DEVICE std::uint64_t load(Order order) const { return word_.load(order); }
  FERRY_DEVICE std::uint64_t fetch_add(std::uint64_t bits, Order order) const {
    const std::uint64_t before = word_.fetch_add(bits, order);
    FERRY_CACHE_TRANSITION(before, before + bits);
    return before;
  }
  FERRY_DEVICE std::uint64_t fetch_sub(std::uint64_t bits, Order order) const {
    const std::uint64_t before = word_.fetch_sub(bits, order);
    FERRY_CACHE_TRANSITION(before, before - bits);
    return before;
  }
  FERRY_DEVICE std::uint64_t fetch_or(std::uint64_t bits, Order order) const {
    const std::uint64_t before = word_.fetch_or(bits, order);
    FERRY_CACHE_TRANSITION(before, before | bits);
    return before;
  }
  FERRY_DEVICE std::uint64_t fetch_and(std::uint64_t bits, Order order) const {
    const std::uint64_t before = word_.fetch_and(bits, order);
    FERRY_CACHE_TRANSITION(before, before & bits);
    return before;
  }
  FERRY_DEVICE bool compare_exchange_weak(std::uint64_t& before, std::uint64_t after, Order order,
                                          Order failed) const {
    if (!word_.compare_exchange_weak(before, after, order, failed)) return false;
    FERRY_CACHE_TRANSITION(before, after);
    return true;
  }
  FERRY_DEVICE bool compare_exchange_strong(std::uint64_t& before, std::uint64_t after, Order order,
                                            Order failed) const {
    if (!word_.compare_exchange_strong(before, after, order, failed)) return false;
    FERRY_CACHE_TRANSITION(before, after);
    return true;
  }

 private:
  DeviceRef<std::uint64_t> word_;
};

// A copy of a frame's written ranges.
struct Ranges {
  Range list[ranges_max];
  std::uint32_t count = 0;
};

// The written ranges of one frame. Every function wants range_lock held.
class RangeList {
 public:
  FERRY_DEVICE explicit RangeList(Frame& frame) : frame_(frame) {}

  FERRY_DEVICE bool covers(Range range) const {
    for (std::uint32_t i = 0; i < frame_.range_count; ++i) {
      if (frame_.ranges[i].begin <= range.begin && range.end <= frame_.ranges[i].end) return true;
    }
    return false;
  }

  // False: it would be one range too many, and nothing has changed.
  FERRY_DEVICE bool add(Range range) {
    // Those that touch it become one with it; they are neighbours in the sorted list.
    std::uint32_t first = 0;
    while (first < frame_.range_count && frame_.ranges[first].end < range.begin)
      ++first;
    std::uint32_t last = first;
    while (last < frame_.range_count && frame_.ranges[last].begin <= range.end) {
      const Range& touching = frame_.ranges[last++];
      if (touching.begin < range.begin) range.begin = touching.begin;
      if (touching.end > range.end) range.end = touching.end;
    }
    const std::uint32_t merged = last - first;
    if (merged == 0 && frame_.range_count == ranges_max) return false;
    if (merged == 0) {
      for (std::uint32_t i = frame_.range_count; i > first; --i)
        frame_.ranges[i] = frame_.ranges[i - 1];
    } else {
      for (std::uint32_t i = last; i < frame_.range_count; ++i)
        frame_.ranges[i - merged + 1] = frame_.ranges[i];
    }
    frame_.ranges[first] = range;
    frame_.range_count = frame_.range_count + 1 - merged;
    return true;
  }

  // Forgets what lies at or behind `end`.
  FERRY_DEVICE void cut(std::uint32_t end) {
    while (frame_.range_count > 0 && frame_.ranges[frame_.range_count - 1].begin >= end)
      --frame_.range_count;
    if (frame_.range_count == 0) return;
    Range& last = frame_.ranges[frame_.range_count - 1];
    if (last.end > end) last.end = end;
  }

  FERRY_DEVICE Ranges copy() const {
    Ranges ranges;
    ranges.count = frame_.range_count;
    for (std::uint32_t i = 0; i < ranges.count; ++i)
      ranges.list[i] = frame_.ranges[i];
    return ranges;
  }

 private:
  Frame& frame_;
};

class Frames {
 public:
  FERRY_DEVICE Frames(const View& view, const HostHooks& hooks)
      : view_(view), hooks_(hooks), table_(view) {}

  FERRY_DEVICE StateWord state(std::uint32_t frame) const {
    return StateWord(view_.frame(frame).state);
  }
  FERRY_DEVICE std::uint64_t key(std::uint32_t frame) const {
    return DeviceRef<std::uint64_t>(view_.frame(frame).key).load(relaxed);
  }
  FERRY_DEVICE void set_key(std::uint32_t frame, std::uint64_t key) const {
    DeviceRef<std::uint64_t>(view_.frame(frame).key).store(key, relaxed);
  }

  // ---- pins ------------------------------------------------------------------------------------

  // F1. The acquire pairs with the release that made the frame this page's: its key is seen.
  FERRY_DEVICE bool pin(std::uint32_t frame, std::uint64_t wanted, bool touch = false) const {
    const std::uint64_t before = state(frame).fetch_add(State::one_pin, acquire);
    if ((before & (State::orphan | State::taken)) == 0 && key(frame) == wanted) {
      // Once per visit of the clock's hand, so that hits only read that bit.
      if (touch && (before & State::touched) == 0) state(frame).fetch_or(State::touched, relaxed);
      return true;
    }
    unpin(frame);
    return false;
  }
  // Release: whoever takes the frame away sees what was done under the pin as done.
  FERRY_DEVICE void unpin(std::uint32_t frame) const {
    state(frame).fetch_sub(State::one_pin, release);
  }

  // The page's frame, pinned, or no_frame. No lock. `touch`: a use that counts when a page to evict
  // is looked for.
  FERRY_DEVICE std::uint32_t find(std::uint64_t wanted, bool touch = false) const {
    return table_.find(hash_of(wanted),
                       [&](std::uint32_t frame) { return pin(frame, wanted, touch); });
  }

  // Enters the page with `frame`, which the caller has taken, pinned once and with `flags`. False:
  // the page is there already, and the frame is still the caller's.
  FERRY_DEVICE bool insert(std::uint64_t wanted, std::uint32_t frame, std::uint64_t flags) const {
    const std::uint64_t hash = hash_of(wanted);
    const SpinLock lock(table_.lock_of(hash), hooks_);
    // An orphan on its way out has the same key and does not count: find() refuses it.
    const std::uint32_t found = find(wanted);
    if (found != no_frame) {
      unpin(found);
      return false;
    }
    set_key(frame, wanted);
    // Pins that came at the wrong time are kept; everything else is known to be `taken`.
    state(frame).fetch_add(State::one_pin + flags - State::taken, release);
    table_.insert(hash, frame);
    return true;
  }

  // Takes the page out of the table. True: by this call; then the frame is an orphan, which frees
  // itself in the clock's next round. The caller has it pinned.
  FERRY_DEVICE bool make_orphan(std::uint32_t frame) const {
    const std::uint64_t mine = key(frame);
    const std::uint64_t hash = hash_of(mine);
    const SpinLock lock(table_.lock_of(hash), hooks_);
    if ((state(frame).fetch_or(State::orphan, acq_rel) & State::orphan) != 0) return false;
    table_.remove(hash, frame);
    return true;
  }

  // ---- transfers under way ---------------------------------------------------------------------

  // Waits until none of `flags` is set; returns the state then. The caller has a pin, and whoever
  // set the flag clears it after a transfer whose length the server's life bounds.
  FERRY_DEVICE std::uint64_t wait_while(std::uint32_t frame, std::uint64_t flags) const {
    Frame& waited = view_.frame(frame);
    for (int looks = 0;; ++looks) {
      const std::uint64_t now = state(frame).load(acquire);
      if ((now & flags) == 0) return now;
      if (looks < looks_before_parking) {
        pause_briefly();
        continue;
      }
#if defined(__CUDA_ARCH__)
      (void)waited;
      __nanosleep(1000);
#else
      // Whoever ends the transfer clears the flag and then grows the word, if it finds `waited`.
      const std::uint32_t seen = DeviceRef<std::uint32_t>(waited.wake).load(acquire);
      if ((state(frame).fetch_or(State::waited, acq_rel) & flags) == 0) continue;
      hooks_.park(&waited.wake, seen, park_slice_ns);
#endif
    }
  }
  // Clears `flags` and sets `also`; skips the wake-up where nobody waits.
  FERRY_DEVICE void end_transfer(std::uint32_t frame, std::uint64_t flags,
                                 std::uint64_t also = 0) const {
    std::uint64_t now = state(frame).load(relaxed);
    while (!state(frame).compare_exchange_weak(now, (now & ~(flags | State::waited)) | also,
                                               acq_rel, relaxed)) {
    }
    if ((now & State::waited) == 0) return;
    std::uint32_t& wake = view_.frame(frame).wake;
    DeviceRef<std::uint32_t>(wake).fetch_add(1, release);
#if !defined(__CUDA_ARCH__)
    hooks_.wake(&wake);
#endif
  }
  // Sets `flag` once none of `against` is set and, for a filling, nobody writes. False: the page
  // has become an orphan meanwhile. The caller has a pin.
  FERRY_DEVICE bool begin_transfer(std::uint32_t frame, std::uint64_t flag) const {
    constexpr std::uint64_t transfers = State::filling | State::writing;
    const std::uint64_t against =
        transfers | (flag == State::filling ? State::writers : std::uint64_t{0});
    for (;;) {
      std::uint64_t now = wait_while(frame, transfers);
      if ((now & State::orphan) != 0) return false;
      if ((now & against) != 0) {  // writers only copy: they are gone soon
        yield();
        continue;
      }
      if (state(frame).compare_exchange_weak(now, now | flag, acq_rel, relaxed)) return true;
    }
  }
  // Sets `writing` if the page is dirty and nobody transfers just now: for whoever must not wait,
  // because others may be waiting for pages of his.
  FERRY_DEVICE bool try_write_back(std::uint32_t frame) const {
    constexpr std::uint64_t busy = State::filling | State::writing | State::orphan;
    std::uint64_t now = state(frame).load(acquire);
    while ((now & busy) == 0 && (now & State::dirty) != 0) {
      if (state(frame).compare_exchange_weak(now, now | State::writing, acq_rel, acquire))
        return true;
    }
    return false;
  }

  // ---- writers ---------------------------------------------------------------------------------

  // F2. False: the page has become an orphan. The caller has a pin.
  FERRY_DEVICE bool begin_writing_to(std::uint32_t frame) const {
    for (;;) {
      const std::uint64_t before = state(frame).fetch_add(State::one_writer, acq_rel);
      if ((before & (State::filling | State::orphan)) == 0) return true;
      state(frame).fetch_sub(State::one_writer, release);
      if ((before & State::orphan) != 0) return false;
      wait_while(frame, State::filling);
    }
  }
  FERRY_DEVICE void end_writing_to(std::uint32_t frame) const {
    state(frame).fetch_sub(State::one_writer, release);
  }

  // ---- written ranges --------------------------------------------------------------------------

  // F3, F4. False: there is no room for one more range.
  FERRY_DEVICE bool add_range(std::uint32_t frame, Range range, Inode& inode) const {
    Frame& written = view_.frame(frame);
    const SpinLock lock(written.range_lock, hooks_);
    RangeList list(written);
    if (!list.add(range)) return false;
    std::uint64_t flags = State::dirty;
    if (list.covers(Range{0, view_.page_bytes()})) flags |= State::valid;
    if ((state(frame).fetch_or(flags, acq_rel) & State::dirty) == 0) {
      DeviceRef<std::uint64_t>(inode.dirty_pages).fetch_add(1, acq_rel);
    }
    return true;
  }
  // For a write-back; written_back() has to follow.
  FERRY_DEVICE Ranges take_ranges(std::uint32_t frame) const {
    Frame& written = view_.frame(frame);
    const SpinLock lock(written.range_lock, hooks_);
    const Ranges ranges = RangeList(written).copy();
    written.range_count = 0;
    state(frame).fetch_and(~State::dirty, acq_rel);
    return ranges;
  }
  // What was taken is in the storage, or dirty again.
  FERRY_DEVICE static void written_back(const Ranges& taken, Inode& inode) {
    if (taken.count > 0) DeviceRef<std::uint64_t>(inode.dirty_pages).fetch_sub(1, acq_rel);
  }
  FERRY_DEVICE Ranges ranges(std::uint32_t frame) const {
    Frame& written = view_.frame(frame);
    const SpinLock lock(written.range_lock, hooks_);
    return RangeList(written).copy();
  }
  FERRY_DEVICE void cut_ranges(std::uint32_t frame, std::uint32_t end, Inode& inode) const {
    Frame& written = view_.frame(frame);
    const SpinLock lock(written.range_lock, hooks_);
    RangeList(written).cut(end);
    if (written.range_count == 0) clear_dirty(frame, inode);
  }
  FERRY_DEVICE bool has_range(std::uint32_t frame, Range range) const {
    Frame& written = view_.frame(frame);
    const SpinLock lock(written.range_lock, hooks_);
    return RangeList(written).covers(range);
  }

  // ---- giving frames away ----------------------------------------------------------------------

  // A frame that is free, or becomes so by evicting a clean page that nobody has used since the
  // clock's hand came by; `taken`. no_frame: none after two rounds. `dirty(frame)` is told of pages
  // that would go if they were clean.
  template <class Dirty>
  FERRY_DEVICE std::uint32_t take(Counters& counters, Dirty dirty) const {
    const std::uint32_t free = pop_free();
    if (free != no_frame) return free;
    const std::uint32_t frames = view_.layout.geometry.frames;
    DeviceRef<std::uint64_t> hand(view_.shared().hand);
    for (std::uint64_t steps = 0; steps < 3 * std::uint64_t{frames}; ++steps) {
      const auto frame = static_cast<std::uint32_t>(hand.fetch_add(1, relaxed) % frames);
      std::uint64_t now = state(frame).load(acquire);
      constexpr std::uint64_t in_use = State::pins | State::taken | State::filling | State::writing;
      if ((now & in_use) != 0) continue;
      if ((now & State::orphan) == 0) {
        if ((now & State::touched) != 0) {
          state(frame).fetch_and(~State::touched, relaxed);
          continue;
        }
        if ((now & State::dirty) != 0) {
          dirty(frame);
          now = state(frame).load(acquire);
          if ((now & (in_use | State::dirty | State::touched)) != 0) continue;
        }
      }
      // F1: acquire, so that what was done under the last pin is done.
      if (!state(frame).compare_exchange_strong(now, now | State::taken, acq_rel, relaxed))
        continue;
      if ((now & State::orphan) == 0) {
        remove_taken(frame);
        add_one(counters.evictions);
      }
      reset(frame);
      return frame;
    }
    return no_frame;
  }

  // Gives back a frame that was taken and not used.
  FERRY_DEVICE void give_back(std::uint32_t frame) const {
    DeviceRef<std::uint64_t> head(view_.shared().free_frames);
    std::uint64_t first = head.load(relaxed);
    std::uint64_t next;
    do {
      set_key(frame, first & low_half);
      next = (((first >> 32) + 1) << 32) | (frame + 1);
    } while (!head.compare_exchange_weak(first, next, release, relaxed));
  }

  FERRY_DEVICE static void add_one(std::uint64_t& counter, std::uint64_t amount = 1) {
    DeviceRef<std::uint64_t> word(counter);
    word.store(word.load(relaxed) + amount, relaxed);
  }
  FERRY_DEVICE void yield() const {
#if defined(__CUDA_ARCH__)
    __nanosleep(200);
#else
    hooks_.yield();
#endif
  }

 private:
  static constexpr std::uint64_t low_half = 0xffffffff;
  static constexpr int looks_before_parking = 200;
  static constexpr std::uint64_t park_slice_ns = 10'000'000;

  FERRY_DEVICE void clear_dirty(std::uint32_t frame, Inode& inode) const {
    if ((state(frame).fetch_and(~State::dirty, acq_rel) & State::dirty) != 0) {
      DeviceRef<std::uint64_t>(inode.dirty_pages).fetch_sub(1, acq_rel);
    }
  }

  FERRY_DEVICE void remove_taken(std::uint32_t frame) const {
    const std::uint64_t hash = hash_of(key(frame));
    const SpinLock lock(table_.lock_of(hash), hooks_);
    table_.remove(hash, frame);
  }

  // Everything but `taken` and the pins of those who came at the wrong time.
  FERRY_DEVICE void reset(std::uint32_t frame) const {
    view_.frame(frame).range_count = 0;
    state(frame).fetch_and(State::taken | State::pins, acq_rel);
  }

  FERRY_DEVICE std::uint32_t pop_free() const {
    DeviceRef<std::uint64_t> head(view_.shared().free_frames);
    std::uint64_t first = head.load(acquire);
    while ((first & low_half) != 0) {
      const auto frame = static_cast<std::uint32_t>(first & low_half) - 1;
      // May be stale by now; then the high half has changed and the exchange fails.
      const std::uint64_t next = (((first >> 32) + 1) << 32) | (key(frame) & low_half);
      if (head.compare_exchange_weak(first, next, acquire, acquire)) return frame;
    }
    return no_frame;
  }

  const View& view_;
  const HostHooks& hooks_;
  PageTable table_;
};

}  // namespace ferry::device::cache
