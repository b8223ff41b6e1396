#include "backend/cuda/gpus.hpp"

#include <array>
#include <cerrno>

namespace ferry::cuda {

MemoryOwner owner_of(const Driver* driver, const void* memory) {
  if (driver == nullptr || memory == nullptr) return {};
  MemoryType type = MemoryType::none;
  int is_managed = 0;
  int ordinal = 0;
  ContextHandle context = nullptr;
  std::array<PointerAttribute, 4> attributes = {
      PointerAttribute::memory_type, PointerAttribute::is_managed, PointerAttribute::device_ordinal,
      PointerAttribute::context};
  std::array<void*, 4> values = {&type, &is_managed, &ordinal, &context};
  const Result result =
      driver->cuPointerGetAttributes(static_cast<unsigned>(attributes.size()), attributes.data(),
                                     values.data(), reinterpret_cast<std::uintptr_t>(memory));
  switch (result) {
    case Result::success:
      break;
    case Result::invalid_value:    // an unknown pointer
    case Result::not_initialized:  // a child of fork(), which has no GPU memory
    case Result::deinitialized:    // the process is ending
      return {};
    default:
      throw Error(EIO, "the CUDA driver cannot say what memory this is: " + driver->text(result));
  }
  if (is_managed != 0) return {MemoryKind::managed, ordinal, context};
  if (type == MemoryType::none) return {};
  return {type == MemoryType::host ? MemoryKind::pinned : MemoryKind::device, ordinal, context};
}

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
