#include "harness/measured_device.hpp"

#include "harness/cuda/gpu_device.hpp"
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
  void verify_reads(const Cell& cell, const std::atomic<bool>& stopped) override {
    set_switches(cell);
    bench::verify_reads(runtime_, cell, stopped);
  }
  RuntimeInfo info() const override { return runtime_.info(); }
  void shutdown(std::chrono::milliseconds deadline) override { runtime_.shutdown(deadline); }

 private:
  void set_switches(const Cell& cell) {
    if (cell.is_cached()) runtime_.use_cache_switches(cell.cache_switches.value_or(all_switches));
  }

  Runtime runtime_;
};

}  // namespace

std::unique_ptr<MeasuredDevice> make_device(const Plan& plan, const RuntimeOptions& options) {
  if (plan.device == Device::cuda) return make_gpu_device(plan, options);
  return std::make_unique<CpuDevice>(options);
}

}  // namespace ferry::bench
