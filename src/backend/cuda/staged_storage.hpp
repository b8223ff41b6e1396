// A storage whose transfers may name device memory that the host cannot address.
//
// Only payload takes a detour: a transfer on device memory is cut into parts, and each part moves
// through a bounce buffer (slab) of pinned host memory. The storage fills the slab and a copy
// engine carries it to the device, or the reverse. Many parts are in flight at once, so that
// storage and bus work at the same time. The slabs bound host memory: a part without a slab waits.
//
// Parts of one write may reach the storage in any order. As with pwrite(2), after an error the
// bytes behind those counted may be old or new. Appends run part by part.
#pragma once

#include <chrono>
#include <cstddef>
#include <memory>

#include "backend/cuda/resources.hpp"
#include "storage/storage.hpp"

namespace ferry::cuda {

struct StagingOptions {
  // Slabs per queue, in two sizes, so that many small transfers can be in flight.
  std::size_t small_bytes = 64 << 10;
  unsigned small_slabs = 256;
  std::size_t large_bytes = 1 << 20;
  unsigned large_slabs = 16;
  // A GPU cannot wake the thread that polls for its requests. An idle thread first sleeps for the
  // first time, then twice as long each time, up to the second, which bounds the delay of the next
  // request.
  std::chrono::nanoseconds nap_first{20'000};
  std::chrono::nanoseconds nap_max{3'000'000};
  // The same while copies are in flight, whose end wakes no thread.
  std::chrono::nanoseconds copy_nap{10'000};

  std::size_t bytes() const { return small_bytes * small_slabs + large_bytes * large_slabs; }
};

// Wraps `storage` so that transfers may name `memory`, which only the device can access. Must not
// outlive either. Supports at most `queues` queues at a time, all allocated here: later allocations
// could wait for a running kernel, which may itself wait for such a queue. Throws ferry::Error.
std::unique_ptr<storage::Storage> make_staged_storage(
    storage::Storage& storage, const std::shared_ptr<const PrimaryContext>& context,
    const DeviceMemory& memory, const StagingOptions& options, unsigned queues);

}  // namespace ferry::cuda
