// A storage whose transfers may name memory of a device that the host cannot address.
//
// Everything but the payload passes straight through to the storage underneath. A transfer with
// memory of the device is cut into parts; each part moves through a slab of pinned host memory: the
// storage fills the slab and a copy engine carries it to the device, or the other way round.
// Several parts of one transfer, and of others, are under way at once, so that the storage and the
// bus work at the same time; nothing waits for one copy. Host memory is bounded by the slabs, never
// by the size of a transfer: a part without a slab waits for its turn.
//
// Parts of one write may reach the storage in any order. As with pwrite(2), after an error the
// bytes behind those that were counted are not known to be old or new. Appends are made part by
// part.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>

#include "backend/cuda/copy_engine.hpp"
#include "storage/storage.hpp"

namespace ferry::cuda {

struct StagingOptions {
  // Slabs of each queue, of two sizes, so that many small transfers can be under way at once.
  std::size_t small_bytes = 64 << 10;
  unsigned small_slabs = 256;
  std::size_t large_bytes = 1 << 20;
  unsigned large_slabs = 16;
  // A GPU cannot wake the thread that polls for its requests. So a thread that has nothing to do
  // sleeps for the first time, then for twice as long each time, up to the second: that is what the
  // first request after a pause waits at most.
  std::chrono::nanoseconds nap_first{20'000};
  std::chrono::nanoseconds nap_max{3'000'000};
  // And while copies are under way, whose end wakes nobody either.
  std::chrono::nanoseconds copy_nap{10'000};

  std::size_t bytes() const { return small_bytes * small_slabs + large_bytes * large_slabs; }
};

// What the staged storage needs of the device.
struct DevicePath {
  // Addresses that only the device can load.
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
  // For one queue, on the thread that uses it: its pinned slabs, StagingOptions::bytes() of them,
  // aligned for direct I/O; and its access to the copy engines. Both may throw ferry::Error, and
  // must not ask the driver for anything that waits for kernels.
  std::function<std::shared_ptr<std::byte>(std::size_t bytes)> make_slabs;
  std::function<std::unique_ptr<CopyEngine>()> make_engine;
};

// `storage` must outlive what this returns.
std::unique_ptr<storage::Storage> make_staged_storage(storage::Storage& storage, DevicePath path,
                                                      const StagingOptions& options);

}  // namespace ferry::cuda
