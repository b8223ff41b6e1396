// The GPUs whose memory transfers read and write, and which memory a pointer names.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "backend/cuda/gpudirect.hpp"
#include "backend/cuda/resources.hpp"

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

// Thread-safe. Keeps the primary context of every GPU seen, and cuFile's driver once requested.
class Gpus {
 public:
  // The GPU that owns this memory; null for host memory, pinned or not. Throws ferry::Error:
  // ENOTSUP for memory outside the GPU's primary context, EIO if the driver cannot tell.
  std::shared_ptr<const PrimaryContext> owner_of(const void* memory);

  // Null and the reason if GPUDirect Storage does not work; the first answer stays.
  std::shared_ptr<const GpuDirectDriver> direct_driver(std::string& why_not);

 private:
  std::mutex mutex_;  // guards known_
  std::map<int, std::shared_ptr<const PrimaryContext>> known_;

  std::mutex direct_mutex_;  // guards the following; held while cuFile's driver opens
  bool asked_ = false;
  std::string why_not_;
  std::shared_ptr<const GpuDirectDriver> direct_;  // destroyed before the contexts
};

}  // namespace ferry::cuda
