"""The cells of the study ``placements``, by group, and its files.

Their axes are ``part`` (``transfers``, ``unflushed transfers``, ``large transfers`` or a program's name),
``operation``, ``way``, ``device_cache`` (``cold`` or ``warm``, of reads through it) and ``transfer_bytes``.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from ferry.errors import FerryError
from ferry.files import check_readable_file, scratch_folder
from ferry.sizes import KIB, MIB, format_size, largest_power_of_two
from ferry_lab.run.estimate import write_room_bytes
from ferry_lab.run.made_files import make_pattern_file
from ferry_lab.run.plan import Cell, at
from ferry_lab.run.study import Group, StudyOptions
from ferry_lab.stats import judge

TOTAL_BYTES = 16 * MIB
TOTAL_BYTES_MIN = MIB
LARGE_BYTES = 64 * MIB
SIZES = [4 * KIB << step for step in range(0, 13, 2)]
WRITE_SIZES = [4 * KIB << step for step in range(0, 13, 3)]  # each fsync takes its time
LARGE_SIZES = SIZES[::3]
REPEATS = judge.PAIRS_MIN
LARGE_REPEATS = 2 * judge.FINDING_PAIRS_MIN  # `automatic` is judged on every other one
QUICK_SIZES = SIZES[::2]
QUICK_REPEATS = LARGE_REPEATS
PIECE_BYTES = 64 * KIB
SEED = 1


@dataclass(frozen=True)
class PlacementSeries:
    """One way of moving the bytes."""

    way: str
    interface: str
    placement: str | None = None
    warm: bool = False  # the device's cache is filled first

    def axes(self, operation: str) -> dict[str, str]:
        """Returns where its rows lie: reads through the device's cache differ by that cache's state."""
        cached = operation == "read" and self.way in CACHED
        state = {"device_cache": "warm" if self.warm else "cold"} if cached else {}
        return {"way": self.way, **state}


CACHED = ("compute", "service", "automatic")  # through the device's page cache
PROGRAMS = ("iterative", "once")
UNFLUSHED = "unflushed transfers"
WRITES = (
    PlacementSeries("host", "ferry", "host"),
    *(PlacementSeries(way, "ferry", way) for way in CACHED),
    # The second plain series is there for the noise: it equals the first.
    *(PlacementSeries("plain", "posix"), PlacementSeries("again", "posix"), PlacementSeries("mmap", "mmap")),
)
WARM = tuple(PlacementSeries(way, "ferry", way, warm=True) for way in CACHED)
READS = (*WRITES[:4], *WARM, *WRITES[4:])


def _cells(part: str, operation: str, path: str, total_bytes: int, sizes: Sequence[int], **fields: Any) -> list[Cell]:
    return [
        Cell(
            **at(part=part, operation=operation, **series.axes(operation), transfer_bytes=size),
            interface=series.interface,
            placement=series.placement,
            program=part if part in PROGRAMS else "stream",
            operation=operation,
            path=path,
            transfer_bytes=size,
            total_bytes=total_bytes,
            warm=series.warm,
            **fields,
        )
        for size in sizes
        if size <= total_bytes
        for series in (READS if operation == "read" else WRITES)
    ]


def read_cells(
    path: str, total_bytes: int, sizes: Sequence[int], seed: int | None, part: str = "transfers"
) -> list[Cell]:
    """Returns the cells of the reads; ``seed`` is that of the file's pattern, None: unknown."""
    return _cells(part, "read", path, total_bytes, sizes, expect_pattern_seed=seed)


def write_cells(path: str, total_bytes: int, sizes: Sequence[int], part: str = "transfers") -> list[Cell]:
    """Returns the cells of the writes; each repeat makes the file anew.

    No flush follows ``unflushed transfers``: ``automatic`` writes otherwise where one usually does.
    """
    sync = "none" if part == UNFLUSHED else "flush+fsync"
    return _cells(part, "write", path, total_bytes, sizes, sync=sync, seed=SEED)


