"""Reads a file in a Numba kernel: every thread sums the bytes of its piece.

    python examples/python/numba_read.py FILE

The file calls are C++. NVRTC compiles a few of them, as functions with a C interface, to PTX, which
Numba links to the kernel. Needs a GPU, numba-cuda with nvjitlink (pip install numba-cuda[cu13]), and
the headers of CUDA's C++ library: CUDA_PATH, /usr/local/cuda or the wheel nvidia-cuda-cccl. No GPU has
run this yet (docs/internals/gpu.md).
"""

from __future__ import annotations

import os
import sys

import numpy
from cuda.bindings import nvrtc
from cuda_headers import cuda_includes
from file_argument import print_sum
from numba import cuda

import ferry

# Numba's interface: the value goes through the first pointer, and the int reports an exception.
# Everything is an int64, also addresses, because Numba turns an int64 and a uint64 into a float. A
# group is one thread, like Numba's code.
SOURCE = r"""
#include <ferry/cuda.hpp>

using Calls = ferry::device::FileCalls<ferry::device::ThreadGroup>;

__device__ Calls calls(long long context, long long group) {
  return Calls(*reinterpret_cast<const ferry::device::Context*>(context), {},
               static_cast<unsigned>(group));
}

extern "C" __device__ int ferry_open(long long* file, long long context, long long group,
                                     long long path, long long flags) {
  *file = calls(context, group)
              .open(reinterpret_cast<const char*>(path), static_cast<int>(flags));
  return 0;
}

extern "C" __device__ int ferry_pread(long long* got, long long context, long long group,
                                      long long file, long long buffer, long long bytes,
                                      long long offset) {
  *got = calls(context, group)
             .pread(static_cast<int>(file), reinterpret_cast<void*>(buffer),
                    static_cast<unsigned long long>(bytes), offset);
  return 0;
}

extern "C" __device__ int ferry_close(long long* error, long long context, long long group,
                                      long long file) {
  *error = calls(context, group).close(static_cast<int>(file));
  return 0;
}
"""

PIECE_BYTES = 4096
BLOCKS, THREADS = 8, 32
GROUPS = BLOCKS * THREADS

ferry_open = cuda.declare_device("ferry_open", "int64(int64, int64, int64, int64)")
ferry_pread = cuda.declare_device("ferry_pread", "int64(int64, int64, int64, int64, int64, int64)")
ferry_close = cuda.declare_device("ferry_close", "int64(int64, int64, int64)")


def compile_calls() -> bytes:
    """Compiles SOURCE to PTX for the current GPU. Raises RuntimeError with the compiler's message."""
    major, minor = cuda.get_current_device().compute_capability
    options = [
        *ferry.nvrtc_options(),
        *cuda_includes(),
        f"--gpu-architecture=compute_{major}{minor}",
        "--relocatable-device-code=true",
    ]
    _, program = nvrtc.nvrtcCreateProgram(SOURCE.encode(), b"calls.cu", 0, [], [])
    (result,) = nvrtc.nvrtcCompileProgram(program, len(options), [o.encode() for o in options])
    if result != nvrtc.nvrtcResult.NVRTC_SUCCESS:
        log = b" " * nvrtc.nvrtcGetProgramLogSize(program)[1]
        nvrtc.nvrtcGetProgramLog(program, log)
        raise RuntimeError(log.decode())
    ptx = b" " * nvrtc.nvrtcGetPTXSize(program)[1]
    nvrtc.nvrtcGetPTX(program, ptx)
    nvrtc.nvrtcDestroyProgram(program)
    return ptx


def make_kernel():  # noqa: ANN201  a dispatcher of Numba's, which has no public type
    """Returns the kernel, linked with the calls."""

    @cuda.jit(link=[cuda.PTXSource(compile_calls())], max_registers=64)  # docs/internals/gpu.md
    def sum_bytes(context, path, buffers, at, total, result):  # noqa: ANN001, ANN202
        group = cuda.grid(1)
        groups = cuda.gridsize(1)
        file = ferry_open(context, group, path, 0)
        if file <= 0:
            cuda.atomic.min(result, 0, file)
            return
        mine = 0
        piece = group
        got = 1
        while got > 0:
            got = ferry_pread(context, group, file, at + group * PIECE_BYTES, PIECE_BYTES, piece * PIECE_BYTES)
            for i in range(got):
                mine += buffers[group, i]
            piece += groups
        if got < 0:
            cuda.atomic.min(result, 0, got)
        ferry_close(context, group, file)
        cuda.atomic.add(total, 0, mine)

    return sum_bytes


def sum_bytes(path: str) -> int:
    """Returns the sum of a file's bytes. Raises OSError."""
    name = cuda.to_device(numpy.frombuffer(os.fsencode(path) + b"\0", dtype=numpy.uint8))
    buffers = cuda.device_array((GROUPS, PIECE_BYTES), dtype=numpy.uint8)
    total = cuda.to_device(numpy.zeros(1, dtype=numpy.int64))
    result = cuda.to_device(numpy.zeros(1, dtype=numpy.int64))
    kernel = make_kernel()
    with ferry.GpuRuntime(cache_bytes=64 << 20, groups=GROUPS) as runtime:
        kernel[BLOCKS, THREADS](
            numpy.int64(runtime.context),
            numpy.int64(name.device_ctypes_pointer.value),
            buffers,
            numpy.int64(buffers.device_ctypes_pointer.value),
            total,
            result,
        )
        cuda.synchronize()
    error = int(result.copy_to_host()[0])
    if error < 0:
        raise OSError(-error, os.strerror(-error), path)
    return int(total.copy_to_host()[0])


if __name__ == "__main__":
    sys.exit(print_sum(sum_bytes))
