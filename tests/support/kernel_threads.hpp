// Threads of the host that play the threads of a kernel on a mock GPU: the same device code, on the
// memory of the mock, with everything between them and the files as on a real one.
#pragma once

#include <cstdint>

#include <ferry/gpu.hpp>

#include "support/mock_gpu.hpp"
#include "support/played_context.hpp"
#include "support/small_runtimes.hpp"

namespace ferry::test {

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
