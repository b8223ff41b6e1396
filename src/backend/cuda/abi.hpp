// The parts of the CUDA driver's binary interface that Ferry uses, declared again: the library
// builds without CUDA's headers and loads the driver at run time. tests/cuda/driver_abi.cpp
// compares them with cuda.h.
#pragma once

#include <cstddef>
#include <cstdint>

// cuda.h's own names, so that they are the same types in programs that include it.
struct CUctx_st;
struct CUstream_st;
struct CUevent_st;
struct CUmod_st;
struct CUfunc_st;

namespace ferry::cuda {

using DevicePointer = unsigned long long;  // as in cuda.h
using DeviceIndex = int;                   // CUdevice
using ContextHandle = CUctx_st*;
using StreamHandle = CUstream_st*;
using EventHandle = CUevent_st*;
using ModuleHandle = CUmod_st*;
using FunctionHandle = CUfunc_st*;

enum class Result : unsigned {
  success = 0,
  invalid_value = 1,
  out_of_memory = 2,
  not_initialized = 3,
  deinitialized = 4,
  device_unavailable = 46,
  no_device = 100,
  invalid_device = 101,
  invalid_context = 201,
  no_binary_for_gpu = 209,
  ecc_uncorrectable = 214,
  invalid_ptx = 218,
  unsupported_ptx_version = 222,
  operating_system = 304,
  invalid_handle = 400,
  not_found = 500,
  not_ready = 600,
  illegal_address = 700,
  launch_out_of_resources = 701,
  launch_timeout = 702,
  context_is_destroyed = 709,
  host_memory_already_registered = 712,
  host_memory_not_registered = 713,
  launch_failed = 719,
  cooperative_launch_too_large = 720,
  not_permitted = 800,
  not_supported = 801,
  system_driver_mismatch = 803,
  unknown = 999,
};

enum class DeviceAttribute : unsigned {
  max_threads_per_block = 1,
  max_shared_memory_per_block = 8,
  warp_size = 10,
  multiprocessor_count = 16,
  kernel_exec_timeout = 17,
  integrated = 18,
  can_map_host_memory = 19,
  l2_cache_bytes = 38,
  max_threads_per_multiprocessor = 39,
  async_engine_count = 40,
  unified_addressing = 41,
  compute_capability_major = 75,
  compute_capability_minor = 76,
  max_shared_memory_per_multiprocessor = 81,
  managed_memory = 83,
  host_native_atomic_supported = 86,
  pageable_memory_access = 88,
  concurrent_managed_access = 89,
  can_use_host_pointer_for_registered_memory = 91,
  cooperative_launch = 95,
  max_shared_memory_per_block_optin = 97,
  max_blocks_per_multiprocessor = 106,
  gpu_direct_rdma_supported = 116,
};

enum class PointerAttribute : unsigned {
  context = 1,
  memory_type = 2,  // a MemoryType
  device_pointer = 3,
  host_pointer = 4,
  is_managed = 8,  // an int
  device_ordinal = 9,
  range_start = 11,
  range_bytes = 12,
};

enum class MemoryType : unsigned { none = 0, host = 1, device = 2, array = 3, unified = 4 };

enum class FunctionAttribute : unsigned {
  max_threads_per_block = 0,
  shared_bytes = 1,
  local_bytes = 3,
  registers = 4,
  max_dynamic_shared_bytes = 8,
};

inline constexpr unsigned host_alloc_portable = 1;
inline constexpr unsigned host_alloc_device_map = 2;
inline constexpr unsigned host_register_portable = 1;
inline constexpr unsigned host_register_device_map = 2;
inline constexpr unsigned managed_attach_global = 1;
inline constexpr unsigned stream_non_blocking = 1;
inline constexpr unsigned event_blocking_sync = 1;
inline constexpr unsigned event_disable_timing = 2;
// Stream arguments: the default stream, and the calling thread's.
inline constexpr std::uintptr_t legacy_stream = 1;
inline constexpr std::uintptr_t per_thread_stream = 2;

}  // namespace ferry::cuda

