"""Files: ``io.RawIOBase`` objects with positioned and asynchronous transfers."""

from __future__ import annotations

import errno
import io
import operator
import os
from typing import Any

from ferry import _bulk
from ferry.engine import Engine, Path, choose, generation
from ferry.transfers import Future, Progress
from ferry.uris import encoded

_READ_ALL_STEP_BYTES = 1 << 20
_POSITION_MAX = (1 << 63) - 1


def _parse_mode(mode: str) -> tuple[int, bool, bool]:
    """Returns the flags of open(2), and whether the file is readable and writable."""
    if not isinstance(mode, str):
        raise TypeError(f"the mode is a str, not {type(mode).__name__}")
    kinds = [letter for letter in mode if letter in "rwax"]
    if set(mode) - set("rwaxb+") or len(set(mode)) != len(mode) or len(kinds) != 1:
        raise ValueError(f"mode {mode!r}: one of r, w, a and x, with + to read and write; b is implied")
    update = "+" in mode
    kind = kinds[0]
    readable, writable = update or kind == "r", update or kind != "r"
    flags = os.O_RDWR if readable and writable else os.O_WRONLY if writable else os.O_RDONLY
    flags |= {"r": 0, "w": os.O_CREAT | os.O_TRUNC, "a": os.O_CREAT | os.O_APPEND, "x": os.O_CREAT | os.O_EXCL}[kind]
    return flags, readable, writable


def open(path: Path, mode: str = "rb", *, engine: Engine | None = None, direct: bool = False) -> File:
    """Opens a file for unbuffered binary I/O.

    Args:
        path: the file, or a URI such as ``nfs://server/export/path``.
        mode: as for the built-in ``open``, always binary: ``r``, ``w``, ``a`` or ``x``, and ``+``.
        engine: whose threads transfer; by default the shared one.
        direct: always bypass the page cache; files of a server have none here.

    Raises:
        OSError: as the built-in ``open``, with ``errno`` and ``filename``.
        ValueError: an invalid mode, or a URI of an unknown storage.

    >>> import os, tempfile
    >>> path = os.path.join(tempfile.mkdtemp(), "numbers")
    >>> with open(path, "wb") as file:
    ...     file.write(b"0123456789")
    10
    >>> with open(path) as file:
    ...     target = bytearray(4)
    ...     file.read_at(target, 3)
    4
    >>> target
    bytearray(b'3456')
    """
    return File(path, mode, engine=engine, direct=direct)


