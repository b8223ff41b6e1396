// GPU memory and GpuRuntime in Python.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include <nanobind/nanobind.h>

#include "backend/cuda/resources.hpp"
#include "bindings/python/dlpack.hpp"
#include "bindings/python/transfers.hpp"

namespace ferry::python {

// GPU memory of another object, shown to transfers by the buffer protocol.
class GpuView {
 public:
  // Raises ValueError for memory unknown to the CUDA driver, OSError (ENODEV) without a driver.
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

// GPU memory owned by Ferry.
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
  std::unique_ptr<cuda::DeviceMemory> memory_;  // null: empty
};

void bind_gpu(nb::module_& module);
void bind_gpu_runtime(nb::module_& module);

}  // namespace ferry::python
