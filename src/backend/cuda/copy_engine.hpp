// Copies between the host's memory and a device's that the host cannot address.
#pragma once

#include <cstddef>
#include <cstdint>

namespace ferry::cuda {

struct Copy {
  enum class Direction : std::uint8_t { to_device, from_device };
  Direction direction = Direction::to_device;
  std::byte* host = nullptr;  // pinned
  std::uint64_t device_address = 0;
  std::size_t bytes = 0;
  int result = 0;         // 0, or a negative errno once it is reaped
  void* owner = nullptr;  // the caller's own
};

// One thread's access to copy engines. Not thread-safe. A copy belongs to the engine between
// start() and reap(), and so does its memory.
class CopyEngine {
 public:
  virtual ~CopyEngine() = default;
  // Takes a copy. It has begun at the latest when flush() returns. Never waits for another copy.
  virtual void start(Copy& copy) = 0;
  virtual void flush() = 0;
  // A copy that has ended, or null. Those of one direction end in the order in which they started.
  virtual Copy* reap() = 0;
};

}  // namespace ferry::cuda
