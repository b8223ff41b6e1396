"""The study ``placements``: which way a device program's reads and writes should go (paper 001).

So far: placement ``host`` beside plain ``pread``/``pwrite`` and ``mmap``.

- Reads by transfer size, the file in the host's page cache.
- Writes by transfer size, as call and as call + fsync, each repeat into a new file.
- The paper's two programs and their write twins: ``iterative`` (move a 64 KiB piece and compute on
  it, piece by piece) and ``once`` (move everything, compute piece by piece).

A second, identical pread/pwrite series (``again``) runs beside the first: what differs between the
two is noise, and only differences above it are called differences.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ferry import judge, results, terminal
from ferry.errors import FerryError
from ferry.files import check_folder, check_readable_file, scratch_folder
from ferry.native import Measurement, run_plan
from ferry.placements_report import format_noise, print_report
from ferry.plan import Cell, Plan, RuntimeSettings
from ferry.sizes import KIB, MIB, format_size, largest_power_of_two

TOTAL_BYTES = 16 * MIB
TOTAL_BYTES_MIN = MIB
PIECE_BYTES = 64 * KIB
SIZES = [4 * KIB << step for step in range(13)]
QUICK_SIZES = SIZES[::2]
REPEATS = judge.PAIRS_MIN
QUICK_REPEATS = 8
SEED = 1
_OUTPUTS = ("results.json", "results.csv")

Json = dict[str, Any]

# Name in ids and in the report, interface. The first is judged against the second; the third is
# the second once more.
SERIES = (("host", "ferry"), ("plain", "posix"), ("again", "posix"), ("mmap", "mmap"))


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


@dataclass(frozen=True)
class Comparison:
    """What is set beside each other: two series of one group at one point."""

    group: str
    metric: str  # of the row's metrics, "..._mib_per_s" or "..._ns"
    time_ns: Callable[[Json], int]


COMPARISONS = (
    Comparison("read", "bandwidth_mib_per_s", results.call_ns),
    Comparison("write", "bandwidth_mib_per_s", results.call_ns),
    Comparison("write", "bandwidth_with_sync_mib_per_s", results.call_and_sync_ns),
    Comparison("programs", "loop_ns", results.loop_ns),
)


def read_cells(path: str, total_bytes: int, sizes: Sequence[int], seed: int | None) -> list[Cell]:
    """Returns the cells of the reads; ``seed`` is that of the file's pattern, None: unknown."""
    return [
        Cell(
            id=f"read/{name}/{size}",
            interface=interface,
            operation="read",
            path=path,
            transfer_bytes=size,
            total_bytes=total_bytes,
            expect_pattern_seed=seed,
        )
        for size in sizes
        if size <= total_bytes
        for name, interface in SERIES
    ]


def write_cells(path: str, total_bytes: int, sizes: Sequence[int]) -> list[Cell]:
    """Returns the cells of the writes; each repeat makes the file anew."""
    return [
        Cell(
            id=f"write/{name}/{size}",
            interface=interface,
            operation="write",
            path=path,
            transfer_bytes=size,
            total_bytes=total_bytes,
            sync="fsync",
            seed=SEED,
        )
        for size in sizes
        for name, interface in SERIES
    ]


def program_cells(
    read_path: str, write_path: str | None, total_bytes: int, seed: int | None
) -> list[Cell]:
    """Returns the cells of the paper's programs; no write twins without a ``write_path``."""
    cells = []
    for operation, path in (("read", read_path), ("write", write_path)):
        if path is None:
            continue
        for program in ("iterative", "once"):
            for name, interface in SERIES:
                cells.append(
                    Cell(
                        id=f"{program}-{operation}/{name}/{PIECE_BYTES}",
                        interface=interface,
                        operation=operation,
                        path=path,
                        transfer_bytes=PIECE_BYTES,
                        total_bytes=total_bytes,
                        program=program,
                        seed=SEED,
                        expect_pattern_seed=seed if operation == "read" else None,
                    )
                )
    return cells


