// The host's side of file calls in CUDA kernels.
//
//   ferry::GpuRuntime runtime;                          // loads the CUDA driver; needs no nvcc
//   my_kernel<<<blocks, threads>>>(runtime.context());  // which includes <ferry/cuda.hpp>
//   ...
//   ferry::gpu::write_back(runtime);                   // <ferry/cuda.hpp>: what is dirty there
//   runtime.shutdown(std::chrono::seconds(10));
//
// Kernels are the program's own and are launched as it likes. All that they need hangs off one
// pointer, so a kernel that is compiled at run time (NVRTC, CuPy, Numba) makes the same calls.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>

#include <ferry/runtime.hpp>

namespace ferry {

struct GpuOptions {
  int ordinal = 0;  // which GPU, as the CUDA driver counts
  // How many groups of threads (a thread, a warp or a block each) may make calls at the same time.
  // Each has an index of its own below this number, which the kernel computes.
  unsigned groups = 1024;
  unsigned calls_per_group = 8;  // in flight at the same time, at most 64
  // Pinned memory of the host of each group, through which transfers go whose buffer is not the
  // runtime's, and small ones.
  std::uint64_t staging_bytes = 64 << 10;
  // Transfers past the cache of at most so many bytes are copied by the group that makes them,
  // through that memory; larger ones by the GPU's copy engines. Pages of the cache that are absent
  // likewise, if the group has several threads.
  std::uint64_t pull_bytes = 16 << 10;
  // Groups that execute cached calls for others (placement `service`). They are blocks of the
  // program's own launch, which ferry::gpu::launch_with_services() makes room for.
  unsigned services = 0;
};

// Owns the memory and the I/O server of one GPU's file calls.
//
// Of RuntimeOptions it takes all that does not concern cores of the `cpu` device: arena, cache,
// files, server threads, storage. Thread-safe. In a child of fork() its calls throw ferry::Error
// (ECHILD).
class GpuRuntime {
 public:
  // Throws ferry::Error (ENODEV: no CUDA driver or no such GPU, with what to do; ENOMEM; EINVAL).
  explicit GpuRuntime(const RuntimeOptions& options = {}, const GpuOptions& gpu = {});
  // shutdown() with ten seconds to spare.
  ~GpuRuntime();
  GpuRuntime(const GpuRuntime&) = delete;
  GpuRuntime& operator=(const GpuRuntime&) = delete;

  // What a kernel gets; in the GPU's memory, valid as long as the runtime.
  const device::Context* context() const;
  // The same for the host to look at. Its pointers are the GPU's.
  const device::Context& host_context() const;
  const GpuOptions& options() const;
  // Of the group that belongs to nobody: for ferry::gpu::write_back().
  unsigned own_group() const;
  // Of the first service; the others follow.
  unsigned first_service_group() const;

  // Memory of the GPU in which transfers need no staging. Throws ferry::Error (ENOMEM).
  Buffer allocate(std::uint64_t bytes, std::uint64_t alignment_bytes = 4096);

  // Pages that hold what the storage does not have yet.
  std::uint64_t dirty_pages() const;

  // Ends the server: calls of kernels that are not under way yet return -ESHUTDOWN, those under way
  // may finish until the deadline and are cancelled then. Dirty pages can only be written back by a
  // kernel, so those that are left are lost, and reported.
  ShutdownReport shutdown(std::chrono::milliseconds deadline);

  RuntimeInfo info() const;
  RuntimeStatistics statistics() const;

 private:
  class Implementation;
  Implementation& mine() const;
  std::unique_ptr<Implementation> implementation_;
};

}  // namespace ferry
