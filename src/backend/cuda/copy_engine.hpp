// Copies between host memory and device memory that the host cannot address.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/direction.hpp"

namespace ferry::cuda {

struct Copy {
  Direction direction = Direction::read;  // to the device, where a file is read into it
  std::byte* host = nullptr;              // pinned
  std::uint64_t device_address = 0;
  std::size_t bytes = 0;
  int result = 0;         // 0, or a negative errno once it is reaped
  void* owner = nullptr;  // for the caller
};

// One thread's access to copy engines. Not thread-safe. A copy and its memory belong to the engine
// between start() and reap().
class CopyEngine {
 public:
  virtual ~CopyEngine() = default;
  // Accepts a copy, which starts at flush() at the latest. Never waits for another copy.
  virtual void start(Copy& copy) = 0;
  virtual void flush() = 0;
  // A finished copy, or null. Copies of one direction finish in the order of their starts.
  virtual Copy* reap() = 0;
};

}  // namespace ferry::cuda
