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
from pathlib import Path
from typing import Any

from ferry import judge, results, terminal
from ferry.errors import FerryError
from ferry.files import check_folder, check_readable_file, scratch_folder
from ferry.native import Measurement, run_plan
from ferry.placements_cells import PIECE_BYTES, SEED, program_cells, read_cells, write_cells
from ferry.placements_findings import VIEWS, compare, conclude
from ferry.placements_report import print_report
from ferry.plan import Cell, Plan, RuntimeSettings
from ferry.sizes import KIB, MIB, format_size, largest_power_of_two

TOTAL_BYTES = 16 * MIB
TOTAL_BYTES_MIN = MIB
LARGE_BYTES = 64 * MIB
SIZES = [4 * KIB << step for step in range(0, 13, 2)]
WRITE_SIZES = [4 * KIB << step for step in range(0, 13, 3)]  # each fsync takes its time
LARGE_SIZES = SIZES[::3]
REPEATS = judge.PAIRS_MIN
LARGE_REPEATS = 8
QUICK_SIZES = SIZES[::2]
QUICK_REPEATS = 5
_OUTPUTS = ("results.json", "results.csv")

Json = dict[str, Any]


@dataclass(frozen=True)
class StudyOptions:
    """What was asked for."""

    folder: str  # for scratch files
    file: str | None
    quick: bool
    repeats: int | None
    out: str | None
    json: str | None
    overwrite: bool


def run(options: StudyOptions) -> None:
    """Measures, prints tables and conclusions, writes what was asked for. Raises FerryError."""
    started = results.now()
    results.check_output(options.json, options.overwrite)
    _check_out(options)
    notes: list[str] = []
    with _sources(options, notes) as sources:
        groups = make_groups(options, sources)
        measurements = _measure_all(groups)
    repeats = groups["read"].repeats
    if repeats < judge.PAIRS_MIN:
        notes.append(
            f"{repeats} pairs for each ratio; a verdict needs {judge.PAIRS_MIN}, "
            "which the study without --quick makes"
        )
    rows = [
        results.make_row(cell, name, measurements[name].samples[cell.id])
        for name, group in groups.items()
        for cell in group.cells
    ]
    notes += unverified_notes(rows)
    comparisons = compare(rows)
    settings = {
        "quick": options.quick,
        "repeats": {name: group.repeats for name, group in groups.items()},
        "total_bytes": sources.total_bytes,
        "large_total_bytes": LARGE_BYTES if "large" in groups else None,
        "piece_bytes": PIECE_BYTES,
        "file": options.file,
    }
    document = results.make_document(
        "study",
        settings,
        list(measurements.values()),
        rows,
        study="placements",
        started=started,
        notes=notes,
        comparisons=comparisons,
        conclusions=[sentence for view in VIEWS for sentence in conclude(view, comparisons)],
    )
    if options.json != "-":
        print_report(terminal.output_console(), document)
    _write(options, document)


@dataclass(frozen=True)
class Sources:
    """The files that the study reads and writes."""

    read_path: str
    write_path: str | None  # None: nothing is written
    large_path: str | None  # with LARGE_BYTES to read; None: that part is left out
    total_bytes: int
    seed: int | None  # of the pattern in the files to read; None: unknown


@dataclass(frozen=True)
class Group:
    """Cells that are measured in one invocation, interleaved."""

    cells: list[Cell]
    repeats: int


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


def unverified_notes(rows: Sequence[Json]) -> list[str]:
    """Returns a line for each cache whose state could not be proven, naming what was measured."""
    notes = []
    for key, cache in (("cache_state", "host's"), ("device_cache_state", "device's")):
        names = [row["id"] for row in rows if row[key] == "unverified"]
        if names:
            more = f" and {len(names) - 3} more" if len(names) > 3 else ""
            notes.append(
                f"unverified: the state of the {cache} page cache could not be proven before every "
                f"repeat of {', '.join(names[:3])}{more}"
            )
    return notes


@contextlib.contextmanager
def _sources(options: StudyOptions, notes: list[str]) -> Iterator[Sources]:
    """Gives the file to read, the path to write to, how much, and the pattern of what is read."""
    if options.file is not None:
        yield _named_source(options.file, options.quick, notes)
        return
    large_bytes = 0 if options.quick else LARGE_BYTES
    with scratch_folder(options.folder, 2 * TOTAL_BYTES + large_bytes) as folder:
        read_path = str((folder / "read").absolute())
        seed = make_file(read_path, TOTAL_BYTES)
        large_path = None
        if large_bytes > 0:
            large_path = str((folder / "large").absolute())
            make_file(large_path, large_bytes)
        write_path = str((folder / "written").absolute())
        yield Sources(read_path, write_path, large_path, TOTAL_BYTES, seed)


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


def make_file(path: str, size_bytes: int) -> int:
    """Makes a file with the pattern, durable; returns the pattern's seed. Raises FerryError."""
    cell = Cell(
        id="make",
        interface="posix",
        operation="write",
        path=path,
        transfer_bytes=min(size_bytes, MIB),
        total_bytes=size_bytes,
        sync="fsync",
        keep=True,
        seed=SEED,
    )
    return int(run_plan(Plan([cell], 1)).samples["make"][0]["pattern_seed"])


def _measure_all(groups: dict[str, Group]) -> dict[str, Measurement]:
    measurements = {}
    for number, (name, group) in enumerate(groups.items(), 1):
        label = f"placements {number}/{len(groups)}: {name}"
        with terminal.progress(label, len(group.cells) * group.repeats) as advance:
            plan = Plan(group.cells, group.repeats, RuntimeSettings(device_threads=1))
            measurements[name] = run_plan(plan, advance)
    return measurements


def _check_out(options: StudyOptions) -> None:
    if options.out is None:
        return
    if not os.path.exists(options.out):
        check_folder(os.path.dirname(os.path.abspath(options.out)), 0)
        return
    check_folder(options.out, 0)
    for name in _OUTPUTS:
        results.check_output(os.path.join(options.out, name), options.overwrite)


def _write(options: StudyOptions, document: Json) -> None:
    if options.json is not None:
        results.write_json(options.json, document, options.overwrite)
    if options.out is not None:
        folder = Path(options.out)
        folder.mkdir(exist_ok=True)
        json_name, csv_name = _OUTPUTS
        results.write_json(str(folder / json_name), document, options.overwrite)
        table = results.to_csv(document["rows"])
        results.write_text(str(folder / csv_name), table, options.overwrite)
