// A CUDA driver without a GPU, for tests of Ferry's host side. It has the functions of
// src/backend/cuda/abi.hpp, is as strict as the real library where Ferry could go wrong (contexts,
// ranges, streams, asynchronous calls), and runs kernels on host threads.
#include <array>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include <dlfcn.h>

#include "base/sanitizer.hpp"
#include "mocks/cuda/kernels.hpp"
#include "mocks/cuda/machine.hpp"
#include "mocks/cuda/streams.hpp"

struct CUctx_st {
  const int device;
  std::atomic<int> retained{0};
};
struct CUstream_st {
  ferry::cuda::mock::MockStream stream;
};
struct CUevent_st {
  std::mutex mutex;
  std::shared_ptr<ferry::cuda::mock::Mark> mark;  // of the last record; null: none yet
};

namespace ferry::cuda {

#define FERRY_DECLARE(name, symbol, ...) \
  extern "C" __attribute__((visibility("default"))) Result symbol(__VA_ARGS__);
FERRY_CUDA_FUNCTIONS(FERRY_DECLARE)
#undef FERRY_DECLARE

namespace {

using mock::Machine;
using mock::Mark;
using mock::MockRange;

std::atomic<bool> initialised{false};
std::array<CUctx_st, mock::devices_max> contexts = {{{0}, {1}, {2}, {3}}};
static_assert(mock::devices_max == 4);
thread_local std::vector<ContextHandle> current;  // the stack of this thread

Machine& machine() {
  return Machine::instance();
}

Result ready_to_serve() {
  if (!initialised.load()) return Result::not_initialized;
  return machine().lost() ? Result::ecc_uncorrectable : Result::success;
}

// For calls that need a context.
Result in_context() {
  if (const Result result = ready_to_serve(); result != Result::success) return result;
  if (current.empty() || current.back() == nullptr) return Result::invalid_context;
  return current.back()->retained.load() > 0 ? Result::success : Result::context_is_destroyed;
}

Result valid_device(DeviceIndex device) {
  if (const Result result = ready_to_serve(); result != Result::success) return result;
  return device >= 0 && device < machine().devices() ? Result::success : Result::invalid_device;
}

// A device's default stream, for calls that name none.
mock::MockStream& stream_of(StreamHandle stream) {
  static auto* const defaults = new std::array<std::unique_ptr<CUstream_st>, mock::devices_max>;
  static std::mutex mutex;
  if (reinterpret_cast<std::uintptr_t>(stream) > per_thread_stream) return stream->stream;
  const std::lock_guard lock(mutex);
  const int device = current.empty() ? 0 : current.back()->device;
  std::unique_ptr<CUstream_st>& made = (*defaults)[static_cast<std::size_t>(device)];
  if (made == nullptr) made.reset(new CUstream_st{mock::MockStream(device)});
  return made->stream;
}

void run_copy(std::uintptr_t to, std::uintptr_t from, std::size_t bytes, bool from_gpu) {
  if (machine().falls_due("fail_copy")) machine().set("lost", 1);
  if (!machine().lost()) {
    // Like a copy engine, invisible to the thread sanitizer: kernels may change a page during its
    // write-back, which is repeated then; and the server polls words of theirs.
    std::optional<UnseenReads> unseen;
    if (from_gpu) unseen.emplace();
    std::memcpy(machine().bytes_at(to), machine().bytes_at(from), bytes);
  }
  machine().count("copies");
  machine().count("copied_bytes", static_cast<long>(bytes));
}

// On a stream; without one, at once.
Result copy(std::uintptr_t to, std::uintptr_t from, std::size_t bytes, std::uintptr_t device_side,
            mock::MockStream* stream) {
  if (const Result result = in_context(); result != Result::success) return result;
  if (bytes == 0) return Result::success;
  if (stream == nullptr) machine().wait_for_kernels();
  if (machine().falls_due("fail_copy_call")) return Result::launch_failed;
  if (stream != nullptr && stream->device() != current.back()->device)
    return Result::invalid_handle;
  const std::uintptr_t host_side = device_side == to ? from : to;
  const Result result = machine().begin_copy(device_side, host_side, bytes, stream != nullptr);
  if (result != Result::success) return result;
  const auto run = [=] {
    run_copy(to, from, bytes, device_side == from);
    machine().end_copy(device_side, host_side);
  };
  if (stream == nullptr) {
    run();
    return machine().lost() ? Result::ecc_uncorrectable : Result::success;
  }
  stream->add([run] {
    while (machine().get("hold_copies") != 0)
      std::this_thread::sleep_for(std::chrono::microseconds(100));
    if (const long delay_us = machine().get("copy_delay_us"); delay_us > 0) {
      std::this_thread::sleep_for(std::chrono::microseconds(delay_us));
    }
    run();
  });
  return Result::success;
}

std::uintptr_t address(const void* pointer) {
  return reinterpret_cast<std::uintptr_t>(pointer);
}

Result allocate(MockRange::Kind kind, DevicePointer* memory, std::size_t bytes) {
  if (const Result result = in_context(); result != Result::success) return result;
  std::uintptr_t made = 0;
  const Result result = machine().allocate(kind, current.back()->device, bytes, made);
  *memory = made;
  return result;
}

struct Named {
  Result result;
  const char* name;
  const char* text;
};
constexpr std::array<Named, 12> named = {{
    {Result::success, "CUDA_SUCCESS", "no error"},
    {Result::invalid_value, "CUDA_ERROR_INVALID_VALUE", "invalid argument"},
    {Result::out_of_memory, "CUDA_ERROR_OUT_OF_MEMORY", "out of memory"},
    {Result::not_initialized, "CUDA_ERROR_NOT_INITIALIZED", "initialization error"},
    {Result::no_device, "CUDA_ERROR_NO_DEVICE", "no CUDA-capable device is detected"},
    {Result::invalid_device, "CUDA_ERROR_INVALID_DEVICE", "invalid device ordinal"},
    {Result::invalid_context, "CUDA_ERROR_INVALID_CONTEXT", "invalid device context"},
    {Result::ecc_uncorrectable, "CUDA_ERROR_ECC_UNCORRECTABLE", "uncorrectable ECC error"},
    {Result::invalid_handle, "CUDA_ERROR_INVALID_HANDLE", "invalid resource handle"},
    {Result::not_ready, "CUDA_ERROR_NOT_READY", "device not ready"},
    {Result::launch_failed, "CUDA_ERROR_LAUNCH_FAILED", "unspecified launch failure"},
    {Result::not_supported, "CUDA_ERROR_NOT_SUPPORTED", "operation not supported"},
}};

Result find_text(Result result, const char* Named::*which, const char** text) {
  for (const Named& one : named) {
    if (one.result != result) continue;
    *text = one.*which;
    return Result::success;
  }
  return Result::invalid_value;
}

}  // namespace

Result cuInit(unsigned flags) {
  if (flags != 0) return Result::invalid_value;
  if (machine().devices() == 0) return Result::no_device;
  initialised.store(true);
  return Result::success;
}

Result cuDriverGetVersion(int* version) {
  *version = machine().version();
  return Result::success;
}

Result cuGetErrorName(Result result, const char** text) {
  return find_text(result, &Named::name, text);
}

Result cuGetErrorString(Result result, const char** text) {
  return find_text(result, &Named::text, text);
}

Result cuDeviceGetCount(int* count) {
  *count = machine().devices();
  return ready_to_serve();
}

Result cuDeviceGet(DeviceIndex* device, int ordinal) {
  *device = ordinal;
  return valid_device(ordinal);
}

Result cuDeviceGetName(char* name, int bytes, DeviceIndex device) {
  std::snprintf(name, static_cast<std::size_t>(bytes), "mock GPU %d of Ferry's tests", device);
  return valid_device(device);
}

Result cuDeviceGetPCIBusId(char* text, int bytes, DeviceIndex device) {
  std::snprintf(text, static_cast<std::size_t>(bytes), "ffff:%02x:00.0", device);
  return valid_device(device);
}

Result cuDeviceGetAttribute(int* value, DeviceAttribute attribute, DeviceIndex device) {
  *value = attribute == DeviceAttribute::compute_capability_major ? 9
           : attribute == DeviceAttribute::async_engine_count     ? 2
           : attribute == DeviceAttribute::multiprocessor_count   ? 1
                                                                  : 0;
  return valid_device(device);
}

Result cuDeviceTotalMem_v2(std::size_t* bytes, DeviceIndex device) {
  *bytes = std::size_t{16} << 30;
  return valid_device(device);
}

Result cuDevicePrimaryCtxRetain(ContextHandle* context, DeviceIndex device) {
  if (const Result result = valid_device(device); result != Result::success) return result;
  CUctx_st& made = contexts[static_cast<std::size_t>(device)];
  made.retained.fetch_add(1);
  *context = &made;
  return Result::success;
}

Result cuDevicePrimaryCtxRelease_v2(DeviceIndex device) {
  if (const Result result = valid_device(device); result != Result::success) return result;
  CUctx_st& made = contexts[static_cast<std::size_t>(device)];
  if (made.retained.load() == 0) return Result::invalid_context;
  made.retained.fetch_sub(1);
  return Result::success;
}

Result cuCtxPushCurrent_v2(ContextHandle context) {
  if (!initialised.load()) return Result::not_initialized;
  if (context == nullptr || context->retained.load() == 0) return Result::invalid_context;
  current.push_back(context);
  return Result::success;
}

Result cuCtxPopCurrent_v2(ContextHandle* context) {
  if (current.empty()) return Result::invalid_context;
  *context = current.back();
  current.pop_back();
  return Result::success;
}

Result cuCtxSetCurrent(ContextHandle context) {
  if (!initialised.load()) return Result::not_initialized;
  if (!current.empty()) current.pop_back();
  if (context != nullptr) current.push_back(context);
  return Result::success;
}

Result cuCtxGetCurrent(ContextHandle* context) {
  *context = current.empty() ? nullptr : current.back();
  return ready_to_serve();
}

Result cuMemAlloc_v2(DevicePointer* memory, std::size_t bytes) {
  return allocate(MockRange::Kind::device, memory, bytes);
}

Result cuMemAllocManaged(DevicePointer* memory, std::size_t bytes, unsigned flags) {
  if (flags != managed_attach_global) return Result::invalid_value;
  return allocate(MockRange::Kind::managed, memory, bytes);
}

Result cuMemFree_v2(DevicePointer memory) {
  if (const Result result = in_context(); result != Result::success) return result;
  MockRange range;
  if (!machine().find(memory, range)) return Result::invalid_value;
  const bool managed = range.kind == MockRange::Kind::managed;
  return machine().remove(managed ? MockRange::Kind::managed : MockRange::Kind::device, memory);
}

Result cuMemHostAlloc(void** memory, std::size_t bytes, unsigned) {
  DevicePointer made = 0;
  const Result result = allocate(MockRange::Kind::pinned, &made, bytes);
  *memory = reinterpret_cast<void*>(made);
  return result;
}

Result cuMemFreeHost(void* memory) {
  if (const Result result = in_context(); result != Result::success) return result;
  return machine().remove(MockRange::Kind::pinned, address(memory));
}

Result cuMemHostRegister_v2(void* memory, std::size_t bytes, unsigned) {
  if (const Result result = in_context(); result != Result::success) return result;
  return machine().add_registered(address(memory), bytes, current.back()->device);
}

Result cuMemHostUnregister(void* memory) {
  if (const Result result = in_context(); result != Result::success) return result;
  return machine().remove(MockRange::Kind::registered, address(memory));
}

Result cuMemHostGetDevicePointer_v2(DevicePointer* pointer, void* memory, unsigned) {
  if (const Result result = in_context(); result != Result::success) return result;
  MockRange range;
  if (!machine().find(address(memory), range)) return Result::invalid_value;
  *pointer = address(memory);
  return Result::success;
}

Result cuMemcpyHtoD_v2(DevicePointer to, const void* from, std::size_t bytes) {
  return copy(to, address(from), bytes, to, nullptr);
}

Result cuMemcpyDtoH_v2(void* to, DevicePointer from, std::size_t bytes) {
  return copy(address(to), from, bytes, from, nullptr);
}

Result cuMemcpyHtoDAsync_v2(DevicePointer to, const void* from, std::size_t bytes,
                            StreamHandle stream) {
  return copy(to, address(from), bytes, to, &stream_of(stream));
}

Result cuMemcpyDtoHAsync_v2(void* to, DevicePointer from, std::size_t bytes, StreamHandle stream) {
  return copy(address(to), from, bytes, from, &stream_of(stream));
}

Result cuMemsetD8Async(DevicePointer memory, unsigned char value, std::size_t bytes,
                       StreamHandle stream) {
  if (const Result result = in_context(); result != Result::success) return result;
  const Result result = machine().begin_copy(memory, memory, bytes);
  if (result != Result::success) return result;
  stream_of(stream).add([=] {
    std::memset(machine().bytes_at(memory), value, bytes);
    machine().end_copy(memory, memory);
  });
  return Result::success;
}

Result cuStreamCreate(StreamHandle* stream, unsigned) {
  if (const Result result = in_context(); result != Result::success) return result;
  machine().wait_for_kernels();
  *stream = new CUstream_st{mock::MockStream(current.back()->device)};
  machine().count("streams");
  return Result::success;
}

Result cuStreamDestroy_v2(StreamHandle stream) {
  delete stream;
  machine().count("streams", -1);
  return ready_to_serve();
}

Result cuStreamSynchronize(StreamHandle stream) {
  stream_of(stream).wait_until_idle();
  return ready_to_serve();
}

Result cuEventCreate(EventHandle* event, unsigned) {
  if (const Result result = in_context(); result != Result::success) return result;
  machine().wait_for_kernels();
  *event = new CUevent_st;
  return Result::success;
}

Result cuEventDestroy_v2(EventHandle event) {
  delete event;
  return ready_to_serve();
}

Result cuEventRecord(EventHandle event, StreamHandle stream) {
  if (const Result result = in_context(); result != Result::success) return result;
  auto mark = std::make_shared<Mark>(false);
  {
    const std::lock_guard lock(event->mutex);
    event->mark = mark;
  }
  stream_of(stream).add([mark] { mark->store(true); });
  return Result::success;
}

Result cuEventQuery(EventHandle event) {
  std::shared_ptr<Mark> mark;
  {
    const std::lock_guard lock(event->mutex);
    mark = event->mark;
  }
  const bool done = mark == nullptr || mark->load();
  // After `done`, not before: a failing copy does so before the events behind it are done.
  if (const Result result = ready_to_serve(); result != Result::success) return result;
  return done ? Result::success : Result::not_ready;
}

Result cuPointerGetAttributes(unsigned count, PointerAttribute* attributes, void** values,
                              DevicePointer pointer) {
  if (const Result result = ready_to_serve(); result != Result::success) return result;
  MockRange range;
  const bool known = machine().find(pointer, range);
  const bool on_device =
      range.kind == MockRange::Kind::device || range.kind == MockRange::Kind::managed;
  for (unsigned i = 0; i < count; ++i) {
    switch (attributes[i]) {
      case PointerAttribute::context:
        *static_cast<ContextHandle*>(values[i]) =
            known ? &contexts[static_cast<std::size_t>(range.device)] : nullptr;
        break;
      case PointerAttribute::memory_type:
        *static_cast<MemoryType*>(values[i]) = !known      ? MemoryType::none
                                               : on_device ? MemoryType::device
                                                           : MemoryType::host;
        break;
      case PointerAttribute::is_managed:
        *static_cast<int*>(values[i]) = known && range.kind == MockRange::Kind::managed ? 1 : 0;
        break;
      case PointerAttribute::device_ordinal:
        *static_cast<int*>(values[i]) = known ? range.device : -2;
        break;
      case PointerAttribute::range_start:
        *static_cast<std::uintptr_t*>(values[i]) = known ? range.begin : 0;
        break;
      case PointerAttribute::range_bytes:
        *static_cast<std::size_t*>(values[i]) = known ? range.bytes : 0;
        break;
      default:
        return Result::invalid_value;
    }
  }
  return Result::success;
}

// Any image is a module: its kernels are functions of the same names in the library
// $FERRY_MOCK_KERNELS (mocks/cuda/kernels.hpp), run on host threads.
Result cuModuleLoadData(ModuleHandle* module, const void* image) {
  if (const Result result = in_context(); result != Result::success) return result;
  if (image == nullptr) return Result::invalid_value;
  const char* library = std::getenv("FERRY_MOCK_KERNELS");
  void* handle = library != nullptr ? ::dlopen(library, RTLD_NOW | RTLD_LOCAL) : nullptr;
  if (handle == nullptr) return Result::not_supported;
  if (machine().falls_due("newer_kernels")) return Result::unsupported_ptx_version;
  *module = static_cast<ModuleHandle>(handle);
  return Result::success;
}
Result cuModuleUnload(ModuleHandle module) {
  if (const Result result = in_context(); result != Result::success) return result;
  return ::dlclose(module) == 0 ? Result::success : Result::invalid_handle;
}
Result cuModuleGetFunction(FunctionHandle* function, ModuleHandle module, const char* name) {
  if (const Result result = in_context(); result != Result::success) return result;
  *function = static_cast<FunctionHandle>(::dlsym(module, name));
  return *function != nullptr ? Result::success : Result::not_found;
}
// Kernels have one parameter, a pointer.
Result cuLaunchKernel(FunctionHandle function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                      unsigned block_x, unsigned block_y, unsigned block_z, unsigned,
                      StreamHandle stream, void** parameters, void**) {
  if (const Result result = in_context(); result != Result::success) return result;
  if (grid_x * grid_y * grid_z == 0 || block_x * block_y * block_z == 0)
    return Result::invalid_value;
  if (machine().falls_due("fail_launch")) return Result::launch_out_of_resources;
  const auto play = reinterpret_cast<mock::PlayedKernel*>(function);
  const auto parameter = *static_cast<const std::uintptr_t*>(parameters[0]);
  stream_of(stream).add([=] {
    if (machine().falls_due("fail_kernel")) machine().set("lost", 1);
    if (machine().lost()) return;
    play(parameter, grid_x * grid_y * grid_z, static_cast<long>(machine().get("kernel_offset")));
    machine().count("kernels");
  });
  return Result::success;
}
}  // namespace ferry::cuda
