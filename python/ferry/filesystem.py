"""The fsspec file system of local files: zarr, pandas and xarray use ``ferry:///any/path``."""

from __future__ import annotations

import contextlib
import io
import os
from collections.abc import Sequence
from typing import Any

from fsspec.implementations.local import LocalFileSystem

from ferry.engine import Engine
from ferry.file_objects import open as open_file
from ferry.transfers import TransferError, read_batch, read_files


class Transfers:
    """What all of Ferry's file systems do with its transfers."""

    engine: Engine | None

    def uri(self, path: str) -> str:
        """Returns what ``ferry.open`` takes for ``path``."""
        raise NotImplementedError

    def _open_buffered(self, path: str, mode: str, size: int) -> Any:
        raw = open_file(self.uri(path), mode, engine=self.engine)
        if "+" in mode:
            return io.BufferedRandom(raw, size)
        return io.BufferedReader(raw, size) if "r" in mode else io.BufferedWriter(raw, size)

    def cat_file(self, path: str, start: int | None = None, end: int | None = None, **_: Any) -> bytes:
        """Returns the bytes of a file or of a range of it; negative bounds count from its end."""
        with open_file(self.uri(path), "rb", engine=self.engine) as file:
            first, last, _step = slice(start, end).indices(file.size())
            data = bytearray(max(last - first, 0))
            got = file.read_at(data, first)
            return bytes(data[:got])

    def _read_all(self, paths: list[str]) -> list[bytes]:
        try:
            return list(map(bytes, read_files(map(self.uri, paths), engine=self.engine)))
        except TransferError as error:
            first = error.failures[0]
            raise OSError(first.errno, os.strerror(first.errno), first.path) from error


class FerryFileSystem(Transfers, LocalFileSystem):
    """The local file system with Ferry's transfers; all other methods are fsspec's.

    >>> import fsspec, os, tempfile
    >>> path = os.path.join(tempfile.mkdtemp(), "greeting")
    >>> with fsspec.open(f"ferry://{path}", "wb") as file:
    ...     file.write(b"hello")
    5
    >>> fsspec.filesystem("ferry").cat_file(path, 1, 4)
    b'ell'
    """

    protocol = ("ferry",)

    def __init__(self, engine: Engine | None = None, auto_mkdir: bool = True, **options: Any) -> None:
        """Takes the engine whose threads transfer, and fsspec's options for local files.

        ``auto_mkdir``: creating a file creates its folders, as zarr expects.
        """
        super().__init__(auto_mkdir=auto_mkdir, **options)
        self.engine = engine

    @classmethod
    def _strip_protocol(cls, path: Any) -> Any:
        if isinstance(path, (list, tuple)):
            return [cls._strip_protocol(one) for one in path]
        name = os.fspath(path)
        if name.startswith("ferry://"):
            name = name[len("ferry://") :]
        return LocalFileSystem._strip_protocol(name)

    def uri(self, path: str) -> str:
        """Returns what ``ferry.open`` takes for ``path``."""
        return str(self._strip_protocol(path))

    def unstrip_protocol(self, name: str) -> str:
        """Returns ``name`` as a URL."""
        return f"ferry://{self._strip_protocol(name)}"

    def _open(self, path: str, mode: str = "rb", block_size: int | None = None, **options: Any) -> Any:
        name = self._strip_protocol(path)
        if self.auto_mkdir and "r" not in mode:
            self.makedirs(self._parent(name), exist_ok=True)
        if not options.get("autocommit", True):
            return super()._open(name, mode=mode, block_size=block_size, **options)
        return self._open_buffered(name, mode, block_size or io.DEFAULT_BUFFER_SIZE)

    def cat(self, path: Any, recursive: bool = False, on_error: str = "raise", **options: Any) -> Any:
        """Returns the bytes of one file, or a dict of many files' bytes, read in one call."""
        paths = self.expand_path(path, recursive=recursive)
        several = len(paths) > 1 or isinstance(path, list) or paths[0] != self._strip_protocol(path)
        if not several or on_error != "raise" or options:
            return super().cat(path, recursive=recursive, on_error=on_error, **options)
        return dict(zip(paths, self._read_all(paths), strict=True))

    def cat_ranges(
        self,
        paths: Sequence[str],
        starts: Any,
        ends: Any,
        max_gap: int | None = None,
        on_error: str = "return",
        **options: Any,
    ) -> list[Any]:
        """Returns the bytes of many ranges, read in one call."""
        count = len(paths)
        firsts = list(starts) if isinstance(starts, (list, tuple)) else [starts] * count
        lasts = list(ends) if isinstance(ends, (list, tuple)) else [ends] * count
        plain = all(type(v) is int and v >= 0 for v in (*firsts, *lasts))
        if max_gap is not None or options or not plain or on_error != "raise":
            ranges: list[Any] = super().cat_ranges(paths, starts, ends, max_gap, on_error, **options)
            return ranges
        buffers = [bytearray(max(last - first, 0)) for first, last in zip(firsts, lasts, strict=True)]
        with contextlib.ExitStack() as opened:
            files = {
                path: opened.enter_context(open_file(self.uri(path), "rb", engine=self.engine))
                for path in dict.fromkeys(paths)
            }
            got = read_batch(
                [(files[p], b, f) for p, b, f in zip(paths, buffers, firsts, strict=True)], engine=self.engine
            )
        return [bytes(buffer[:size]) for buffer, size in zip(buffers, got, strict=True)]
