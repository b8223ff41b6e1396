"""Recognises URIs: files of storages that need no mount."""

from __future__ import annotations

import os
import re

SCHEMES = ("nfs://", "ceph:/", "pvfs2:/")
# Settings of a URI that are no secret; storages take no others.
_SETTINGS = {
    *("nfsport", "mountport", "version", "connections", "timeout", "uid", "gid"),
    *("conf", "fs", "user", "tab"),
}


def is_uri(path: str) -> bool:
    """Whether ``path`` is the URI of a file on a storage."""
    return path.startswith(SCHEMES)


_FORMS = "nfs://server/export/file, ceph:/file and pvfs2:/mount/file"
# Common misspellings, of these schemes and of local files.
_NEARLY = re.compile(r"(?:nfs|cephfs|pvfs|orangefs|lustre|posix|file):/.*", re.DOTALL | re.IGNORECASE)
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):/", re.DOTALL)


def why_no_uri(path: str) -> str | None:
    """Explains why a path that looks like a URI is none; None for paths and URIs.

    A folder may have such a name, like ``s3:``; then it is a path.
    """
    scheme = _SCHEME.match(path)
    if scheme is None or is_uri(path) or os.path.lexists(f"{scheme[1]}:"):
        return None
    if "://" not in path[: scheme.end() + 1] and not _NEARLY.fullmatch(path):
        return None
    if scheme[1].lower() in ("file", "posix", "lustre"):
        return f"'{shown(path)}' is no URI of Ferry; a file that is mounted is named by its path alone"
    return f"'{shown(path)}' names no storage that Ferry knows; its URIs are {_FORMS}"


def encoded(path: str | bytes | os.PathLike[str] | os.PathLike[bytes]) -> bytes:
    """Returns a path or URI for the extension. Raises ValueError for a URI of an unknown storage."""
    name = os.fsencode(path)
    if why := why_no_uri(os.fsdecode(name)):
        raise ValueError(why)
    return name


def with_suffix(path: str, suffix: str) -> str:
    """Returns the path with ``suffix`` after the name: before a URI's query."""
    if not is_uri(path):
        return path + suffix
    name, question, settings = path.partition("?")
    return f"{name}{suffix}{question}{settings}"


def folder_of(uri: str) -> str:
    """Returns the URI of a URI's folder."""
    name, question, settings = uri.partition("?")
    folder, slash, _ = name.rpartition("/")
    # In ceph:/file, the first slash is the folder.
    return f"{folder}{slash if folder.endswith(':') else ''}{question}{settings}"


def in_folder(folder: str, name: str) -> str:
    """Returns the URI of a file in a URI's folder."""
    slash = "" if folder.partition("?")[0].endswith("/") else "/"
    return with_suffix(folder, f"{slash}{name}")


def shown(text: str) -> str:
    """Returns a text with the values of unknown URI settings hidden.

    Unknown settings are refused, but a typo could reveal a key.
    """

    def hidden(match: re.Match[str]) -> str:
        mark, name, value = match.groups()
        return f"{mark}{name}={value if name in _SETTINGS else '...'}"

    return re.sub(r"([?&])([^=&?\s]+)=([^&\s]*?)(?=[:;,]?(?:[&\s]|$))", hidden, text)
