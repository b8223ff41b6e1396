"""Collective I/O from Python: many MPI ranks, one shared file (see docs/guide/mpi.md).

Needs mpi4py, in a checkout and with Debian's packages over the MPI library that Ferry was built with::

    from mpi4py import MPI
    from ferry import collective

    with collective.open(MPI.COMM_WORLD, "field", "w+") as file:
        file.set_view(0, collective.TypeMap.subarray(sizes, subsizes, starts, 8))
        file.write_all(mine)  # every rank, also one that has an empty array
        file.sync()

Call methods marked "collective" on all ranks, in the same order. A failure on one rank raises
OSError on all ranks, with the errno and the rank in its text; an argument of a wrong type raises
its own error on the rank that passed it. If ranks make different calls, that call and every later
collective call of the file raise OSError (EPROTO), which names both calls. A rank that makes no
call at all blocks the others. A buffer is any contiguous object with the buffer protocol, like a
NumPy array, or GPU memory: a ferry.GpuArray, or an object with ``__cuda_array_interface__`` or
DLPack. Use a file only on the thread that opened it.
"""

from __future__ import annotations

import asyncio
import json
import os
import warnings
from collections.abc import Generator, Iterable, Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from ferry import mpi_modules
from ferry.uris import encoded

if TYPE_CHECKING:
    from mpi4py import MPI

    _collective: Any
else:
    _collective, MPI = mpi_modules.load()

__all__ = ["File", "Transfer", "TypeMap", "open"]

_FLAGS = {
    "r": os.O_RDONLY,
    "r+": os.O_RDWR,
    "w": os.O_CREAT | os.O_TRUNC | os.O_WRONLY,
    "w+": os.O_CREAT | os.O_TRUNC | os.O_RDWR,
    "x": os.O_CREAT | os.O_EXCL | os.O_WRONLY,
    "x+": os.O_CREAT | os.O_EXCL | os.O_RDWR,
}


_BYTE_ORDERS = ("native", "little", "big")  # the numbers of ferry::ByteOrder


class TypeMap:
    """The bytes of a file that a rank sees: a list of extents that repeats. Sizes are in bytes.

    The constructors raise OSError (EINVAL) for inconsistent sizes.
    """

    def __init__(self, native: Any = None) -> None:
        """Without arguments: all bytes, the default view."""
        self._native = _collective.TypeMap() if native is None else native

    @classmethod
    def contiguous(cls, size: int) -> Self:
        """``size`` bytes and nothing else."""
        return cls(_collective.TypeMap.contiguous(size))

    @classmethod
    def strided(cls, count: int, block_bytes: int, stride_bytes: int) -> Self:
        """``count`` blocks, ``stride_bytes`` apart from start to start."""
        return cls(_collective.TypeMap.strided(count, block_bytes, stride_bytes))

    @classmethod
    def subarray(cls, sizes: Sequence[int], subsizes: Sequence[int], starts: Sequence[int], element_bytes: int) -> Self:
        """The block of ``subsizes`` elements at ``starts`` in an array of ``sizes``, in C's order."""
        return cls(_collective.TypeMap.subarray(list(sizes), list(subsizes), list(starts), element_bytes))

    @classmethod
    def extents(cls, extents: Iterable[tuple[int, int]], period_bytes: int = -1) -> Self:
        """Any list of (offset, bytes); with -1 it repeats after the extent that reaches furthest."""
        return cls(_collective.TypeMap.extents(list(extents), period_bytes))

    @classmethod
    def of(cls, datatype: MPI.Datatype) -> Self:
        """The type map of an MPI datatype, which need not be committed."""
        return cls(_collective.TypeMap.of_datatype(datatype.py2f()))

    @property
    def data_bytes(self) -> int:
        """The bytes of data in one period."""
        return int(self._native.data_bytes)

    @property
    def period_bytes(self) -> int:
        """The distance after which the list repeats, in bytes."""
        return int(self._native.period_bytes)


