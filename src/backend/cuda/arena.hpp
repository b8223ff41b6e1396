// The memory of a `cuda` device: a part shared with the host, pinned there, and the GPU's own part.
#pragma once

#include <cstddef>
#include <memory>
#include <mutex>

#include <ferry/device/control.hpp>

#include "backend/cuda/resources.hpp"
#include "backend/cuda/staged_storage.hpp"
#include "base/direction.hpp"

namespace ferry::cuda {

// The shared part is in host memory because the server polls the rings all the time, which there
// only reads its own cache; a kernel does not wait for its stores across the bus; and without a
// kernel module the host can access GPU memory only by copies.
class GpuArena {
 public:
  // Zeroed. Throws ferry::Error (ENOMEM; ENODEV: there is no such GPU).
  GpuArena(const device::Control& layout, int ordinal);

  // The shared part's address on the host and in kernels.
  unsigned char* base() const { return reinterpret_cast<unsigned char*>(shared_.data()); }
  unsigned char* device_base() const {
    return reinterpret_cast<unsigned char*>(shared_.device_pointer());
  }
  // ArenaView::local. The host computes with it but never dereferences it.
  unsigned char* local() const {
    return reinterpret_cast<unsigned char*>(own_.pointer()) - layout_.local;
  }

  // Copy to and from the GPU's part, also while kernels run, and wait. Thread-safe. Throw
  // ferry::Error (EIO: the GPU has failed).
  void write(void* device, const void* host, std::size_t bytes) const;
  void read(void* host, const void* device, std::size_t bytes) const;

  // Wraps `storage` so that transfers may name this memory: make_staged_storage().
  std::unique_ptr<storage::Storage> carry(storage::Storage& storage, const StagingOptions& options,
                                          unsigned queues) const;
  const PrimaryContext& context() const { return *context_; }

 private:
  void copy(Direction direction, void* device, std::byte* host, std::size_t bytes) const;

  const device::Control layout_;
  const std::shared_ptr<const PrimaryContext> context_;
  const PinnedMemory shared_;
  const DeviceMemory own_;
  const GpuStream stream_;
  // Buffer for read() and write(): for other host memory the driver would use a buffer of its own.
  // Guarded by the mutex.
  const PinnedMemory bounce_;
  mutable std::mutex mutex_;
};

}  // namespace ferry::cuda
