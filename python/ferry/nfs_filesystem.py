"""An fsspec file system for files of NFS servers, which need not be mounted: ``nfs://server/export/path``."""

from __future__ import annotations

import errno
import io
import os
import stat
from typing import Any
from urllib.parse import parse_qsl, urlencode

from fsspec.spec import AbstractFileSystem

from ferry.engine import Engine, choose
from ferry.file_objects import open as open_file
from ferry.transfers import TransferError, read_files

_SETTINGS = ("nfsport", "mountport", "uid", "gid", "connections", "timeout", "version")


class NfsFileSystem(AbstractFileSystem):
    """Files of NFS servers by name; directories can be neither listed nor made.

    What comes after a ``?`` in a URL is taken as options, so
    ``fsspec.open("nfs://server/export/file?nfsport=20490")`` and
    ``fsspec.filesystem("nfs", nfsport=20490).open("server/export/file")`` are the same.

    >>> fs = NfsFileSystem(nfsport=20490)
    >>> fs.uri("server/export/file")
    'nfs://server/export/file?nfsport=20490'
    """

    protocol = "nfs"

    def __init__(self, engine: Engine | None = None, **options: Any) -> None:
        """Takes the engine whose threads transfer, the settings of a URI, and fsspec's options."""
        settings = {name: options.pop(name) for name in _SETTINGS if name in options}
        super().__init__(**options)
        self.engine = engine
        self._query = f"?{urlencode(settings)}" if settings else ""

    @classmethod
    def _strip_protocol(cls, path: Any) -> Any:
        if isinstance(path, (list, tuple)):
            return [cls._strip_protocol(one) for one in path]
        return super()._strip_protocol(path.partition("?")[0])

    @staticmethod
    def _get_kwargs_from_urls(path: str) -> dict[str, str]:
        return dict(parse_qsl(path.partition("?")[2], keep_blank_values=True))

    def uri(self, path: str) -> str:
        """Returns what ``ferry.open`` takes for ``path``."""
        return f"nfs://{self._strip_protocol(path)}{self._query}"

    def _open(self, path: str, mode: str = "rb", block_size: int | None = None, **_: Any) -> Any:
        raw = open_file(self.uri(path), mode, engine=self.engine)
        # A round trip to a server for each refill: larger pieces than a local file's.
        size = self.blocksize if block_size in (None, "default") else block_size
        if "+" in mode:
            return io.BufferedRandom(raw, size)
        return io.BufferedReader(raw, size) if "r" in mode else io.BufferedWriter(raw, size)

    def info(self, path: str, **_: Any) -> dict[str, Any]:
        """Returns ``name``, ``size``, ``type``, ``mode`` and ``mtime`` (seconds since 1970).

        Raises:
            FileNotFoundError: there is no such path.
            OSError: the server cannot be reached.
        """
        size_bytes, modified_ns, mode = choose(self.engine).status(self.uri(path))
        kind = "directory" if stat.S_ISDIR(mode) else "file" if stat.S_ISREG(mode) else "other"
        return {
            "name": self._strip_protocol(path),
            "size": 0 if kind == "directory" else size_bytes,
            "type": kind,
            "mode": mode,
            "mtime": modified_ns / 1e9,
        }

    def exists(self, path: str, **_: Any) -> bool:
        """Tells whether there is such a path. Raises OSError when the server cannot be reached."""
        try:
            self.info(path)
        except (FileNotFoundError, NotADirectoryError):
            return False
        return True

    def ls(self, path: str, detail: bool = True, **_: Any) -> list[Any]:
        """Returns the one entry of a file. Raises NotImplementedError for a directory."""
        found = self.info(path)
        if found["type"] == "directory":
            raise NotImplementedError(f"{self.uri(path)}: directories of a server cannot be listed yet")
        return [found] if detail else [found["name"]]

    def mkdir(self, path: str, create_parents: bool = True, **_: Any) -> None:
        """Raises NotImplementedError unless the directory is there."""
        self.makedirs(path, exist_ok=False)

    def makedirs(self, path: str, exist_ok: bool = False) -> None:
        """Does nothing for a directory that is there and may be. Raises FileExistsError, NotImplementedError."""
        if not self.exists(path):
            raise NotImplementedError(f"{self.uri(path)}: directories of a server cannot be made yet")
        if not exist_ok:
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), self.uri(path))

    def rm_file(self, path: str) -> None:
        """Removes a file. Raises OSError."""
        choose(self.engine).unlink(self.uri(path))

    def _rm(self, path: str) -> None:
        self.rm_file(path)

    def mv(self, path1: str, path2: str, **_: Any) -> None:
        """Renames a file; an existing ``path2`` is replaced. Raises OSError."""
        choose(self.engine).rename(self.uri(path1), self.uri(path2))

    def cat_file(self, path: str, start: int | None = None, end: int | None = None, **_: Any) -> bytes:
        """Returns the bytes of a file, or of a range of it; negative places count from its end."""
        with open_file(self.uri(path), "rb", engine=self.engine) as file:
            first, last, _step = slice(start, end).indices(file.size())
            data = bytearray(max(last - first, 0))
            got = file.read_at(data, first)
            return bytes(data[:got])

    def cat(self, path: Any, recursive: bool = False, on_error: str = "raise", **options: Any) -> Any:
        """Returns the bytes of one file, or a dict of those of a list of files, read in one call."""
        if recursive or on_error != "raise" or options or not isinstance(path, list):
            return super().cat(path, recursive=recursive, on_error=on_error, **options)
        try:
            contents = read_files([self.uri(one) for one in path], engine=self.engine)
        except TransferError as error:
            first = error.failures[0]
            raise OSError(first.errno, os.strerror(first.errno), first.path) from error
        return {
            self._strip_protocol(one): bytes(data) for one, data in zip(path, contents, strict=True)
        }
