#include "backend/cuda/memory_kind.hpp"

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
  switch (type) {
    case MemoryType::none:
      return {};
    case MemoryType::host:
      return {MemoryKind::pinned, ordinal, context};
    default:
      return {MemoryKind::device, ordinal, context};
  }
}

}  // namespace ferry::cuda
