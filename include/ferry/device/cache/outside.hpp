// Outside calls, which change a file past the cache (page_cache.hpp), and the calls that wait for
// them.
//
// A call states which pages it changes. It does not affect fills of other pages; a fill of the same
// pages waits until the call has ended, and is discarded if a call came while it read. A sequence
// of calls could outdate every fill of a page: so after `tries_before_turn` failures a group takes
// a *turn*, during which no outside call begins. A turn lasts for one try, and the next one takes
// as many failures again, so an outside call waits once for each group with a turn.
//
// Invariants:
//   C1  Inode.outside changes by exchanges of the whole word, so that no call is in flight during a
//       turn that was taken when none was.
//   C2  A call enters its pages, then is counted, then looks for pages of the cache. A fill reads
//       the count, enters its pages, reads, and reads the count again. All accesses to the count
//       are seq_cst, and so is entering pages (Frames::extend): either the call finds the page and
//       waits for its fill, or the fill finds the call.
#pragma once

#include <cstdint>

#include <ferry/device/cache/layout.hpp>
#include <ferry/device/platform.hpp>

namespace ferry::device::cache {

inline constexpr std::uint32_t tries_before_turn = 4;

class OutsideCalls {
 public:
  FERRY_DEVICE OutsideCalls(const View& view, const HostHooks& hooks)
      : view_(view), hooks_(hooks) {}

  // ---- the call --------------------------------------------------------------------------------

  // Waits until no other call is in flight and no group has a turn, unless the end of another call
  // makes this one needless meanwhile: then returns false.
  template <class IsNeedless>
  FERRY_DEVICE_CALL bool begin_unless(std::uint32_t inode, Pages changed,
                                      IsNeedless is_needless) const {
    DeviceRef<std::uint32_t> word(view_.inode(inode).outside);
    std::uint32_t looks = 0;
    std::uint32_t now = word.load(relaxed);
    for (;;) {
      if (is_needless()) return false;
      if ((now & ~Inode::outside_waited) != 0) {
        rest(inode, now, looks++);
        now = word.load(relaxed);
      } else if (word.compare_exchange_weak(now, now | Inode::outside_active, seq_cst, relaxed)) {
        break;
      }
    }
    enter(inode, changed);
    return true;
  }
  FERRY_DEVICE_CALL void end(std::uint32_t inode) const { leave(inode, Inode::outside_active); }
  // The call in flight changes all pages.
  FERRY_DEVICE void widen(std::uint32_t inode) const { enter(inode, Pages{}); }

  // ---- fills -----------------------------------------------------------------------------------

  // Before these pages are entered to be filled. Returns false if a call that changes one of them
  // is in flight; rest_once() waits for its end.
  FERRY_DEVICE bool may_fill(std::uint32_t inode, Pages pages, std::uint64_t& since) const {
    Inode& file = view_.inode(inode);
    since = DeviceRef<std::uint64_t>(file.outside_count).load(seq_cst);
    const std::uint32_t now = DeviceRef<std::uint32_t>(file.outside).load(seq_cst);
    // A call that has begun and is not counted yet is found by is_outdated().
    return (now & Inode::outside_active) == 0 || !changed(file, since, pages);
  }
  // Whether a fill's data may be older than the file: a call that may_fill() did not count has
  // changed one of its pages, or the record now belongs to another file.
  FERRY_DEVICE bool is_outdated(std::uint32_t inode, Pages pages, std::uint64_t since) const {
    Inode& file = view_.inode(inode);
    if (DeviceRef<std::uint32_t>(file.id).load(acquire) != inode) return true;
    DeviceRef<std::uint64_t> count(file.outside_count);
    const std::uint64_t last = count.load(seq_cst);
    if (last - since >= Inode::outside_kept) return true;
    for (std::uint64_t call = since + 1; call <= last; ++call)
      if (changed(file, call, pages)) return true;
    // A later call may have overwritten the data read here; then it, or the one before it, was
    // counted (acquire in changed()).
    return count.load(acquire) - since >= Inode::outside_kept;
  }

