"""The study ``placements``: which way a device program's reads and writes should go (paper 001).

The placements ``host``, ``compute``, ``service`` and ``automatic``, with plain ``pread``/``pwrite``
and ``mmap`` beside them:

- Reads by transfer size, the file in the host's page cache; for the placements that have a cache in
  the device, with that cache cold and warm.
- Writes by transfer size, each repeat into a new file: the call, call + flush, call + fsync.
- The reads again over more bytes, at fewer sizes.
- The paper's two programs and their write twins: ``iterative`` (move a 64 KiB piece and compute on
  it, piece by piece) and ``once`` (move everything, compute piece by piece).

A second, identical pread/pwrite series (``again``) runs beside the first: what differs between the
two is noise, and only differences above it are called differences.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rich.console import Console

from ferry.errors import FerryError
from ferry.files import check_readable_file, scratch_folder
from ferry.sizes import KIB, MIB, format_size, largest_power_of_two
from ferry_lab.run.estimate import write_room_bytes
from ferry_lab.run.made_files import make_pattern_file
from ferry_lab.run.study import Findings, Group, Matrix, Study, StudyOptions
from ferry_lab.stats import judge
from ferry_lab.studies.placements_cells import (
    PIECE_BYTES,
    SEED,
    program_cells,
    read_cells,
    write_cells,
)
from ferry_lab.studies.placements_findings import VIEWS, compare, conclude
from ferry_lab.studies.placements_report import print_report

if TYPE_CHECKING:
    from ferry_lab.render.report import Page

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

Json = dict[str, Any]


class Placements(Study):
    """See the module."""

    name = "placements"
    takes_file = True

    @contextlib.contextmanager
    def prepare(self, options: StudyOptions, notes: list[str]) -> Iterator[Matrix]:
        """Gives the matrix; raises FerryError."""
        with _sources(options, notes) as sources:
            groups = make_groups(options, sources)
            settings = {
                "total_bytes": sources.total_bytes,
                "large_total_bytes": LARGE_BYTES if "large" in groups else None,
                "piece_bytes": PIECE_BYTES,
                "file": options.file,
            }
            yield Matrix(groups, settings, sources.scratch)

    def findings(self, rows: Sequence[Json]) -> Findings:
        """Sets the placements beside plain calls, each other, and automatic beside the best."""
        comparisons = compare(rows)
        sentences = [sentence for view in VIEWS for sentence in conclude(view, comparisons)]
        return Findings(comparisons, sentences)

    def print_tables(self, console: Console, document: Json) -> None:
        """Prints a table for each question."""
        print_report(console, document)

    def page(self, document: Json) -> Page:
        """Returns the report's plots and tables."""
        from ferry_lab.studies.placements_page import make_page  # see Study.page

        return make_page(document)


@dataclass(frozen=True)
class Sources:
    """The files that the study reads and writes."""

    read_path: str
    write_path: str | None  # None: nothing is written
    large_path: str | None  # with LARGE_BYTES to read; None: that part is left out
    total_bytes: int
    seed: int | None  # of the pattern in the files to read; None: unknown
    scratch: Sequence[str] = ()  # folders that were made for them


def make_groups(options: StudyOptions, sources: Sources) -> dict[str, Group]:
    """Returns what is measured, by the rows' group."""
    sizes, write_sizes = (QUICK_SIZES, QUICK_SIZES) if options.quick else (SIZES, WRITE_SIZES)
    repeats = options.repeats or (QUICK_REPEATS if options.quick else REPEATS)
    total_bytes, seed, write_path = sources.total_bytes, sources.seed, sources.write_path
    groups = {"read": Group(read_cells(sources.read_path, total_bytes, sizes, seed), repeats)}
    if write_path is not None:
        groups["write"] = Group(write_cells(write_path, total_bytes, write_sizes), repeats)
    if sources.large_path is not None:
        cells = read_cells(sources.large_path, LARGE_BYTES, LARGE_SIZES, seed, "large-read")
        groups["large"] = Group(cells, min(repeats, LARGE_REPEATS))
    programs = program_cells(sources.read_path, write_path, total_bytes, seed)
    groups["programs"] = Group(programs, repeats)
    return groups


@contextlib.contextmanager
def _sources(options: StudyOptions, notes: list[str]) -> Iterator[Sources]:
    """Gives the file to read, the path to write to, how much, and the pattern of what is read."""
    if options.file is not None:
        yield _named_source(options.file, options.quick, notes)
        return
    large_bytes = 0 if options.quick else LARGE_BYTES
    room_bytes = TOTAL_BYTES + large_bytes + write_room_bytes(TOTAL_BYTES)
    with scratch_folder(options.folder, room_bytes) as folder:
        read_path = str((folder / "read").absolute())
        seed = make_pattern_file(read_path, TOTAL_BYTES, SEED)
        large_path = None
        if large_bytes > 0:
            large_path = str((folder / "large").absolute())
            make_pattern_file(large_path, large_bytes, SEED)
        write_path = str((folder / "written").absolute())
        scratch = (str(folder.absolute()),)
        yield Sources(read_path, write_path, large_path, TOTAL_BYTES, seed, scratch)


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
        notes.append(
            f"the file has less than {format_size(TOTAL_BYTES)}: "
            f"{format_size(total_bytes)} in total instead"
        )
    path = os.path.abspath(file)
    large = not quick and size_bytes >= LARGE_BYTES
    if not quick and not large:
        notes.append(f"the file has less than {format_size(LARGE_BYTES)}: no large reads")
    return Sources(path, None, path if large else None, total_bytes, None)
