"""POSIX access lists of files, without the tools that set them."""

from __future__ import annotations

import errno
import os
import struct
from pathlib import Path

import pytest

_NAME = "system.posix_acl_access"
_NOBODY = 0xFFFFFFFF
# Tags and permissions: the owner, another user, the group, the mask and others. The mode shows the
# mask as the group's permissions.
_ENTRIES = [(0x01, 6, _NOBODY), (0x02, 7, 12345), (0x04, 4, _NOBODY), (0x10, 7, _NOBODY), (0x20, 0, _NOBODY)]
LIST = struct.pack("<I", 2) + b"".join(struct.pack("<HHI", *entry) for entry in _ENTRIES)
MODE = 0o670


def give_list(path: Path) -> None:
    """Also lets another user read and write the file."""
    try:
        os.setxattr(path, _NAME, LIST)
    except OSError as error:
        if error.errno != errno.ENOTSUP:
            raise
        pytest.skip(f"absent: access lists on the file system of {path}")


def list_of(path: Path) -> bytes | None:
    """The file's list; None without one, or without support."""
    try:
        return os.getxattr(path, _NAME)
    except OSError as error:
        if error.errno not in (errno.ENODATA, errno.ENOTSUP):
            raise
        return None
