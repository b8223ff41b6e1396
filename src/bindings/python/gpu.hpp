// GPU memory as Python sees it.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include <nanobind/nanobind.h>

#include "backend/cuda/resources.hpp"
#include "bindings/python/dlpack.hpp"
#include "bindings/python/transfers.hpp"

namespace ferry::python {

// Memory of a GPU that belongs to another object, shown by the buffer protocol so that transfers
// find it. Nobody else may look: the host cannot touch it.
class GpuView {
 public:
  // Raises ValueError where the CUDA driver knows no such memory, OSError (ENODEV) where there is
  // no driver.
  GpuView(std::uintptr_t address, std::uint64_t bytes, bool writable, nb::object owner);
  // Of a DLPack capsule. Raises ValueError for memory of other devices, or not contiguous.
  explicit GpuView(nb::handle capsule);

  std::uintptr_t address = 0;
  std::uint64_t bytes = 0;
  bool writable = true;

 private:
  void check() const;
  nb::object owner_;
  DlpackMemory tensor_;
};

// Memory of a GPU that is Ferry's own.
class GpuAllocation {
 public:
  // Throws ferry::Error: ENODEV, ENOMEM.
  GpuAllocation(int device, std::uint64_t bytes);
  std::uintptr_t address() const { return memory_ == nullptr ? 0 : memory_->pointer(); }
  std::uint64_t bytes() const { return bytes_; }
  // All of it from `offset` on, or as much as fits.
  void copy_to_host(void* to, std::uint64_t bytes, std::uint64_t offset) const;

 private:
  std::uint64_t bytes_;
  std::shared_ptr<const cuda::PrimaryContext> context_;
  std::unique_ptr<cuda::DeviceMemory> memory_;  // null: of no bytes
};

void bind_gpu(nb::module_& module);

}  // namespace ferry::python
