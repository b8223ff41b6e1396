// Frames: pins, written ranges, and reuse.
//
// Invariants, together with those of the table:
//   F1  A party touches a frame's bytes only after it has pinned or marked the frame and then seen
//       the right key and neither `orphan` nor `taken`. A frame is reused only by changing its
//       state word from "no pins" to `taken` in one step, and then finding it unmarked (M1): a page
//       in use is never evicted or reused.
//   F2  While `filling` is set, only one thread (or group, if it pulls) writes to the frame's bytes
//       outside its ranges: it is set only without writers, and writers that find it set step back.
//       Readers may still copy them if a write failed since they saw `valid`: the filling writes
//       what is there already, except for the bytes of the failed write.
//   F3  A range is entered after its bytes are in place, and removed before they are written to
//       storage: bytes that change during a write-back are entered again.
//   F4  `dirty` is set exactly while there are ranges (both change under range_lock).
#pragma once

#include <cerrno>
#include <cstdint>

#include <ferry/device/cache/hazard_pointers.hpp>
#include <ferry/device/cache/layout.hpp>
#include <ferry/device/cache/page_table.hpp>
#include <ferry/device/cache/ranges.hpp>
#include <ferry/device/cache/state_word.hpp>

namespace ferry::device::cache {

FERRY_DEVICE inline std::uint64_t size(const View& view, std::uint32_t inode) {
  return DeviceRef<std::uint64_t>(view.inode(inode).size_bytes).load(acquire);
}

// The index of the file's storage in Shared's counts.
FERRY_DEVICE inline std::uint32_t storage(const View& view, std::uint32_t inode) {
  return DeviceRef<std::uint32_t>(view.inode(inode).storage).load(relaxed);
}

// The errno (> 0) of the file's last write-back, if it failed.
FERRY_DEVICE inline std::int32_t failing(Inode& inode) {
  return DeviceRef<std::int32_t>(inode.failing).load(relaxed);
}

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

  // F1. The acquire pairs with the release that gave the frame to this page: its key is visible.
  // `before`: the state found.
  FERRY_DEVICE bool pin(std::uint32_t frame, std::uint64_t wanted, std::uint64_t& before) const {
    before = state(frame).fetch_add(State::one_pin, acquire);
    if ((before & (State::orphan | State::taken)) == 0 && key(frame) == wanted) return true;
    unpin(frame);
    return false;
  }
  FERRY_DEVICE bool pin(std::uint32_t frame, std::uint64_t wanted) const {
    std::uint64_t before;
    return pin(frame, wanted, before);
  }
  // Release: a party that takes the frame sees everything done under the pin.
  FERRY_DEVICE void unpin(std::uint32_t frame) const {
    state(frame).fetch_sub(State::one_pin, release);
  }

  // The page's frame, pinned, or no_frame. No lock. `before`: its state.
  FERRY_DEVICE_ONCE std::uint32_t find(std::uint64_t wanted, std::uint64_t& before) const {
    return table_.find(hash(wanted), wanted,
                       [&](std::uint32_t frame) { return pin(frame, wanted, before); });
  }
  FERRY_DEVICE std::uint32_t find(std::uint64_t wanted) const {
    std::uint64_t before;
    return find(wanted, before);
  }
  // Marks a use, for the search for pages to evict; `before` is from find(). Once per round of the
  // clock's hand, so that hits only read that bit.
  FERRY_DEVICE void touch(std::uint32_t frame, std::uint64_t before) const {
    if ((before & State::touched) == 0) state(frame).fetch_or(State::touched, relaxed);
  }
  // How many pages from `wanted` are not in the table, up to `limit`, approximately.
  FERRY_DEVICE_ONCE std::uint32_t count_absent(std::uint64_t wanted, std::uint32_t limit) const {
    std::uint32_t count = 0;
    while (count < limit) {
      const std::uint32_t frame = find(wanted + count);
      if (frame != no_frame) {
        unpin(frame);
        break;
      }
      ++count;
    }
    return count;
  }

