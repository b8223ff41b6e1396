#include "devices/cuda/arena.hpp"

#include <cstring>

#include "devices/cuda/stream_copies.hpp"

namespace ferry::cuda {

Arena::Arena(const device::Control& layout, int ordinal)
    : layout_(layout),
      context_(std::make_shared<PrimaryContext>(Driver::get(), ordinal)),
      shared_(context_, layout.local),
      own_(context_, layout.geometry.arena_bytes - layout.local),
      stream_(context_) {
  std::memset(shared_.data(), 0, shared_.bytes());
  const CurrentContext current(*context_);
  const Driver& driver = context_->driver();
  driver.check(driver.cuMemsetD8Async(own_.pointer(), 0, own_.bytes(), stream_.handle()),
               "cuMemsetD8Async");
  driver.check(driver.cuStreamSynchronize(stream_.handle()), "cuStreamSynchronize");
}

// By a stream of its own: a plain cuMemcpy waits for the kernels of the default stream, which may
// be waiting for the server that asks.
void Arena::write(void* device, const void* host, std::size_t bytes) const {
  const std::lock_guard lock(mutex_);
  const CurrentContext current(*context_);
  const Driver& driver = context_->driver();
  driver.check(driver.cuMemcpyHtoDAsync(reinterpret_cast<DevicePointer>(device), host, bytes,
                                        stream_.handle()),
               "cuMemcpyHtoDAsync");
  driver.check(driver.cuStreamSynchronize(stream_.handle()), "cuStreamSynchronize");
}

void Arena::read(void* host, const void* device, std::size_t bytes) const {
  const std::lock_guard lock(mutex_);
  const CurrentContext current(*context_);
  const Driver& driver = context_->driver();
  driver.check(driver.cuMemcpyDtoHAsync(host, reinterpret_cast<DevicePointer>(device), bytes,
                                        stream_.handle()),
               "cuMemcpyDtoHAsync");
  driver.check(driver.cuStreamSynchronize(stream_.handle()), "cuStreamSynchronize");
}

std::unique_ptr<storage::Storage> Arena::carry(storage::Storage& storage,
                                               const StagingOptions& options) const {
  DevicePath path;
  path.begin = own_.pointer();
  path.end = own_.pointer() + own_.bytes();
  path.make_slabs = [context = context_](std::size_t bytes) {
    auto memory = std::make_shared<PinnedMemory>(context, bytes);
    return std::shared_ptr<std::byte>(memory, memory->data());
  };
  path.make_engine = [context = context_] { return std::make_unique<StreamCopies>(context); };
  return make_staged_storage(storage, std::move(path), options);
}

}  // namespace ferry::cuda
