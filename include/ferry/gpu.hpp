// The host side of file calls in CUDA kernels.
//
//   ferry::GpuRuntime runtime;                          // loads the CUDA driver; needs no nvcc
//   my_kernel<<<blocks, threads>>>(runtime.context());  // which includes <ferry/cuda.hpp>
//   ...
//   ferry::gpu::write_back(runtime);                   // from <ferry/cuda.hpp>: dirty pages
//   runtime.shutdown(std::chrono::seconds(10));
//
// You write and launch the kernels. They need only one pointer, so kernels compiled at run time
// (NVRTC, CuPy, Numba) make the same calls.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>

#include <ferry/runtime.hpp>

namespace ferry {

struct GpuOptions {
  int ordinal = 0;  // the GPU's number in the CUDA driver
  // The number of groups of threads (each a thread, a warp or a block) that may make calls at the
  // same time. Kernels give each its own index below this number.
  unsigned groups = 1024;
  unsigned calls_per_group = 8;  // in flight at the same time, at most 64
  // Pinned host memory of each group, for small transfers and buffers outside the runtime's memory.
  std::uint64_t staging_bytes = 64 << 10;
  // Groups copy transfers past the cache up to this size themselves, through that memory; the GPU's
  // copy engines copy larger ones. The same holds for missing pages if a group has several threads.
  std::uint64_t pull_bytes = 16 << 10;
  // Groups that execute cached calls for others (placement `service`). They are blocks of your
  // launch; ferry::gpu::launch_with_services() adds them.
  unsigned services = 0;
};

// Owns the memory and the I/O server of one GPU's file calls.
//
// Uses all RuntimeOptions except those about cores of the `cpu` device. Thread-safe. In a child of
// fork(), calls throw ferry::Error (ECHILD).
class GpuRuntime {
 public:
  // Throws ferry::Error (ENODEV: no CUDA driver or no such GPU, with advice; ENOMEM; EINVAL).
  FERRY_FOR_THESE_LINES explicit GpuRuntime(const RuntimeOptions& options = {},
                                            const GpuOptions& gpu = {});
  // shutdown() with ten seconds' deadline.
  ~GpuRuntime();
  GpuRuntime(const GpuRuntime&) = delete;
  GpuRuntime& operator=(const GpuRuntime&) = delete;

  // The kernels' argument, in GPU memory; valid as long as the runtime.
  const device::Context* context() const;
  // A copy for the host, with GPU pointers.
  const device::Context& host_context() const;
  const GpuOptions& options() const;
  // The index of an extra group, for ferry::gpu::write_back().
  unsigned own_group() const;
  // The index of the first service; the others follow.
  unsigned first_service_group() const;

  // GPU memory whose transfers need no bounce buffer. Throws ferry::Error (ENOMEM).
  Buffer allocate(std::uint64_t bytes, std::uint64_t alignment_bytes = 4096);

  // Pages of the cache that are not yet in storage.
  std::uint64_t dirty_pages() const;

  // Ends the server: new calls of kernels return -ESHUTDOWN, calls in flight may finish until the
  // deadline and are then cancelled. Only a kernel can write dirty pages back: the rest are lost,
  // and reported.
  ShutdownReport shutdown(std::chrono::milliseconds deadline);

  RuntimeInfo info() const;
  RuntimeStatistics statistics() const;

 private:
  class Implementation;
  Implementation& mine() const;
  std::unique_ptr<Implementation> implementation_;
};

}  // namespace ferry