  // Enters pages from `first` on with `frames`, taken by the caller: each pinned once and with
  // `flags`. Stops at an existing page; returns how many were entered. The caller keeps the other
  // frames. Pages of one bucket are entered under one lock.
  FERRY_DEVICE_ONCE std::uint32_t insert_run(std::uint64_t first, const std::uint32_t* frames,
                                             std::uint32_t count, std::uint64_t flags) const {
    extend(view_.inode(inode_of(first)), page_of(first) + count);
    std::uint32_t done = 0;
    while (done < count) {
      const std::uint64_t wanted = first + done;
      const std::uint32_t hashed = hash(wanted);
      std::uint32_t together = 1;
      while (view_.switches.batched_insertion && done + together < count &&
             same_bucket(wanted, wanted + together))
        ++together;
      const SpinLock lock(table_.lock_of(hashed), hooks_);
      for (std::uint32_t i = 0; i < together; ++i, ++done)
        if (!insert(wanted + i, hashed, frames[done], flags)) return done;
    }
    return done;
  }

  // Removes the page from the table, pinned by the caller. Returns true if this call did; the frame
  // is then an orphan, which becomes free in the clock's next round.
  FERRY_DEVICE_ONCE bool make_orphan(std::uint32_t frame) const {
    const std::uint64_t mine = key(frame);
    const std::uint32_t hashed = hash(mine);
    const SpinLock lock(table_.lock_of(hashed), hooks_);
    if ((state(frame).fetch_or(State::orphan, acq_rel) & State::orphan) != 0) return false;
    table_.remove(hashed, mine, frame);
    return true;
  }

  // Runs `work(frame)` for every frame that holds one of these pages of the file, pinned.
  template <class Work>
  FERRY_DEVICE void each_of(std::uint32_t inode, Pages pages, Work work) const {
    // seq_cst: see extend().
    const std::uint64_t end = DeviceRef<std::uint64_t>(view_.inode(inode).page_end).load(seq_cst);
    if (pages.end > end) pages.end = end;
    if (pages.first >= pages.end) return;
    if (pages.end - pages.first < view_.layout.geometry.frames) {
      for (std::uint64_t page = pages.first; page < pages.end; ++page) {
        const std::uint32_t frame = find(key_of(inode, page));
        if (frame == no_frame) continue;
        work(frame);
        unpin(frame);
      }
      return;
    }
    for (std::uint32_t frame = 0; frame < view_.layout.geometry.frames; ++frame) {
      const std::uint64_t wanted = key(frame);
      if (inode_of(wanted) != inode || page_of(wanted) < pages.first ||
          page_of(wanted) >= pages.end)
        continue;
      if ((state(frame).load(seq_cst) & (State::orphan | State::taken)) != 0) continue;
      if (!pin(frame, wanted)) continue;
      work(frame);
      unpin(frame);
    }
  }

  // ---- written ranges --------------------------------------------------------------------------

