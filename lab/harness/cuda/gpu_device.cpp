#include "harness/cuda/gpu_device.hpp"

#include <algorithm>

#include <ferry/gpu.hpp>

#include "harness/cuda/gpu_repeat.hpp"
#include "harness/cuda/kernel.hpp"

namespace ferry::bench {
namespace {

constexpr int first_gpu = 0;

GpuOptions gpu_options(const Plan& plan) {
  GpuOptions made;
  made.ordinal = first_gpu;
  made.groups = plan.runtime.device_threads;
  for (const Cell& cell : plan.cells)  // one more than are in flight
    made.calls_per_group = std::max(made.calls_per_group, cell.queue_depth + 1);
  return made;
}

std::shared_ptr<const cuda::PrimaryContext> make_context() {
  return std::make_shared<cuda::PrimaryContext>(cuda::Driver::get(), first_gpu);
}

class GpuDevice final : public MeasuredDevice {
 public:
  GpuDevice(const Plan& plan, const RuntimeOptions& options)
      : kernel_(make_context()), runtime_(options, gpu_options(plan)) {}

  Sample run_cell(const CellRun& run, const std::atomic<bool>& stopped) override {
    return run_on_gpu(runtime_, kernel_, run, stopped);
  }
  void verify_reads(const Cell& cell, const std::atomic<bool>& stopped) override {
    verify_reads_on_gpu(runtime_, kernel_, cell, stopped);
  }
  std::optional<RuntimeInfo> info() const override { return runtime_.info(); }
  bool shutdown(std::chrono::milliseconds deadline) override {
    runtime_.shutdown(deadline);
    return true;
  }

 private:
  const MeasuredKernel kernel_;
  GpuRuntime runtime_;
};

}  // namespace

std::unique_ptr<MeasuredDevice> make_gpu_device(const Plan& plan, const RuntimeOptions& options) {
  check_kernel_is_built_in();
  return std::make_unique<GpuDevice>(plan, options);
}

}  // namespace ferry::bench
