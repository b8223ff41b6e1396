// An array in GPU memory, which the host fills and reads between launches.
#pragma once

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "backend/cuda/copy_engine.hpp"

namespace ferry::bench {

template <class T>
class GpuArray {
 public:
  // Throws ferry::Error (ENOMEM).
  GpuArray(std::shared_ptr<const cuda::PrimaryContext> context, std::size_t count)
      : context_(std::move(context)),
        memory_(context_, std::max<std::size_t>(count, 1) * sizeof(T)) {}
  GpuArray(std::shared_ptr<const cuda::PrimaryContext> context, const std::vector<T>& values)
      : GpuArray(std::move(context), values.size()) {
    put(values);
  }

  // The GPU's address.
  T* data() const { return reinterpret_cast<T*>(memory_.pointer()); }
  void put(const std::vector<T>& values) const {
    copy(Direction::read, const_cast<T*>(values.data()), values.size());
  }
  void get(std::vector<T>& values) const { copy(Direction::write, values.data(), values.size()); }

 private:
  void copy(Direction direction, T* host, std::size_t count) const {
    cuda::copy_now(*context_, direction, host, memory_.pointer(), count * sizeof(T));
  }

  const std::shared_ptr<const cuda::PrimaryContext> context_;
  const cuda::DeviceMemory memory_;
};

}  // namespace ferry::bench
