// One repeat of one cell in kernels: a launch per timed step, or a single one for cells without
// barriers.
#pragma once

#include <atomic>

#include <ferry/gpu.hpp>

#include "harness/cell_run.hpp"
#include "harness/cuda/kernel.hpp"

namespace ferry::bench {

// As MeasuredDevice::run_cell(); files stay open where the GPU is lost.
Sample run_on_gpu(GpuRuntime& runtime, const MeasuredKernel& kernel, const CellRun& run,
                  const std::atomic<bool>& stopped);

// As MeasuredDevice::verify_reads(), each call compared by the host.
void verify_reads_on_gpu(GpuRuntime& runtime, const MeasuredKernel& kernel, const Cell& cell,
                         const std::atomic<bool>& stopped);

}  // namespace ferry::bench