class Transfer:
    """A nonblocking collective transfer, made by the ``i..._all`` methods of a File.

    Keeps its buffer, which you must not touch, until done. Use it on the thread that opened the file.
    """

    def __init__(self, native: Any) -> None:
        self._native = native

    def done(self) -> bool:
        """Whether it has ended, with or without an error.

        Does not wait. If MPI was initialised with less than MPI_THREAD_MULTIPLE (mpi4py's default),
        transfers go on in this call, in ``result`` and in blocking calls of any file alone; those of
        a file that is one rank's go on by themselves.
        """
        return bool(self._native.test())

    def result(self) -> int:
        """Waits for it; returns its bytes. Raises OSError on all ranks if it failed on one."""
        return int(self._native.wait())

    def exception(self) -> OSError | None:
        """Waits for it; returns the error, None after a success."""
        try:
            self.result()
        except OSError as error:
            return error
        return None

    def __await__(self) -> Generator[Any, None, int]:
        """Like ``result``, but other tasks run meanwhile."""
        nap_s = 0.0
        while not self.done():
            yield from asyncio.sleep(nap_s).__await__()
            nap_s = min(nap_s + 100e-6, 5e-3)
        return self.result()


class File:
    """A file that the ranks of a communicator share; made by open()."""

    def __init__(self, native: Any, name: str) -> None:
        self._native = native
        self.name = name
        self.closed = False
        self._under_way: list[Transfer] = []  # keeps their buffers alive

    def set_view(self, displacement: int, view: TypeMap, byte_order: str = "native", element_bytes: int = 1) -> None:
        """Collective; sets the view: offsets count the bytes it shows, and the position becomes 0.

        ``byte_order`` ("native", "little" or "big") is that of the file's elements of
        ``element_bytes`` (1, 2, 4, 8 or 16); elements in memory have this machine's. Raises
        ValueError for others.
        """
        try:
            native = _native_view(displacement, view, byte_order, element_bytes)
        except Exception as error:
            self._native.refuse_view(_first_line(error))
            raise
        self._native.set_view(native)

    def write_at_all(self, offset: int, buffer: Any) -> int:
        """Collective; writes all of ``buffer`` at ``offset`` of the view. Returns its bytes."""
        return int(self._native.write_at_all(offset, buffer))

    def read_at_all(self, offset: int, buffer: Any) -> int:
        """Collective; fills ``buffer``. Returns the bytes read, fewer only at the end of the file."""
        return int(self._native.read_at_all(offset, buffer))

    def write_all(self, buffer: Any) -> int:
        """Collective; like write_at_all at this rank's position, which advances."""
        return int(self._native.write_all(buffer))

    def read_all(self, buffer: Any) -> int:
        """Collective; like read_at_all at this rank's position, which advances."""
        return int(self._native.read_all(buffer))

    def iwrite_at_all(self, offset: int, buffer: Any) -> Transfer:
        """Collective and nonblocking; starts a ``write_at_all``.

        All ranks start the same transfers in the same order, and they run in that order. The
        Transfer raises errors, or ``close`` if you never wait for it. Other methods that transfer,
        or are collective, complete them first.
        """
        return self._started(self._native.iwrite_at_all(offset, buffer))

    def iread_at_all(self, offset: int, buffer: Any) -> Transfer:
        """Collective and nonblocking; starts a ``read_at_all``."""
        return self._started(self._native.iread_at_all(offset, buffer))

    def iwrite_all(self, buffer: Any) -> Transfer:
        """Collective and nonblocking; advances this rank's position immediately."""
        return self._started(self._native.iwrite_all(buffer))

    def iread_all(self, buffer: Any) -> Transfer:
        """Collective and nonblocking; advances this rank's position by all of ``buffer``, immediately."""
        return self._started(self._native.iread_all(buffer))

    def _started(self, native: Any) -> Transfer:
        # Without a progress thread, asking would run the transfer.
        if MPI.Query_thread() == MPI.THREAD_MULTIPLE:
            self._under_way = [transfer for transfer in self._under_way if not transfer.done()]
        transfer = Transfer(native)
        self._under_way.append(transfer)
        return transfer

    def write_at(self, offset: int, buffer: Any) -> int:
        """Writes from this rank only, through its view."""
        return int(self._native.write_at(offset, buffer))

    def read_at(self, offset: int, buffer: Any) -> int:
        """Reads on this rank only, through its view."""
        return int(self._native.read_at(offset, buffer))

    def sync(self) -> None:
        """Collective; makes everything that any rank wrote before durable."""
        self._native.sync()

    def resize(self, size: int) -> None:
        """Collective; truncates or extends the file to ``size`` bytes."""
        self._native.resize(size)

    def size_bytes(self) -> int:
        """Collective."""
        return int(self._native.size_bytes())

    def statistics(self) -> dict[str, Any]:
        """Collective; returns time and counters since the file was opened, ready for JSON.

        Holds method, reason, writers, stripes (``stripe_bytes``, ``stripe_count``; 0 if the storage
        does not report them), counters, and the time split in nanoseconds as ``mean`` and
        ``maximum`` over ranks.
        """
        return dict(json.loads(self._native.statistics()))

    @property
    def hints(self) -> dict[str, str]:
        """The MPI_Info hints in force, by name."""
        return dict(self._native.hints())

    @property
    def writers(self) -> list[int]:
        """The ranks that write to storage in collective transfers (the aggregators)."""
        return list(self._native.writers())

    def close(self) -> None:
        """Collective; does nothing if the file is closed."""
        if not self.closed:
            self.closed = True
            self._native.close()
            self._under_way.clear()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        # After an exception on this rank only, the others may never reach a collective close.
        if kind is None:
            self.close()


