"""File calls inside GPU kernels: the host side, and headers for kernels compiled at run time."""

from __future__ import annotations

import atexit
import errno
import os
import sys
import weakref
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Literal

from ferry import _bulk
from ferry.programs import installed_prefix

Placement = Literal["host", "compute", "automatic"]

WRITE_BACK_KERNEL = r"""
#include <ferry/cuda.hpp>

extern "C" __global__ void ferry_write_back(const ferry::device::Context* context, unsigned group,
                                            int* result) {
  *result = ferry::device::write_back(*context, group);
}
"""
"""The source of a kernel that writes back what other kernels left dirty, for NVRTC.

Launched with one thread, after the kernels that wrote: ``(runtime.context, runtime.own_group, result)``.
The first errno of what could not be written, negative, is stored at ``result``; 0: all was.
"""

_AT_EXIT_TIMEOUT_S = 10.0
_runtimes: weakref.WeakSet[GpuRuntime] = weakref.WeakSet()


def device_include() -> str:
    """Returns the folder for ``-I``, in which kernels find ``<ferry/cuda.hpp>``.

    Raises:
        FileNotFoundError: the package was installed without its headers.
    """
    package = Path(__file__).resolve().parent
    prefix = installed_prefix()
    folders = [package / "include", package.parents[1] / "include", *([prefix / "include"] if prefix else [])]
    for folder in folders:
        if (folder / "ferry" / "cuda.hpp").is_file():
            return str(folder)
    raise FileNotFoundError(f"there is no ferry/cuda.hpp beside {package}; install ferry-io again")


def nvrtc_options() -> tuple[str, ...]:
    """Returns NVRTC's options for sources that include ``<ferry/cuda.hpp>``.

    You must add the folder of CUDA's C++ library (``<cuda/atomic>``): CuPy adds its own; others use
    the toolkit's or that of the wheel ``nvidia-cuda-cccl``.

    >>> nvrtc_options()[0]
    '--std=c++20'
    """
    include = device_include()
    lines = f"-DFERRY_CACHE_LINE_BYTES={_bulk.cache_line_bytes()}"
    return ("--std=c++20", "-default-device", lines, f"-I{include}", f"-I{include}/ferry/nvrtc")


@dataclass(frozen=True)
class ShutdownReport:
    """The result of ``GpuRuntime.shutdown``."""

    finished: bool
    """Nothing is left under way."""
    files_closed: int
    """Files that kernels had left open."""
    errors: list[str]
    """What went wrong, as sentences; also that pages were never written back, which are lost."""


class GpuRuntime:
    """Memory and I/O server for one GPU's file calls. Thread-safe; a context manager.

    Your kernels take ``context`` and include ``<ferry/cuda.hpp>``; see ``nvrtc_options``. Before
    shutdown, all kernels must have ended and written their data back, as closing a file does.

    Args:
        arena_bytes: GPU memory for your programs.
        cache_bytes: size of the page cache in GPU memory; 0 for none.
        page_bytes: its page size, a power of two from 4 KiB to 2 MiB; 0: as ``ferry tune``
            found, else 64 KiB.
        groups: the number of groups of threads (each a thread, a warp or a block) that may make
            calls at the same time; each has its own index below this number.
        device: the GPU's number in the CUDA driver.
        placement: where reads and writes run unless a kernel chooses.
        server_threads: threads on the host; 0: chosen by Ferry.
        files_max: files open at the same time, at most 65536.
        staging_bytes: pinned memory of the host for each group.
        pull_bytes: groups copy transfers past the cache up to this size themselves, as do
            groups of several threads with missing pages up to this size in all; the GPU's copy
            engines copy larger ones.

    Raises:
        OSError: there is no CUDA driver or no such GPU (ENODEV), not enough memory (ENOMEM), or
            an invalid setting (EINVAL).
        ValueError: an unknown placement.
    """

    def __init__(
        self,
        *,
        arena_bytes: int = 64 << 20,
        cache_bytes: int = 0,
        page_bytes: int = 0,
        groups: int = 1024,
        device: int = 0,
        placement: Placement = "automatic",
        server_threads: int = 0,
        files_max: int = 1024,
        staging_bytes: int = 64 << 10,
        pull_bytes: int = 16 << 10,
    ) -> None:
        """Allocates the memory and starts the server's threads."""
        self._native = _bulk.GpuRuntime(
            arena_bytes, cache_bytes, page_bytes, groups, device, placement, server_threads,
            files_max, staging_bytes, pull_bytes,
        )  # fmt: skip
        self._pid = os.getpid()
        _runtimes.add(self)

    @property
    def context(self) -> int:
        """The address, in GPU memory, that kernels take as ``const ferry::device::Context*``."""
        return self._native.context()

    @property
    def own_group(self) -> int:
        """The index of an extra group, for a kernel that writes back."""
        return self._native.own_group()

    @property
    def dirty_pages(self) -> int:
        """Pages of the cache that are not yet in storage. Raises OSError."""
        return self._native.dirty_pages()

    def stats(self) -> dict[str, int]:
        """Returns counters since the runtime was made. Raises OSError.

        Of kernels: ``calls``, ``batches``, ``doorbells``, ``staged_calls`` and ``staged_bytes``
        (buffers outside the runtime's memory, and small transfers), ``cache_hits`` and
        ``cache_misses``; of the server: ``requests``, ``refused_requests``, ``bytes_read``,
        ``bytes_written`` and ``server_cpu_ns``.
        """
        return self._native.statistics()

    def shutdown(self, timeout_s: float = 10.0) -> ShutdownReport:
        """Ends the server; later calls of kernels return ``-ESHUTDOWN``.

        Waits up to ``timeout_s`` seconds for calls in flight, then cancels them. Only a kernel can
        write dirty pages back: the rest are lost, and reported. Calling it again is harmless.
        """
        return ShutdownReport(*self._native.shut_down(timeout_s))

    def close(self) -> None:
        """Shuts down; raises an error for lost data.

        Raises:
            OSError: EIO, with the number of pages never written back and other failures. The
                runtime has ended even then; calling it again is harmless.
        """
        report = self.shutdown()
        if report.errors:
            raise OSError(errno.EIO, "; ".join(report.errors))

    def __enter__(self) -> GpuRuntime:
        """Returns the runtime."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Closes. Raises OSError (EIO) for lost data, unless another exception is on its way."""
        if kind is None:
            self.close()
        else:
            self.shutdown()


def _at_exit() -> None:
    """Ends the server's threads before the interpreter; reports lost data on stderr."""
    for runtime in list(_runtimes):
        if runtime._pid == os.getpid():
            for error in runtime.shutdown(_AT_EXIT_TIMEOUT_S).errors:
                print(f"ferry: at exit: {error}", file=sys.stderr)


atexit.register(_at_exit)
