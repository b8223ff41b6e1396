#include "bulk/gpu_copies.hpp"

#include <cerrno>
#include <utility>

#include <sys/mman.h>

namespace ferry::bulk {
namespace {

// The program's error for a failed copy, whatever the driver reports.
int copy_error(cuda::Result result) {
  const int error = cuda::error_number(result);
  return error == ENOMEM || error == ENODEV ? error : EIO;
}

}  // namespace

std::byte* GpuCopies::take_slot(const cuda::PrimaryContext& gpu) {
  if (staging_ == nullptr) {
    // Our own memory instead of cuMemHostAlloc's: huge pages, and a normal mapping for direct I/O.
    auto staging = std::make_unique<Staging>(slots_, slot_bytes_);
    const std::span<std::byte> memory = staging->memory();
    madvise(memory.data(), memory.size(), MADV_DONTFORK);
    registration_.emplace(gpu.shared_from_this(), memory.data(), memory.size());
    staging_ = std::move(staging);
  }
  return staging_->take();
}

int GpuCopies::enter(const cuda::PrimaryContext& gpu) {
  if (current_ == &gpu) return 0;
  const cuda::Result result = gpu.driver().cuCtxSetCurrent(gpu.handle());
  if (result != cuda::Result::success) return copy_error(result);
  current_ = &gpu;
  return 0;
}

int GpuCopies::start(GpuCopy& copy, const cuda::PrimaryContext& gpu, Direction direction,
                     void* memory, std::byte* slot, std::uint64_t bytes) {
  if (const int error = enter(gpu); error != 0) return error;
  const cuda::Driver& driver = gpu.driver();
  Channel& channel = channels_[&gpu];
  OneWay& way = channel.ways[static_cast<std::size_t>(direction)];
  Started started{&copy, nullptr};
  try {
    if (way.stream == nullptr) {
      way.stream = std::make_unique<cuda::Stream>(gpu.shared_from_this());
    }
    if (channel.idle_events.empty()) {
      started.passed = std::make_unique<cuda::Event>(gpu.shared_from_this());
    } else {
      started.passed = std::move(channel.idle_events.back());
      channel.idle_events.pop_back();
    }
  } catch (const Error& error) {
    return error.code().value();
  }
  const cuda::StreamHandle stream = way.stream->handle();
  const auto address = static_cast<cuda::DevicePointer>(reinterpret_cast<std::uintptr_t>(memory));
  cuda::Result result = direction == Direction::read
                            ? driver.cuMemcpyHtoDAsync(address, slot, bytes, stream)
                            : driver.cuMemcpyDtoHAsync(slot, address, bytes, stream);
  if (result != cuda::Result::success) {
    channel.idle_events.push_back(std::move(started.passed));
    return copy_error(result);
  }
  result = driver.cuEventRecord(started.passed->handle(), stream);
  if (result != cuda::Result::success) {
    driver.cuStreamSynchronize(stream);  // otherwise its end would be undetectable
    return copy_error(result);
  }
  copy.error_number = 0;
  way.in_flight.push_back(std::move(started));
  ++in_flight_;
  return 0;
}

GpuCopy* GpuCopies::reap() {
  if (in_flight_ == 0) return nullptr;
  for (auto& [gpu, channel] : channels_) {
    for (OneWay& way : channel.ways) {
      if (way.in_flight.empty()) continue;
      // Queries need no current context and do not wait.
      const cuda::Result result = way.in_flight.front().passed->query();
      if (result == cuda::Result::not_ready) continue;
      if (result != cuda::Result::success) {
        // The process has lost the GPU, but until the driver reports that for the stream, a copy
        // engine may still be busy.
        gpu->driver().cuStreamSynchronize(way.stream->handle());
      }
      Started ended = std::move(way.in_flight.front());
      way.in_flight.pop_front();
      --in_flight_;
      if (result == cuda::Result::success) channel.idle_events.push_back(std::move(ended.passed));
      ended.copy->error_number = result == cuda::Result::success ? 0 : copy_error(result);
      return ended.copy;
    }
  }
  return nullptr;
}

}  // namespace ferry::bulk
