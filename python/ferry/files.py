"""Checks of files and folders that the user names, before anything is measured."""

from __future__ import annotations

import errno
import os
import re
import shutil
import signal
import stat
import tempfile
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from ferry.errors import FerryError
from ferry.sizes import format_size

# Space besides the measured data: metadata, and room for the file system to work.
_SPARE_BYTES = 4 << 20
# Before each try to remove a folder.
_REMOVAL_WAITS_S = (0, 0.1, 0.5, 2)


def check_exists(path: str) -> os.stat_result:
    """Returns the status of ``path``, following links. Raises FerryError."""
    try:
        return os.stat(path)
    except FileNotFoundError:
        raise FerryError(f"{path} does not exist; name a path that does") from None
    except OSError as error:
        raise FerryError(f"{path}: {error.strerror}; name a path that can be read") from None


def check_readable_file(path: str) -> int:
    """Returns the size in bytes of a readable regular file. Raises FerryError."""
    status = check_exists(path)
    if stat.S_ISDIR(status.st_mode):
        raise FerryError(f"{path} is a directory; name a file in it")
    if not stat.S_ISREG(status.st_mode):
        raise FerryError(f"{path} is not a regular file; name one")
    if not os.access(path, os.R_OK):
        raise FerryError(f"{path} may not be read; ask for permission or name another file")
    return status.st_size


def is_block_device(path: str) -> bool:
    """Tells whether ``path`` leads to a block device of this machine."""
    try:
        return stat.S_ISBLK(os.stat(path).st_mode)
    except OSError:
        return False


def check_readable_device(path: str) -> int:
    """Returns the size in bytes of a readable block device. Raises FerryError."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError as error:
        forbidden = error.errno in (errno.EACCES, errno.EPERM)
        hint = "only root and the group of a disk may read it" if forbidden else "see that it is there and has a medium"
        raise FerryError(f"{path}: {error.strerror}; {hint}") from None
    try:
        return os.lseek(descriptor, 0, os.SEEK_END)
    finally:
        os.close(descriptor)


@contextmanager
def device_claimed(path: str) -> Iterator[None]:
    """Keeps a block device from being mounted meanwhile, for who writes to it. Raises FerryError.

    The kernel refuses the claim where a file system, a RAID, swap or the like has the device.
    """
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_EXCL | os.O_CLOEXEC)
    except OSError as error:
        if error.errno == errno.EBUSY:
            raise FerryError(
                f"{path} is in use: mounted, or part of a RAID, a volume or swap; name a device that nothing uses"
            ) from None
        raise FerryError(
            f"{path}: {error.strerror}; writing needs the rights of root and a device for writing"
        ) from None
    try:
        yield
    finally:
        os.close(descriptor)


def check_new_file(path: str, size_bytes: int, overwrite: bool) -> None:
    """Checks that a file of that size can be created at ``path``. Raises FerryError."""
    if os.path.isdir(path):
        raise FerryError(f"{path} is a directory; name a file in it")
    if os.path.lexists(path):
        if not overwrite:
            raise FerryError(f"{path} exists; --overwrite replaces it, another name keeps it")
        if not os.path.isfile(path):
            raise FerryError(f"{path} is not a regular file; name another")
        if not os.access(path, os.W_OK):
            raise FerryError(f"{path} may not be written; ask for permission or name another file")
    check_folder(os.path.dirname(os.path.abspath(path)), size_bytes)


def check_folder(folder: str, size_bytes: int) -> None:
    """Checks that ``folder`` exists, is writable and has room. Raises FerryError."""
    if not os.path.exists(folder):
        raise FerryError(f"the folder {folder} does not exist; make it or name another")
    if not os.path.isdir(folder):
        raise FerryError(f"{folder} is no folder; name one")
    if _keeps_devices(folder):
        raise FerryError(f"{folder} is for devices, not for files; name a device that exists or another folder")
    if not os.access(folder, os.W_OK | os.X_OK):
        raise FerryError(f"the folder {folder} may not be written; choose another")
    needed = size_bytes + _SPARE_BYTES
    free = shutil.disk_usage(folder).free
    if free < needed:
        raise FerryError(
            f"{folder} has {format_size(free)} free and {format_size(needed)} are needed; "
            "free some space or choose another folder"
        )


def _keeps_devices(folder: str) -> bool:
    """Tells whether ``folder`` is /dev or in it, and on its file system, as /dev/shm is not."""
    real = os.path.realpath(folder)
    return f"{real}/".startswith("/dev/") and os.stat(real).st_dev == os.stat("/dev").st_dev


@contextmanager
def scratch_names_hidden(beginning: str, parent: str) -> Iterator[None]:
    """Hides the names of scratch files in errors; says what they are instead."""
    try:
        yield
    except FerryError as error:
        # For a relative folder, the measured process reports the absolute path.
        name = rf"(/[^\s:;,]*/)?{re.escape(beginning)}[^\s:;,?]*(\?[^\s:;,]*)?"
        error.args = (re.sub(name, f"a scratch file in {parent}", str(error)), *error.args[1:])
        raise


@contextmanager
def scratch_folder(parent: str, size_bytes: int) -> Iterator[Path]:
    """Makes a folder for ``size_bytes`` of files under ``parent``; always removes it."""
    check_folder(parent, size_bytes)
    folder = Path(tempfile.mkdtemp(prefix="ferry-", dir=parent))
    try:
        with scratch_names_hidden(str(folder), parent):
            yield folder
    finally:
        with signals_ignored():
            _remove(folder)


def _remove(folder: Path) -> None:
    """Removes a folder and what is in it; tries again for some seconds where that fails.

    Over a network a folder may still count as not empty when its last file has just been removed.
    """
    for wait_s in _REMOVAL_WAITS_S:
        time.sleep(wait_s)
        shutil.rmtree(folder, ignore_errors=True)
        if not folder.exists():
            return


def outermost(folders: Iterable[str]) -> list[str]:
    """Returns the folders that are not inside another of them, each once."""
    ordered = sorted(set(folders), key=len)
    return [
        folder
        for number, folder in enumerate(ordered)
        if not any(folder.startswith(f"{other}{os.sep}") for other in ordered[:number])
    ]


@contextmanager
def signals_ignored() -> Iterator[None]:
    """Blocks Ctrl-C and SIGTERM inside its body."""
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = {number: signal.signal(number, signal.SIG_IGN) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
