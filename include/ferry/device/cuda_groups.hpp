// Groups of CUDA threads that make calls together: part of a warp, a warp, or a block. All threads
// of the group must take part in each call. For kernels only.
//
// A group's index follows from its place in the grid; it must be below GpuOptions::groups.
#pragma once

#if !defined(__CUDACC__)
#error "ferry/device/cuda_groups.hpp is for CUDA's compiler"
#endif

#include <cstdint>

#include <ferry/device/group.hpp>
#include <ferry/device/platform.hpp>

namespace ferry::device {

// For the calling thread, counted through the whole grid.
__device__ inline std::uint32_t block_in_grid() {
  return (blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x;
}
__device__ inline std::uint32_t thread_in_block() {
  return (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x;
}
__device__ inline std::uint32_t threads_per_block() {
  return blockDim.x * blockDim.y * blockDim.z;
}
__device__ inline std::uint32_t thread_in_grid() {
  return block_in_grid() * threads_per_block() + thread_in_block();
}

// `lanes_` neighbouring lanes of a warp: 2, 4, 8, 16 or 32; fewer in the last tile of a block that
// is no multiple of them. Votes and shuffles use bits of these lanes, from the first. Missing lanes
// count as exited, and CUDA's warp operations leave them out.
template <std::uint32_t lanes_>
class TileGroup {
  static_assert(lanes_ >= 2 && lanes_ <= 32 && (lanes_ & (lanes_ - 1)) == 0);

 public:
  static constexpr std::uint32_t lanes_max = lanes_;

  // The tile's index in the grid: each block has tiles_in_block() of them.
  __device__ static std::uint32_t index_in_grid() {
    return tile_in_grid(block_in_grid(), threads_per_block(), thread_in_block(), lanes_);
  }

  FERRY_DEVICE static std::uint32_t lane() {
#if defined(__CUDA_ARCH__)
    return warp_lane() % lanes_;
#else
    return 0;
#endif
  }
  FERRY_DEVICE static std::uint32_t size() {
#if defined(__CUDA_ARCH__)
    return lanes_in_tile(threads_per_block(), thread_in_block(), lanes_);
#else
    return lanes_;
#endif
  }
  FERRY_DEVICE static void sync() {
#if defined(__CUDA_ARCH__)
    __syncwarp(mask());
#endif
  }
  template <class T>
  FERRY_DEVICE static T broadcast(const T& value) {
    return shuffle(value, 0);
  }
  // The value of lane `from`, word by word.
  template <class T>
  FERRY_DEVICE static T shuffle(const T& value, std::uint32_t from) {
#if defined(__CUDA_ARCH__)
    constexpr std::uint32_t words = (sizeof(T) + 3) / 4;
    std::uint32_t copy[words] = {};
    memcpy(copy, &value, sizeof(T));
#pragma unroll
    for (std::uint32_t i = 0; i < words; ++i)
      copy[i] = __shfl_sync(mask(), copy[i], static_cast<int>(from), static_cast<int>(lanes_));
    T result;
    memcpy(&result, copy, sizeof(T));
    return result;
#else
    (void)from;
    return value;
#endif
  }
  FERRY_DEVICE static std::uint64_t ballot(bool predicate) {
#if defined(__CUDA_ARCH__)
    return (__ballot_sync(mask(), predicate) & mask()) >> first_lane();
#else
    return predicate ? 1 : 0;
#endif
  }

 private:
#if defined(__CUDA_ARCH__)
  __device__ static std::uint32_t warp_lane() {
    std::uint32_t lane;
    asm("mov.u32 %0, %%laneid;" : "=r"(lane));
    return lane;
  }
  __device__ static std::uint32_t first_lane() {
    return warp_lane() & ~(lanes_ - 1);
  }
  __device__ static std::uint32_t mask() {
    return (lanes_ == 32 ? ~0U : (1U << (lanes_ % 32)) - 1) << first_lane();
  }
#endif
};

using WarpGroup = TileGroup<32>;

// All threads of a block.
class BlockGroup {
 public:
  __device__ static std::uint32_t index_in_grid() { return block_in_grid(); }

  FERRY_DEVICE static std::uint32_t lane() {
#if defined(__CUDA_ARCH__)
    return thread_in_block();
#else
    return 0;
#endif
  }
  FERRY_DEVICE static std::uint32_t size() {
#if defined(__CUDA_ARCH__)
    return threads_per_block();
#else
    return 1;
#endif
  }
  FERRY_DEVICE static void sync() {
#if defined(__CUDA_ARCH__)
    __syncthreads();
#endif
  }
  template <class T>
  FERRY_DEVICE static T broadcast(const T& value) {
#if defined(__CUDA_ARCH__)
    __shared__ alignas(16) unsigned char shown[in_lines(64)];
    static_assert(sizeof(T) <= sizeof shown);
    if (lane() == 0) memcpy(shown, &value, sizeof(T));
    __syncthreads();
    T result;
    memcpy(&result, shown, sizeof(T));
    __syncthreads();  // no thread overwrites what another still reads
    return result;
#else
    return value;
#endif
  }
};

}  // namespace ferry::device
