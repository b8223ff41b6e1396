// Memory of the host or of a mock GPU, for tests that treat both alike.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <utility>

#include "support/mock_gpu.hpp"

namespace ferry::test {

using Gpu = std::shared_ptr<const cuda::PrimaryContext>;  // null: the host

class HostOrGpuMemory {
 public:
  HostOrGpuMemory(const Gpu& gpu, std::string contents) : host_(std::move(contents)) {
    if (gpu == nullptr) return;
    on_gpu_ = std::make_unique<GpuBuffer>(gpu, host_.size());
    on_gpu_->fill(host_);
  }
  void* data() { return on_gpu_ ? on_gpu_->data() : host_.data(); }
  std::span<std::byte> span() { return {static_cast<std::byte*>(data()), host_.size()}; }
  std::string contents() const { return on_gpu_ ? on_gpu_->contents() : host_; }

 private:
  std::string host_;
  std::unique_ptr<GpuBuffer> on_gpu_;
};

}  // namespace ferry::test
