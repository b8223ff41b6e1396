// Compares src/backend/cuda/abi.hpp with cuda.h: sizes and kinds of parameters, constants, and the
// names of the library's functions. It is only compiled.
#include <type_traits>

#include <cuda.h>

#include "backend/cuda/abi.hpp"
#include "cuda/same_function.hpp"

namespace ferry::cuda {
namespace {

// Whether two types are passed alike: handles and numbers of the same size, pointers to such.
struct PassedAlike {
  template <class Ours, class Theirs>
  static constexpr bool types() {
    if constexpr (std::is_same_v<Ours, Theirs>) {
      return true;
    } else if constexpr (std::is_pointer_v<Ours> && std::is_pointer_v<Theirs>) {
      using OurTarget = std::remove_pointer_t<Ours>;
      using TheirTarget = std::remove_pointer_t<Theirs>;
      constexpr bool same_const = std::is_const_v<OurTarget> == std::is_const_v<TheirTarget>;
      if constexpr (std::is_class_v<OurTarget> && std::is_class_v<TheirTarget>) {
        return false;  // two kinds of handles
      } else {
        return same_const && types<std::remove_cv_t<OurTarget>, std::remove_cv_t<TheirTarget>>();
      }
    } else if constexpr (std::is_enum_v<Ours> && std::is_enum_v<Theirs>) {
      return sizeof(Ours) == sizeof(Theirs) &&
             std::is_same_v<std::underlying_type_t<Ours>, std::underlying_type_t<Theirs>>;
    } else {
      return false;
    }
  }
};

constexpr bool same_text(const char* left, const char* right) {
  while (*left != '\0' && *left == *right) {
    ++left;
    ++right;
  }
  return *left == *right;
}

// The comparison does find differences.
static_assert(!SameFunction<PassedAlike, Result(int), CUresult(unsigned)>::value);
static_assert(!SameFunction<PassedAlike, Result(int*), CUresult(const int*)>::value);
static_assert(!SameFunction<PassedAlike, Result(StreamHandle), CUresult(CUevent)>::value);
static_assert(!SameFunction<PassedAlike, Result(int), CUresult(int, int)>::value);
static_assert(!same_text("cuMemAlloc", "cuMemAlloc_v2") && same_text("cuInit", "cuInit"));

// cuda.h's macros turn a name into that of the newest version.
#define FERRY_TEXT_OF(name) #name
#define FERRY_EXPANDED_TEXT_OF(name) FERRY_TEXT_OF(name)
#define FERRY_COMPARE(name, symbol, ...)                                                  \
  static_assert(SameFunction<PassedAlike, Result(__VA_ARGS__), decltype(::name)>::value); \
  static_assert(same_text(FERRY_EXPANDED_TEXT_OF(name), #symbol));
FERRY_CUDA_FUNCTIONS(FERRY_COMPARE)

template <class Ours, class Theirs>
constexpr bool same(Ours ours, Theirs theirs) {
  return static_cast<unsigned>(ours) == static_cast<unsigned>(theirs);
}

static_assert(std::is_same_v<DevicePointer, CUdeviceptr> && std::is_same_v<DeviceIndex, CUdevice>);

static_assert(same(Result::success, CUDA_SUCCESS));
static_assert(same(Result::invalid_value, CUDA_ERROR_INVALID_VALUE));
static_assert(same(Result::out_of_memory, CUDA_ERROR_OUT_OF_MEMORY));
static_assert(same(Result::not_initialized, CUDA_ERROR_NOT_INITIALIZED));
static_assert(same(Result::deinitialized, CUDA_ERROR_DEINITIALIZED));
static_assert(same(Result::device_unavailable, CUDA_ERROR_DEVICE_UNAVAILABLE));
static_assert(same(Result::no_device, CUDA_ERROR_NO_DEVICE));
static_assert(same(Result::invalid_device, CUDA_ERROR_INVALID_DEVICE));
static_assert(same(Result::invalid_context, CUDA_ERROR_INVALID_CONTEXT));
static_assert(same(Result::ecc_uncorrectable, CUDA_ERROR_ECC_UNCORRECTABLE));
static_assert(same(Result::unsupported_ptx_version, CUDA_ERROR_UNSUPPORTED_PTX_VERSION));
static_assert(same(Result::invalid_handle, CUDA_ERROR_INVALID_HANDLE));
static_assert(same(Result::not_found, CUDA_ERROR_NOT_FOUND));
static_assert(same(Result::not_ready, CUDA_ERROR_NOT_READY));
static_assert(same(Result::launch_out_of_resources, CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES));
static_assert(same(Result::context_is_destroyed, CUDA_ERROR_CONTEXT_IS_DESTROYED));
static_assert(same(Result::host_memory_already_registered,
                   CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED));
static_assert(same(Result::host_memory_not_registered, CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED));
static_assert(same(Result::launch_failed, CUDA_ERROR_LAUNCH_FAILED));
static_assert(same(Result::not_permitted, CUDA_ERROR_NOT_PERMITTED));
static_assert(same(Result::not_supported, CUDA_ERROR_NOT_SUPPORTED));

using Attribute = DeviceAttribute;
static_assert(same(Attribute::multiprocessor_count, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT));
static_assert(same(Attribute::async_engine_count, CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT));
static_assert(same(Attribute::compute_capability_major,
                   CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR));
static_assert(same(Attribute::compute_capability_minor,
                   CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR));

static_assert(same(PointerAttribute::context, CU_POINTER_ATTRIBUTE_CONTEXT));
static_assert(same(PointerAttribute::memory_type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE));
static_assert(same(PointerAttribute::is_managed, CU_POINTER_ATTRIBUTE_IS_MANAGED));
static_assert(same(PointerAttribute::device_ordinal, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL));
static_assert(same(PointerAttribute::range_start, CU_POINTER_ATTRIBUTE_RANGE_START_ADDR));
static_assert(same(PointerAttribute::range_bytes, CU_POINTER_ATTRIBUTE_RANGE_SIZE));

static_assert(same(MemoryType::host, CU_MEMORYTYPE_HOST));
static_assert(same(MemoryType::device, CU_MEMORYTYPE_DEVICE));
static_assert(same(MemoryType::array, CU_MEMORYTYPE_ARRAY));
static_assert(same(MemoryType::unified, CU_MEMORYTYPE_UNIFIED));
static_assert(sizeof(MemoryType) == sizeof(CUmemorytype));

static_assert(host_alloc_portable == CU_MEMHOSTALLOC_PORTABLE);
static_assert(host_alloc_device_map == CU_MEMHOSTALLOC_DEVICEMAP);
static_assert(host_register_portable == CU_MEMHOSTREGISTER_PORTABLE);
static_assert(managed_attach_global == CU_MEM_ATTACH_GLOBAL);
static_assert(stream_non_blocking == CU_STREAM_NON_BLOCKING);
static_assert(event_disable_timing == CU_EVENT_DISABLE_TIMING);

}  // namespace
}  // namespace ferry::cuda