  // F3, F4. Returns false if there is no space for another range.
  FERRY_DEVICE_ONCE bool add_range(std::uint32_t frame, Range range, Inode& inode) const {
    Frame& written = view_.frame(frame);
    const SpinLock lock(written.range_lock, hooks_);
    if (!RangeList(written).add(range)) return false;
    set_dirty(frame, inode);
    return true;
  }
  // For a write-back; written_back() must follow.
  FERRY_DEVICE_ONCE Ranges take_ranges(std::uint32_t frame) const {
    Frame& written = view_.frame(frame);
    const SpinLock lock(written.range_lock, hooks_);
    const Ranges ranges = RangeList(written).take();
    state(frame).fetch_and(~State::dirty, acq_rel);
    return ranges;
  }
  // One of them that could not be written.
  FERRY_DEVICE_ONCE void put_back_range(std::uint32_t frame, Range range, Inode& inode) const {
    Frame& written = view_.frame(frame);
    const SpinLock lock(written.range_lock, hooks_);
    RangeList(written).put_back(range);
    set_dirty(frame, inode);
  }
  // The same for a page with a single range, if that begins at `begin` or that is `anywhere`.
  FERRY_DEVICE_ONCE bool take_only_range(std::uint32_t frame, std::uint32_t begin,
                                         Range& range) const {
    Frame& written = view_.frame(frame);
    const SpinLock lock(written.range_lock, hooks_);
    if (written.range_count != 1) return false;
    if (begin != anywhere && written.ranges[0].begin != begin) return false;
    range = RangeList(written).take().list[0];
    state(frame).fetch_and(~State::dirty, acq_rel);
    return true;
  }
  static constexpr std::uint32_t anywhere = ~0U;
  // The ranges taken of this many pages are in storage, or dirty again.
  FERRY_DEVICE_ONCE void written_back(std::uint32_t frame, std::uint32_t ranges,
                                      Inode& inode) const {
    if (ranges == 0) return;
    Frame& written = view_.frame(frame);
    const SpinLock lock(written.range_lock, hooks_);
    RangeList(written).all_back();
    one_dirty_less(inode);
  }
  // The result of a write-back: 0 or a negative errno. A handle closed meanwhile is no error of the
  // storage; the next write-back takes another.
  FERRY_DEVICE static void note_result(Inode& inode, std::int64_t error) {
    if (error == -EBADF) return;
    const auto number = static_cast<std::int32_t>(-error);
    DeviceRef<std::int32_t> failing(inode.failing);
    if (failing.load(relaxed) != number) failing.store(number, relaxed);
    if (error == 0) return;
    DeviceRef<std::int32_t>(inode.write_error).store(number, relaxed);
    DeviceRef<std::uint32_t>(inode.write_errors).fetch_add(1, release);
  }
  // Page `index` of a run of which the storage returned `got` bytes: zeros behind the end of the
  // file, in case it grows.
  FERRY_DEVICE_ONCE void clear_behind(std::uint32_t frame, std::uint64_t got,
                                      std::uint32_t index) const {
    const std::uint64_t start = std::uint64_t{index} << view_.layout.page_shift;
    if (got >= start + view_.page_bytes()) return;
    const std::uint64_t there = got > start ? got - start : 0;
    __builtin_memset(view_.page(frame) + there, 0, view_.page_bytes() - there);
  }
  FERRY_DEVICE_ONCE Ranges ranges(std::uint32_t frame) const {
    Frame& written = view_.frame(frame);
    const SpinLock lock(written.range_lock, hooks_);
    return RangeList(written).copy();
  }
  FERRY_DEVICE_ONCE void cut_ranges(std::uint32_t frame, std::uint32_t end, Inode& inode) const {
    Frame& written = view_.frame(frame);
    const SpinLock lock(written.range_lock, hooks_);
    RangeList(written).cut(end);
    if (written.range_count == 0) clear_dirty(frame, inode);
  }
  FERRY_DEVICE_ONCE bool has_range(std::uint32_t frame, Range range) const {
    Frame& written = view_.frame(frame);
    const SpinLock lock(written.range_lock, hooks_);
    return RangeList(written).covers(range);
  }

  // ---- giving frames away ----------------------------------------------------------------------

  // Frames that are free, or become free by evicting clean pages unused since the clock's hand
  // passed; `taken`. Looks at up to `steps` frames and returns how many it got, up to `wanted`.
  // Calls `dirty(frame)` for pages that would be evicted if clean. If possible takes all with one
  // step of the hand: then frames and pages are contiguous.
  template <class Dirty>
  FERRY_DEVICE std::uint32_t take_run(std::uint32_t* taken, std::uint32_t wanted,
                                      std::uint64_t steps, Counters& counters, Dirty dirty) const {
    const bool batched = view_.switches.batched_allocation;
    std::uint32_t count = 0;
    do {
      const std::uint32_t got = pop_free(taken + count, batched ? wanted - count : 1);
      if (got == 0) break;
      count += got;
    } while (count < wanted);
    while (count < wanted && steps > 0) {
      const std::uint32_t before = count;
      count += evict_run(taken + count, wanted - count, steps, counters, dirty);
      if (count == before) break;
      std::uint32_t more[surplus_max];
      const std::uint32_t extra = wanted <= few ? evict_more(more, counters) : 0;
      before_looking_at_marks(view_, hooks_);
      count = before + spare_marked(taken + before, count - before);
      const std::uint32_t surplus = spare_marked(more, extra);
      for (std::uint32_t i = 0; i < surplus; ++i)
        give_back(more[i]);
    }
    return count;
  }

  // Returns a frame that was taken and not used.
  FERRY_DEVICE_ONCE void give_back(std::uint32_t frame) const {
    DeviceRef<std::uint64_t> head(view_.shared().free_frames);
    std::uint64_t first = head.load(relaxed);
    std::uint64_t next;
    do {
      set_key(frame, first & first_free);
      next = next_tag(first) | (frame + 1);
    } while (!head.compare_exchange_weak(first, next, release, relaxed));
  }

