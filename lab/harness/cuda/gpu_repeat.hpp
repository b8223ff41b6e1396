// One repeat of one cell in kernels: a launch per timed step, or a single one for cells without
// barriers.
#pragma once

#include <atomic>

#include <ferry/gpu.hpp>

#include "harness/cell_run.hpp"
#include "harness/cuda/kernel.hpp"

namespace ferry::bench {

// Throws ferry::Error when a call or the GPU fails, ContentsError when the buffers hold the wrong
// bytes after reading. Files are closed either way, unless the GPU is lost.
Sample run_on_gpu(GpuRuntime& runtime, const MeasuredKernel& kernel, const CellRun& run,
                  const std::atomic<bool>& stopped);

// One pass of a read cell in kernels, each call compared by the host. Throws likewise.
void verify_reads_on_gpu(GpuRuntime& runtime, const MeasuredKernel& kernel, const Cell& cell,
                         const std::atomic<bool>& stopped);

}  // namespace ferry::bench
