// Finds the frame of a page. Look-ups take no lock; inserting and removing a page lock its bucket,
// so that no page is ever entered twice.
//
// A page belongs to the bucket of its hash, and is there or, if that was full, in the next one with
// space. Invariants:
//   T1  At most one entry for a page: entries are added and removed under the lock of the page's
//       bucket, after looking for one.
//   T2  A look-up that begins after an insertion ended finds the page until its removal begins:
//       `overflow` of each bucket on the way grows before the entry is stored, and shrinks after it
//       is cleared. A concurrent look-up may miss it; acting on that needs another look under the
//       lock.
//   T3  An entry names a frame, not a page: the frame may have been reused since. Only a pin
//       followed by a look at the frame's key is proof (frames.hpp).
#pragma once

#include <cstdint>

#include <ferry/device/cache/layout.hpp>

namespace ferry::device::cache {

// A lock held for a few instructions. Waiters yield, because its holder may have lost its core.
class SpinLock {
 public:
  FERRY_DEVICE SpinLock(std::uint32_t& word, const HostHooks& hooks) : word_(word) {
    while (DeviceRef<std::uint32_t>(word_).exchange(1, acquire) != 0)
      wait(hooks);
  }
  FERRY_DEVICE ~SpinLock() { DeviceRef<std::uint32_t>(word_).store(0, release); }
  SpinLock(const SpinLock&) = delete;
  SpinLock& operator=(const SpinLock&) = delete;

 private:
  static constexpr int looks_before_yielding = 64;

  // Until it is free, or for a limited time.
  FERRY_DEVICE_CALL void wait(const HostHooks& hooks) const {
    const DeviceRef<std::uint32_t> lock(word_);
    FERRY_NO_UNROLL
    for (int i = 0; i < looks_before_yielding; ++i) {
      if (lock.load(relaxed) == 0) return;
      pause_briefly();
    }
    yield(hooks, 0);
  }

  std::uint32_t& word_;
};

class PageTable {
 public:
  FERRY_DEVICE explicit PageTable(const View& view) : view_(view) {}

  // Offers every frame that may hold the page to `accept(frame)` until that returns true. Returns
  // that frame, or no_frame.
  template <class Accept>
  FERRY_DEVICE std::uint32_t find(std::uint32_t hash, std::uint64_t key, Accept accept) const {
    const std::uint64_t tag = tag_of(key);
    for (std::uint64_t step = 0; step <= view_.layout.bucket_mask; ++step) {
      Bucket& bucket = view_.bucket(hash + step);
      FERRY_NO_UNROLL
      for (std::uint64_t& slot : bucket.entries) {
        const std::uint64_t entry = DeviceRef<std::uint64_t>(slot).load(acquire);
        if (entry >> frame_bits != tag || entry == 0) continue;
        const std::uint32_t frame = frame_of(entry);
        if (accept(frame)) return frame;
      }
      if (DeviceRef<std::uint32_t>(bucket.overflow).load(acquire) == 0) break;
    }
    return no_frame;
  }

  // The frame that most likely holds the page, or no_frame: looks at its bucket, and first where it
  // most likely is. The caller must verify it.
  FERRY_DEVICE_FAST static std::uint32_t guess(const View& view, std::uint64_t key) {
    const std::uint32_t hash = hash_of(key);
    const Bucket& bucket = view.bucket(hash);
    const std::uint64_t entry = entry_at(bucket, first_slot(hash, key));
    return entry >> frame_bits == tag_of(key) ? frame_of(entry) : search(bucket, tag_of(key));
  }

  // The lock of the bucket that a page belongs to.
  FERRY_DEVICE std::uint32_t& lock_of(std::uint32_t hash) const { return view_.bucket(hash).lock; }

  // Under that lock. The table has space for every frame.
  FERRY_DEVICE void insert(std::uint32_t hash, std::uint64_t key, std::uint32_t frame) const {
    const std::uint64_t entry = (tag_of(key) << frame_bits) | (frame + 1);
    for (std::uint64_t step = 0;; ++step) {
      Bucket& bucket = view_.bucket(hash + step);
      FERRY_NO_UNROLL
      for (std::uint32_t i = 0; i < Bucket::entries_max; ++i) {
        // Others insert here under other locks.
        std::uint64_t none = 0;
        DeviceRef<std::uint64_t> word(
            bucket.entries[(first_slot(hash, key) + i) % Bucket::entries_max]);
        if (word.load(relaxed) == 0 && word.compare_exchange_strong(none, entry, release, relaxed))
          return;
      }
      DeviceRef<std::uint32_t>(bucket.overflow).fetch_add(1, release);
    }
  }

  // Under that lock. The page exists.
  FERRY_DEVICE void remove(std::uint32_t hash, std::uint64_t key, std::uint32_t frame) const {
    const std::uint64_t entry = (tag_of(key) << frame_bits) | (frame + 1);
    std::uint64_t step = 0;
    while (!clear(view_.bucket(hash + step), entry))
      ++step;
    while (step-- > 0)
      DeviceRef<std::uint32_t>(view_.bucket(hash + step).overflow).fetch_sub(1, release);
  }

 private:
  FERRY_DEVICE static std::uint64_t entry_at(const Bucket& bucket, std::uint32_t slot) {
    return DeviceRef<std::uint64_t>(const_cast<std::uint64_t&>(bucket.entries[slot])).load(acquire);
  }
  FERRY_DEVICE_CALL static std::uint32_t search(const Bucket& bucket, std::uint64_t tag) {
    FERRY_NO_UNROLL
    for (std::uint32_t slot = 0; slot < Bucket::entries_max; ++slot) {
      const std::uint64_t entry = entry_at(bucket, slot);
      if (entry >> frame_bits == tag && entry != 0) return frame_of(entry);
    }
    return no_frame;
  }
  // 40 bits of the key, folded: the same bucket rarely has another page with these. The pin tells
  // them apart (T3).
  FERRY_DEVICE static std::uint64_t tag_of(std::uint64_t key) { return page_of(folded(key)); }
  // The preferred place of an entry: the pages of a group are neighbours, and groups begin at one
  // of four places.
  FERRY_DEVICE static std::uint32_t first_slot(std::uint32_t hash, std::uint64_t key) {
    const auto place = static_cast<std::uint32_t>(key) & ((1U << bucket_group_bits) - 1);
    static_assert(Bucket::entries_max == 2 * (1U << bucket_group_bits) - 1);
    return place + (hash >> (32 - bucket_group_bits));
  }
  FERRY_DEVICE static std::uint32_t frame_of(std::uint64_t entry) {
    return static_cast<std::uint32_t>(entry & ((1U << frame_bits) - 1)) - 1;
  }
  FERRY_DEVICE static bool clear(Bucket& bucket, std::uint64_t entry) {
    FERRY_NO_UNROLL
    for (std::uint64_t& slot : bucket.entries) {
      DeviceRef<std::uint64_t> word(slot);
      if (word.load(relaxed) != entry) continue;
      word.store(0, release);
      return true;
    }
    return false;
  }

  const View& view_;
};

}  // namespace ferry::device::cache