  FERRY_DEVICE static void add_one(std::uint64_t& counter, std::uint64_t amount = 1) {
    DeviceRef<std::uint64_t> word(counter);
    word.store(word.load(relaxed) + amount, relaxed);
  }

 private:
  // Before pages are entered. Either an outside call (outside.hpp), which announces itself and then
  // looks at page_end, sees this, or the entering party sees the call when it looks for it
  // afterwards: all in the single order of seq_cst accesses. Acquire suffices where another's
  // extension is enough.
  FERRY_DEVICE static void extend(Inode& inode, std::uint64_t end) {
    DeviceRef<std::uint64_t> page_end(inode.page_end);
    std::uint64_t now = page_end.load(acquire);
    while (now < end && !page_end.compare_exchange_weak(now, end, seq_cst, acquire)) {
    }
  }

  // For Shared::free_frames. The tag has 40 bits: a party that looked at the list, and continues
  // after that many changes, has slept for hours.
  static constexpr std::uint64_t first_free = (std::uint64_t{1} << frame_bits) - 1;
  FERRY_DEVICE static std::uint64_t next_tag(std::uint64_t head) {
    return ((head >> frame_bits) + 1) << frame_bits;
  }
  static constexpr std::uint32_t surplus_max = 16;
  static constexpr std::uint64_t looks_for_each = 4;  // of them: others are in use, or dirty
  static constexpr std::uint32_t few = 4;             // more than that justify a barrier

  // After a range was entered, under the range lock.
  FERRY_DEVICE void set_dirty(std::uint32_t frame, Inode& inode) const {
    std::uint64_t flags = State::dirty;
    if (RangeList(view_.frame(frame)).covers(Range{0, view_.page_bytes()})) flags |= State::valid;
    if ((state(frame).fetch_or(flags, acq_rel) & State::dirty) != 0) return;
    DeviceRef<std::uint64_t>(inode.dirty_pages).fetch_add(1, acq_rel);
    DeviceRef<std::uint64_t>(view_.shared().dirty_pages).fetch_add(1, relaxed);
  }
  FERRY_DEVICE void clear_dirty(std::uint32_t frame, Inode& inode) const {
    if ((state(frame).fetch_and(~State::dirty, acq_rel) & State::dirty) != 0) one_dirty_less(inode);
  }
  FERRY_DEVICE void one_dirty_less(Inode& inode) const {
    DeviceRef<std::uint64_t>(inode.dirty_pages).fetch_sub(1, acq_rel);
    DeviceRef<std::uint64_t>(view_.shared().dirty_pages).fetch_sub(1, relaxed);
  }

  // The page's hash, kept between uses unless that is switched off.
  FERRY_DEVICE std::uint32_t hash(std::uint64_t key) const {
    if (!view_.switches.precomputed_hash) return hash_of(key);
    if (!same_bucket(key, hashed_key_)) {
      hashed_key_ = key;
      hash_ = hash_of(key);
    }
    return hash_;
  }

  // Under the bucket's lock. Returns false if the page exists already.
  FERRY_DEVICE_ONCE bool insert(std::uint64_t wanted, std::uint32_t hashed, std::uint32_t frame,
                                std::uint64_t flags) const {
    // An orphan about to leave has the same key and does not count: find() refuses it.
    const std::uint32_t found = find(wanted);
    if (found != no_frame) {
      unpin(found);
      return false;
    }
    set_key(frame, wanted);
    // Entered first: a reader with an old entry for the same page in the same frame could otherwise
    // pin it before others find it, and an outside call would miss its fill.
    table_.insert(hashed, wanted, frame);
    // Keeps badly timed pins; otherwise the state is `taken`.
    state(frame).fetch_add(State::one_pin + flags - State::taken, release);
    return true;
  }