def program_cells(read_path: str, write_path: str | None, total_bytes: int, seed: int | None) -> list[Cell]:
    """Returns the cells of the paper's programs; no write twins without a ``write_path``."""
    cells = []
    for program in PROGRAMS:
        cells += read_cells(read_path, total_bytes, [PIECE_BYTES], seed, program)
    for program in PROGRAMS if write_path is not None else ():
        cells += write_cells(write_path, total_bytes, [PIECE_BYTES], program)
    return cells


# ---- the groups, and their files ----------------------------------------------------------------


@dataclass(frozen=True)
class Sources:
    """The files that the study reads and writes."""

    read_path: str
    write_path: str | None  # None: nothing is written
    large_path: str | None  # with LARGE_BYTES to read; None: that part is left out
    total_bytes: int
    seed: int | None  # of the pattern in the files to read; None: unknown
    scratch: Sequence[str] = ()  # folders that were made for them


def make_groups(options: StudyOptions, files: Sources) -> dict[str, Group]:
    """Returns what is measured, by the rows' group."""
    sizes, write_sizes = (QUICK_SIZES, QUICK_SIZES) if options.quick else (SIZES, WRITE_SIZES)
    repeats = options.repeats or (QUICK_REPEATS if options.quick else REPEATS)
    total_bytes, seed, write_path = files.total_bytes, files.seed, files.write_path
    groups = {"read": Group(read_cells(files.read_path, total_bytes, sizes, seed), repeats)}
    if write_path is not None:
        groups["write"] = Group(write_cells(write_path, total_bytes, write_sizes), repeats)
        groups["unflushed"] = Group(write_cells(write_path, total_bytes, write_sizes, UNFLUSHED), repeats)
    if files.large_path is not None:
        cells = read_cells(files.large_path, LARGE_BYTES, LARGE_SIZES, seed, "large transfers")
        groups["large"] = Group(cells, min(repeats, LARGE_REPEATS))
    groups["programs"] = Group(program_cells(files.read_path, write_path, total_bytes, seed), repeats)
    return groups


@contextlib.contextmanager
def sources(options: StudyOptions, notes: list[str]) -> Iterator[Sources]:
    """Gives the file to read, the path to write to, how much, and the pattern of what is read."""
    if options.file is not None:
        yield _named_source(options.file, options.quick, notes)
        return
    large_bytes = 0 if options.quick else LARGE_BYTES
    room_bytes = TOTAL_BYTES + large_bytes + write_room_bytes(TOTAL_BYTES)
    with scratch_folder(options.folder, room_bytes) as folder:
        read_path, large_path, write_path = (str((folder / name).absolute()) for name in ("read", "large", "written"))
        seed = make_pattern_file(read_path, TOTAL_BYTES, SEED)
        if large_bytes > 0:
            make_pattern_file(large_path, large_bytes, SEED)
        scratch = (str(folder.absolute()),)
        yield Sources(read_path, write_path, large_path if large_bytes > 0 else None, TOTAL_BYTES, seed, scratch)


def _named_source(file: str, quick: bool, notes: list[str]) -> Sources:
    size_bytes = check_readable_file(file)
    if size_bytes < TOTAL_BYTES_MIN:
        raise FerryError(
            f"{file} has {format_size(size_bytes)}; the study needs a file of at least "
            f"{format_size(TOTAL_BYTES_MIN)}, better {format_size(TOTAL_BYTES)}"
        )
    total_bytes = min(TOTAL_BYTES, largest_power_of_two(size_bytes))
    notes.append(f"{file} is only read; the write half is left out")
    if total_bytes < TOTAL_BYTES:
        notes.append(f"the file has less than {format_size(TOTAL_BYTES)}: {format_size(total_bytes)} in total instead")
    path = os.path.abspath(file)
    large = not quick and size_bytes >= LARGE_BYTES
    if not quick and not large:
        notes.append(f"the file has less than {format_size(LARGE_BYTES)}: no large reads")
    return Sources(path, None, path if large else None, total_bytes, None)
