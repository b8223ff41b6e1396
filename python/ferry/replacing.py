"""New files in place of old ones, which stay intact until the new ones are complete."""

from __future__ import annotations

import contextlib
import errno
import os
import re
import secrets
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager


def beside(name: str) -> str:
    """Returns a temporary name in the same folder for a file that will replace this one."""
    return os.path.join(os.path.dirname(name), f".ferry-save-{secrets.token_hex(8)}")


@contextmanager
def replacement(path: str) -> Iterator[tuple[str, bool]]:
    """Gives the path of a file to write; renames it to ``path`` if the block raises nothing.

    Also gives whether that replaces an older file: make the new one durable before the block ends.
    It keeps the older file's permissions and owner. The older file itself is overwritten if it is
    not regular, has several names or is read-only, or if its folder does not allow a new file of
    its owner. Links are followed, also to files without a name (/proc/self/fd).
    """
    target = os.path.realpath(path)
    named, old = _status(path), _status(target)
    if named is not None and (old is None or not os.path.samestat(named, old)):
        yield path, False
        return
    scratch = None
    if old is None or _may_be_replaced(target, old):
        try:
            scratch = _make_beside(target, old)
        except OSError as error:
            error.filename = path
            raise
    if scratch is None:
        yield target, False
        return
    try:
        yield scratch, old is not None
        os.rename(scratch, target)
    except BaseException as error:
        remove_after(error, lambda: os.unlink(scratch), scratch)
        raise


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
        and status.st_nlink == 1
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


def _make_beside(target: str, old: os.stat_result | None) -> str | None:
    scratch = beside(target)
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
    if old is None:
        os.close(os.open(scratch, flags, 0o666))
        return scratch
    try:
        descriptor = os.open(scratch, flags, 0o600)
    except PermissionError:
        return None
    try:
        made = os.fstat(descriptor)
        if (made.st_uid, made.st_gid) != (old.st_uid, old.st_gid):
            os.fchown(descriptor, old.st_uid, old.st_gid)
        _keep_permissions(descriptor, target, old)
        return scratch
    except BaseException as error:
        with contextlib.suppress(OSError):
            os.unlink(scratch)
        if isinstance(error, PermissionError):  # another owner's file
            return None
        raise
    finally:
        os.close(descriptor)


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
