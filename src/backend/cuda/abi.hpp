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
  ecc_uncorrectable = 214,
  unsupported_ptx_version = 222,
  invalid_handle = 400,
  not_found = 500,
  not_ready = 600,
  launch_out_of_resources = 701,
  context_is_destroyed = 709,
  host_memory_already_registered = 712,
  host_memory_not_registered = 713,
  launch_failed = 719,
  not_permitted = 800,
  not_supported = 801,
};

enum class DeviceAttribute : unsigned {
  multiprocessor_count = 16,
  async_engine_count = 40,
  compute_capability_major = 75,
  compute_capability_minor = 76,
};

enum class PointerAttribute : unsigned {
  context = 1,
  memory_type = 2,  // a MemoryType
  is_managed = 8,   // an int
  device_ordinal = 9,
  range_start = 11,
  range_bytes = 12,
};

enum class MemoryType : unsigned { none = 0, host = 1, device = 2, array = 3, unified = 4 };

inline constexpr unsigned host_alloc_portable = 1;
inline constexpr unsigned host_alloc_device_map = 2;
inline constexpr unsigned host_register_portable = 1;
inline constexpr unsigned managed_attach_global = 1;
inline constexpr unsigned stream_non_blocking = 1;
inline constexpr unsigned event_disable_timing = 2;
// A stream argument: the calling thread's default stream.
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
  FUNCTION(cuMemsetD8Async, cuMemsetD8Async, DevicePointer memory, unsigned char value,            \
           std::size_t bytes, StreamHandle stream)                                                 \
  FUNCTION(cuStreamCreate, cuStreamCreate, StreamHandle* stream, unsigned flags)                   \
  FUNCTION(cuStreamDestroy, cuStreamDestroy_v2, StreamHandle stream)                               \
  FUNCTION(cuStreamSynchronize, cuStreamSynchronize, StreamHandle stream)                          \
  FUNCTION(cuEventCreate, cuEventCreate, EventHandle* event, unsigned flags)                       \
  FUNCTION(cuEventDestroy, cuEventDestroy_v2, EventHandle event)                                   \
  FUNCTION(cuEventRecord, cuEventRecord, EventHandle event, StreamHandle stream)                   \
  FUNCTION(cuEventQuery, cuEventQuery, EventHandle event)                                          \
  FUNCTION(cuPointerGetAttributes, cuPointerGetAttributes, unsigned count,                         \
           PointerAttribute* attributes, void** values, DevicePointer pointer)                     \
  FUNCTION(cuModuleLoadData, cuModuleLoadData, ModuleHandle* module, const void* image)            \
  FUNCTION(cuModuleUnload, cuModuleUnload, ModuleHandle module)                                    \
  FUNCTION(cuModuleGetFunction, cuModuleGetFunction, FunctionHandle* function,                     \
           ModuleHandle module, const char* name)                                                  \
  FUNCTION(cuLaunchKernel, cuLaunchKernel, FunctionHandle function, unsigned grid_x,               \
           unsigned grid_y, unsigned grid_z, unsigned block_x, unsigned block_y, unsigned block_z, \
           unsigned shared_bytes, StreamHandle stream, void** parameters, void** extra)
// clang-format on
