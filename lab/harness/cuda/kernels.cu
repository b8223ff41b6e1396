// The measured program of `ferry bench --device cuda`: a warp for each "thread" of a cell. One warp
// makes a block, so that few of them still have a multiprocessor each. The bounds leave each thread
// 64 registers (docs/internals/gpu.md).
#include <ferry/cuda.hpp>

#include "harness/cuda/kernel_program.hpp"

extern "C" __global__ void __launch_bounds__(32, 32)
    ferry_bench_kernel(const ferry::bench::KernelTask* task) {
  ferry::bench::KernelProgram(*task, ferry::device::WarpGroup{}, task->first_group + blockIdx.x)
      .run();
}