def run(options: StudyOptions) -> None:
    """Measures, prints tables and conclusions, writes what was asked for. Raises FerryError."""
    started = results.now()
    results.check_output(options.json, options.overwrite)
    _check_out(options)
    repeats = options.repeats or (QUICK_REPEATS if options.quick else REPEATS)
    sizes = QUICK_SIZES if options.quick else SIZES
    notes: list[str] = []
    with _sources(options, notes) as (read_path, write_path, total_bytes, seed):
        groups = {"read": read_cells(read_path, total_bytes, sizes, seed)}
        if write_path is not None:
            groups["write"] = write_cells(write_path, total_bytes, sizes)
        groups["programs"] = program_cells(read_path, write_path, total_bytes, seed)
        measurements = _measure_all(groups, repeats)
    if repeats < judge.PAIRS_MIN:
        notes.append(
            f"{repeats} pairs for each ratio; a verdict needs {judge.PAIRS_MIN}, "
            "which the study without --quick makes"
        )
    rows = [
        results.make_row(cell, group, measurements[group].samples[cell.id])
        for group, cells in groups.items()
        for cell in cells
    ]
    if any(row["cache_state"] == "unverified" for row in rows):
        notes.append("unverified: the page cache's state could not be proven before every repeat")
    comparisons = compare(rows)
    conclusions = conclude(comparisons)
    settings = {
        "quick": options.quick,
        "repeats": repeats,
        "total_bytes": total_bytes,
        "piece_bytes": PIECE_BYTES,
        "transfer_bytes": [size for size in sizes if size <= total_bytes],
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
        conclusions=conclusions,
    )
    if options.json != "-":
        print_report(terminal.output_console(), document)
    _write(options, document)


@contextlib.contextmanager
def _sources(
    options: StudyOptions, notes: list[str]
) -> Iterator[tuple[str, str | None, int, int | None]]:
    """Gives the file to read, the path to write to, how much, and the pattern of what is read."""
    if options.file is not None:
        size_bytes = check_readable_file(options.file)
        if size_bytes < TOTAL_BYTES_MIN:
            raise FerryError(
                f"{options.file} has {format_size(size_bytes)}; the study needs a file of at least "
                f"{format_size(TOTAL_BYTES_MIN)}, better {format_size(TOTAL_BYTES)}"
            )
        total_bytes = min(TOTAL_BYTES, largest_power_of_two(size_bytes))
        notes.append(f"{options.file} is only read; the write half is left out")
        if total_bytes < TOTAL_BYTES:
            notes.append(
                f"the file has less than {format_size(TOTAL_BYTES)}: "
                f"{format_size(total_bytes)} in total instead"
            )
        yield os.path.abspath(options.file), None, total_bytes, None
        return
    with scratch_folder(options.folder, 2 * TOTAL_BYTES) as folder:
        read_path = str((folder / "read").absolute())
        seed = make_file(read_path, TOTAL_BYTES)
        yield read_path, str((folder / "written").absolute()), TOTAL_BYTES, seed


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


def _measure_all(groups: dict[str, list[Cell]], repeats: int) -> dict[str, Measurement]:
    measurements = {}
    for number, (group, cells) in enumerate(groups.items(), 1):
        label = f"placements {number}/{len(groups)}: {group}"
        with terminal.progress(label, len(cells) * repeats) as advance:
            plan = Plan(cells, repeats, RuntimeSettings(device_threads=1))
            measurements[group] = run_plan(plan, advance)
    return measurements


def compare(rows: Sequence[Json]) -> list[Json]:
    """Sets ``host`` beside plain calls at every point: ratios of bandwidths, above 1 is faster."""
    by_id = {row["id"]: row for row in rows}
    comparisons = []
    for kind in COMPARISONS:
        for row in rows:
            head, series, size = row["id"].split("/")
            if row["group"] != kind.group or series != "host":
                continue
            plain, again = by_id[f"{head}/plain/{size}"], by_id[f"{head}/again/{size}"]
            ratio = _ratio_bounds(row, plain, kind)
            aa = _ratio_bounds(plain, again, kind)
            comparisons.append(
                {
                    "group": kind.group,
                    "metric": kind.metric,
                    "row": row["id"],
                    "baseline": plain["id"],
                    "program": row["program"],
                    "operation": row["operation"],
                    "transfer_bytes": row["transfer_bytes"],
                    "pairs": len(row["repeats"]),
                    "ratio_median": ratio.median,
                    "ratio_low_95": ratio.low,
                    "ratio_high_95": ratio.high,
                    "aa_median": aa.median,
                    "aa_low_95": aa.low,
                    "aa_high_95": aa.high,
                    "aa_spread": judge.spread(aa),
                    "finding": judge.finding(ratio, judge.spread(aa)),
                }
            )
    return comparisons


