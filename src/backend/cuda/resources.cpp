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
    : context_(std::move(context)), bytes_(bytes) {
  const CurrentContext current(*context_);
  const Driver& driver = context_->driver();
  driver.check(driver.cuMemHostAlloc(&data_, bytes, host_alloc_portable | host_alloc_device_map),
               "cuMemHostAlloc");
}

PinnedMemory::~PinnedMemory() {
  in_context(*context_, [&](const Driver& driver) { driver.cuMemFreeHost(data_); });
}

DevicePointer PinnedMemory::device_pointer() const {
  const CurrentContext current(*context_);
  const Driver& driver = context_->driver();
  DevicePointer pointer = 0;
  driver.check(driver.cuMemHostGetDevicePointer(&pointer, data_, 0), "cuMemHostGetDevicePointer");
  return pointer;
}

Registration::Registration(std::shared_ptr<const PrimaryContext> context, void* memory,
                           std::size_t bytes)
    : context_(std::move(context)), memory_(memory) {
  const CurrentContext current(*context_);
  const Driver& driver = context_->driver();
  driver.check(driver.cuMemHostRegister(memory, bytes, host_register_portable),
               "cuMemHostRegister");
}

Registration::~Registration() {
  in_context(*context_, [&](const Driver& driver) { driver.cuMemHostUnregister(memory_); });
}

DeviceMemory::DeviceMemory(std::shared_ptr<const PrimaryContext> context, std::size_t bytes)
    : context_(std::move(context)), bytes_(bytes) {
  const CurrentContext current(*context_);
  const Driver& driver = context_->driver();
  driver.check(driver.cuMemAlloc(&pointer_, bytes), "cuMemAlloc");
}

DeviceMemory::~DeviceMemory() {
  in_context(*context_, [&](const Driver& driver) { driver.cuMemFree(pointer_); });
}

Stream::Stream(std::shared_ptr<const PrimaryContext> context) : Stream(std::move(context), 0) {}

Stream::Stream(std::shared_ptr<const PrimaryContext> context, int priority)
    : context_(std::move(context)) {
  const CurrentContext current(*context_);
  const Driver& driver = context_->driver();
  driver.check(driver.cuStreamCreateWithPriority(&handle_, stream_non_blocking, priority),
               "cuStreamCreateWithPriority");
}

Stream::~Stream() {
  in_context(*context_, [&](const Driver& driver) { driver.cuStreamDestroy(handle_); });
}

void Stream::synchronize() const {
  const CurrentContext current(*context_);
  const Driver& driver = context_->driver();
  driver.check(driver.cuStreamSynchronize(handle_), "cuStreamSynchronize");
}

Event::Event(std::shared_ptr<const PrimaryContext> context, bool timed)
    : context_(std::move(context)) {
  const CurrentContext current(*context_);
  const Driver& driver = context_->driver();
  driver.check(driver.cuEventCreate(&handle_, timed ? 0 : event_disable_timing), "cuEventCreate");
}

Event::~Event() {
  in_context(*context_, [&](const Driver& driver) { driver.cuEventDestroy(handle_); });
}

void Event::record(const Stream& stream) const {
  const CurrentContext current(*context_);
  const Driver& driver = context_->driver();
  driver.check(driver.cuEventRecord(handle_, stream.handle()), "cuEventRecord");
}

Result Event::query() const {
  return context_->driver().cuEventQuery(handle_);
}

}  // namespace ferry::cuda
