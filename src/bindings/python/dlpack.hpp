// Memory of DLPack tensors of any element type: transfers move bytes.
#pragma once

#include <cstdint>

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

namespace ferry::python {

namespace nb = nanobind;

// The memory behind a DLPack capsule, kept until this is destroyed.
class DlpackMemory {
 public:
  DlpackMemory() = default;
  // Raises ValueError unless it is a capsule of contiguous memory.
  explicit DlpackMemory(nb::handle capsule);

  int device_type() const { return tensor_.device_type(); }
  void* data() const { return tensor_.data(); }
  std::uint64_t bytes() const { return bytes_; }
  // Whether the capsule allows writing. Those from before DLPack 1.0 do not say.
  bool writable() const { return writable_; }

 private:
  nb::ndarray<> tensor_;
  std::uint64_t bytes_ = 0;
  bool writable_ = false;
};

// A tensor in host memory, shown as bytes by the buffer protocol.
class HostTensor {
 public:
  // Raises ValueError as DlpackMemory does, and for memory of other devices.
  explicit HostTensor(nb::handle capsule);
  const DlpackMemory& memory() const { return memory_; }

 private:
  DlpackMemory memory_;
};

void bind_dlpack(nb::module_& module);

}  // namespace ferry::python
