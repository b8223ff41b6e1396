#include "bindings/python/dlpack.hpp"

#include "bindings/python/buffers.hpp"

namespace ferry::python {
namespace {

ShownMemory memory_of(const HostTensor& tensor) {
  const DlpackMemory& memory = tensor.memory();
  return {memory.data(), memory.bytes(), memory.writable()};
}

bool is_contiguous(const nb::ndarray<>& tensor) {
  std::int64_t expected = 1;
  for (std::size_t i = tensor.ndim(); i-- > 0;) {
    if (tensor.shape(i) > 1 && tensor.stride(i) != expected) return false;
    expected *= static_cast<std::int64_t>(tensor.shape(i));
  }
  return true;
}

// Elements smaller than a byte are packed. nanobind's nbytes() ignores lanes, of which a pair of
// 4-bit floats has two.
std::uint64_t bytes_of(const nb::ndarray<>& tensor) {
  const nb::dlpack::dtype type = tensor.dtype();
  return (std::uint64_t{tensor.size()} * type.bits * type.lanes + 7) / 8;
}

}  // namespace

DlpackMemory::DlpackMemory(nb::handle capsule) {
  const bool says = PyCapsule_IsValid(capsule.ptr(), "dltensor_versioned") != 0;
  writable_ = nb::try_cast(capsule, tensor_) && says;
  if (!tensor_.is_valid()) {  // possibly read-only
    nb::ndarray<nb::ro> read_only;
    if (!nb::try_cast(capsule, read_only)) throw nb::value_error("this is no DLPack capsule");
    tensor_ = nb::ndarray<>(read_only);
  }
  if (tensor_.size() > 0 && !is_contiguous(tensor_)) {
    throw nb::value_error(
        "the tensor is not contiguous (C order); use one that is, and copy from or to it");
  }
  bytes_ = bytes_of(tensor_);
}

HostTensor::HostTensor(nb::handle capsule) : memory_(capsule) {
  constexpr int host = 1;  // DLDeviceType
  constexpr int cuda_host = 3;
  if (memory_.device_type() != host && memory_.device_type() != cuda_host) {
    throw nb::value_error("this tensor is not in the host's memory");
  }
}

void bind_dlpack(nb::module_& module) {
  nb::class_<HostTensor>(module, "HostTensor", nb::type_slots(shows<HostTensor, memory_of>))
      .def(nb::init<nb::handle>())
      .def_prop_ro("writable", [](const HostTensor& self) { return self.memory().writable(); });
}

}  // namespace ferry::python
