#include "bindings/python/tensors.hpp"

#include <cerrno>
#include <cstdint>
#include <memory>
#include <utility>

#include <nanobind/ndarray.h>

#include "backend/cuda/copy_engine.hpp"
#include "backend/cuda/gpus.hpp"
#include "backend/cuda/resources.hpp"
#include "bindings/python/buffers.hpp"
#include "bindings/python/transfers.hpp"

namespace ferry::python {
namespace {

// DLDeviceType
constexpr int dl_host = 1;
constexpr int dl_cuda = 2;
constexpr int dl_cuda_host = 3;
constexpr int dl_cuda_managed = 13;

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

// The memory behind a DLPack capsule, of elements of any type, kept until this is destroyed.
struct DlpackMemory {
  DlpackMemory() = default;
  // Raises ValueError unless it is a capsule of contiguous memory.
  explicit DlpackMemory(nb::handle capsule) {
    const bool says = PyCapsule_IsValid(capsule.ptr(), "dltensor_versioned") != 0;
    writable = nb::try_cast(capsule, tensor) && says;
    if (!tensor.is_valid()) {  // possibly read-only
      nb::ndarray<nb::ro> read_only;
      if (!nb::try_cast(capsule, read_only)) throw nb::value_error("this is no DLPack capsule");
      tensor = nb::ndarray<>(read_only);
    }
    if (tensor.size() > 0 && !is_contiguous(tensor)) {
      throw nb::value_error(
          "the tensor is not contiguous (C order); use one that is, and copy from or to it");
    }
    bytes = bytes_of(tensor);
  }

  nb::ndarray<> tensor;
  std::uint64_t bytes = 0;
  // Whether the capsule allows writing. Those from before DLPack 1.0 do not say.
  bool writable = false;
};

// A tensor in host memory, shown as bytes by the buffer protocol.
struct HostTensor {
  // Raises ValueError as DlpackMemory does, and for memory of other devices.
  explicit HostTensor(nb::handle capsule) : memory(capsule) {
    const int device = memory.tensor.device_type();
    if (device != dl_host && device != dl_cuda_host) {
      throw nb::value_error("this tensor is not in the host's memory");
    }
  }

  DlpackMemory memory;
};

ShownMemory memory_of(const HostTensor& tensor) {
  return {tensor.memory.tensor.data(), tensor.memory.bytes, tensor.memory.writable};
}

// GPU memory of another object, shown to transfers by the buffer protocol.
struct GpuView {
  // Raises ValueError for memory unknown to the CUDA driver, OSError (ENODEV) without a driver.
  GpuView(std::uintptr_t begin, std::uint64_t size, bool may_write, nb::object of)
      : address(begin), bytes(size), writable(may_write), owner(std::move(of)) {
    check();
  }
  // Of a DLPack capsule. Raises ValueError for memory of other devices, or not contiguous.
  explicit GpuView(nb::handle capsule) : memory(capsule) {
    const int device = memory.tensor.device_type();
    if (device != dl_cuda && device != dl_cuda_managed) {
      throw nb::value_error("this tensor is neither in the host's nor in an NVIDIA GPU's memory");
    }
    address = reinterpret_cast<std::uintptr_t>(memory.tensor.data());
    bytes = memory.bytes;
    check();
  }

  std::uintptr_t address = 0;
  std::uint64_t bytes = 0;
  bool writable = true;
  // One of them keeps the memory.
  nb::object owner;
  DlpackMemory memory;

 private:
  // Memory unknown to the driver would be taken for the host's.
  void check() const {
    if (bytes == 0) return;
    const cuda::MemoryOwner known =
        cuda::owner_of(&cuda::Driver::get(), reinterpret_cast<void*>(address));
    if (known.kind == cuda::MemoryKind::host) {
      throw nb::value_error("the CUDA driver knows no such memory; was it freed?");
    }
  }
};

ShownMemory memory_of(const GpuView& view) {
  return {reinterpret_cast<void*>(view.address), view.bytes, view.writable};
}

// GPU memory owned by Ferry.
class GpuAllocation {
 public:
  // Throws ferry::Error: ENODEV, ENOMEM.
  GpuAllocation(int device, std::uint64_t bytes)
      : bytes_(bytes),
        context_(std::make_shared<cuda::PrimaryContext>(cuda::Driver::get(), device)) {
    if (bytes > 0) memory_ = std::make_unique<cuda::DeviceMemory>(context_, bytes);
  }
  std::uintptr_t address() const { return memory_ == nullptr ? 0 : memory_->pointer(); }
  std::uint64_t bytes() const { return bytes_; }
  // The `bytes` from `offset` on.
  void copy_to_host(void* to, std::uint64_t bytes, std::uint64_t offset) const {
    if (offset > bytes_ || bytes > bytes_ - offset) {
      throw Error(EINVAL, "a range beyond this memory");
    }
    if (bytes == 0) return;
    cuda::copy_now(*context_, Direction::write, to, memory_->pointer() + offset, bytes);
  }

 private:
  std::uint64_t bytes_;
  std::shared_ptr<const cuda::PrimaryContext> context_;
  std::unique_ptr<cuda::DeviceMemory> memory_;  // null: empty
};

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

void bind_tensors(nb::module_& module) {
  nb::class_<HostTensor>(module, "HostTensor", nb::type_slots(shows<HostTensor, memory_of>))
      .def(nb::init<nb::handle>())
      .def_prop_ro("writable", [](const HostTensor& self) { return self.memory.writable; });
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
