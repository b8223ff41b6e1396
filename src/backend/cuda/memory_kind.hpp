// Whose memory a pointer names, as the driver tells.
#pragma once

#include <cstdint>

#include "backend/cuda/driver.hpp"

namespace ferry::cuda {

enum class MemoryKind : std::uint8_t {
  host,     // the host's; CUDA does not know it
  pinned,   // the host's, allocated or registered by CUDA
  device,   // a GPU's: the host must not touch it
  managed,  // moves between host and GPU as it is touched
};

struct MemoryOwner {
  MemoryKind kind = MemoryKind::host;
  int ordinal = 0;                  // of the GPU; only where kind is not `host`
  ContextHandle context = nullptr;  // that it was made in; null: of none in particular
};

// `driver` as in_use() gives it: without one all memory is the host's. Throws ferry::Error (EIO)
// when the driver cannot tell, as after an error of the GPU: then nobody should touch the memory.
// Thread-safe.
MemoryOwner owner_of(const Driver* driver, const void* memory);

}  // namespace ferry::cuda
