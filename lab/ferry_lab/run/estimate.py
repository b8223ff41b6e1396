"""Guesses how long a plan takes and how much space it needs.

Uses a few constants and one probe of the storage, just to tell two minutes from twenty. Results
never contain it.
"""

from __future__ import annotations

import os
import tempfile
import time

from ferry.sizes import MIB
from ferry.uris import is_uri
from ferry_lab.run.plan import Cell, Plan, RanksCell

_PROBE_BYTES = 8 * MIB
# Seconds per call besides its bytes; placements other than compute may have to wake a thread.
_CALL_S = {"posix": 1e-6, "mmap": 1e-6, "host": 15e-6, "service": 15e-6}
_CALL_ELSE_S = 3e-6
_FILE_S = 100e-6  # create or find a file, open and close it
_SETTLED_S = 0.15  # until a new file has a version
_COPY_BYTES_PER_S = 3e9  # through the kernel's page cache
_NEW_PAGES_BYTES_PER_S = 1e9  # the same, into pages that the kernel allocates first
_REPEAT_S = 4e-3  # open, close, counters, setting up the caches
_START_S = 0.5  # of one invocation of ferry-bench
_MPI_START_S = 2.0  # of one of ferry-bench-mpi
_RANK_S = 8e-3  # per rank and repeat, for starting, agreeing and verifying
_REMOTE_BYTES_PER_S = 100e6  # for a storage without a simple probe
# Before a write up to this size, ferry-bench warms memory by writing twice as much, untimed.
_WARMED_BYTES_MAX = 256 * MIB
_SETTLING_BYTES = 128 * MIB
_SETTLING_PASSES_MAX = 8


class Estimate:
    """Guesses seconds; probes each folder's file system once."""

    def __init__(self) -> None:
        self._bytes_per_s: dict[int, float] = {}

    def plan_s(self, plan: Plan) -> float:
        """Returns how long an invocation takes, in seconds."""
        if plan.ranks:  # one round is a warm-up
            return _MPI_START_S + (plan.repeats + 1) * sum(map(self.repeat_s, plan.cells))
        verifying = sum(self.repeat_s(cell) for cell in plan.cells if cell.operation == "read")
        return _START_S + verifying + plan.repeats * sum(map(self.repeat_s, plan.cells))

    def repeat_s(self, cell: Cell | RanksCell) -> float:
        """Returns how long one repeat of a cell takes in seconds, including untimed parts."""
        if isinstance(cell, RanksCell):
            return self._ranks_s(cell)
        calls = cell.total_bytes / cell.transfer_bytes / cell.threads
        call_s = calls * _CALL_S.get(cell.placement or cell.interface, _CALL_ELSE_S)
        if cell.program == "files":
            call_s += calls * _FILE_S
        copy_s = cell.total_bytes / _COPY_BYTES_PER_S
        if cell.time_ms:
            passes = 1 if cell.operation != "read" or cell.cold else 1 + _settling_passes(cell)
            return _REPEAT_S + passes * (cell.ramp_ms + cell.time_ms) * 1e-3 + 2 * copy_s
        if cell.operation == "read":
            passes = 2 if cell.warm else 1
            if not (cell.cold or cell.direct):
                passes *= 1 + _settling_passes(cell)
            read_s = cell.total_bytes / self._storage(cell) if cell.cold or cell.direct else copy_s
            return _REPEAT_S + passes * call_s + read_s + copy_s
        new_pages = 3 if cell.total_bytes <= _WARMED_BYTES_MAX else 1
        write_s = new_pages * cell.total_bytes / _NEW_PAGES_BYTES_PER_S
        if cell.warm:
            write_s += _SETTLED_S + copy_s
        if cell.sync != "none" or cell.direct:
            write_s += cell.total_bytes / self._storage(cell)
        return _REPEAT_S + call_s + write_s + copy_s

    def _ranks_s(self, cell: RanksCell) -> float:
        """Ranks wait for each other at a dozen points, longer if fewer of them run at once."""
        waits_s = _RANK_S * cell.ranks
        if cell.interface == "mpiio":  # it polls
            cpus = len(os.sched_getaffinity(0))
            waits_s *= 1 + max(0, cell.ranks - cpus)
        copies_s = 3 * cell.total_bytes / _NEW_PAGES_BYTES_PER_S
        return waits_s + copies_s + cell.total_bytes / self._storage(cell)

    def _storage(self, cell: Cell | RanksCell) -> float:
        if is_uri(cell.path):
            return _REMOTE_BYTES_PER_S
        folder = os.path.dirname(cell.path)
        device = os.stat(folder).st_dev
        if device not in self._bytes_per_s:
            self._bytes_per_s[device] = _probe(folder)
        return self._bytes_per_s[device]


def _settling_passes(cell: Cell) -> int:
    """Returns the number of warm-up reads before a hot read that has neighbours."""
    return max(1, min(_SETTLING_BYTES // cell.total_bytes, _SETTLING_PASSES_MAX))


def _probe(folder: str) -> float:
    """Returns the durable write speed of a new unnamed file, in bytes per second."""
    try:
        with tempfile.TemporaryFile(dir=folder) as file:
            begin = time.monotonic()
            file.write(bytes(_PROBE_BYTES))
            file.flush()
            os.fsync(file.fileno())
            return _PROBE_BYTES / max(time.monotonic() - begin, 1e-6)
    except OSError:
        return 100e6  # a read-only folder: assume a plain disk


def write_room_bytes(total_bytes: int) -> int:
    """Returns the space that a cell writing ``total_bytes`` needs at most."""
    return 2 * total_bytes if total_bytes <= _WARMED_BYTES_MAX else total_bytes


def describe_s(seconds: float) -> str:
    """Returns "about 2 min", rounded to the guess's accuracy."""
    if seconds < 55:
        return f"about {max(5, round(seconds / 5) * 5)} s"
    minutes = round(seconds / 60)
    if minutes < 90:
        return f"about {minutes} min"
    return f"about {seconds / 3600:.1f} h"
