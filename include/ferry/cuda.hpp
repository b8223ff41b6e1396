// Include this in CUDA kernels: file calls, and the groups of threads that make them. Works with
// nvcc and NVRTC; with nvcc it also has the host side of launches.
//
//   FERRY_KERNEL sum(const ferry::device::Context* context, ...) {
//     using Group = ferry::device::WarpGroup;
//     ferry::device::FileCalls files(*context, Group{}, Group::index_in_grid());
//     int file = files.open("/data/input", 0);
//     std::int64_t bytes = files.pread(file, buffer, 4096, offset);  // every lane gets the result
//     files.close(file);
//   }
//
// A call never hangs the GPU: every wait in a kernel ends when the server does.
#pragma once

#include <ferry/device.hpp>
#include <ferry/device/cuda_groups.hpp>
#include <ferry/device/service.hpp>

// Begins a kernel with file calls, instead of `__global__ void`: limits threads to 64 registers.
// Without a limit they get what the rarest path needs, up to 255, and a multiprocessor runs a
// quarter of the threads (docs/internals/gpu.md).
#define FERRY_KERNEL __global__ void __maxnreg__(64)

namespace ferry::device {

// Writes dirty pages of the cache back to storage and waits for it. Call it from one thread of the
// whole device after all writers, with an otherwise unused `group` (GpuRuntime::own_group()).
// Returns 0 or the first negative errno; pages that failed stay dirty.
__device__ inline int write_back(const Context& context, std::uint32_t group) {
  if (context.cache.base == nullptr) return 0;
  Requester requester(context, group);
  cache::CachedFiles files(requester);
  return files.write_back_all();
}

}  // namespace ferry::device

#if !defined(__CUDACC_RTC__)

#include <string>

#include <cuda_runtime.h>

#include <ferry/gpu.hpp>

namespace ferry::gpu {

// Throws ferry::Error (EIO, ENOMEM) unless successful.
inline void check(cudaError_t result, const char* call) {
  if (result == cudaSuccess) return;
  const int error = result == cudaErrorMemoryAllocation                               ? ENOMEM
                    : result == cudaErrorCooperativeLaunchTooLarge                    ? EINVAL
                    : result == cudaErrorNoDevice || result == cudaErrorInvalidDevice ? ENODEV
                                                                                      : EIO;
  throw Error(error, std::string(call) + ": " + cudaGetErrorString(result));
}

namespace detail {

template <class = void>
__global__ void write_back(const device::Context* context, unsigned group, int* result) {
  *result = device::write_back(*context, group);
}

template <class Program>
FERRY_KERNEL with_services(const device::Context* context, unsigned services, unsigned first_group,
                           unsigned* blocks_left, Program program) {
  if (blockIdx.x < services) {
    device::ServiceLoop(*context, device::BlockGroup{}, blockIdx.x, first_group + blockIdx.x).run();
    return;
  }
  program(context, blockIdx.x - services, gridDim.x - services);
  __syncthreads();
  // The program's last block ends the services, whose phases are words in GPU memory.
  if (device::thread_in_block() != 0) return;
  __threadfence();
  if (atomicSub(blocks_left, 1U) != 1U) return;
  for (unsigned i = 0; i < services; ++i)
    device::announce_stop(*context, i);
}

template <class = void>
__global__ void start_services(const device::Context* context, unsigned services,
                               unsigned* blocks_left, unsigned blocks) {
  *blocks_left = blocks;
  for (unsigned i = 0; i < services; ++i) {
    const unsigned loop = context->arena.layout.geometry.loops + i;
    device::SystemRef<device::LoopPhase>(context->arena.loop_state(loop).phase)
        .store(device::LoopPhase::running, device::seq_cst);
  }
}

}  // namespace detail

// Writes dirty pages of the GPU's cache back to storage and waits for it. Call it after the kernels
// that wrote, on a stream ordered after theirs. Returns 0 or the first errno; pages that failed
// stay dirty. Throws ferry::Error if the launch fails.
inline int write_back(GpuRuntime& runtime, cudaStream_t stream = nullptr) {
  const Buffer result = runtime.allocate(sizeof(int), alignof(int));
  detail::write_back<>
      <<<1, 1, 0, stream>>>(runtime.context(), runtime.own_group(), result.as<int>());
  check(cudaGetLastError(), "launching the write-back");
  int error = 0;
  check(cudaMemcpyAsync(&error, result.data(), sizeof error, cudaMemcpyDeviceToHost, stream),
        "cudaMemcpyAsync");
  check(cudaStreamSynchronize(stream), "cudaStreamSynchronize");
  return error;
}

// Launches `program(context, block, blocks)`, a device functor, on `blocks` blocks of `threads`
// threads, together with the runtime's services, which execute calls of placement `service`. CUDA
// guarantees progress to all blocks only within one cooperative launch, so all of them must fit on
// the GPU at once; otherwise throws ferry::Error (EINVAL), with the number that fits. In the
// functor, all threads of a block must reach each __syncthreads().
template <class Program>
void launch_with_services(GpuRuntime& runtime, unsigned blocks, unsigned threads, Program program,
                          cudaStream_t stream = nullptr) {
  const unsigned services = runtime.options().services;
  if (services == 0)
    throw Error(EINVAL, "GpuOptions::services is 0: there is no service to launch");
  int device = 0;
  int processors = 0;
  int per_processor = 0;
  const auto kernel = &detail::with_services<Program>;
  check(cudaGetDevice(&device), "cudaGetDevice");
  check(cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, device),
        "cudaDeviceGetAttribute");
  check(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&per_processor, kernel,
                                                      static_cast<int>(threads), 0),
        "cudaOccupancyMaxActiveBlocksPerMultiprocessor");
  const auto fit = static_cast<unsigned>(per_processor) * static_cast<unsigned>(processors);
  if (blocks == 0 || blocks + services > fit) {
    throw Error(EINVAL, std::to_string(blocks) + " blocks and " + std::to_string(services) +
                            " services do not fit on the GPU at once: it holds " +
                            std::to_string(fit) + " blocks of " + std::to_string(threads) +
                            " threads of this kernel; launch fewer blocks");
  }
  const Buffer left = runtime.allocate(sizeof(unsigned), alignof(unsigned));
  auto* blocks_left = left.as<unsigned>();
  const device::Context* context = runtime.context();
  unsigned service_count = services;
  unsigned first_group = runtime.first_service_group();
  detail::start_services<><<<1, 1, 0, stream>>>(context, services, blocks_left, blocks);
  check(cudaGetLastError(), "starting the services");
  void* arguments[] = {&context, &service_count, &first_group, &blocks_left, &program};
  check(cudaLaunchCooperativeKernel(reinterpret_cast<const void*>(kernel), dim3(blocks + services),
                                    dim3(threads), arguments, 0, stream),
        "cudaLaunchCooperativeKernel");
  check(cudaStreamSynchronize(stream), "the launch with services");
}

}  // namespace ferry::gpu

#endif
