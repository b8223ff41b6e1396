#include "bindings/python/gpu.hpp"

#include <cerrno>
#include <utility>

#include <nanobind/stl/string.h>

#include "backend/cuda/copy_engine.hpp"
#include "backend/cuda/gpus.hpp"

namespace ferry::python {
namespace {

ShownMemory memory_of(const GpuView& view) {
  return {reinterpret_cast<void*>(view.address), view.bytes, view.writable};
}

// Earlier work of the stream is done.
void synchronize_stream(std::uintptr_t address, std::uintptr_t stream) {
  const LockRelease unlocked;
  const cuda::Driver& driver = cuda::Driver::get();
  const cuda::MemoryOwner owner = cuda::owner_of(&driver, reinterpret_cast<void*>(address));
  const cuda::PrimaryContext context(driver, owner.ordinal);
  const cuda::CurrentContext current(context);
  driver.check(driver.cuStreamSynchronize(reinterpret_cast<cuda::StreamHandle>(stream)),
               "cuStreamSynchronize");
}

}  // namespace

GpuView::GpuView(std::uintptr_t begin, std::uint64_t size, bool may_write, nb::object owner)
    : address(begin), bytes(size), writable(may_write), owner_(std::move(owner)) {
  check();
}

GpuView::GpuView(nb::handle capsule) : tensor_(capsule) {
  constexpr int cuda_device = 2;  // DLDeviceType
  constexpr int cuda_managed = 13;
  const int device = tensor_.device_type();
  if (device != cuda_device && device != cuda_managed) {
    throw nb::value_error("this tensor is neither in the host's nor in an NVIDIA GPU's memory");
  }
  address = reinterpret_cast<std::uintptr_t>(tensor_.data());
  bytes = tensor_.bytes();
  check();
}

// Memory unknown to the driver would be taken for the host's.
void GpuView::check() const {
  if (bytes == 0) return;
  const cuda::MemoryOwner owner =
      cuda::owner_of(&cuda::Driver::get(), reinterpret_cast<void*>(address));
  if (owner.kind == cuda::MemoryKind::host) {
    throw nb::value_error("the CUDA driver knows no such memory; was it freed?");
  }
}

GpuAllocation::GpuAllocation(int device, std::uint64_t bytes)
    : bytes_(bytes), context_(std::make_shared<cuda::PrimaryContext>(cuda::Driver::get(), device)) {
  if (bytes > 0) memory_ = std::make_unique<cuda::DeviceMemory>(context_, bytes);
}

void GpuAllocation::copy_to_host(void* to, std::uint64_t bytes, std::uint64_t offset) const {
  if (offset > bytes_ || bytes > bytes_ - offset) {
    throw Error(EINVAL, "a range beyond this memory");
  }
  if (bytes == 0) return;
  cuda::copy_now(*context_, Direction::write, to, memory_->pointer() + offset, bytes);
}

void bind_gpu(nb::module_& module) {
  nb::class_<GpuView>(module, "GpuView", nb::type_slots(shows<GpuView, memory_of>))
      .def(nb::init<std::uintptr_t, std::uint64_t, bool, nb::object>())
      .def(nb::init<nb::handle>())
      .def_ro("address", &GpuView::address)
      .def_ro("bytes", &GpuView::bytes);
  using Allocation = Unlocked<GpuAllocation>;
  nb::class_<Allocation>(module, "GpuAllocation")
      .def("__init__",
           [](Allocation* self, int device, std::uint64_t bytes) {
             const LockRelease unlocked;
             new (self) Allocation(device, bytes);
           })
      .def_prop_ro("address", [](const Allocation& self) { return self->address(); })
      .def_prop_ro("bytes", [](const Allocation& self) { return self->bytes(); })
      .def("copy_to_host", [](const Allocation& self, nb::handle target, std::uint64_t offset) {
        const PinnedBuffer buffer(target, true);
        const LockRelease unlocked;
        self->copy_to_host(buffer.data(), buffer.bytes(), offset);
      });
  module.def("synchronize_stream", &synchronize_stream);
}

}  // namespace ferry::python
