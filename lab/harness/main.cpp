// ferry-bench: the measured process, on host threads or on a GPU.
#include <algorithm>
#include <memory>

#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <ferry/gpu.hpp>

#include "harness/bench.hpp"
#include "harness/cuda/gpu_repeat.hpp"
#include "harness/cuda/kernel.hpp"
#include "harness/json_fields.hpp"
#include "harness/verification.hpp"

namespace ferry::bench {
namespace {

constexpr device::cache::Switches all_switches;

class CpuDevice final : public MeasuredDevice {
 public:
  explicit CpuDevice(const RuntimeOptions& options) : runtime_(options) {}

  Sample run_cell(const CellRun& run, const std::atomic<bool>& stopped) override {
    set_switches(run.cell);
    return bench::run_cell(runtime_, run, stopped);
  }
  GroupSample run_group(const std::vector<CellRun>& runs,
                        const std::atomic<bool>& stopped) override {
    for (const CellRun& run : runs)
      set_switches(run.cell);
    return bench::run_group(runtime_, runs, stopped);
  }
  void verify_reads(const Cell& cell, const std::atomic<bool>& stopped) override {
    set_switches(cell);
    bench::verify_reads(runtime_, cell, stopped);
  }
  MetadataSample run_metadata(const CellRun& run, const std::atomic<bool>& stopped) override {
    set_switches(run.cell);
    return bench::run_metadata(runtime_, run, stopped);
  }
  std::optional<RuntimeInfo> info() const override { return runtime_.info(); }
  void shutdown(std::chrono::milliseconds deadline) override { runtime_.shutdown(deadline); }

 private:
  void set_switches(const Cell& cell) {
    if (cell.is_cached()) runtime_.use_cache_switches(cell.cache_switches.value_or(all_switches));
  }

  Runtime runtime_;
};

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
  void shutdown(std::chrono::milliseconds deadline) override { runtime_.shutdown(deadline); }

 private:
  const MeasuredKernel kernel_;
  GpuRuntime runtime_;
};

// A command that is killed must not leave its measurement running: it would disturb the next one.
// The signals are held by now, so this one is taken when their thread is there.
void end_with(pid_t parent) {
  prctl(PR_SET_PDEATHSIG, SIGTERM);
  if (getppid() != parent) kill(getpid(), SIGTERM);
}

std::unique_ptr<MeasuredDevice> make_device(const Plan& plan, const RuntimeOptions& options) {
  switch (plan.device) {
    case Device::cuda:
      check_kernel_is_built_in();
      return std::make_unique<GpuDevice>(plan, options);
    case Device::ranks:
      throw PlanError("runtime.device: ranks are measured by ferry-bench-mpi");
    case Device::cpu:
      break;
  }
  return std::make_unique<CpuDevice>(options);
}

}  // namespace
}  // namespace ferry::bench

int main(int count, char** arguments) {
  return ferry::bench::bench("ferry-bench", count, arguments,
                             [parent = getppid()](const auto& plan, const auto& options) {
                               ferry::bench::end_with(parent);
                               return ferry::bench::make_device(plan, options);
                             });
}
