#include "backend/cuda/gpus.hpp"

#include <cerrno>

#include "backend/cuda/memory_kind.hpp"

namespace ferry::cuda {

std::shared_ptr<const PrimaryContext> Gpus::owner_of(const void* memory) {
  const Driver* driver = Driver::in_use();
  if (driver == nullptr) return nullptr;
  const MemoryOwner owner = cuda::owner_of(driver, memory);
  if (owner.kind == MemoryKind::host || owner.kind == MemoryKind::pinned) {
    return nullptr;
  }
  // Managed memory too: direct I/O cannot use it, and access by the host would make it move.
  const std::lock_guard lock(mutex_);
  std::shared_ptr<const PrimaryContext>& gpu = known_[owner.ordinal];
  if (gpu == nullptr) gpu = std::make_shared<const PrimaryContext>(*driver, owner.ordinal);
  if (owner.context != nullptr && owner.context != gpu->handle()) {
    throw Error(ENOTSUP,
                "memory of a CUDA context that is not its GPU's primary one; allocate it in the "
                "primary context, as the CUDA runtime does");
  }
  return gpu;
}

std::shared_ptr<const GpuDirectDriver> Gpus::direct_driver(std::string& why_not) {
  const std::lock_guard lock(direct_mutex_);
  if (!asked_) direct_ = GpuDirectDriver::shared(why_not_);
  asked_ = true;
  why_not = why_not_;
  return direct_;
}

}  // namespace ferry::cuda