// Every function: FUNCTION(name in cuda.h, name in the library, parameters...). All return a
// Result.
// clang-format off
#define FERRY_CUDA_FUNCTIONS(FUNCTION)                                                             \
  FUNCTION(cuInit, cuInit, unsigned flags)                                                         \
  FUNCTION(cuDriverGetVersion, cuDriverGetVersion, int* version)                                   \
  FUNCTION(cuGetErrorName, cuGetErrorName, Result result, const char** text)                       \
  FUNCTION(cuGetErrorString, cuGetErrorString, Result result, const char** text)                   \
  FUNCTION(cuDeviceGetCount, cuDeviceGetCount, int* count)                                         \
  FUNCTION(cuDeviceGet, cuDeviceGet, DeviceIndex* device, int ordinal)                             \
  FUNCTION(cuDeviceGetName, cuDeviceGetName, char* name, int bytes, DeviceIndex device)            \
  FUNCTION(cuDeviceGetPCIBusId, cuDeviceGetPCIBusId, char* text, int bytes, DeviceIndex device)    \
  FUNCTION(cuDeviceGetAttribute, cuDeviceGetAttribute, int* value, DeviceAttribute attribute,      \
           DeviceIndex device)                                                                     \
  FUNCTION(cuDeviceTotalMem, cuDeviceTotalMem_v2, std::size_t* bytes, DeviceIndex device)          \
  FUNCTION(cuDevicePrimaryCtxRetain, cuDevicePrimaryCtxRetain, ContextHandle* context,             \
           DeviceIndex device)                                                                     \
  FUNCTION(cuDevicePrimaryCtxRelease, cuDevicePrimaryCtxRelease_v2, DeviceIndex device)            \
  FUNCTION(cuCtxPushCurrent, cuCtxPushCurrent_v2, ContextHandle context)                           \
  FUNCTION(cuCtxPopCurrent, cuCtxPopCurrent_v2, ContextHandle* context)                            \
  FUNCTION(cuCtxSetCurrent, cuCtxSetCurrent, ContextHandle context)                                \
  FUNCTION(cuCtxGetCurrent, cuCtxGetCurrent, ContextHandle* context)                               \
  FUNCTION(cuCtxGetDevice, cuCtxGetDevice, DeviceIndex* device)                                    \
  FUNCTION(cuCtxSynchronize, cuCtxSynchronize, void)                                               \
  FUNCTION(cuMemGetInfo, cuMemGetInfo_v2, std::size_t* free_bytes, std::size_t* total_bytes)       \
  FUNCTION(cuMemAlloc, cuMemAlloc_v2, DevicePointer* memory, std::size_t bytes)                    \
  FUNCTION(cuMemAllocManaged, cuMemAllocManaged, DevicePointer* memory, std::size_t bytes,         \
           unsigned flags)                                                                         \
  FUNCTION(cuMemFree, cuMemFree_v2, DevicePointer memory)                                          \
  FUNCTION(cuMemHostAlloc, cuMemHostAlloc, void** memory, std::size_t bytes, unsigned flags)       \
  FUNCTION(cuMemFreeHost, cuMemFreeHost, void* memory)                                             \
  FUNCTION(cuMemHostRegister, cuMemHostRegister_v2, void* memory, std::size_t bytes,               \
           unsigned flags)                                                                         \
  FUNCTION(cuMemHostUnregister, cuMemHostUnregister, void* memory)                                 \
  FUNCTION(cuMemHostGetDevicePointer, cuMemHostGetDevicePointer_v2, DevicePointer* pointer,        \
           void* memory, unsigned flags)                                                           \
  FUNCTION(cuMemcpyHtoD, cuMemcpyHtoD_v2, DevicePointer to, const void* from, std::size_t bytes)   \
  FUNCTION(cuMemcpyDtoH, cuMemcpyDtoH_v2, void* to, DevicePointer from, std::size_t bytes)         \
  FUNCTION(cuMemcpyHtoDAsync, cuMemcpyHtoDAsync_v2, DevicePointer to, const void* from,            \
           std::size_t bytes, StreamHandle stream)                                                 \
  FUNCTION(cuMemcpyDtoHAsync, cuMemcpyDtoHAsync_v2, void* to, DevicePointer from,                  \
           std::size_t bytes, StreamHandle stream)                                                 \
  FUNCTION(cuMemcpyDtoDAsync, cuMemcpyDtoDAsync_v2, DevicePointer to, DevicePointer from,          \
           std::size_t bytes, StreamHandle stream)                                                 \
  FUNCTION(cuMemsetD8, cuMemsetD8_v2, DevicePointer memory, unsigned char value,                   \
           std::size_t bytes)                                                                      \
  FUNCTION(cuMemsetD8Async, cuMemsetD8Async, DevicePointer memory, unsigned char value,            \
           std::size_t bytes, StreamHandle stream)                                                 \
  FUNCTION(cuStreamCreate, cuStreamCreate, StreamHandle* stream, unsigned flags)                   \
  FUNCTION(cuStreamCreateWithPriority, cuStreamCreateWithPriority, StreamHandle* stream,           \
           unsigned flags, int priority)                                                           \
  FUNCTION(cuStreamDestroy, cuStreamDestroy_v2, StreamHandle stream)                               \
  FUNCTION(cuStreamSynchronize, cuStreamSynchronize, StreamHandle stream)                          \
  FUNCTION(cuStreamQuery, cuStreamQuery, StreamHandle stream)                                      \
  FUNCTION(cuStreamWaitEvent, cuStreamWaitEvent, StreamHandle stream, EventHandle event,           \
           unsigned flags)                                                                         \
  FUNCTION(cuEventCreate, cuEventCreate, EventHandle* event, unsigned flags)                       \
  FUNCTION(cuEventDestroy, cuEventDestroy_v2, EventHandle event)                                   \
  FUNCTION(cuEventRecord, cuEventRecord, EventHandle event, StreamHandle stream)                   \
  FUNCTION(cuEventQuery, cuEventQuery, EventHandle event)                                          \
  FUNCTION(cuEventSynchronize, cuEventSynchronize, EventHandle event)                              \
  FUNCTION(cuPointerGetAttribute, cuPointerGetAttribute, void* value, PointerAttribute attribute,  \
           DevicePointer pointer)                                                                  \
  FUNCTION(cuPointerGetAttributes, cuPointerGetAttributes, unsigned count,                         \
           PointerAttribute* attributes, void** values, DevicePointer pointer)                     \
  FUNCTION(cuModuleLoadData, cuModuleLoadData, ModuleHandle* module, const void* image)            \
  FUNCTION(cuModuleUnload, cuModuleUnload, ModuleHandle module)                                    \
  FUNCTION(cuModuleGetFunction, cuModuleGetFunction, FunctionHandle* function,                     \
           ModuleHandle module, const char* name)                                                  \
  FUNCTION(cuFuncGetAttribute, cuFuncGetAttribute, int* value, FunctionAttribute attribute,        \
           FunctionHandle function)                                                                \
  FUNCTION(cuFuncSetAttribute, cuFuncSetAttribute, FunctionHandle function,                        \
           FunctionAttribute attribute, int value)                                                 \
  FUNCTION(cuLaunchKernel, cuLaunchKernel, FunctionHandle function, unsigned grid_x,               \
           unsigned grid_y, unsigned grid_z, unsigned block_x, unsigned block_y, unsigned block_z, \
           unsigned shared_bytes, StreamHandle stream, void** parameters, void** extra)            \
  FUNCTION(cuLaunchCooperativeKernel, cuLaunchCooperativeKernel, FunctionHandle function,          \
           unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x, unsigned block_y,  \
           unsigned block_z, unsigned shared_bytes, StreamHandle stream, void** parameters)        \
  FUNCTION(cuOccupancyMaxActiveBlocksPerMultiprocessor,                                            \
           cuOccupancyMaxActiveBlocksPerMultiprocessor, int* blocks, FunctionHandle function,      \
           int block_threads, std::size_t shared_bytes)                                            \
  FUNCTION(cuEventElapsedTime, cuEventElapsedTime_v2, float* elapsed_ms, EventHandle begin,        \
           EventHandle end)
// clang-format on
