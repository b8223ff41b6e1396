// An array in GPU memory, which the host fills and reads between launches.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "backend/cuda/resources.hpp"

namespace ferry::bench {

// Blocking copies between the host and any memory of the GPU. They throw ferry::Error.
inline void put_bytes(const cuda::PrimaryContext& context, void* to, const void* from,
                      std::size_t bytes) {
  const cuda::CurrentContext current(context);
  const cuda::Driver& driver = context.driver();
  driver.check(driver.cuMemcpyHtoD(reinterpret_cast<cuda::DevicePointer>(to), from, bytes),
               "cuMemcpyHtoD");
}
inline void get_bytes(const cuda::PrimaryContext& context, void* to, const void* from,
                      std::size_t bytes) {
  const cuda::CurrentContext current(context);
  const cuda::Driver& driver = context.driver();
  driver.check(driver.cuMemcpyDtoH(to, reinterpret_cast<cuda::DevicePointer>(from), bytes),
               "cuMemcpyDtoH");
}

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
    put_bytes(*context_, data(), values.data(), values.size() * sizeof(T));
  }
  void get(std::vector<T>& values) const {
    get_bytes(*context_, values.data(), data(), values.size() * sizeof(T));
  }

 private:
  const std::shared_ptr<const cuda::PrimaryContext> context_;
  const cuda::DeviceMemory memory_;
};

}  // namespace ferry::bench
