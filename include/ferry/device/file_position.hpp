// The position of an open file, shared by all device threads that call read() or write() on it. As
// in POSIX it advances by the bytes transferred, so it is locked during the call; pread() and
// pwrite() do not use it.
#pragma once

#include <cstdint>

#include <ferry/device/control.hpp>
#include <ferry/device/platform.hpp>

namespace ferry::device {

FERRY_DEVICE inline FilePosition& position_of(const ArenaView& arena, int file) {
  const std::uint32_t files = arena.layout.geometry.files;
  return arena.position(handle_index(file, files) % files);
}

// Used by the leader of a group. Words: 0 free, 1 held, 2 held with a possibly parked waiter.
struct PositionLock {
  FERRY_DEVICE static void lock(FilePosition& position, const HostHooks& hooks) {
    DeviceRef<std::uint32_t> word(position.lock);
    std::uint32_t expected = 0;
    if (word.compare_exchange_strong(expected, 1, acquire, relaxed)) return;
    // Store 2, so that the holder wakes us; holding it as 2 costs one spare wake-up. The holder is
    // a running group whose own wait is bounded by the server's life, so this ends.
    constexpr std::uint64_t slice_ns = 50'000'000;
    while (word.exchange(2, acquire) != 0)
      park(hooks, position.lock, 2, slice_ns, 200);  // soon it is free
  }

  FERRY_DEVICE static void unlock(FilePosition& position, const HostHooks& hooks) {
    if (DeviceRef<std::uint32_t>(position.lock).exchange(0, release) == 2)
      wake(hooks, position.lock);
  }
};

}  // namespace ferry::device
