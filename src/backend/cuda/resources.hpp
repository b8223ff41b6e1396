// Owners of the CUDA driver's resources: contexts, memory, streams, events. Destructors free them
// without waiting for copies in flight; their starter waits for them. Constructors throw
// ferry::Error (errno of the driver's result).
#pragma once

#include <cstddef>
#include <memory>
#include <utility>

#include "backend/cuda/driver.hpp"

namespace ferry::cuda {

// A GPU's primary context, shared with the program's CUDA runtime. Thread-safe.
class PrimaryContext : public std::enable_shared_from_this<PrimaryContext> {
 public:
  PrimaryContext(const Driver& driver, int ordinal);
  ~PrimaryContext();
  PrimaryContext(const PrimaryContext&) = delete;
  PrimaryContext& operator=(const PrimaryContext&) = delete;

  const Driver& driver() const { return driver_; }
  int ordinal() const { return ordinal_; }
  ContextHandle handle() const { return handle_; }

 private:
  const Driver& driver_;
  int ordinal_;
  DeviceIndex device_ = 0;
  ContextHandle handle_ = nullptr;
};

// Makes a context current for the calling thread, and restores the previous one.
class CurrentContext {
 public:
  explicit CurrentContext(const PrimaryContext& context);
  ~CurrentContext();
  CurrentContext(const CurrentContext&) = delete;
  CurrentContext& operator=(const CurrentContext&) = delete;

 private:
  const Driver& driver_;
};

// For destructors: runs `free` in the context if that still works.
template <class Free>
void in_context(const PrimaryContext& context, const Free& free) {
  const Driver& driver = context.driver();
  if (driver.cuCtxPushCurrent(context.handle()) != Result::success) return;
  free(driver);
  ContextHandle popped = nullptr;
  driver.cuCtxPopCurrent(&popped);
}

// A resource of a context, which it keeps.
class OfContext {
 public:
  OfContext(const OfContext&) = delete;
  OfContext& operator=(const OfContext&) = delete;

 protected:
  explicit OfContext(std::shared_ptr<const PrimaryContext> context)
      : context_(std::move(context)) {}
  ~OfContext() = default;

  // Calls the driver in the context. Throws ferry::Error with the name of the call.
  template <class Call>
  void check(const char* name, const Call& call) const {
    const CurrentContext current(*context_);
    context_->driver().check(call(context_->driver()), name);
  }

  const std::shared_ptr<const PrimaryContext> context_;
};

// Page-locked host memory, accessible to the GPU's copy engines and kernels.
class PinnedMemory : OfContext {
 public:
  PinnedMemory(std::shared_ptr<const PrimaryContext> context, std::size_t bytes);
  ~PinnedMemory();

  std::byte* data() const { return static_cast<std::byte*>(data_); }
  std::size_t bytes() const { return bytes_; }
  // Its address in kernels.
  DevicePointer device_pointer() const;

 private:
  void* data_ = nullptr;
  std::size_t bytes_;
};

// Page-locks existing host memory for all GPUs, until destroyed.
class Registration : OfContext {
 public:
  Registration(std::shared_ptr<const PrimaryContext> context, void* memory, std::size_t bytes);
  ~Registration();

 private:
  void* const memory_;
};

// Memory of the GPU.
class DeviceMemory : OfContext {
 public:
  DeviceMemory(std::shared_ptr<const PrimaryContext> context, std::size_t bytes);
  ~DeviceMemory();

  DevicePointer pointer() const { return pointer_; }
  std::size_t bytes() const { return bytes_; }

 private:
  DevicePointer pointer_ = 0;
  std::size_t bytes_;
};

// A stream independent of the default stream.
class GpuStream : OfContext {
 public:
  explicit GpuStream(std::shared_ptr<const PrimaryContext> context);
  ~GpuStream();

  StreamHandle handle() const { return handle_; }

 private:
  StreamHandle handle_ = nullptr;
};

// A point in a stream. Records no time.
class Event : OfContext {
 public:
  explicit Event(std::shared_ptr<const PrimaryContext> context);
  ~Event();

  EventHandle handle() const { return handle_; }

 private:
  EventHandle handle_ = nullptr;
};

}  // namespace ferry::cuda
