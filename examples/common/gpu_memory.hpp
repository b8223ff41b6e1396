// Copies values and texts to and from a GPU runtime's memory.
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

// Waits for earlier kernels. Throws ferry::Error if one failed.
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
