"""Finds a program as the shell does, and says why a library cannot stand under it."""

from __future__ import annotations

import os
import stat
import struct

from ferry.errors import FerryError

_PT_INTERP = 3
_MOST_SCRIPTS = 5  # that the kernel follows, one the interpreter of the other
# The beginnings of the names of glibc's loaders, on all processors.
_LOADERS = ("ld-linux", "ld64.so", "ld.so", "ld-lsb", "ld-2.")


class NotExecutableError(FerryError):
    """The program is there and cannot be executed."""

    exit_status = 126


class NotFoundError(FerryError):
    """There is no such program."""

    exit_status = 127


def find(name: str) -> str:
    """Returns the path of a program, searched for in PATH. Raises NotFoundError, NotExecutableError."""
    refused = ""
    for path in _places(name):
        try:
            mode = os.stat(path).st_mode
        except (FileNotFoundError, NotADirectoryError):
            continue
        except OSError:
            refused = refused or path
            continue
        if stat.S_ISREG(mode) and os.access(path, os.X_OK):
            return path
        refused = refused or path
    if refused:
        why = "is a directory" if os.path.isdir(refused) else "may not be executed"
        raise NotExecutableError(f"{refused} {why}; name a program")
    where = "there" if "/" in name else "in PATH"
    raise NotFoundError(f"'{name}' is not {where}; name a program")


def _places(name: str) -> list[str]:
    if "/" in name:
        return [name]
    folders = os.environ.get("PATH", os.defpath).split(os.pathsep)
    return [os.path.join(folder or ".", name) for folder in folders] if name else []


def why_plain(path: str) -> str | None:
    """Says why the loader will not put a library under this program; None if it will.

    Of a script, its interpreter counts. Raises NotFoundError if that is missing.
    """
    for _ in range(_MOST_SCRIPTS):
        try:
            with open(path, "rb") as file:
                head = file.read(4096)
        except OSError:
            return None  # the kernel may execute what its users may not read
        if not head.startswith(b"#!"):
            break
        words = head[2:].partition(b"\n")[0].split()
        interpreter = os.fsdecode(words[0]) if words else ""
        if not os.path.exists(interpreter):
            raise NotFoundError(f"{path} is a script for '{interpreter}', which is not there; install it")
        path = interpreter
    if not head.startswith(b"\x7fELF"):
        return None  # a script without a first line: /bin/sh runs it
    return _why_others_rights(path) or _why_not_loaded(path, head)


def _why_others_rights(path: str) -> str | None:
    found = os.stat(path)
    if found.st_mode & stat.S_ISUID and found.st_uid != os.geteuid():
        return "runs with its owner's rights (setuid)"
    if found.st_mode & stat.S_ISGID and found.st_mode & stat.S_IXGRP and found.st_gid != os.getegid():
        return "runs with its group's rights (setgid)"
    if os.geteuid() != 0 and "security.capability" in _attributes(path):
        return "runs with capabilities of its own"
    return None


def _attributes(path: str) -> list[str]:
    try:
        return os.listxattr(path)
    except OSError:
        return []


def _why_not_loaded(path: str, head: bytes) -> str | None:
    with open("/proc/self/exe", "rb") as file:
        own = file.read(20)
    # Word size, byte order and processor, which the library shares with this interpreter.
    if len(head) < 64 or head[4:6] != own[4:6] or head[18:20] != own[18:20]:
        return "is made for another kind of processor"
    loader = _loader_of(path, head)
    if loader is None:
        return "is linked statically"
    if not os.path.basename(loader).startswith(_LOADERS):
        return f"has another C library than glibc ({os.path.basename(loader)})"
    return None


def _loader_of(path: str, head: bytes) -> str | None:
    """Returns the loader that a 64-bit ELF file names; None if it names none."""
    order = "<" if head[5] == 1 else ">"
    (table,) = struct.unpack_from(order + "Q", head, 32)
    size, count = struct.unpack_from(order + "HH", head, 54)
    with open(path, "rb") as file:
        for number in range(count):
            file.seek(table + number * size)
            entry = file.read(56)
            if len(entry) == 56 and struct.unpack_from(order + "I", entry)[0] == _PT_INTERP:
                (offset,) = struct.unpack_from(order + "Q", entry, 8)
                (length,) = struct.unpack_from(order + "Q", entry, 32)
                file.seek(offset)
                return os.fsdecode(file.read(min(length, 4096)).rstrip(b"\0"))
    return None
