// Threads of the host that play the threads of a kernel on a mock GPU: the same device code, on the
// memory of the mock, with everything between them and the files as on a real one.
#pragma once

#include <cstdint>

#include <ferry/gpu.hpp>

#include "support/mock_gpu.hpp"
#include "support/played_context.hpp"

namespace ferry::test {

// As much as a test's groups need.
inline GpuOptions small_gpu() {
  GpuOptions options;
  options.groups = 8;
  options.staging_bytes = 8192;
  return options;
}

// A runtime, of threads or of a GPU, whose cache is smaller than what so many groups work on.
inline RuntimeOptions small_runtime(std::uint32_t groups, std::uint64_t arena_bytes) {
  RuntimeOptions options;
  options.arena_bytes = arena_bytes;
  options.device_threads = groups;
  options.server_threads = 1;
  options.cache_bytes = 24 * 4096;
  options.page_bytes = 4096;
  options.files_max = 16;
  return options;
}

class KernelThreads {
 public:
  explicit KernelThreads(const GpuRuntime& runtime)
      : context_(played_context(runtime.host_context(), MockCuda::get("kernel_offset"))) {}

  const device::Context& context() const { return context_; }
  // Where such a thread finds what lies at a device address.
  template <class T>
  T* address(T* device) const {
    return played_address(device, MockCuda::get("kernel_offset"));
  }

 private:
  const device::Context context_;
};

}  // namespace ferry::test
