"""Programs that write records, sync them now and then, and say so; and what a crash may leave of their file."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy
import pytest

from recorded import MARK, Moment, recorded

# Writes records in two passes, in a changing order, syncs now and then, and looks a mark up for each sync
# that has returned: FOLDER FILE HOW RECORDS BYTES WRITES-A-SYNC.
RECORDS = """
import os, sys
folder, path, how, records, size, often = *sys.argv[1:4], *map(int, sys.argv[4:])
flags = {"O_SYNC": os.O_SYNC, "O_DSYNC": os.O_DSYNC}.get(how, 0)
sync = {"fsync": os.fsync, "fdatasync": os.fdatasync}.get(how, lambda file: None)
file = os.open(path, os.O_RDWR | os.O_CREAT | flags, 0o644)
for number in range(2 * records):
    slot = number % records * STEP % records
    data = bytes([1 + (number // records * 101 + slot * 7) % 255]) * size
    assert os.pwrite(file, data, slot * size) == size
    if (number + 1) % often == 0:
        sync(file)
        os.access(f"{folder}/MARK{number + 1}", os.F_OK)
os.close(file)
"""

# The same by bulk transfers of several records each: by io_uring, where the kernel offers it.
BULK = """
import os, sys
import ferry
folder, path, how, records, size, often = *sys.argv[1:4], *map(int, sys.argv[4:])
with ferry.open(path, "r+b") as file:
    for begin in range(0, 2 * records, often):
        futures = []
        for number in range(begin, begin + often):
            slot = number % records * STEP % records
            data = bytes([1 + (number // records * 101 + slot * 7) % 255]) * size
            futures.append(file.write_at_async(data, slot * size))
        assert [future.result() for future in futures] == [size] * often
        file.sync()
        os.access(f"{folder}/MARK{begin + often}", os.F_OK)
"""


@dataclass
class Records:
    """What ``RECORDS`` may leave in its file."""

    how: str = "fsync"
    records: int = 60
    size: int = 300
    often: int = 20
    step: int = 37  # between records that are written one after the other
    name: str = "data"
    gathered: bool = False  # its writes reach the file system as fewer

    def words(self, path: str = "{}/data", program: str = RECORDS) -> list[object]:
        text = program.replace("MARK", MARK).replace("STEP", str(self.step))
        return [sys.executable, "-c", text, "{}", path, self.how, self.records, self.size, self.often]

    def look(self, moment: Moment) -> None:
        found = numpy.frombuffer(moment.files()[self.name], numpy.uint8)
        synced = max((int(mark) for mark in moment.marks), default=0)
        if moment.is_over:
            assert synced == 2 * self.records
        order = numpy.arange(self.records) * self.step % self.records
        since = numpy.zeros(self.records, int)  # the pass whose bytes were synced last
        since[order[: min(synced, self.records)]] = 1
        since[order[: max(synced - self.records, 0)]] = 2
        slots = numpy.arange(self.records)
        versions = [numpy.zeros(self.records), *(1 + (number * 101 + slots * 7) % 255 for number in range(2))]
        right = numpy.zeros(len(found), bool)
        for number, version in enumerate(versions):
            allowed = numpy.repeat(since <= number, self.size)[: len(found)]
            right |= (found == numpy.repeat(version, self.size)[: len(found)]) & allowed
        least = (numpy.flatnonzero(since).max(initial=-1) + 1) * self.size
        assert least <= len(found) <= self.records * self.size, f"{len(found)} bytes {moment.where}"
        assert right.all(), f"byte {numpy.flatnonzero(~right)[:5]} of {len(found)} {moment.where}"


def with_file(folder: Path) -> None:
    (folder / "data").touch()


def check(
    run_in: Path,
    environment: dict[str, str],
    records: Records,
    words: Sequence[object],
    points: int = 25,
    fails: bool = False,
) -> None:
    syncs: Literal["all", "files"] = "files" if fails else "all"
    with recorded(run_in, words, with_file, environment=environment, syncs=syncs) as run:
        assert run.status == 0, run.output()
        assert run.marks
        if records.gathered:
            assert run.length < records.records
        if fails:
            with pytest.raises(AssertionError, match="byte"):
                run.check(records.look, points=points)
        else:
            run.check(records.look, points=points)
