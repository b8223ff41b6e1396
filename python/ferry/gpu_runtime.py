"""File calls inside GPU kernels: the host's side, and the headers for kernels compiled at run time."""

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
    for folder in (package / "include", package.parents[1] / "include"):
        if (folder / "ferry" / "cuda.hpp").is_file():
            return str(folder)
    raise FileNotFoundError(f"there is no ferry/cuda.hpp beside {package}; install ferry-io again")


def nvrtc_options() -> tuple[str, ...]:
    """Returns what NVRTC has to be told for sources that include ``<ferry/cuda.hpp>``.

    Not among it is the folder of CUDA's C++ library (``<cuda/atomic>``): CuPy adds its own, others
    name that of the toolkit or of the wheel ``nvidia-cuda-cccl``.

    >>> nvrtc_options()[0]
    '--std=c++20'
    """
    include = device_include()
    return ("--std=c++20", "-default-device", f"-I{include}", f"-I{include}/ferry/nvrtc")


@dataclass(frozen=True)
class ShutdownReport:
    """What ``GpuRuntime.shutdown`` came to."""

    finished: bool
    """Nothing is left under way."""
    files_closed: int
    """Files that kernels had left open."""
    errors: list[str]
    """What went wrong, as sentences; also that pages were never written back, which are lost."""


class GpuRuntime:
    """Memory and I/O server of one GPU's file calls. Thread-safe; a context manager.

    Kernels are the program's own. They get ``context``, and include ``<ferry/cuda.hpp>``; see
    ``nvrtc_options``. Every kernel must have ended before the runtime is shut down, and what it
    wrote must have been written back: files that are closed in a kernel are.

    Args:
        arena_bytes: memory of the GPU for programs.
        cache_bytes: of the page cache in the GPU's memory; 0 is none.
        page_bytes: of its pages, a power of two from 4 KiB to 2 MiB; 0: 64 KiB, or what
            ``ferry tune`` found.
        groups: how many groups of threads (a thread, a warp or a block each) may make calls at the
            same time; each has an index of its own below this number.
        device: which GPU, as the CUDA driver counts.
        placement: where reads and writes are executed unless a kernel says otherwise.
        server_threads: threads of the host; 0: chosen.
        files_max: files open at the same time, at most 65536.
        staging_bytes: pinned memory of the host for each group.
        pull_bytes: transfers past the cache of at most so many bytes, and absent pages of so many
            together if the group has several threads, are copied by the group itself, larger ones
            by the GPU's copy engines.

    Raises:
        OSError: there is no CUDA driver or no such GPU (ENODEV), not enough memory (ENOMEM), or a
            setting that cannot be (EINVAL).
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
        """Makes the memory, and starts the server's threads."""
        self._native = _bulk.GpuRuntime(
            arena_bytes, cache_bytes, page_bytes, groups, device, placement, server_threads,
            files_max, staging_bytes, pull_bytes,
        )  # fmt: skip
        self._pid = os.getpid()
        _runtimes.add(self)

    @property
    def context(self) -> int:
        """The address, in the GPU's memory, that kernels take as ``const ferry::device::Context*``."""
        return self._native.context()

    @property
    def own_group(self) -> int:
        """The index of a group that belongs to none of the program's, for a kernel that writes back."""
        return self._native.own_group()

    @property
    def dirty_pages(self) -> int:
        """Pages of the cache that hold what the storage does not have yet. Raises OSError."""
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

        Calls under way may finish for ``timeout_s`` seconds and are cancelled then. Dirty pages can
        only be written back by a kernel: those that are left are lost, and reported. A second time
        is harmless.
        """
        return ShutdownReport(*self._native.shut_down(timeout_s))

    def close(self) -> None:
        """Shuts down, and tells what was lost.

        Raises:
            OSError: EIO, with how many pages were never written back and what else went wrong. The
                runtime has ended all the same; a second time is harmless.
        """
        report = self.shutdown()
        if report.errors:
            raise OSError(errno.EIO, "; ".join(report.errors))

    def __enter__(self) -> GpuRuntime:
        """Returns the runtime."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Closes. Raises OSError (EIO) for what was lost, unless something else is raised."""
        if kind is None:
            self.close()
        else:
            self.shutdown()


def _at_exit() -> None:
    """The server's threads end before the interpreter does; what was lost is said on stderr."""
    for runtime in list(_runtimes):
        if runtime._pid == os.getpid():
            for error in runtime.shutdown(_AT_EXIT_TIMEOUT_S).errors:
                print(f"ferry: at exit: {error}", file=sys.stderr)


atexit.register(_at_exit)
