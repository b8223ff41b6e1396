"""Reads a file in a CuPy kernel: every warp sums the bytes of its piece.

    python examples/python/cupy_read.py FILE

Needs a GPU, CuPy, and the headers of CUDA's C++ library: CUDA_PATH, /usr/local/cuda or the wheel
nvidia-cuda-cccl. No GPU has run this yet (docs/internals/gpu.md).
"""

from __future__ import annotations

import os
import sys

import cupy
import numpy
from cuda_headers import cuda_includes
from file_argument import print_sum

import ferry

SOURCE = r"""
#include <ferry/cuda.hpp>

using Group = ferry::device::WarpGroup;

// Each warp of the grid takes pieces in turn. `result` is a negative errno once something failed.
extern "C" FERRY_KERNEL sum_bytes(const ferry::device::Context* context, const char* path,
                                  unsigned char* buffers, unsigned piece_bytes,
                                  unsigned long long* sum, int* result) {
  const unsigned group = Group::index_in_grid();
  const unsigned groups = gridDim.x * blockDim.x / 32;
  ferry::device::FileCalls files(*context, Group{}, group);
  unsigned char* buffer = buffers + static_cast<unsigned long long>(group) * piece_bytes;
  const int file = files.open(path, 0);
  long long got = file;
  unsigned long long mine = 0;
  for (unsigned long long piece = group; file > 0; piece += groups) {
    got = files.pread(file, buffer, piece_bytes, static_cast<long long>(piece * piece_bytes));
    if (got <= 0) break;
    for (long long i = Group::lane(); i < got; i += 32) mine += buffer[i];
    Group::sync();  // before the next piece
  }
  if (file > 0) files.close(file);
  if (got < 0 && Group::lane() == 0) atomicMin(result, static_cast<int>(got));
  atomicAdd(sum, mine);
}
"""

PIECE_BYTES = 64 << 10
BLOCKS, THREADS = 32, 128
GROUPS = BLOCKS * THREADS // 32


def sum_bytes(path: str) -> int:
    """Returns the sum of a file's bytes. Raises OSError."""
    kernel = cupy.RawKernel(SOURCE, "sum_bytes", options=ferry.nvrtc_options() + cuda_includes(), backend="nvrtc")
    name = cupy.asarray(numpy.frombuffer(os.fsencode(path) + b"\0", dtype=numpy.uint8))
    buffers = cupy.empty(GROUPS * PIECE_BYTES, dtype=cupy.uint8)
    total = cupy.zeros(1, dtype=cupy.uint64)
    result = cupy.zeros(1, dtype=cupy.int32)
    with ferry.GpuRuntime(cache_bytes=256 << 20, groups=GROUPS) as runtime:
        context = numpy.uint64(runtime.context)
        kernel((BLOCKS,), (THREADS,), (context, name, buffers, numpy.uint32(PIECE_BYTES), total, result))
        error = int(result[0])  # waits for the kernel
    if error < 0:
        raise OSError(-error, os.strerror(-error), path)
    return int(total[0])


if __name__ == "__main__":
    sys.exit(print_sum(sum_bytes))
