"""Limits of the machine, which a process sets itself and keeps over exec: ``limits.py NAME... -- COMMAND...``."""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import resource
import struct
import sys
from collections.abc import Callable

PR_SET_SECCOMP, PR_CAPBSET_DROP, PR_SET_NO_NEW_PRIVS, PR_SET_THP_DISABLE = 22, 24, 38, 41
CAP_IPC_LOCK = 14
CLONE_THREAD = 0x10000
SYS_IO_URING_SETUP, SYS_CLONE3 = 425, 435
SYS_CLONE = {"x86_64": 56, "aarch64": 220}
SYS_OPENAT = {"x86_64": 257, "aarch64": 56}

# Instructions of the filter, as in linux/bpf_common.h.
LOAD, EQUAL, ANY_BIT, RETURN = 0x20, 0x15, 0x45, 0x06
ALLOW, FAIL = 0x7FFF0000, 0x00050000
NUMBER, FIRST_ARGUMENT, THIRD_ARGUMENT = 0, 16, 32  # where they are in seccomp_data; little-endian


def _prctl(option: int, *arguments: int) -> None:
    if ctypes.CDLL(None, use_errno=True).prctl(option, *map(ctypes.c_ulong, (*arguments, 0, 0, 0, 0)[:4])) != 0:
        raise OSError(ctypes.get_errno(), "prctl")


def _filter_calls(*program: tuple[int, int, int, int]) -> None:
    """Each instruction: code, where to jump if true and if false, constant."""
    code = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *one) for one in program))
    described = ctypes.create_string_buffer(struct.pack("HxxxxxxP", len(program), ctypes.addressof(code)))
    _prctl(PR_SET_NO_NEW_PRIVS, 1)
    _prctl(PR_SET_SECCOMP, 2, ctypes.addressof(described))


def _refuse(call: int, error: int) -> None:
    _filter_calls((LOAD, 0, 0, NUMBER), (EQUAL, 0, 1, call), (RETURN, 0, 0, FAIL | error), (RETURN, 0, 0, ALLOW))


def _refuse_threads() -> None:
    _refuse(SYS_CLONE3, errno.ENOSYS)  # the C library then uses clone()
    _filter_calls(
        (LOAD, 0, 0, NUMBER),
        (EQUAL, 0, 3, SYS_CLONE[platform.machine()]),
        (LOAD, 0, 0, FIRST_ARGUMENT),
        (ANY_BIT, 0, 1, CLONE_THREAD),
        (RETURN, 0, 0, FAIL | errno.EAGAIN),
        (RETURN, 0, 0, ALLOW),
    )


def refuse_folders_to_sync(error: int) -> None:
    """No folder is opened, but for listing it."""
    _filter_calls(
        (LOAD, 0, 0, NUMBER),
        (EQUAL, 0, 3, SYS_OPENAT[platform.machine()]),
        (LOAD, 0, 0, THIRD_ARGUMENT),
        (EQUAL, 0, 1, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC),
        (RETURN, 0, 0, FAIL | error),
        (RETURN, 0, 0, ALLOW),
    )


def _forbid_locked_memory() -> None:
    resource.setrlimit(resource.RLIMIT_MEMLOCK, (0, 0))
    if os.geteuid() == 0:  # whom no limit binds
        _prctl(PR_CAPBSET_DROP, CAP_IPC_LOCK)


def _limit(what: int, most: int) -> Callable[[], None]:
    return lambda: resource.setrlimit(what, (most, most))


LIMITS: dict[str, Callable[[], None]] = {
    "io_uring-unknown": lambda: _refuse(SYS_IO_URING_SETUP, errno.ENOSYS),
    "io_uring-forbidden": lambda: _refuse(SYS_IO_URING_SETUP, errno.EPERM),
    "no-huge-pages": lambda: _prctl(PR_SET_THP_DISABLE, 1),
    "no-locked-memory": _forbid_locked_memory,
    "no-threads": _refuse_threads,
    "one-cpu": lambda: os.sched_setaffinity(0, {min(os.sched_getaffinity(0))}),
    "no-home": lambda: os.environ.update(HOME="/proc", XDG_CONFIG_HOME="", XDG_CACHE_HOME=""),
    "clock-jumps": lambda: os.environ.update(LD_PRELOAD=os.environ["FERRY_JUMPING_CLOCK"]),
    "time-zone-east": lambda: os.environ.update(TZ="Pacific/Kiritimati"),
    "time-zone-unknown": lambda: os.environ.update(TZ="Nowhere/At_All"),
    **{f"{most}-descriptors": _limit(resource.RLIMIT_NOFILE, most) for most in (8, 16, 40)},
    **{f"{most}-MiB": _limit(resource.RLIMIT_AS, most << 20) for most in (150, 400)},
}


if __name__ == "__main__":
    end = sys.argv.index("--")
    for name in sys.argv[1:end]:
        LIMITS[name]()
    os.execvp(sys.argv[end + 1], sys.argv[end + 1 :])