class File(io.RawIOBase):
    """An open file: a raw binary stream, plus positioned transfers that leave its position alone.

    ``io.BufferedReader(file)`` buffers it. Many threads may make positioned calls at once; calls
    that use the position must not overlap. A child of ``fork`` opens the file again with its first
    call, files of a server by name (ESTALE: the file is no longer reachable).
    """

    def __init__(
        self,
        path: Path,
        mode: str = "rb",
        *,
        engine: Engine | None = None,
        direct: bool = False,
        permissions: int = 0o666,
    ) -> None:
        """Opens the file; see ``ferry.open``. A new one gets ``permissions``, less the umask."""
        super().__init__()
        self._native: _bulk.File | None = None
        flags, self._readable, self._writable = _parse_mode(mode)
        self._append = bool(flags & os.O_APPEND)
        self._flags = flags | (os.O_DIRECT if direct else 0)
        self._path = encoded(path)
        self.name = path
        self._engine = choose(engine)
        self._position = 0
        self._native = _bulk.File(self._engine.native, self._path, self._flags, permissions)
        self._generation = generation()
        if self._append:
            self._position = self.size()

    @property
    def native(self) -> _bulk.File:
        """The extension's file. Raises ValueError after close."""
        if self._native is None:
            raise ValueError("I/O operation on closed file")
        if self._generation != generation():
            self._native = _bulk.File.of_parent(self._engine.native, self._native)
            self._generation = generation()
        return self._native

    @property
    def mode(self) -> str:
        """The mode, as ``io.FileIO`` spells it: ``rb``, ``wb``, ``rb+``, ``ab``, ``ab+``, ``xb`` or ``xb+``."""
        kind = "x" if self._flags & os.O_EXCL else "a" if self._append else "r" if self._readable else "w"
        return f"{kind}b+" if self._readable and self._writable else f"{kind}b"

    def __repr__(self) -> str:
        state = "closed" if self.closed else f"mode={self.mode!r}"
        return f"<ferry.File name={self.name!r} {state}>"

    def __reduce_ex__(self, protocol: Any) -> Any:
        # The file exists already, and reopening must not truncate it.
        mode = {"wb": "rb+", "xb": "rb+", "xb+": "rb+"}.get(self.mode, self.mode)
        raise TypeError(
            f"cannot pickle {type(self).__name__!r} object: an open file stays in its process; send its "
            f"path, {os.fspath(self.name)!r}, and open it there with ferry.open(path, {mode!r})"
        )

    # ---- positioned transfers ------------------------------------------------------------------

    def read_at(self, buffer: Any, offset: int, *, progress: Progress | None = None) -> int:
        """Fills ``buffer`` from ``offset`` bytes into the file.

        Args:
            buffer: contiguous and writable, of any shape and type: with the buffer protocol,
                DLPack, ``__array_interface__`` or, in the memory of an NVIDIA GPU,
                ``__cuda_array_interface__``. Its size is the number of bytes to read.
            offset: in bytes, from 0.
            progress: called with ``(bytes_done, bytes_total)`` about ten times per second and at
                the end, on this thread.

        Returns:
            The bytes read; fewer than the buffer holds only at the end of the file.

        Raises:
            OSError: with ``errno``, the path and the range.
            ValueError: the file is closed, the offset negative, the buffer not contiguous or read-only.
            OverflowError: the offset is no number of 63 bits.
            TypeError: there is no memory to read into, or it holds Python objects.
            NotImplementedError: the memory is of a device that is no NVIDIA GPU.
            io.UnsupportedOperation: the file is not open for reading.
        """
        self._check_readable()
        if progress is None:
            return self.native.read_at(buffer, offset)
        return self.read_at_async(buffer, offset).watch(progress)

    def write_at(self, buffer: Any, offset: int, *, progress: Progress | None = None) -> int:
        """Writes all of ``buffer`` at ``offset`` bytes into the file; see ``read_at``.

        Returns the bytes written, which are all. In mode ``a`` the kernel appends whatever the offset.
        """
        self._check_writable()
        if progress is None:
            return self.native.write_at(buffer, offset)
        return self.write_at_async(buffer, offset).watch(progress)

    def read_at_async(self, buffer: Any, offset: int) -> Future[int]:
        """Starts what ``read_at`` does. The buffer must not be used until the future is done."""
        self._check_readable()
        return Future(self._engine, [(self.native, buffer, offset)], writing=False, single=True)

    def write_at_async(self, buffer: Any, offset: int) -> Future[int]:
        """Starts what ``write_at`` does. The buffer must not change until the future is done."""
        self._check_writable()
        return Future(self._engine, [(self.native, buffer, offset)], writing=True, single=True)

    def size(self) -> int:
        """Returns the file's size in bytes."""
        return self.native.size()

    def sync(self) -> None:
        """Returns once data and metadata are durable (fsync)."""
        self.native.sync()

    # ---- the stream ----------------------------------------------------------------------------

    def readable(self) -> bool:
        """Whether the file was opened for reading. Raises ValueError when it is closed."""
        self._check_open()
        return self._readable

    def writable(self) -> bool:
        """Whether the file was opened for writing. Raises ValueError when it is closed."""
        self._check_open()
        return self._writable

    def seekable(self) -> bool:
        """Returns True. Raises ValueError when the file is closed."""
        self._check_open()
        return True

    def read(self, size: int | None = -1) -> bytes:
        """Returns up to ``size`` bytes from the position on; all that are left for None and -1."""
        return super().read(-1 if size is None else size)

    def readinto(self, buffer: Any) -> int:
        """Fills ``buffer`` from the position and moves it; returns the bytes, 0 at the end."""
        self._check_readable()
        got = self.native.read_at(buffer, self._position)
        self._position += got
        return got

    def readall(self) -> bytes:
        """Returns everything from the position to the end."""
        self._check_readable()
        pieces = []
        # As large as the file is now; then on until its end is seen, should it grow.
        step = max(self.size() - self._position, 0) + 1
        while True:
            piece = bytearray(step)
            got = self.readinto(piece)
            pieces.append(memoryview(piece)[:got])
            if got < step:
                return b"".join(pieces)
            step = _READ_ALL_STEP_BYTES

    def write(self, buffer: Any) -> int:
        """Writes all of ``buffer`` at the position, in mode ``a`` at the end; returns the bytes."""
        self._check_writable()
        if isinstance(buffer, str):
            raise TypeError("a bytes-like object is required, not 'str'")
        if self._append:
            before = self.size()
            end = self.native.append(buffer)
            written = memoryview(buffer).nbytes
            self._position = end if written else max(before, self._position)
            return written
        written = self.native.write_at(buffer, self._position)
        self._position += written
        return written

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Moves the position and returns it, in bytes from the beginning.

        Raises:
            OSError: EINVAL for a position before the beginning.
            OverflowError: one that is no number of 63 bits.
            ValueError: ``whence`` is not 0, 1 or 2.
        """
        self._check_open()
        offset = operator.index(offset)
        bases = {io.SEEK_SET: lambda: 0, io.SEEK_CUR: lambda: self._position, io.SEEK_END: self.size}
        if whence not in bases:
            raise ValueError(f"invalid whence ({whence}, should be 0, 1 or 2)")
        position = bases[whence]() + offset
        if position > _POSITION_MAX:
            raise OverflowError(f"position {position} is beyond what a file can have")
        if position < 0:
            raise OSError(errno.EINVAL, os.strerror(errno.EINVAL), self.name)
        self._position = position
        return position

    def truncate(self, size: int | None = None) -> int:
        """Makes the file ``size`` bytes long, by default up to the position, which stays."""
        self._check_writable()
        wanted = self._position if size is None else operator.index(size)
        if wanted > _POSITION_MAX:
            raise OverflowError(f"a size of {wanted} bytes is beyond what a file can have")
        if wanted < 0:
            raise OSError(errno.EINVAL, os.strerror(errno.EINVAL), self.name)
        self.native.truncate(wanted)
        return wanted

    def close(self) -> None:
        """Waits for transfers in flight and closes the file. A second call does nothing."""
        if self.closed:
            return
        native, self._native = self._native, None
        try:
            super().close()
        finally:
            if native is not None and self._generation == generation():
                native.close()

    def fileno(self) -> int:
        """Returns the descriptor, which stays this file's: ``numpy.fromfile`` and ``mmap`` want one.

        Its own position is not that of this object, and what others do with it does not move the latter.

        Raises:
            io.UnsupportedOperation: a server's file has none.
        """
        self._check_open()
        try:
            return self.native.descriptor()
        except OSError as error:
            if error.errno != errno.ENOTSUP:
                raise
            raise io.UnsupportedOperation("a server's file has no descriptor here") from None

    def _check_open(self) -> None:
        if self.closed:
            raise ValueError("I/O operation on closed file")

    def _check_readable(self) -> None:
        if not self.readable():
            raise io.UnsupportedOperation("File not open for reading")

    def _check_writable(self) -> None:
        if not self.writable():
            raise io.UnsupportedOperation("File not open for writing")
