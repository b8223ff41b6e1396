// Values and texts in the memory of a GPU's runtime, and back.
#pragma once

#include <cstddef>

#include <ferry/cuda.hpp>

namespace ferry::examples {

template <class T>
Buffer copy_to_gpu(GpuRuntime& runtime, const T* values, std::size_t count) {
  Buffer buffer = runtime.allocate(count * sizeof(T));
  gpu::check(cudaMemcpy(buffer.data(), values, count * sizeof(T), cudaMemcpyHostToDevice),
             "cudaMemcpy");
  return buffer;
}

// Waits for the kernels before. Throws ferry::Error where one has failed.
template <class T>
T copy_from_gpu(const Buffer& buffer) {
  T value;
  gpu::check(cudaMemcpy(&value, buffer.data(), sizeof value, cudaMemcpyDeviceToHost),
             "the kernels");
  return value;
}

inline void launched(const char* kernel) {
  gpu::check(cudaGetLastError(), kernel);
}

}  // namespace ferry::examples
