// Host threads that run a kernel's device code on a mock GPU's memory; everything between them and
// the files is real.
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
  // The address of device memory in such a thread.
  template <class T>
  T* address(T* device) const {
    return played_address(device, MockCuda::get("kernel_offset"));
  }

 private:
  const device::Context context_;
};

}  // namespace ferry::test