def _first_line(error: Exception) -> str:
    """An error's type and text, for the other ranks."""
    text = f"{type(error).__name__}: {str(error).partition(chr(10))[0]}"
    return text.encode(errors="backslashreplace").decode()


def _native_view(displacement: int, view: TypeMap, byte_order: str, element_bytes: int) -> Any:
    if byte_order not in _BYTE_ORDERS:
        orders = ", ".join(map(repr, _BYTE_ORDERS))
        raise ValueError(f"byte_order is one of {orders}, not {byte_order!r}")
    if not isinstance(view, TypeMap):
        raise TypeError(f"view is a TypeMap, not {view!r}")
    return _collective.FileView(displacement, view._native, _BYTE_ORDERS.index(byte_order), element_bytes)


def open(
    communicator: MPI.Intracomm,
    path: str | os.PathLike[str],
    mode: str = "r",
    *,
    permissions: int = 0o644,
    method: str = "automatic",
    writers: int = 0,
    buffer_bytes: int = 0,
    files: int = 0,
    hints: Mapping[str, str] | None = None,
) -> File:
    """Collective; opens a file or a URI such as ``nfs://server/export/file`` on all ranks.

    ``mode`` is "r", "r+", "w", "w+", "x" or "x+". For ``method``, ``writers`` and ``buffer_bytes``
    see docs/reference/hints.md; 0 lets Ferry choose. ``hints`` are MPI_Info hints by name.
    ``files`` divides the ranks into that many groups, each with its own file PATH.0, PATH.1 and so
    on; views, offsets and sizes are those of a rank's own file. Rank 0's arguments count; it warns
    about unknown hints (RuntimeWarning).

    Raises OSError on all ranks if opening fails on one. An invalid mode or method raises ValueError
    on the rank that passed it and OSError on the others; so does a URI of an unknown storage.
    """
    mpi_modules.require_same_library(_collective, MPI)
    handle = communicator.py2f()
    try:
        if mode not in _FLAGS:
            raise ValueError(f"mode is one of {', '.join(map(repr, _FLAGS))}, not {mode!r}")
        name = os.fspath(path)
        opening = _collective.Opening(
            encoded(name), _FLAGS[mode], permissions, method, writers, buffer_bytes, files,
            dict(hints or {}),
        )  # fmt: skip
    except Exception as error:
        _collective.refuse_open(handle, _first_line(error))
        raise
    native = _collective.open(handle, opening)
    if communicator.Get_rank() == 0:
        for line in native.warnings():
            warnings.warn(f"{name}: {line}", RuntimeWarning, stacklevel=2)
    return File(native, os.fsdecode(native.path()))
