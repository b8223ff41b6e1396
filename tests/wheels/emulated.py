"""Reads and writes by bulk transfers, through the wheel's own modules for this processor, and loads what ``ferry
run`` puts under programs."""

import ctypes
import os
import platform
import sys

import numpy as np

import ferry
from ferry import _bulk

folder, machine = sys.argv[1:]
assert platform.machine() == machine, platform.machine()
assert machine in _bulk.__file__, _bulk.__file__
for library in ("libferry_run.so", "libferry_mpiio.so"):
    ctypes.CDLL(os.path.join(os.path.dirname(ferry.__file__), library))
path = os.path.join(folder, "bulk")
mine = np.arange(1_000_000, dtype=np.int32)
with ferry.open(path, "wb") as file:
    assert file.write_at(mine, 0) == mine.nbytes
with ferry.open(path, "rb") as file:
    back = np.zeros_like(mine)
    assert file.read_at_async(back, 0).result() == mine.nbytes
assert (back == mine).all() and (np.fromfile(path, dtype=np.int32) == mine).all()
print(f"Python {platform.python_version()} of {machine} wrote {mine.nbytes} bytes and read them back")
