"""The study ``optimizations``: the gain of the page cache's optimisations (after Murty, Sudarsan).

Writes, re-writes, reads and re-reads of 4 MiB records by file size, with all optimisations off,
each on alone, and all on; tmpfs and ramfs for comparison. Also unaligned buffers, and many small
files beside a large one.

All settings share one cache, whose switches are set before each measurement. A second, identical
series with all off (``again``) measures the noise.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console

from ferry.errors import FerryError
from ferry.files import check_folder, outermost, scratch_folder
from ferry.sizes import GIB, MIB, format_size
from ferry_lab.run.estimate import write_room_bytes
from ferry_lab.run.made_files import make_pattern_file
from ferry_lab.run.mounts import Mounts, own_mounts
from ferry_lab.run.plan import RuntimeSettings
from ferry_lab.run.study import Group, Matrix, PagedFindings, PagedStudy, StudyOptions
from ferry_lab.stats import judge
from ferry_lab.studies.optimizations_cells import (
    ALIGNMENT_BYTES,
    KERNEL_KINDS,
    OPERATIONS,
    RECORD_BYTES,
    SEED,
    SMALL_FILE_BYTES,
    SMALL_TOTAL_BYTES,
    Place,
    Places,
    alignment_cells,
    record_cells,
    small_file_cells,
)
from ferry_lab.studies.optimizations_findings import compare, conclude
from ferry_lab.studies.optimizations_report import print_report

if TYPE_CHECKING:
    from ferry_lab.render.report import Page

SIZES = [4 * MIB, 16 * MIB, 64 * MIB, 256 * MIB, GIB]
QUICK_SIZES = [4 * MIB, 16 * MIB, 64 * MIB]
REPEATS = judge.PAIRS_MIN
QUICK_REPEATS = judge.FINDING_PAIRS_MIN
# Of the largest files, each of which takes seconds.
_LARGE_REPEATS = {256 * MIB: 8, GIB: 6}
# The cache, files in memory and the kernel's pages, in sizes of the largest file.
_MEMORY_FACTOR = 8

Json = dict[str, Any]


class Optimizations(PagedStudy):
    """See the module."""

    name = "optimizations"

    @contextlib.contextmanager
    def prepare(self, options: StudyOptions, notes: list[str]) -> Iterator[Matrix]:
        """Gives the matrix; raises FerryError."""
        sizes = _sizes(options, notes)
        to_read = sorted({*sizes, ALIGNMENT_BYTES, SMALL_TOTAL_BYTES})
        written_bytes = max(size + write_room_bytes(size) for size in sizes)
        room_bytes = sum(to_read) + SMALL_TOTAL_BYTES + written_bytes
        with (
            scratch_folder(options.folder, room_bytes) as folder,
            own_mounts() as mounts,
            contextlib.ExitStack() as stack,
        ):
            places = _make_places(folder, mounts, room_bytes, stack, notes)
            for place in places.all():
                for size in to_read:
                    make_pattern_file(place.read_path(size), size, SEED)
                make_pattern_file(place.small_path, SMALL_TOTAL_BYTES, SEED, SMALL_FILE_BYTES)
            settings = {
                "record_bytes": RECORD_BYTES,
                "file_bytes": sizes,
                "alignment_file_bytes": ALIGNMENT_BYTES,
                "small_file_bytes": SMALL_FILE_BYTES,
                "small_total_bytes": SMALL_TOTAL_BYTES,
                "copy_engine": "absent",  # the device cpu has none
                "kernel": list(places.kernel),
            }
            scratch = outermost(place.folder for place in places.all())
            yield Matrix(make_groups(options, places, sizes), settings, scratch)

    def findings(self, rows: Sequence[Json]) -> PagedFindings:
        """Sets every setting beside none, the cache beside the kernel, and so on."""
        comparisons = compare(rows)
        return PagedFindings(comparisons, conclude(comparisons))

    def print_tables(self, console: Console, document: Json) -> None:
        """Prints a table for each question."""
        print_report(console, document)

    def page(self, document: Json) -> Page:
        """Returns the report's plots and tables."""
        from ferry_lab.studies.optimizations_page import make_page  # see PagedStudy.page

        return make_page(document)


def make_groups(
    options: StudyOptions, places: Places, sizes: Sequence[int]
) -> dict[str, Group]:
    """Returns what is measured, by the rows' group."""
    usual = options.repeats or (QUICK_REPEATS if options.quick else REPEATS)
    groups = {}
    for size in sizes:
        repeats = options.repeats or min(usual, _LARGE_REPEATS.get(size, usual))
        cached = _runtime(size)
        for name, operations in (
            ("writes", OPERATIONS[:1]),
            ("re-writes", OPERATIONS[1:2]),
            ("reads", OPERATIONS[2:]),
        ):
            cells = [cell for op in operations for cell in record_cells(op, places, size)]
            groups[f"{name} of {format_size(size)}"] = Group(cells, repeats, cached)
    groups["alignment"] = Group(alignment_cells(places), usual, _runtime(ALIGNMENT_BYTES))
    groups["small files"] = Group(small_file_cells(places), usual, _runtime(SMALL_TOTAL_BYTES))
    return groups


def _runtime(size: int) -> RuntimeSettings:
    """Half of a cache may be dirty before it is written in the background: one whole file is."""
    return RuntimeSettings(device_threads=1, cache_bytes=2 * size + 64 * MIB)


def _sizes(options: StudyOptions, notes: list[str]) -> list[int]:
    """Returns the files' sizes for which there is memory."""
    wanted = QUICK_SIZES if options.quick else SIZES
    free_bytes = _available_bytes()
    sizes = [size for size in wanted if _MEMORY_FACTOR * size <= free_bytes]
    if not sizes:
        raise FerryError(
            f"{format_size(free_bytes)} of memory are free and the study needs "
            f"{format_size(_MEMORY_FACTOR * wanted[0])}; end other programs"
        )
    if len(sizes) < len(wanted):
        notes.append(
            f"files above {format_size(sizes[-1])} are left out: they need "
            f"{_MEMORY_FACTOR} times their size in memory, and {format_size(free_bytes)} are free"
        )
    return sizes


def _available_bytes() -> int:
    for line in Path("/proc/meminfo").read_text(encoding="ascii").splitlines():
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) << 10
    raise FerryError("/proc/meminfo does not say how much memory is free; is this Linux?")


def _make_places(
    folder: Path,
    mounts: Mounts | None,
    room_bytes: int,
    stack: contextlib.ExitStack,
    notes: list[str],
) -> Places:
    kernel = {}
    if mounts is not None:
        for kind in KERNEL_KINDS:
            try:
                kernel[kind] = _place(mounts.memory(kind, folder / kind, room_bytes).folder)
            except FerryError as error:
                notes.append(f"no {kind} beside the cache: {error}")
    else:
        notes.append("only root may mount: no ramfs beside the cache")
        shared = "/dev/shm"
        try:
            check_folder(shared, room_bytes)
            kernel["tmpfs"] = _place(stack.enter_context(scratch_folder(shared, room_bytes)))
        except FerryError as error:
            notes.append(f"no tmpfs beside the cache: {error}")
    return Places(_place(folder), kernel)


def _place(folder: Path) -> Place:
    return Place(str(folder.absolute()))
