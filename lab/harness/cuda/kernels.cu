// The measured program of `ferry bench --device cuda`: one warp per "thread" of a cell, and one
// warp per block, so that a few of them spread over multiprocessors. The bounds leave each thread
// 64 registers (docs/internals/gpu.md).
#include <ferry/cuda.hpp>

#include "harness/cuda/kernel_program.hpp"

extern "C" __global__ void __launch_bounds__(32, 32)
    ferry_bench_kernel(const ferry::bench::KernelTask* task) {
  ferry::bench::KernelProgram(*task, ferry::device::WarpGroup{}, task->first_group + blockIdx.x)
      .run();
}
