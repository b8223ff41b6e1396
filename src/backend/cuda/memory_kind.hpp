// Which memory a pointer names, as reported by the driver.
#pragma once

#include <cstdint>

#include "backend/cuda/driver.hpp"

namespace ferry::cuda {

enum class MemoryKind : std::uint8_t {
  host,     // host memory that CUDA does not know
  pinned,   // host memory allocated or registered by CUDA
  device,   // GPU memory: the host must not touch it
  managed,  // moves between host and GPU on access
};

struct MemoryOwner {
  MemoryKind kind = MemoryKind::host;
  int ordinal = 0;                  // of the GPU, unless kind is `host`
  ContextHandle context = nullptr;  // its context; null for none in particular
};

// `driver` is from in_use(): without one, all memory is the host's. Throws ferry::Error (EIO) if
// the driver cannot tell, as after an error of the GPU: do not touch the memory then. Thread-safe.
MemoryOwner owner_of(const Driver* driver, const void* memory);

}  // namespace ferry::cuda
