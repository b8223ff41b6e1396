"""The engine that transfers: threads, queues and staging memory, shared by files and calls."""

from __future__ import annotations

import atexit
import operator
import os
import sys
import threading
from typing import Any, Literal

from ferry import _bulk

Route = Literal["automatic", "buffered", "direct"]
StorageEngine = Literal["automatic", "io_uring", "threads"]
_Entries = list[tuple[str, int, int, int]]  # for a class with a method of the name "list"
Path = str | bytes | os.PathLike[str] | os.PathLike[bytes]

# Grows in every child of fork(): what belongs to the parent is told by it.
_generation = 0
_lock = threading.Lock()
_common: Engine | None = None


class Engine:
    """An engine with settings of its own. Thread-safe.

    Most programs need none: every function takes ``engine=None`` and then uses one engine that the
    whole process shares. What is left at 0 or ``"automatic"`` is chosen, from the CPUs, the storage
    and, for each task anew, from what the page cache holds; ``explain`` tells.

    Args:
        workers: threads that transfer, at most 64.
        depth: direct transfers in flight per worker, at most 64.
        task_bytes: what a large transfer is cut into; a multiple of 4096, at most 64 MiB.
        route: ``"buffered"`` through the kernel's page cache, ``"direct"`` past it.
        storage: how the kernel is reached.

    Raises:
        OSError: a setting that cannot be, or ``"io_uring"`` where the kernel refuses it.
        ValueError: an unknown name, or a negative number.

    >>> Engine(workers=2, task_bytes=1 << 20).options()["workers"]
    2
    """

    def __init__(
        self,
        workers: int = 0,
        depth: int = 0,
        task_bytes: int = 0,
        route: Route = "automatic",
        storage: StorageEngine = "automatic",
    ) -> None:
        """Makes the engine; its threads start with the first transfer that has a use for them."""
        self._settings = (workers, depth, task_bytes, route, storage)
        for name, value in (("workers", workers), ("depth", depth), ("task_bytes", task_bytes)):
            if operator.index(value) < 0:
                raise ValueError(f"{name}: {value} is negative; 0 leaves the choice to the engine")
        self._native = _bulk.Engine(*self._settings)
        self._generation = _generation

    @property
    def native(self) -> _bulk.Engine:
        """The extension's engine; a new one in a child of ``fork``, which has no threads of its own."""
        if self._generation != _generation:
            with _lock:
                if self._generation != _generation:
                    self._native = _bulk.Engine(*self._settings)
                    self._generation = _generation
        return self._native

    def options(self) -> dict[str, Any]:
        """Returns the settings in force for large transfers of what the page cache has.

        ``workers``, ``depth``, ``task_bytes`` and ``route``; ``explain`` tells those of a file.
        """
        return self.native.options()

    def stats(self) -> dict[str, int]:
        """Returns counters since the engine was made; see ``ferry.stats``."""
        return self.native.statistics()

    def explain(self, path: Path) -> dict[str, Any]:
        """Tells how a file would be read; see ``ferry.explain``."""
        return self.native.explain(os.fsencode(path))

    def status(self, path: Path) -> tuple[int, int, int]:
        """Returns a path's size in bytes, its time of change in ns since 1970, and its type and permissions.

        Raises:
            OSError: there is no such path, or its server cannot be reached.
        """
        return self.native.status(os.fsencode(path))

    def unlink(self, path: Path) -> None:
        """Removes a file. Raises OSError."""
        self.native.unlink(os.fsencode(path))

    def rename(self, source: Path, target: Path) -> None:
        """Renames a file within its storage; an existing ``target`` is replaced. Raises OSError."""
        self.native.rename(os.fsencode(source), os.fsencode(target))

    def list(self, path: Path) -> _Entries:
        """Returns what a directory holds, in order: name, and size, time and type as of ``status``.

        Of a symbolic link these are its own. Raises OSError.

        >>> import tempfile
        >>> engine, folder = Engine(), tempfile.mkdtemp()
        >>> engine.make_directory(f"{folder}/below")
        >>> [name for name, *_ in engine.list(folder)]
        ['below']
        >>> engine.remove_directory(f"{folder}/below")
        """
        return [
            (os.fsdecode(name), size_bytes, modified_ns, mode)
            for name, size_bytes, modified_ns, mode in self.native.list(os.fsencode(path))
        ]

    def make_directory(self, path: Path, mode: int = 0o777) -> None:
        """Makes one directory, less what the umask takes from ``mode``. Raises OSError."""
        self.native.make_directory(os.fsencode(path), mode)

    def remove_directory(self, path: Path) -> None:
        """Removes an empty directory. Raises OSError."""
        self.native.remove_directory(os.fsencode(path))

    def shut_down(self) -> None:
        """Cancels what is under way and waits for its end. Later transfers raise OSError (ESHUTDOWN)."""
        self.native.shut_down()


def common_engine() -> Engine:
    """Returns the engine that is used where none is named."""
    global _common
    if _common is None:
        with _lock:
            if _common is None:
                _common = Engine()
    return _common


def choose(engine: Engine | None) -> Engine:
    """Returns ``engine``, or the common one for None."""
    return common_engine() if engine is None else engine


def generation() -> int:
    """Returns a number that differs between a process and its children by ``fork``."""
    return _generation


def stats(engine: Engine | None = None) -> dict[str, int]:
    """Returns what an engine has done since it was made.

    ``transfers`` (a batch is one) and their ``parts``, of which ``failed_parts``;
    ``cancelled_transfers``; ``bytes_read`` and ``bytes_written``; pieces of work by the way they
    went: ``copied_tasks`` (from or to the page cache, in place), ``cached_tasks`` (read into the
    page cache by the storage's engine), ``direct_tasks`` (between disk and buffer) and
    ``staged_tasks`` (through ``staging_bytes`` of memory, as the buffer was not aligned); of all these
    ``gpu_tasks`` had a GPU's memory (through ``pinned_bytes`` of page-locked memory), but for
    ``gpu_direct_tasks``, which moved ``gpu_direct_bytes`` by GPUDirect Storage past the host's;
    ``workers_started``.

    >>> sorted(stats())[:3]
    ['bytes_read', 'bytes_written', 'cached_tasks']
    """
    return choose(engine).stats()


def explain(path: Path, engine: Engine | None = None) -> dict[str, Any]:
    """Tells how a large read of ``path`` would go as things are now, and why.

    Returns a dict: ``route`` (``"buffered"`` or ``"direct"``), ``storage``, ``storage_engine``,
    ``workers``, ``depth``, ``task_bytes``, ``file_bytes``, ``resident_bytes`` (in the page cache;
    None where that cannot be told) and ``reasons``, a list of sentences.

    Raises:
        OSError: the path cannot be opened.
    """
    return choose(engine).explain(path)


def _after_fork() -> None:
    global _generation, _common, _lock
    _generation += 1
    _lock = threading.Lock()
    _common = None
    _bulk.expect_leaks()


def _at_exit() -> None:
    # What a program holds to its end stays where the interpreter cannot free it: in the frames of
    # daemon threads, in cycles through types without garbage collection. That is no fault of the
    # program, and development mode (python -X dev) looks for those of the package.
    if not sys.flags.dev_mode or any(thread.daemon for thread in threading.enumerate()):
        _bulk.expect_leaks()


os.register_at_fork(after_in_child=_after_fork)
atexit.register(_at_exit)
# Before that: no thread of an engine may want the interpreter once it is going. The extension's own
# function, as a signal's handler could end one of Python's halfway.
atexit.register(_bulk.end)