  // ---- waiting ---------------------------------------------------------------------------------

  FERRY_DEVICE bool is_active(std::uint32_t inode) const {
    return (DeviceRef<std::uint32_t>(view_.inode(inode).outside).load(seq_cst) &
            Inode::outside_active) != 0;
  }
  // Until the call in flight has ended, or for a while.
  FERRY_DEVICE_CALL void rest_once(std::uint32_t inode) const {
    const std::uint32_t now = DeviceRef<std::uint32_t>(view_.inode(inode).outside).load(relaxed);
    if ((now & Inode::outside_active) != 0) rest(inode, now, looks_before_parking);
  }
  // When it returns, no outside call is in flight, and none begins until end_turn().
  FERRY_DEVICE_CALL void begin_turn(std::uint32_t inode) const {
    DeviceRef<std::uint32_t> word(view_.inode(inode).outside);
    std::uint32_t now = word.fetch_add(Inode::outside_turn, seq_cst) + Inode::outside_turn;
    for (std::uint32_t looks = 0; (now & Inode::outside_active) != 0; ++looks) {
      rest(inode, now, looks);
      now = word.load(seq_cst);
    }
  }
  FERRY_DEVICE_CALL void end_turn(std::uint32_t inode) const { leave(inode, Inode::outside_turn); }

 private:
  static constexpr std::uint32_t looks_before_parking = 20;
  static constexpr std::uint64_t park_slice_ns = 10'000'000;

  // C2, by the call in flight. Release: see is_outdated().
  FERRY_DEVICE void enter(std::uint32_t inode, Pages changed) const {
    Inode& file = view_.inode(inode);
    DeviceRef<std::uint64_t> count(file.outside_count);
    const std::uint64_t number = count.load(relaxed) + 1;
    Pages& pages = file.outside_pages[number % Inode::outside_kept];
    DeviceRef<std::uint64_t>(pages.first).store(changed.first, release);
    DeviceRef<std::uint64_t>(pages.end).store(changed.end, release);
    count.store(number, seq_cst);
  }
  // Whether call `number` changes one of these pages.
  FERRY_DEVICE static bool changed(Inode& file, std::uint64_t number, Pages pages) {
    Pages& theirs = file.outside_pages[number % Inode::outside_kept];
    return DeviceRef<std::uint64_t>(theirs.first).load(acquire) < pages.end &&
           DeviceRef<std::uint64_t>(theirs.end).load(acquire) > pages.first;
  }

  // Removes `what` from the word, and wakes waiters if nothing else holds them.
  FERRY_DEVICE void leave(std::uint32_t inode, std::uint32_t what) const {
    std::uint32_t& outside = view_.inode(inode).outside;
    DeviceRef<std::uint32_t> word(outside);
    std::uint32_t now = word.load(relaxed);
    while (
        !word.compare_exchange_weak(now, (now - what) & ~Inode::outside_waited, seq_cst, relaxed)) {
    }
    if ((now & Inode::outside_waited) != 0) wake(hooks_, outside);
  }
  // While the word is `now`, or a little longer.
  FERRY_DEVICE void rest(std::uint32_t inode, std::uint32_t now, std::uint32_t looks) const {
#if defined(__CUDA_ARCH__)
    (void)inode, (void)now, (void)looks;
    yield(hooks_);
#else
    if (looks < looks_before_parking) return yield(hooks_);
    std::uint32_t& outside = view_.inode(inode).outside;
    const std::uint32_t waited = now | Inode::outside_waited;
    if (now == waited ||
        DeviceRef<std::uint32_t>(outside).compare_exchange_strong(now, waited, relaxed, relaxed))
      park(hooks_, outside, waited, next_sleep_ns(park_slice_ns, looks - looks_before_parking));
#endif
  }

  const View& view_;
  const HostHooks& hooks_;
};

}  // namespace ferry::device::cache
