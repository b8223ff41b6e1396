// What is taken from the CUDA driver and has to be given back: contexts, memory, streams, events.
// Each object frees what it holds; none of them waits for copies that still use it, which whoever
// started them does. Constructors throw ferry::Error (the errno of the driver's result).
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "backend/cuda/driver.hpp"

namespace ferry::cuda {

// The primary context of a GPU, which the CUDA runtime of the program uses too. Thread-safe.
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

// Makes a context that of the calling thread while it lives, and then the one before.
class CurrentContext {
 public:
  explicit CurrentContext(const PrimaryContext& context);
  ~CurrentContext();
  CurrentContext(const CurrentContext&) = delete;
  CurrentContext& operator=(const CurrentContext&) = delete;

 private:
  const Driver& driver_;
};

// For destructors: runs `free` in the context if that can still be entered.
template <class Free>
void in_context(const PrimaryContext& context, const Free& free) {
  const Driver& driver = context.driver();
  if (driver.cuCtxPushCurrent(context.handle()) != Result::success) return;
  free(driver);
  ContextHandle popped = nullptr;
  driver.cuCtxPopCurrent(&popped);
}

// Page-locked memory of the host that the GPU's copy engines reach, and its kernels too.
class PinnedMemory {
 public:
  PinnedMemory(std::shared_ptr<const PrimaryContext> context, std::size_t bytes);
  ~PinnedMemory();
  PinnedMemory(const PinnedMemory&) = delete;
  PinnedMemory& operator=(const PinnedMemory&) = delete;

  std::byte* data() const { return static_cast<std::byte*>(data_); }
  std::size_t bytes() const { return bytes_; }
  // Where kernels find it.
  DevicePointer device_pointer() const;

 private:
  const std::shared_ptr<const PrimaryContext> context_;
  void* data_ = nullptr;
  std::size_t bytes_;
};

// Page-locks memory of the host that is there already, for all GPUs, until it is destroyed.
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

// A stream that does not wait for the default stream, nor that for it.
class Stream {
 public:
  explicit Stream(std::shared_ptr<const PrimaryContext> context);
  // With a priority: smaller numbers first, 0 for none.
  Stream(std::shared_ptr<const PrimaryContext> context, int priority);
  ~Stream();
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  StreamHandle handle() const { return handle_; }
  // Blocks until all that was put into it is done.
  void synchronize() const;

 private:
  const std::shared_ptr<const PrimaryContext> context_;
  StreamHandle handle_ = nullptr;
};

// A point in a stream. Keeps no time unless asked to.
class Event {
 public:
  explicit Event(std::shared_ptr<const PrimaryContext> context, bool timed = false);
  ~Event();
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;

  EventHandle handle() const { return handle_; }
  void record(const Stream& stream) const;
  // Whether the stream has passed it: success, not_ready, or what went wrong before it.
  Result query() const;

 private:
  const std::shared_ptr<const PrimaryContext> context_;
  EventHandle handle_ = nullptr;
};

}  // namespace ferry::cuda
