// Owners of the CUDA driver's resources: contexts, memory, streams, events. Destructors free them
// without waiting for copies in flight; whoever starts copies waits for them. Constructors throw
// ferry::Error (errno of the driver's result).
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

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

// Page-locked host memory, accessible to the GPU's copy engines and kernels.
class PinnedMemory {
 public:
  PinnedMemory(std::shared_ptr<const PrimaryContext> context, std::size_t bytes);
  ~PinnedMemory();
  PinnedMemory(const PinnedMemory&) = delete;
  PinnedMemory& operator=(const PinnedMemory&) = delete;

  std::byte* data() const { return static_cast<std::byte*>(data_); }
  std::size_t bytes() const { return bytes_; }
  // Its address in kernels.
  DevicePointer device_pointer() const;

 private:
  const std::shared_ptr<const PrimaryContext> context_;
  void* data_ = nullptr;
  std::size_t bytes_;
};

// Page-locks existing host memory for all GPUs, until destroyed.
class Registration {
 public:
  Registration(std::shared_ptr<const PrimaryContext> context, void* memory, std::size_t bytes);
  ~Registration();
  Registration(const Registration&) = delete;
  Registration& operator=(const Registration&) = delete;

 private:
  const std::shared_ptr<const PrimaryContext> context_;
  void* const memory_;
};

// Memory of the GPU.
class DeviceMemory {
 public:
  DeviceMemory(std::shared_ptr<const PrimaryContext> context, std::size_t bytes);
  ~DeviceMemory();
  DeviceMemory(const DeviceMemory&) = delete;
  DeviceMemory& operator=(const DeviceMemory&) = delete;

  DevicePointer pointer() const { return pointer_; }
  std::size_t bytes() const { return bytes_; }

 private:
  const std::shared_ptr<const PrimaryContext> context_;
  DevicePointer pointer_ = 0;
  std::size_t bytes_;
};

// A stream independent of the default stream.
class Stream {
 public:
  explicit Stream(std::shared_ptr<const PrimaryContext> context);
  // With a priority: smaller numbers first, 0 for none.
  Stream(std::shared_ptr<const PrimaryContext> context, int priority);
  ~Stream();
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  StreamHandle handle() const { return handle_; }
  // Blocks until the stream is idle.
  void synchronize() const;

 private:
  const std::shared_ptr<const PrimaryContext> context_;
  StreamHandle handle_ = nullptr;
};

// A point in a stream. Records no time unless asked to.
class Event {
 public:
  explicit Event(std::shared_ptr<const PrimaryContext> context, bool timed = false);
  ~Event();
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;

  EventHandle handle() const { return handle_; }
  void record(const Stream& stream) const;
  // Whether the stream has passed it: success, not_ready, or an earlier error.
  Result query() const;

 private:
  const std::shared_ptr<const PrimaryContext> context_;
  EventHandle handle_ = nullptr;
};

}  // namespace ferry::cuda
