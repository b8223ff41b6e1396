#include "backend/cuda/arena.hpp"

#include <algorithm>
#include <cstring>

#include "backend/cuda/copy_engine.hpp"

namespace ferry::cuda {
namespace {

constexpr std::size_t bounce_bytes = 64 << 10;

}  // namespace

GpuArena::GpuArena(const device::Control& layout, int ordinal)
    : layout_(layout),
      context_(std::make_shared<PrimaryContext>(Driver::get(), ordinal)),
      shared_(context_, layout.local),
      own_(context_, layout.geometry.arena_bytes - layout.local),
      stream_(context_),
      bounce_(context_, bounce_bytes) {
  std::memset(shared_.data(), 0, shared_.bytes());
  const CurrentContext current(*context_);
  const Driver& driver = context_->driver();
  driver.check(driver.cuMemsetD8Async(own_.pointer(), 0, own_.bytes(), stream_.handle()),
               "cuMemsetD8Async");
  driver.check(driver.cuStreamSynchronize(stream_.handle()), "cuStreamSynchronize");
}

// On its own stream: a plain cuMemcpy waits for kernels of the default stream, which may in turn
// wait for the calling server.
void GpuArena::copy(Direction direction, void* device, std::byte* host, std::size_t bytes) const {
  const std::lock_guard lock(mutex_);
  const CurrentContext current(*context_);
  for (std::size_t done = 0; done < bytes;) {
    const std::size_t step = std::min(bytes - done, bounce_.bytes());
    if (direction == Direction::read) std::memcpy(bounce_.data(), host + done, step);
    copy_now(context_->driver(), stream_, direction, bounce_.data(),
             reinterpret_cast<DevicePointer>(device) + done, step);
    if (direction == Direction::write) std::memcpy(host + done, bounce_.data(), step);
    done += step;
  }
}

void GpuArena::write(void* device, const void* host, std::size_t bytes) const {
  copy(Direction::read, device, static_cast<std::byte*>(const_cast<void*>(host)), bytes);
}

void GpuArena::read(void* host, const void* device, std::size_t bytes) const {
  copy(Direction::write, const_cast<void*>(device), static_cast<std::byte*>(host), bytes);
}

std::unique_ptr<storage::Storage> GpuArena::carry(storage::Storage& storage,
                                                  const StagingOptions& options,
                                                  unsigned queues) const {
  return make_staged_storage(storage, context_, own_, options, queues);
}

}  // namespace ferry::cuda
