"""fsspec file systems for storages that need no mount: ``nfs://``, ``ceph://`` and ``pvfs2://``."""

from __future__ import annotations

import os
import re
import stat
from typing import Any, ClassVar
from urllib.parse import parse_qsl, urlencode

from fsspec.spec import AbstractFileSystem

from ferry.engine import Engine, choose
from ferry.filesystem import Transfers


class RemoteFileSystem(Transfers, AbstractFileSystem):
    """Files and directories of one kind of storage; ``nfs`` and its siblings choose the kind.

    Give settings of a URI (docs/reference/storages.md) after ``?`` in a URL, or as options of
    ``fsspec.filesystem``. Paths are taken literally, without ``%20`` and the like. Nothing is
    cached between calls, so changes by others are visible.
    """

    # The settings allowed after "?", and what separates scheme and path in a URI.
    settings: ClassVar[tuple[str, ...]] = ()
    separator: ClassVar[str] = ":"

    def __init__(self, engine: Engine | None = None, auto_mkdir: bool = True, **options: Any) -> None:
        """Takes the engine whose threads transfer, the settings of a URI, and fsspec's options.

        ``auto_mkdir``: creating a file creates its folders, as zarr expects.
        """
        given = {name: options.pop(name) for name in self.settings if name in options}
        super().__init__(**options)
        self.engine = engine
        self.auto_mkdir = auto_mkdir
        self._query = f"?{urlencode(given)}" if given else ""

    @classmethod
    def _without_settings(cls, path: str) -> tuple[str, str]:
        """Splits a URL into path and query; glob() uses "?" in patterns too."""
        found = re.search(rf"\?(?=(?:{'|'.join(cls.settings)})=)", path)
        return (path, "") if found is None else (path[: found.start()], path[found.end() :])

    @classmethod
    def _strip_protocol(cls, path: Any) -> Any:
        if isinstance(path, (list, tuple)):
            return [cls._strip_protocol(one) for one in path]
        name = os.fspath(path).removeprefix(f"{cls.protocol}:")
        # Of the slashes in scheme:///path, one belongs to the path.
        if name.startswith("//"):
            name = name[2:]
        return cls._without_settings(name)[0].rstrip("/") or cls.root_marker

    @classmethod
    def _get_kwargs_from_urls(cls, path: str) -> dict[str, str]:
        return dict(parse_qsl(cls._without_settings(path)[1], keep_blank_values=True))

    def unstrip_protocol(self, name: str) -> str:
        """Returns ``name`` as a URL, without settings."""
        return f"{self.protocol}://{self._strip_protocol(name)}"

    def uri(self, path: str) -> str:
        """Returns what ``ferry.open`` takes for ``path``."""
        name = self._strip_protocol(path).replace("%", "%25").replace("?", "%3F")
        return f"{self.protocol}{self.separator}{name}{self._query}"

    def _open(self, path: str, mode: str = "rb", block_size: int | str | None = None, **_: Any) -> Any:
        # Each refill is a round trip to a server, so pieces are larger than for local files.
        size = block_size if isinstance(block_size, int) else self.blocksize
        try:
            return self._open_buffered(path, mode, size)
        except FileNotFoundError:
            if not self.auto_mkdir or "r" in mode:
                raise
        self.makedirs(self._parent(path), exist_ok=True)
        return self._open_buffered(path, mode, size)

    def _found(self, name: str, size_bytes: int, modified_ns: int, mode: int) -> dict[str, Any]:
        kind = "directory" if stat.S_ISDIR(mode) else "file" if stat.S_ISREG(mode) else "other"
        return {
            "name": name,
            "size": 0 if kind == "directory" else size_bytes,
            "type": kind,
            "mode": mode,
            "mtime": modified_ns / 1e9,
        }

    def info(self, path: str, **_: Any) -> dict[str, Any]:
        """Returns ``name``, ``size``, ``type``, ``mode`` and ``mtime`` (seconds since 1970).

        Raises:
            FileNotFoundError: the path does not exist.
            OSError: the server cannot be reached.
        """
        return self._found(self._strip_protocol(path), *choose(self.engine).status(self.uri(path)))

    def exists(self, path: str, **_: Any) -> bool:
        """Whether the path exists. Raises OSError when the server cannot be reached."""
        try:
            self.info(path)
        except (FileNotFoundError, NotADirectoryError):
            return False
        return True

    def ls(self, path: str, detail: bool = True, **_: Any) -> list[Any]:
        """Returns a directory's entries in order, or the one entry of a file.

        ``detail``: as from ``info``, else only the names. Symbolic links are followed; a dangling
        one is ``"other"``. Raises OSError.
        """
        name = self._strip_protocol(path)
        try:
            listed = choose(self.engine).list(self.uri(name))
        except NotADirectoryError:
            entry = self.info(name)
            return [entry] if detail else [entry["name"]]
        above = name.rstrip("/")
        names = [f"{above}/{one}" for one, *_ in listed]
        if not detail:
            return names
        found = []
        for one, (_name, *status) in zip(names, listed, strict=True):
            try:
                found.append(self.info(one) if stat.S_ISLNK(status[2]) else self._found(one, *status))
            except OSError:
                found.append(self._found(one, *status))
        return found

    def mkdir(self, path: str, create_parents: bool = True, **_: Any) -> None:
        """Makes a directory, and with ``create_parents`` its parents. Raises OSError."""
        if create_parents:
            self.makedirs(path, exist_ok=False)
        else:
            choose(self.engine).make_directory(self.uri(path))

    def makedirs(self, path: str, exist_ok: bool = False) -> None:
        """Makes a directory and its parents. Raises OSError."""
        name = self._strip_protocol(path)
        try:
            choose(self.engine).make_directory(self.uri(name))
        except FileExistsError:
            if not exist_ok or not self.isdir(name):
                raise
        except FileNotFoundError:
            above = self._parent(name)
            if above in (name, self.root_marker):
                raise
            self.makedirs(above, exist_ok=True)
            self.makedirs(name, exist_ok=exist_ok)

    def rmdir(self, path: str) -> None:
        """Removes an empty directory. Raises OSError."""
        choose(self.engine).remove_directory(self.uri(path))

    def rm_file(self, path: str) -> None:
        """Removes a file. Raises OSError."""
        choose(self.engine).unlink(self.uri(path))

    def rm(self, path: Any, recursive: bool = False, maxdepth: int | None = None) -> None:
        """Removes files, and with ``recursive`` whole directories. Raises OSError."""
        for one in reversed(self.expand_path(path, recursive=recursive, maxdepth=maxdepth)):
            try:
                self.rm_file(one)
            except IsADirectoryError:
                if not recursive:
                    raise
                self.rmdir(one)

    def mv(self, path1: str, path2: str, **_: Any) -> None:
        """Renames a file or directory; an existing file ``path2`` is replaced. Raises OSError."""
        choose(self.engine).rename(self.uri(path1), self.uri(path2))

    def cp_file(self, path1: str, path2: str, **_: Any) -> None:
        """Copies a file in pieces; makes the directory if ``path1`` is one. Raises OSError."""
        if self.isdir(path1):
            self.makedirs(path2, exist_ok=True)
            return
        with self.open(path1, "rb") as source, self.open(path2, "wb") as target:
            while piece := source.read(self.blocksize):
                target.write(piece)

    def cat(self, path: Any, recursive: bool = False, on_error: str = "raise", **options: Any) -> Any:
        """Returns the bytes of one file, or a dict of many files' bytes, read in one call."""
        if recursive or on_error != "raise" or options or not isinstance(path, list):
            return super().cat(path, recursive=recursive, on_error=on_error, **options)
        return dict(zip(self._strip_protocol(path), self._read_all(path), strict=True))


class NfsFileSystem(RemoteFileSystem):
    """Files of NFS servers: ``nfs://server/export/path``.

    >>> fs = NfsFileSystem(nfsport=20490)
    >>> fs.uri("server/export/file")
    'nfs://server/export/file?nfsport=20490'
    """

    protocol = "nfs"
    settings = ("nfsport", "mountport", "uid", "gid", "connections", "timeout", "version")
    separator = "://"


class CephFileSystem(RemoteFileSystem):
    """Files of CephFS, by its library: ``ceph:///path``.

    >>> CephFileSystem(conf="/etc/ceph/other.conf").uri("ceph:///path")
    'ceph:/path?conf=%2Fetc%2Fceph%2Fother.conf'
    """

    protocol = "ceph"
    settings = ("conf", "fs", "gid", "timeout", "uid", "user")
    root_marker = "/"


class Pvfs2FileSystem(RemoteFileSystem):
    """Files of PVFS2 and OrangeFS, by their library: ``pvfs2:///mount/path``.

    >>> Pvfs2FileSystem().uri("pvfs2:///mount/path")
    'pvfs2:/mount/path'
    """

    protocol = "pvfs2"
    settings = ("gid", "tab", "timeout", "uid")
    root_marker = "/"
