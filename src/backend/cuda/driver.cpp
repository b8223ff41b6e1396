#include "backend/cuda/driver.hpp"

#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <optional>
#include <type_traits>

#include <dlfcn.h>
#include <link.h>

namespace ferry::cuda {
namespace {

// All functions exist in drivers since CUDA 11.0.
constexpr int oldest_version = 11000;

std::string version_text(int version) {
  return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}

std::string library_name() {
  const char* wish = std::getenv("FERRY_CUDA_LIBRARY");
  return wish != nullptr && *wish != '\0' ? wish : "libcuda.so.1";
}

struct Loaded {
  std::optional<Driver> driver;
  std::string why_absent;
};

const Loaded& loaded() {
  // Never destroyed: the driver's threads and late transfers may outlive main().
  static const Loaded* const once = [] {
    auto* made = new Loaded;
    try {
      made->driver.emplace(library_name());
    } catch (const Error& error) {
      made->why_absent = error.reason();
    }
    return made;
  }();
  return *once;
}

// Number of libraries this process has loaded.
unsigned long long libraries_loaded() {
  unsigned long long loaded_so_far = 0;
  dl_iterate_phdr(
      [](dl_phdr_info* info, std::size_t, void* count) {
        *static_cast<unsigned long long*>(count) = info->dlpi_adds;
        return 1;
      },
      &loaded_so_far);
  return loaded_so_far;
}

}  // namespace

const Driver* Driver::in_use() {
  static std::atomic<bool> seen{false};
  static std::atomic<unsigned long long> looked_at{0};  // libraries_loaded() when it was missing
  if (!seen.load(std::memory_order_acquire)) {
    const unsigned long long now = libraries_loaded();
    if (looked_at.load(std::memory_order_relaxed) == now) return nullptr;
    void* handle = ::dlopen(library_name().c_str(), RTLD_NOW | RTLD_NOLOAD);
    if (handle == nullptr) {
      looked_at.store(now, std::memory_order_relaxed);
      return nullptr;
    }
    ::dlclose(handle);
    seen.store(true, std::memory_order_release);
  }
  return find();
}

const Driver* Driver::find() {
  return loaded().driver ? &*loaded().driver : nullptr;
}

const Driver& Driver::get() {
  if (const Driver* driver = find()) return *driver;
  throw Error(ENODEV, why_absent());
}

const std::string& Driver::why_absent() {
  return loaded().why_absent;
}

Driver::Driver(const std::string& file_name) : file_name_(file_name) {
  void* handle = ::dlopen(file_name.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) {
    throw Error(ENODEV, file_name + " cannot be loaded; install NVIDIA's driver to use a GPU");
  }
  const auto load = [&](auto& function, const char* name) {
    void* found = ::dlsym(handle, name);
    if (found == nullptr) {
      throw Error(ENODEV, file_name + " has no function " + name + "; update NVIDIA's driver");
    }
    function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(found);
  };
#define FERRY_LOAD(name, symbol, ...) load(name, #symbol);
  FERRY_CUDA_FUNCTIONS(FERRY_LOAD)
#undef FERRY_LOAD
  if (const Result result = cuInit(0); result != Result::success) {
    throw Error(ENODEV, "the CUDA driver finds no GPU it can use: " + text(result));
  }
  check(cuDriverGetVersion(&version_), "cuDriverGetVersion");
  if (version_ < oldest_version) {
    throw Error(ENODEV, "the CUDA driver is too old (for CUDA " + version_text(version_) +
                            "); update it to one for CUDA " + version_text(oldest_version) +
                            " or later");
  }
  check(cuDeviceGetCount(&device_count_), "cuDeviceGetCount");
  if (device_count_ == 0) throw Error(ENODEV, "the CUDA driver finds no GPU it can use");
}

DeviceIndex Driver::device(int ordinal) const {
  if (ordinal < 0 || ordinal >= device_count_) {
    throw Error(ENODEV, "there is no GPU " + std::to_string(ordinal) + ": the driver has " +
                            std::to_string(device_count_));
  }
  DeviceIndex index = 0;
  check(cuDeviceGet(&index, ordinal), "cuDeviceGet");
  return index;
}

int Driver::attribute(int ordinal, DeviceAttribute attribute) const {
  int value = 0;
  check(cuDeviceGetAttribute(&value, attribute, device(ordinal)), "cuDeviceGetAttribute");
  return value;
}

DeviceInfo Driver::device_info(int ordinal) const {
  const DeviceIndex index = device(ordinal);
  DeviceInfo info;
  info.ordinal = ordinal;
  char text[256] = {};
  check(cuDeviceGetName(text, sizeof text, index), "cuDeviceGetName");
  info.name = text;
  check(cuDeviceGetPCIBusId(text, sizeof text, index), "cuDeviceGetPCIBusId");
  info.pci_address = text;
  std::size_t bytes = 0;
  check(cuDeviceTotalMem(&bytes, index), "cuDeviceTotalMem");
  info.memory_bytes = bytes;
  info.compute_major = attribute(ordinal, DeviceAttribute::compute_capability_major);
  info.compute_minor = attribute(ordinal, DeviceAttribute::compute_capability_minor);
  info.multiprocessors = attribute(ordinal, DeviceAttribute::multiprocessor_count);
  info.copy_engines = attribute(ordinal, DeviceAttribute::async_engine_count);
  return info;
}

std::string Driver::text(Result result) const {
  const char* name = nullptr;
  const char* words = nullptr;
  if (cuGetErrorName(result, &name) != Result::success || name == nullptr) {
    return "CUDA error " + std::to_string(static_cast<unsigned>(result));
  }
  if (cuGetErrorString(result, &words) != Result::success || words == nullptr) return name;
  return std::string(name) + ", " + words;
}

void Driver::check(Result result, const char* call) const {
  if (result == Result::success) return;
  throw Error(cuda::error_number(result), std::string(call) + ": " + text(result));
}

int error_number(Result result) {
  switch (result) {
    case Result::success:
      return 0;
    case Result::out_of_memory:
      return ENOMEM;
    case Result::no_device:
    case Result::invalid_device:
    case Result::device_unavailable:
      return ENODEV;
    case Result::invalid_value:
    case Result::invalid_handle:
      return EINVAL;
    case Result::not_permitted:
      return EPERM;
    case Result::not_supported:
      return ENOTSUP;
    default:
      return EIO;
  }
}

}  // namespace ferry::cuda