  // The clock's hand arrives at the frame. Returns true if the caller has it now, `taken`.
  template <class Dirty>
  FERRY_DEVICE_ONCE bool evict(std::uint32_t frame, Counters& counters, Dirty dirty) const {
    constexpr std::uint64_t in_use = State::pins | State::taken | State::filling | State::writing;
    std::uint64_t now = state(frame).load(acquire);
    if ((now & in_use) != 0) return false;
    if ((now & State::orphan) == 0) {
      if ((now & State::touched) != 0) {
        state(frame).fetch_and(~State::touched, relaxed);
        return false;
      }
      if ((now & State::dirty) != 0) {
        dirty(frame);
        now = state(frame).load(acquire);
        if ((now & (in_use | State::dirty | State::touched)) != 0) return false;
      }
    }
    // F1: acquire everything done under the last pin; seq_cst for M1.
    if (!state(frame).compare_exchange_strong(now, now | State::taken, seq_cst, relaxed))
      return false;
    if ((now & State::ahead) != 0) add_one(counters.readahead_wasted);
    if ((now & State::orphan) == 0) {
      const std::uint64_t mine = key(frame);
      const std::uint32_t hashed = hash(mine);
      const SpinLock lock(table_.lock_of(hashed), hooks_);
      table_.remove(hashed, mine, frame);
      add_one(counters.evictions);
    }
    // Everything but `taken` and badly timed pins.
    view_.frame(frame).range_count = 0;
    state(frame).fetch_and(State::taken | State::pins, acq_rel);
    return true;
  }

  // Evicts up to `wanted` pages. The clock's hand looks at up to `steps` frames, by as few steps of
  // it as possible, and `steps` becomes what is left of them.
  template <class Dirty>
  FERRY_DEVICE std::uint32_t evict_run(std::uint32_t* evicted, std::uint32_t wanted,
                                       std::uint64_t& steps, Counters& counters,
                                       Dirty dirty) const {
    const std::uint32_t frames = view_.layout.geometry.frames;
    DeviceRef<std::uint64_t> hand(view_.shared().hand);
    std::uint32_t count = 0;
    while (count < wanted && steps > 0) {
      std::uint64_t step = view_.switches.batched_allocation ? wanted - count : 1;
      if (step > steps) step = steps;
      steps -= step;
      const std::uint64_t first = hand.fetch_add(step, relaxed);
      for (std::uint64_t i = 0; i < step; ++i) {
        const auto frame = static_cast<std::uint32_t>((first + i) % frames);
        if (evict(frame, counters, dirty)) evicted[count++] = frame;
      }
    }
    return count;
  }

  // Takes some more clean frames, for the free list, because a barrier for all threads
  // (before_looking_at_marks) costs as much as bringing a page in, for any number of frames, and
  // interrupts all that only read. Evicts at most a 64th of the cache early.
  FERRY_DEVICE_ONCE std::uint32_t evict_more(std::uint32_t* evicted, Counters& counters) const {
    const std::uint32_t share = view_.layout.geometry.frames / 64;
    const std::uint32_t most = share < surplus_max ? share : surplus_max;
    std::uint64_t steps = looks_for_each * std::uint64_t{most};
    return evict_run(evicted, most, steps, counters, [](std::uint32_t) {});
  }

  // M1, after before_looking_at_marks(). Releases those frames, just evicted, that are being read:
  // their pages are gone, and the clock's hand will find them again. Returns how many are left.
  FERRY_DEVICE_ONCE std::uint32_t spare_marked(std::uint32_t* evicted, std::uint32_t count) const {
    std::uint32_t left = 0;
    for (std::uint32_t i = 0; i < count; ++i) {
      if (is_marked(view_, evicted[i])) {
        state(evicted[i]).fetch_add(State::orphan - State::taken, release);
      } else {
        evicted[left++] = evicted[i];
      }
    }
    return left;
  }

  // Up to `wanted` frames of the free list, by one change of its head.
  FERRY_DEVICE_ONCE std::uint32_t pop_free(std::uint32_t* frames, std::uint32_t wanted) const {
    DeviceRef<std::uint64_t> head(view_.shared().free_frames);
    std::uint64_t first = head.load(acquire);
    for (;;) {
      std::uint32_t count = 0;
      std::uint64_t next = first & first_free;
      while (next != 0 && count < wanted) {
        const auto frame = static_cast<std::uint32_t>(next - 1);
        frames[count++] = frame;
        // May be stale; then the tag has changed and the exchange fails.
        next = key(frame) & first_free;
        if (next > view_.layout.geometry.frames) break;
      }
      if (count == 0) return 0;
      if (head.compare_exchange_weak(first, next_tag(first) | next, acquire, acquire)) return count;
    }
  }

  mutable std::uint64_t hashed_key_ = ~std::uint64_t{0};  // whose hash this is
  mutable std::uint32_t hash_ = 0;
  const View& view_;
  const HostHooks& hooks_;
  PageTable table_;
};

}  // namespace ferry::device::cache