def _ratio_bounds(row: Json, baseline: Json, kind: Comparison) -> judge.Bounds:
    """Bounds of the ratio of bandwidths: the baseline's time over the row's."""
    times = [float(kind.time_ns(sample)) for sample in row["repeats"]]
    baseline_times = [float(kind.time_ns(sample)) for sample in baseline["repeats"]]
    return judge.median_bounds(judge.pair_ratios(baseline_times, times))


_HALVES = (
    ("read", "bandwidth_mib_per_s", "Reads, cached by the host", "pread"),
    ("write", "bandwidth_mib_per_s", "Writes, the call alone", "pwrite"),
    ("write", "bandwidth_with_sync_mib_per_s", "Writes, call + fsync", "pwrite + fsync"),
)


def conclude(comparisons: Sequence[Json]) -> list[str]:
    """Returns one sentence per half of the study, saying no more than the numbers show."""
    sentences = []
    for group, metric, name, baseline in _HALVES:
        points = [c for c in comparisons if c["group"] == group and c["metric"] == metric]
        if points:
            sentences.append(f"{name}: {_describe_sizes(points, baseline)}.")
    programs = [c for c in comparisons if c["group"] == "programs"]
    for point in programs:
        name = f"Program {point['program']}, {point['operation']}"
        baseline = "pread" if point["operation"] == "read" else "pwrite"
        sentences.append(f"{name}: {_describe_finding([point], baseline, 'speed', '')}.")
    return sentences


def _describe_sizes(points: Sequence[Json], baseline: str) -> str:
    """One clause for each finding, with the sizes it holds for."""
    ordered = sorted(points, key=lambda point: point["transfer_bytes"])
    clauses = []
    for finding in dict.fromkeys(point["finding"] for point in ordered):
        alike = [point for point in ordered if point["finding"] == finding]
        where = _describe_ranges([point["finding"] == finding for point in ordered], ordered)
        clauses.append(_describe_finding(alike, baseline, "bandwidth", where))
    return "; ".join(clauses)


def _describe_ranges(chosen: Sequence[bool], points: Sequence[Json]) -> str:
    """Names the sizes that are chosen, neighbours as ranges: "at 4 KiB and from 64 KiB up"."""
    if all(chosen):
        return " at every size"
    sizes = [format_size(point["transfer_bytes"]) for point in points]
    ranges = []
    for index, inside in enumerate(chosen):
        if not inside or (index > 0 and chosen[index - 1]):
            continue
        last = index
        while last + 1 < len(chosen) and chosen[last + 1]:
            last += 1
        if last == index:
            ranges.append(f"at {sizes[index]}")
        elif last == len(chosen) - 1:
            ranges.append(f"from {sizes[index]} up")
        else:
            ranges.append(f"from {sizes[index]} to {sizes[last]}")
    return " " + " and ".join(ranges)


def _describe_finding(points: Sequence[Json], baseline: str, quantity: str, where: str) -> str:
    kind = points[0]["finding"]
    if kind == "within_5_percent":
        return f"host is within 5 % of {baseline}{where}"
    if kind == "no_difference":
        noise = format_noise(max(point["aa_spread"] for point in points))
        return f"no difference measured between host and {baseline}{where} (noise {noise})"
    low = min(point["ratio_median"] for point in points)
    high = max(point["ratio_median"] for point in points)
    factor = f"{low:.2f}" if f"{low:.2f}" == f"{high:.2f}" else f"{low:.2f} to {high:.2f}"
    return f"host is {kind}{where}, {factor} times the {quantity} of {baseline}"


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
