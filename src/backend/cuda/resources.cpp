#include "backend/cuda/resources.hpp"

#include <utility>

namespace ferry::cuda {

PrimaryContext::PrimaryContext(const Driver& driver, int ordinal)
    : driver_(driver), ordinal_(ordinal), device_(driver.device(ordinal)) {
  driver.check(driver.cuDevicePrimaryCtxRetain(&handle_, device_), "cuDevicePrimaryCtxRetain");
}

// Destructors ignore the driver's errors: it refuses everything once the process ends.
PrimaryContext::~PrimaryContext() {
  driver_.cuDevicePrimaryCtxRelease(device_);
}

CurrentContext::CurrentContext(const PrimaryContext& context) : driver_(context.driver()) {
  driver_.check(driver_.cuCtxPushCurrent(context.handle()), "cuCtxPushCurrent");
}

CurrentContext::~CurrentContext() {
  ContextHandle popped = nullptr;
  driver_.cuCtxPopCurrent(&popped);
}

PinnedMemory::PinnedMemory(std::shared_ptr<const PrimaryContext> context, std::size_t bytes)
    : OfContext(std::move(context)), bytes_(bytes) {
  check("cuMemHostAlloc", [&](const Driver& driver) {
    return driver.cuMemHostAlloc(&data_, bytes, host_alloc_portable | host_alloc_device_map);
  });
}

PinnedMemory::~PinnedMemory() {
  in_context(*context_, [&](const Driver& driver) { driver.cuMemFreeHost(data_); });
}

DevicePointer PinnedMemory::device_pointer() const {
  DevicePointer pointer = 0;
  check("cuMemHostGetDevicePointer",
        [&](const Driver& driver) { return driver.cuMemHostGetDevicePointer(&pointer, data_, 0); });
  return pointer;
}

Registration::Registration(std::shared_ptr<const PrimaryContext> context, void* memory,
                           std::size_t bytes)
    : OfContext(std::move(context)), memory_(memory) {
  check("cuMemHostRegister", [&](const Driver& driver) {
    return driver.cuMemHostRegister(memory, bytes, host_register_portable);
  });
}

Registration::~Registration() {
  in_context(*context_, [&](const Driver& driver) { driver.cuMemHostUnregister(memory_); });
}

DeviceMemory::DeviceMemory(std::shared_ptr<const PrimaryContext> context, std::size_t bytes)
    : OfContext(std::move(context)), bytes_(bytes) {
  check("cuMemAlloc", [&](const Driver& driver) { return driver.cuMemAlloc(&pointer_, bytes); });
}

DeviceMemory::~DeviceMemory() {
  in_context(*context_, [&](const Driver& driver) { driver.cuMemFree(pointer_); });
}

GpuStream::GpuStream(std::shared_ptr<const PrimaryContext> context)
    : OfContext(std::move(context)) {
  check("cuStreamCreate",
        [&](const Driver& driver) { return driver.cuStreamCreate(&handle_, stream_non_blocking); });
}

GpuStream::~GpuStream() {
  in_context(*context_, [&](const Driver& driver) { driver.cuStreamDestroy(handle_); });
}

Event::Event(std::shared_ptr<const PrimaryContext> context) : OfContext(std::move(context)) {
  check("cuEventCreate",
        [&](const Driver& driver) { return driver.cuEventCreate(&handle_, event_disable_timing); });
}

Event::~Event() {
  in_context(*context_, [&](const Driver& driver) { driver.cuEventDestroy(handle_); });
}

}  // namespace ferry::cuda
