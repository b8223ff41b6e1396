"""Each allocation that the package makes in C++ fails once: reads and saves end with an error, or are right.

    LD_PRELOAD=libferry_failing_new.so python lacks_memory.py FOLDER SERVED STEP FIRST

FOLDER is a path or a URI with a `*` for the name, SERVED the folder that it stands for. Only every STEP-th allocation
fails, from the FIRST on. Prints how many have failed.
"""

from __future__ import annotations

import ctypes
import errno
import sys
from collections.abc import Callable
from pathlib import Path

import ferry
import numpy

FOLDER, SERVED = sys.argv[1], Path(sys.argv[2])
STEP, FIRST = int(sys.argv[3]), int(sys.argv[4])
OLD = numpy.arange(40_000)
NEW = numpy.arange(40_000) * 3
fail_new = ctypes.CDLL(None).ferry_fail_new
fail_new.argtypes, fail_new.restype = [ctypes.c_long], ctypes.c_long


def named(name: str) -> str:
    """The name in calls."""
    return FOLDER.replace("*", name)


def works(what: Callable[[], object]) -> bool:
    """Whether it succeeds. Otherwise the memory was what it lacked."""
    try:
        what()
    except MemoryError:
        return False
    except OSError as error:
        assert error.errno in (errno.ENOMEM, errno.EAGAIN, errno.EIO), error
        return False
    return True


def again(what: Callable[[], object]) -> None:
    """Fails at most once: a second time there is memory."""
    assert works(what) or works(what), what


def is_either(array: numpy.ndarray) -> bool:
    """The old array or the new one, and nothing between."""
    return bool(numpy.array_equal(array, OLD) or numpy.array_equal(array, NEW))


def use_file() -> None:
    """Reads and writes a file that is open."""
    target = numpy.empty_like(NEW)
    with ferry.open(named("raw"), "w+") as file:
        assert file.write_at(NEW, 0) == NEW.nbytes
        assert file.read_at(target, 0) == NEW.nbytes
        assert numpy.array_equal(target, NEW)
        file.sync()


def load() -> None:
    """The whole array."""
    assert numpy.array_equal(ferry.load(named("array.npy")), NEW)


def read() -> None:
    """Several files at once."""
    wanted = (SERVED / "array.npy").read_bytes()
    for one in ferry.read_files([named("array.npy")] * 3):
        assert bytes(one) == wanted


def run() -> None:
    """All of it, with one fault."""
    numpy.save(SERVED / "array.npy", OLD)
    if not works(lambda: ferry.save(named("array.npy"), NEW)):
        assert is_either(numpy.load(SERVED / "array.npy"))
        ferry.save(named("array.npy"), NEW)
    assert numpy.array_equal(numpy.load(SERVED / "array.npy"), NEW)
    for step in (load, use_file, read):
        again(step)
    assert (SERVED / "raw").read_bytes() == NEW.tobytes()


run()  # what is made once for the process
failed = 0
for n in range(FIRST, 1_000_000, STEP):
    fail_new(n)
    try:
        run()
    except BaseException:
        print("the allocation that failed:", n, file=sys.stderr)
        raise
    if fail_new(0) < n:
        break
    failed += 1
print(failed)
