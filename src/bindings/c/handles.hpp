// Handles of C programs. A handle is a number in the guise of a pointer: the index of a slot and
// the slot's generation. A handle that is used after its end is therefore refused, and never
// reaches what has its slot next, for the next 2^28 uses of that slot.
#pragma once

#include <cerrno>
#include <cstdint>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <vector>

#include "base/forks.hpp"
#include "bindings/c/errors.hpp"

namespace ferry::c {

// The handles of one kind. `kind` tells them from those of other kinds, which a cast may pass here.
// Thread-safe.
template <class Object, class Handle, std::uint64_t kind>
class HandleTable {
 public:
  // The table of this process: a child of fork() starts with an empty one, for its parent may have
  // held the lock.
  static HandleTable& mine() { return of_this_process<HandleTable>(); }

  Handle* add(std::shared_ptr<Object> object) {
    const std::lock_guard lock(mutex_);
    if (free_.empty()) {
      if (slots_.size() > index_mask) refuse("too many handles", EMFILE);
      free_.reserve(slots_.size() + 1);  // take() does not fail
      slots_.emplace_back();
      free_.push_back(slots_.size() - 1);
    }
    const std::uint64_t index = free_.back();
    free_.pop_back();
    slots_[index].object = std::move(object);
    return reinterpret_cast<Handle*>(number(index));
  }

  // Throws for NULL, for a handle that has ended, and for one of this process's parent.
  std::shared_ptr<Object> get(const Handle* handle) {
    const std::shared_lock lock(mutex_);
    return slots_[find(handle)].object;
  }

  // The same, and ends the handle.
  std::shared_ptr<Object> take(const Handle* handle) {
    const std::lock_guard lock(mutex_);
    return end(find(handle));
  }

  // The same; throws EBUSY while another thread uses the object.
  std::shared_ptr<Object> take_unused(const Handle* handle) {
    const std::lock_guard lock(mutex_);
    const std::uint64_t index = find(handle);
    if (slots_[index].object.use_count() > 1) refuse("another call is using it", EBUSY);
    return end(index);
  }

 private:
  // From the lowest bit up: kind, forks, index, generation.
  static constexpr std::uint64_t forks_mask = 0xff;
  static constexpr std::uint64_t index_mask = 0xffffff;
  static constexpr std::uint64_t generation_mask = 0xfffffff;
  static constexpr unsigned forks_shift = 4;
  static constexpr unsigned index_shift = 12;
  static constexpr unsigned generation_shift = 36;
  static_assert(kind > 0 && kind < 16);
  static_assert(sizeof(Handle*) == sizeof(std::uint64_t));

  struct Slot {
    std::shared_ptr<Object> object;
    std::uint64_t generation = 0;
  };

  std::uint64_t number(std::uint64_t index) const {
    return kind | (fork_generation() & forks_mask) << forks_shift | index << index_shift |
           (slots_[index].generation & generation_mask) << generation_shift;
  }

  std::uint64_t find(const Handle* handle) const {
    const auto value = reinterpret_cast<std::uint64_t>(given(handle, "the handle"));
    if ((value >> forks_shift & forks_mask) != (fork_generation() & forks_mask)) {
      refuse("the handle belongs to the parent of this process", ECHILD);
    }
    const std::uint64_t index = value >> index_shift & index_mask;
    if (index >= slots_.size() || slots_[index].object == nullptr || number(index) != value) {
      refuse("the handle has ended", EBADF);
    }
    return index;
  }

  std::shared_ptr<Object> end(std::uint64_t index) {
    ++slots_[index].generation;
    free_.push_back(index);
    return std::move(slots_[index].object);
  }

  std::shared_mutex mutex_;
  std::vector<Slot> slots_;
  std::vector<std::uint64_t> free_;
};

}  // namespace ferry::c
