"""The engine that transfers: its threads, queues and staging memory are shared by files and calls."""

from __future__ import annotations

import atexit
import operator
import os
import sys
import threading
from typing import Any, Literal

from ferry import _bulk
from ferry.uris import encoded

Route = Literal["automatic", "buffered", "direct"]
StorageEngine = Literal["automatic", "io_uring", "threads"]
_Entries = list[tuple[str, int, int, int]]  # for a class with a method named "list"
Path = str | bytes | os.PathLike[str] | os.PathLike[bytes]

# Grows in every child of fork(), which recognises the parent's objects by it.
_generation = 0
_lock = threading.Lock()
_common: Engine | None = None


class Engine:
    """An engine with settings of its own. Thread-safe.

    Most programs need none: without ``engine=...`` every function uses one engine that the process
    shares. For a setting left at 0 or ``"automatic"``, Ferry chooses from the CPUs, the storage
    and, for each task, the contents of the page cache; ``explain`` shows the choice.

    Args:
        workers: threads that transfer, at most 64. More start where a storage holds these up.
        depth: direct transfers in flight per worker, at most 64.
        task_bytes: large transfers are cut into tasks of this size, a multiple of 4096 up to 64 MiB.
        route: ``"buffered"`` through the kernel's page cache, ``"direct"`` past it.
        storage: how the kernel is reached.

    Raises:
        OSError: an invalid setting, or ``"io_uring"`` where the kernel refuses it.
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
        """Makes the engine; threads start when a transfer first needs them."""
        self._settings = (workers, depth, task_bytes, route, storage)
        for name, value in (("workers", workers), ("depth", depth), ("task_bytes", task_bytes)):
            if operator.index(value) < 0:
                raise ValueError(f"{name}: {value} is negative; 0 leaves the choice to the engine")
        self._native = _bulk.Engine(*self._settings)
        self._generation = _generation

    @property
    def native(self) -> _bulk.Engine:
        """The extension's engine; a new one in a child of ``fork``, which inherits no threads."""
        if self._generation != _generation:
            with _lock:
                if self._generation != _generation:
                    self._native = _bulk.Engine(*self._settings)
                    self._generation = _generation
        return self._native

    def options(self) -> dict[str, Any]:
        """Returns the settings for large transfers of data in the page cache.

        ``workers``, ``depth``, ``task_bytes`` and ``route``; ``explain`` returns a file's.
        """
        return self.native.options()

    def stats(self) -> dict[str, int]:
        """Returns counters since the engine was made; see ``ferry.stats``."""
        return self.native.statistics()

    def explain(self, path: Path) -> dict[str, Any]:
        """Explains how a file would be read; see ``ferry.explain``."""
        return self.native.explain(encoded(path))

    def status(self, path: Path) -> tuple[int, int, int]:
        """Returns a path's size in bytes, mtime in ns since 1970, and type and permissions.

        Raises:
            OSError: the path does not exist, or its server cannot be reached.
        """
        return self.native.status(encoded(path))

    def unlink(self, path: Path) -> None:
        """Removes a file. Raises OSError."""
        self.native.unlink(encoded(path))

    def rename(self, source: Path, target: Path) -> None:
        """Renames a file within its storage; an existing ``target`` is replaced. Raises OSError."""
        self.native.rename(encoded(source), encoded(target))

    def list(self, path: Path) -> _Entries:
        """Returns a directory's entries in order: name, and size, time and type as from ``status``.

        A symbolic link is not followed. Raises OSError.

        >>> import tempfile
        >>> engine, folder = Engine(), tempfile.mkdtemp()
        >>> engine.make_directory(f"{folder}/below")
        >>> [name for name, *_ in engine.list(folder)]
        ['below']
        >>> engine.remove_directory(f"{folder}/below")
        """
        return [(os.fsdecode(name), *status) for name, status in self.native.list(encoded(path))]

    def make_directory(self, path: Path, mode: int = 0o777) -> None:
        """Makes one directory with ``mode`` less the umask. Raises OSError."""
        self.native.make_directory(encoded(path), mode)

    def remove_directory(self, path: Path) -> None:
        """Removes an empty directory. Raises OSError."""
        self.native.remove_directory(encoded(path))

    def shut_down(self) -> None:
        """Cancels all transfers and waits for their end. Later transfers raise OSError (ESHUTDOWN)."""
        self.native.shut_down()


def choose(engine: Engine | None) -> Engine:
    """Returns ``engine``; for None the one that all calls without an engine share."""
    global _common
    if engine is not None:
        return engine
    if _common is None:
        with _lock:
            if _common is None:
                _common = Engine()
    return _common


def generation() -> int:
    """Returns a number that differs between a process and its children by ``fork``."""
    return _generation


def stats(engine: Engine | None = None) -> dict[str, int]:
    """Returns an engine's counters since it was made.

    ``transfers`` (a batch is one), their ``parts`` and ``failed_parts``; ``cancelled_transfers``;
    ``bytes_read`` and ``bytes_written``; tasks by path: ``copied_tasks`` (to or from the page
    cache), ``cached_tasks`` (read into the page cache by the storage engine), ``direct_tasks``
    (between disk and buffer) and ``staged_tasks`` (through ``staging_bytes`` of bounce buffers, for
    unaligned buffers). Of these, ``gpu_tasks`` used GPU memory, through ``pinned_bytes`` of
    page-locked memory, except ``gpu_direct_tasks``, which moved ``gpu_direct_bytes`` by GPUDirect
    Storage. ``workers_started``.

    >>> sorted(stats())[:3]
    ['bytes_read', 'bytes_written', 'cached_tasks']
    """
    return choose(engine).stats()


def explain(path: Path, engine: Engine | None = None) -> dict[str, Any]:
    """Explains how a large read of ``path`` would go now, and why.

    Returns a dict: ``route`` (``"buffered"`` or ``"direct"``), ``storage``, ``storage_engine``,
    ``workers``, ``depth``, ``task_bytes``, ``file_bytes``, ``resident_bytes`` (in the page cache;
    None if unknown) and ``reasons``, a list of sentences.

    Raises:
        OSError: the path cannot be opened.
        ValueError: a URI of an unknown storage.
    """
    return choose(engine).explain(path)


def _after_fork() -> None:
    global _generation, _common, _lock
    _generation += 1
    _lock = threading.Lock()
    _common = None
    _bulk.expect_leaks()


def _at_exit() -> None:
    # Objects that a program keeps to its end may stay where the interpreter cannot free them: in
    # frames of daemon threads, or in cycles through types without garbage collection. That is not
    # the program's fault. Development mode (python -X dev) checks for leaks of the package itself.
    if not sys.flags.dev_mode or any(thread.daemon for thread in threading.enumerate()):
        _bulk.expect_leaks()


os.register_at_fork(after_in_child=_after_fork)
atexit.register(_at_exit)
# First stop the engine's threads: none may want the interpreter while it ends. It is the
# extension's function because a signal handler could end a Python one halfway.
atexit.register(_bulk.end)
