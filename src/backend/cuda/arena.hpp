// The memory of a `cuda` device: the part that both sides see, pinned on the host, and the GPU's
// own.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>

#include <ferry/device/control.hpp>

#include "backend/cuda/resources.hpp"
#include "backend/cuda/staged_storage.hpp"

namespace ferry::cuda {

// Why the shared part lies on the host: the server polls the rings all the time, which there costs
// a look into its own cache; a kernel's store across the bus is not waited for; and without a
// kernel module the host has no way to load or store the GPU's memory but by copies.
class Arena {
 public:
  // Zeroed. Throws ferry::Error (ENOMEM; ENODEV: there is no such GPU).
  Arena(const device::Control& layout, int ordinal);

  // The shared part, as the host and as a kernel address it.
  unsigned char* base() const { return reinterpret_cast<unsigned char*>(shared_.data()); }
  unsigned char* device_base() const {
    return reinterpret_cast<unsigned char*>(shared_.device_pointer());
  }
  // ArenaView::local. The host computes with it and never loads it.
  unsigned char* local() const {
    return reinterpret_cast<unsigned char*>(own_.pointer()) - layout_.local;
  }

  // Copy to and from the GPU's own part while kernels may be running, and wait for it. Thread-safe.
  // Throw ferry::Error (EIO: the GPU has failed).
  void write(void* device, const void* host, std::size_t bytes) const;
  void read(void* host, const void* device, std::size_t bytes) const;

  // `storage`, for transfers that may name this memory. Must not outlive either. It has at most
  // `queues` queues at a time, for which everything is asked of the driver here: later a kernel may
  // run that waits for such a queue, and the driver may let whoever asks wait for that kernel.
  std::unique_ptr<storage::Storage> carry(storage::Storage& storage, const StagingOptions& options,
                                          unsigned queues) const;
  const PrimaryContext& context() const { return *context_; }

 private:
  const device::Control layout_;
  const std::shared_ptr<const PrimaryContext> context_;
  const PinnedMemory shared_;
  const DeviceMemory own_;
  const Stream stream_;
  // What read() and write() move goes through here: for other memory of the host the driver would
  // look for a place itself. Guarded by the mutex.
  const PinnedMemory bounce_;
  mutable std::mutex mutex_;
};

}  // namespace ferry::cuda
