// Handles of C programs. A handle is a number in the guise of a pointer: the index of a slot and
// the slot's generation. A handle that is used after its end is therefore refused, and never
// reaches what has its slot next, for the next 2^32 uses of that slot.
#pragma once

#include <array>
#include <atomic>
#include <cerrno>
#include <cstdint>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "base/forks.hpp"
#include "bindings/c/errors.hpp"

namespace ferry::c {

// The handles of one kind. `kind` tells them from those of other kinds, which a cast may pass here.
// Thread-safe: each slot has its lock, so that threads that use different handles share nothing.
template <class Object, class Handle, std::uint64_t kind>
class HandleTable {
 public:
  // The table of this process: a child of fork() starts with an empty one, for its parent may have
  // held a lock.
  static HandleTable& mine() { return of_this_process<HandleTable>(); }

  Handle* add(std::shared_ptr<Object> object) {
    const std::uint64_t index = free_index();
    Slot& slot = *slot_of(index);
    const std::lock_guard lock(slot.mutex);
    slot.object = std::move(object);
    return reinterpret_cast<Handle*>(number(index, slot));
  }

  // Throws for NULL, for a handle that has ended, and for one of this process's parent.
  std::shared_ptr<Object> get(const Handle* handle) {
    return with_slot(handle, [](Slot& slot) { return slot.object; });
  }

  // The same, and ends the handle.
  std::shared_ptr<Object> take(const Handle* handle) {
    return end(handle, [](const Slot& /*slot*/) {});
  }

  // The same; throws EBUSY while another thread uses the object.
  std::shared_ptr<Object> take_unused(const Handle* handle) {
    return end(handle, [](const Slot& slot) {
      if (slot.object.use_count() > 1) refuse("another call is using it", EBUSY);
    });
  }

 private:
  // From the lowest bit up: kind, forks, index, generation.
  static constexpr std::uint64_t forks_mask = 0xff;
  static constexpr std::uint64_t index_mask = 0xfffff;
  static constexpr std::uint64_t generation_mask = 0xffffffff;
  static constexpr unsigned forks_shift = 4;
  static constexpr unsigned index_shift = 12;
  static constexpr unsigned generation_shift = 32;
  static constexpr std::uint64_t chunk_slots = 1024;
  static constexpr std::uint64_t chunks_max = (index_mask + 1) / chunk_slots;
  static_assert(kind > 0 && kind < 16);
  static_assert(sizeof(Handle*) == sizeof(std::uint64_t));

  struct Slot {
    std::mutex mutex;  // guards the others
    std::shared_ptr<Object> object;
    std::uint64_t generation = 0;
  };

  static std::uint64_t index_of(const Handle* handle) {
    return reinterpret_cast<std::uint64_t>(handle) >> index_shift & index_mask;
  }

  // Null if no handle ever had this index. Slots stay where they are.
  Slot* slot_of(std::uint64_t index) {
    Slot* chunk = chunks_[index / chunk_slots].load(std::memory_order_acquire);
    return chunk != nullptr ? chunk + index % chunk_slots : nullptr;
  }

  static std::uint64_t number(std::uint64_t index, const Slot& slot) {
    return kind | (fork_generation() & forks_mask) << forks_shift | index << index_shift |
           (slot.generation & generation_mask) << generation_shift;
  }

  std::uint64_t free_index() {
    const std::lock_guard lock(mutex_);
    if (free_.empty()) {
      const std::uint64_t first = made_.size() * chunk_slots;
      if (made_.size() == chunks_max) refuse("too many handles", EMFILE);
      free_.reserve(first + chunk_slots);  // so that the end of a handle does not fail
      made_.push_back(std::make_unique<Slot[]>(chunk_slots));
      chunks_[made_.size() - 1].store(made_.back().get(), std::memory_order_release);
      for (std::uint64_t i = chunk_slots; i > 0; --i)
        free_.push_back(first + i - 1);
    }
    const std::uint64_t index = free_.back();
    free_.pop_back();
    return index;
  }

  // `work(slot)` under the lock of the handle's slot.
  template <class Work>
  auto with_slot(const Handle* handle, Work work) {
    const auto value = reinterpret_cast<std::uint64_t>(given(handle, "the handle"));
    if ((value >> forks_shift & forks_mask) != (fork_generation() & forks_mask)) {
      refuse("the handle belongs to the parent of this process", ECHILD);
    }
    const std::uint64_t index = index_of(handle);
    Slot* slot = slot_of(index);
    if (slot == nullptr) refuse("the handle has ended", EBADF);
    const std::lock_guard lock(slot->mutex);
    if (slot->object == nullptr || number(index, *slot) != value) {
      refuse("the handle has ended", EBADF);
    }
    return work(*slot);
  }

  template <class Check>
  std::shared_ptr<Object> end(const Handle* handle, Check check) {
    std::shared_ptr<Object> object = with_slot(handle, [&](Slot& slot) {
      check(slot);
      ++slot.generation;
      return std::move(slot.object);
    });
    const std::lock_guard lock(mutex_);
    free_.push_back(index_of(handle));
    return object;
  }

  std::array<std::atomic<Slot*>, chunks_max> chunks_{};
  std::mutex mutex_;  // guards the others
  std::vector<std::unique_ptr<Slot[]>> made_;
  std::vector<std::uint64_t> free_;
};

}  // namespace ferry::c
