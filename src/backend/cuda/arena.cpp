#include "backend/cuda/arena.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>
#include <vector>

#include "backend/cuda/stream_copies.hpp"

namespace ferry::cuda {
namespace {

constexpr std::size_t bounce_bytes = 64 << 10;

// A pool of objects to lend. Thread-safe.
template <class T>
class Lender : public std::enable_shared_from_this<Lender<T>> {
 public:
  void add(std::unique_ptr<T> thing) {
    const std::lock_guard lock(mutex_);
    things_.push_back(std::move(thing));
  }
  // Returns itself. Throws ferry::Error (EBUSY: all are lent).
  std::shared_ptr<T> lend() {
    std::unique_ptr<T> thing = take();
    return std::shared_ptr<T>(thing.release(), [self = this->shared_from_this()](T* back) {
      self->add(std::unique_ptr<T>(back));
    });
  }

 private:
  std::unique_ptr<T> take() {
    const std::lock_guard lock(mutex_);
    if (things_.empty()) throw Error(EBUSY, "every queue of the GPU's storage is in use");
    std::unique_ptr<T> thing = std::move(things_.back());
    things_.pop_back();
    return thing;
  }

  std::mutex mutex_;
  std::vector<std::unique_ptr<T>> things_;  // guarded by the mutex
};

}  // namespace

Arena::Arena(const device::Control& layout, int ordinal)
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
void Arena::write(void* device, const void* host, std::size_t bytes) const {
  const std::lock_guard lock(mutex_);
  const CurrentContext current(*context_);
  const Driver& driver = context_->driver();
  for (std::size_t done = 0; done < bytes;) {
    const std::size_t step = std::min(bytes - done, bounce_.bytes());
    std::memcpy(bounce_.data(), static_cast<const std::byte*>(host) + done, step);
    driver.check(driver.cuMemcpyHtoDAsync(reinterpret_cast<DevicePointer>(device) + done,
                                          bounce_.data(), step, stream_.handle()),
                 "cuMemcpyHtoDAsync");
    driver.check(driver.cuStreamSynchronize(stream_.handle()), "cuStreamSynchronize");
    done += step;
  }
}

void Arena::read(void* host, const void* device, std::size_t bytes) const {
  const std::lock_guard lock(mutex_);
  const CurrentContext current(*context_);
  const Driver& driver = context_->driver();
  for (std::size_t done = 0; done < bytes;) {
    const std::size_t step = std::min(bytes - done, bounce_.bytes());
    driver.check(
        driver.cuMemcpyDtoHAsync(bounce_.data(), reinterpret_cast<DevicePointer>(device) + done,
                                 step, stream_.handle()),
        "cuMemcpyDtoHAsync");
    driver.check(driver.cuStreamSynchronize(stream_.handle()), "cuStreamSynchronize");
    std::memcpy(static_cast<std::byte*>(host) + done, bounce_.data(), step);
    done += step;
  }
}

std::unique_ptr<storage::Storage> Arena::carry(storage::Storage& storage,
                                               const StagingOptions& options,
                                               unsigned queues) const {
  const auto slabs = std::make_shared<Lender<PinnedMemory>>();
  const auto streams = std::make_shared<Lender<CopyStreams>>();
  for (unsigned i = 0; i < queues; ++i) {
    slabs->add(std::make_unique<PinnedMemory>(context_, options.bytes()));
    streams->add(std::make_unique<CopyStreams>(context_));
  }
  DevicePath path;
  path.begin = own_.pointer();
  path.end = own_.pointer() + own_.bytes();
  path.make_slabs = [slabs](std::size_t) {
    const std::shared_ptr<PinnedMemory> memory = slabs->lend();
    return std::shared_ptr<std::byte>(memory, memory->data());
  };
  path.make_engine = [context = context_, streams] {
    return std::make_unique<StreamCopies>(context, streams->lend());
  };
  return make_staged_storage(storage, std::move(path), options);
}

}  // namespace ferry::cuda
