"""Files that appear under their names, or replace older ones, once they are whole and durable.

The new file is written beside, under a temporary name. A process that writes such a file holds a lock
(flock) on it: one that nobody locks is left over from a process or a machine that was cut off.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import fcntl
import itertools
import os
import re
import secrets
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager


def beside(name: str) -> str:
    """Returns a temporary name in the same folder for a file that will replace this one."""
    return os.path.join(os.path.dirname(name), f".ferry-save-{secrets.token_hex(8)}")


def left_over(folder: str) -> list[str]:
    """Returns the temporary files of ``ferry`` in a folder that no process writes any more, but empty ones.

    Of a large folder it looks at a part, as listing one may take long.
    """
    with contextlib.suppress(OSError), os.scandir(folder) as entries:
        names = sorted(entry.name for entry in itertools.islice(entries, _LOOKED_AT) if _BESIDE.fullmatch(entry.name))
        return [name for name in names if _is_left_over(folder, name)]
    return []


_LOOKED_AT = 1000
_BESIDE = re.compile(r"\.ferry-(save|cp)-[0-9a-f]+")


def _is_left_over(folder: str, name: str) -> bool:
    path = os.path.join(folder, name)
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        found = os.fstat(descriptor)
        # Of an empty one the writer may not have the lock yet. Another's may have been renamed meanwhile.
        return stat.S_ISREG(found.st_mode) and found.st_size > 0 and os.path.samestat(found, os.lstat(path))
    except OSError:
        return False
    finally:
        os.close(descriptor)


def sync_folder(folder: str) -> None:
    """Makes the names in a folder durable, where the folder may be read and its file system does that."""
    try:
        descriptor = os.open(folder or ".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except PermissionError:
        return
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):
            raise
    finally:
        os.close(descriptor)


def make_folders(folder: str) -> None:
    """Makes a folder and those that it lies in, durably."""
    if os.path.isdir(folder):
        return
    parent = os.path.dirname(folder)
    if parent:
        make_folders(parent)
    with contextlib.suppress(FileExistsError):
        os.mkdir(folder)
    sync_folder(parent)


@contextmanager
def replacement(path: str, *, only_new: bool = False) -> Iterator[tuple[str, bool]]:
    """Gives the path of a file to write; renames it to ``path`` if the block raises nothing.

    Also gives whether to make the file durable before the block ends; its name is made durable here.
    The new file keeps an older one's permissions and owner. The older file itself is overwritten if it
    is not regular, has several names or is read-only, or if its folder does not allow a new file of
    its owner. Links are followed, also to files without a name (/proc/self/fd). With ``only_new``
    anything that has the name raises FileExistsError.
    """
    if only_new and os.path.lexists(path):
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), path)
    target = os.path.realpath(path)
    is_nameless, old = _look(path, target)
    if is_nameless:
        yield path, False
        return
    scratch, lock = None, -1
    if old is None or _may_be_replaced(target, old):
        try:
            scratch, lock = _make_beside(target, old)
        except OSError as error:
            error.filename = path
            raise
    if scratch is None:
        yield target, old is not None and stat.S_ISREG(old.st_mode)
        return
    try:
        yield scratch, True
        if only_new:
            _rename_to_new(scratch, target)
        else:
            os.rename(scratch, target)
    except BaseException as error:
        remove_after(error, lambda: os.unlink(scratch), scratch)
        raise
    finally:
        os.close(lock)
    sync_folder(os.path.dirname(target))


_AT_FDCWD, _RENAME_NOREPLACE = -100, 1
# How file systems, those of FUSE above all, say that they cannot do something.
_NO_SUCH_CALL = (errno.EINVAL, errno.ENOSYS, errno.ENOTSUP)


def _rename_to_new(scratch: str, target: str) -> None:
    """Raises FileExistsError if the name has been taken meanwhile."""
    library = ctypes.CDLL(None, use_errno=True)
    if library.renameat2(_AT_FDCWD, os.fsencode(scratch), _AT_FDCWD, os.fsencode(target), _RENAME_NOREPLACE) == 0:
        return
    number = ctypes.get_errno()
    if number not in _NO_SUCH_CALL:
        raise OSError(number, os.strerror(number), target)
    try:  # the file system has no such rename; a second name refuses, too
        os.link(scratch, target)
    except OSError as error:
        if error.errno not in (*_NO_SUCH_CALL, errno.EPERM, errno.EMLINK):
            raise
        if os.path.lexists(target):  # it has no second names either
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), target) from None
        os.rename(scratch, target)
    else:
        os.unlink(scratch)


def _look(path: str, target: str) -> tuple[bool, os.stat_result | None]:
    """Tells whether ``path`` leads to another file than its ``target``, whose status it returns, too.

    Looks again if they differ, as another command may have replaced the file between the two looks.
    """
    before: list[tuple[int, int, int] | None] = []
    for _ in range(_LOOKS_MAX):
        named, old = _status(path), _status(target)
        if named is None or (old is not None and os.path.samestat(named, old)):
            return False, old
        found = [status and (status.st_dev, status.st_ino, status.st_ctime_ns) for status in (named, old)]
        if found == before:
            return True, old
        before = found
    return False, old


_LOOKS_MAX = 100  # some file systems give a file another number at each look


def _status(path: str) -> os.stat_result | None:
    try:
        return os.stat(path)
    except FileNotFoundError:
        return None


def remove_after(error: BaseException, remove: Callable[[], object], scratch: str) -> None:
    """Calls ``remove``; adds its failure as a note to ``error``, which made it necessary."""
    try:
        remove()
    except FileNotFoundError:
        pass
    except OSError as another:
        error.add_note(f"{scratch} could not be removed: {another.strerror}")


def _may_be_replaced(path: str, status: os.stat_result) -> bool:
    return (
        stat.S_ISREG(status.st_mode)
        and status.st_nlink <= 1  # 0: another command has replaced it meanwhile
        and not _is_mount_point(path)
        and os.access(path, os.W_OK, effective_ids=True)
    )


def _is_mount_point(path: str) -> bool:
    """Whether something is mounted over the file, as in some containers."""
    try:
        with open("/proc/self/mountinfo", encoding="utf-8", errors="surrogateescape") as lines:
            points = [line.split(" ")[4] for line in lines]
    except OSError:
        return False
    return path in (re.sub(r"\\([0-7]{3})", lambda code: chr(int(code[1], 8)), point) for point in points)


def _make_beside(target: str, old: os.stat_result | None) -> tuple[str | None, int]:
    """Returns its name, none if the older file must be overwritten, and a descriptor that holds its lock."""
    scratch = beside(target)
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
    try:
        descriptor = os.open(scratch, flags, 0o666 if old is None else 0o600)
    except PermissionError:
        if old is None:
            raise
        return None, -1
    try:
        with contextlib.suppress(OSError):
            fcntl.flock(descriptor, fcntl.LOCK_EX)  # left_over() holds it for a moment at most
        if old is not None:
            made = os.fstat(descriptor)
            if (made.st_uid, made.st_gid) != (old.st_uid, old.st_gid):
                os.fchown(descriptor, old.st_uid, old.st_gid)
            _keep_permissions(descriptor, target, old)
        return scratch, descriptor
    except BaseException as error:
        os.close(descriptor)
        with contextlib.suppress(OSError):
            os.unlink(scratch)
        # Another owner's file. EINVAL: of an owner who is unknown here, as in containers, or to a server.
        if isinstance(error, OSError) and error.errno in (errno.EPERM, errno.EACCES, errno.EINVAL):
            return None, -1
        raise


# The access control list, where a file has one.
_ACL = "system.posix_acl_access"


def _keep_permissions(descriptor: int, target: str, old: os.stat_result) -> None:
    """Gives the new file the old one's mode and access control list.

    Without the list, its mask would become the group's permissions.
    """
    try:
        acl = os.getxattr(target, _ACL)
    except OSError as error:
        if error.errno not in (errno.ENODATA, errno.ENOTSUP):
            raise
    else:
        os.setxattr(descriptor, _ACL, acl)
        return
    with contextlib.suppress(OSError):
        os.removexattr(descriptor, _ACL)  # may have been inherited from the folder
    os.fchmod(descriptor, old.st_mode & 0o777)
