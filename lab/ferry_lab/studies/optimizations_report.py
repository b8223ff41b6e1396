"""The study ``optimizations`` on the terminal: a table per question, under it what it shows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rich.console import Console

from ferry.sizes import MIB, format_size
from ferry_lab.render.findings import format_noise, range_of
from ferry_lab.render.study_text import (
    describe_place,
    format_bandwidth,
    runtime_notes,
)
from ferry_lab.render.tables import Table
from ferry_lab.render.terminal import print_wrapped
from ferry_lab.studies.optimizations_cells import OPERATIONS, PLAIN, SWITCHES
from ferry_lab.studies.optimizations_findings import (
    ALIGNMENT,
    LABELS,
    NAMES,
    SETTING,
    SMALL,
    conclude_alignment,
    conclude_operation,
    conclude_small_files,
    points_of,
)
from ferry_lab.studies.published import of_study

Json = dict[str, Any]

_TITLES = {
    "write": "Writes of a new file: how fast, by the file's size?",
    "rewrite": "Re-writes of a file whose pages are in the cache",
    "read": "Reads of a file that the host's kernel has, and the device's cache has not",
    "reread": "Re-reads: the pages are in the device's cache",
}


def print_report(console: Console, document: Json) -> None:
    """Prints the whole study; bandwidths are medians in MiB/s."""
    record = format_size(document["settings"]["record_bytes"])
    console.print(
        f"Study optimizations on {describe_place(document)}, records of {record}", soft_wrap=True
    )
    for note in runtime_notes(document):
        console.print(f"note: {note}", soft_wrap=True)
    print_wrapped(console, how_to_read(document))
    console.print()
    for operation in OPERATIONS:
        table = operation_table(document, operation)
        _print(console, table, conclude_operation(operation, document["comparisons"]))
    _print(console, alignment_table(document), conclude_alignment(document["comparisons"]))
    _print(console, small_table(document), conclude_small_files(document["comparisons"]))
    console.print(paper_table(document).shown())
    for note in document["notes"]:
        console.print(f"note: {note}", soft_wrap=True)


def how_to_read(document: Json) -> str:
    """Says what the numbers are."""
    kernel = " and ".join(document["settings"]["kernel"]) or "no kernel file system"
    return (
        "All calls are made by placement compute on one device thread, through one page cache "
        "whose optimisations are switched between measurements: all off, one on alone, all on. "
        f"Beside it pwrite and pread in {kernel}. Medians, ± half the width of their 95 % bounds. "
        "noise is what two equal series with all off differ by; differences smaller than that, or "
        "than what neighbouring repeats differ by, are called none. Every transfer's contents "
        "verified."
    )


def _print(console: Console, table: Table, sentences: Sequence[str]) -> None:
    console.print(table.shown())
    for sentence in sentences:
        print_wrapped(console, sentence, "  ")
    console.print()


def rows_by_id(document: Json) -> dict[str, Json]:
    """Returns the rows by their ids."""
    return {row["id"]: row for row in document["rows"]}


def kernel_row(rows: dict[str, Json], operation: str, kind: str, size: int) -> Json:
    """Returns the row of a kernel file system; its reads are its re-reads."""
    return rows[f"{'read' if operation == 'reread' else operation}/{kind}/{size}"]


def operation_table(document: Json, operation: str) -> Table:
    """Returns an operation's bandwidths: a line for each setting, a column for each size."""
    rows, sizes = rows_by_id(document), document["settings"]["file_bytes"]
    comparisons = document["comparisons"]
    lines = []
    for way in ("off", *SWITCHES, "all"):
        cells = [_bandwidth(rows[f"{operation}/{way}/{size}"]) for size in sizes]
        points = points_of(comparisons, SETTING, operation, way)
        lines.append([LABELS[way], *cells, _ratio(points[-1]) if points else ""])
        if way == "readahead":
            absent = document["settings"]["copy_engine"]
            lines.append(["copy engine", *[absent] * len(sizes), ""])
    for kind in document["settings"]["kernel"]:
        found = [kernel_row(rows, operation, kind, size) for size in sizes]
        lines.append([LABELS[kind], *map(_bandwidth, found), ""])
    all_on = points_of(comparisons, SETTING, operation, "all")
    lines.append(["noise", *(format_noise(point["aa_spread"]) for point in all_on), ""])
    ways = ("off", *SWITCHES, "all")
    shown = [rows[f"{operation}/{way}/{size}"] for way in ways for size in sizes]
    unverified = any(
        row[key] == "unverified"
        for row in shown
        for key in ("cache_state", "device_cache_state")
    )
    title = f"{_TITLES[operation]} (MiB/s{', unverified' if unverified else ''})"
    heads = ["way", *map(format_size, sizes), f"times all off, {format_size(sizes[-1])}"]
    return Table(title, heads, lines)


def _bandwidth(row: Json) -> str:
    return format_bandwidth(row["metrics"]["bandwidth_mib_per_s"])


def _ratio(point: Json) -> str:
    bounds = f"{point['ratio_low_95']:.2f} to {point['ratio_high_95']:.2f}"
    return f"{point['ratio_median']:.2f} ({bounds})"


def small_ways(document: Json) -> list[str]:
    """Returns the ways that write and read small files."""
    return ["off", "all", PLAIN, *document["settings"]["kernel"]]


def alignment_table(document: Json) -> Table:
    """Returns bandwidths with aligned and with unaligned buffers."""
    rows, size = rows_by_id(document), document["settings"]["alignment_file_bytes"]
    lines = []
    for operation in ("rewrite", "reread"):
        for way in ("off", "all", *document["settings"]["kernel"]):
            cells = [
                _bandwidth(rows[f"{operation}/{way}-{kind}/{size}"])
                for kind in ("aligned", "unaligned")
            ]
            (point,) = points_of(
                document["comparisons"], ALIGNMENT, operation, f"{way}-unaligned"
            )
            noise = format_noise(point["aa_spread"])
            lines.append([NAMES[operation], LABELS[way], *cells, _ratio(point), noise])
    title = f"Files of {format_size(size)}: must a program's buffers be aligned? (MiB/s)"
    heads = ["call", "way", "aligned", "1 byte further", "times aligned", "noise"]
    return Table(title, heads, lines, left=2)


def small_bandwidth(row: Json) -> float:
    """Returns MiB per second from the first open to the last close, of the median time."""
    return float(row["total_bytes"] / MIB / (row["metrics"]["elapsed_ns"]["median"] * 1e-9))


def small_table(document: Json) -> Table:
    """Returns many small files beside a large one."""
    settings, rows = document["settings"], rows_by_id(document)
    size, small = settings["small_total_bytes"], format_size(settings["small_file_bytes"])
    lines = []
    for operation in ("write", "read"):
        for way in small_ways(document):
            cells = [
                f"{small_bandwidth(rows[f'{operation}/{way}-{shape}/{size}']):.0f}"
                for shape in ("many", "one", "records")
            ]
            (point,) = points_of(
                document["comparisons"], SMALL, operation, f"{way}-many", f"{way}-records"
            )
            noise = format_noise(point["aa_spread"])
            lines.append([NAMES[operation], LABELS[way], *cells, _ratio(point), noise])
    count = size // settings["small_file_bytes"]
    title = f"{format_size(size)} in small files or in one, open and close included (MiB/s)"
    record = format_size(settings["record_bytes"])
    heads = [
        *("call", "way", f"{count} files of {small}", f"one, by {small}", f"one, by {record}"),
        *(f"files / one by {record}", "noise"),
    ]
    return Table(title, heads, lines, left=2)


def paper_table(document: Json) -> Table:
    """Returns the paper's published numbers beside what was found here."""
    comparisons = document["comparisons"]
    lines = []
    for number in of_study("optimizations"):
        way = "precomputed_hash" if "hash" in number.note else "all"
        found = []
        for operation in (number.operation, f"re{number.operation}"):
            found.append(_decided(points_of(comparisons, SETTING, operation, way)))
        lines.append(
            [f"{number.system}, {number.operation}", number.note, f"{number.value:g}", *found]
        )
    title = "The paper's speed-ups, inside its kernel's page cache, and those of Ferry's cache"
    heads = ["paper", "what", "published", "here, first time", "here, again"]
    return Table(title, heads, lines, left=2)


def _decided(points: Sequence[Json]) -> str:
    """Returns the ratios of those that show something."""
    ratios = [p["ratio_median"] for p in points if p["finding"] != "no_difference"]
    return range_of(min(ratios), max(ratios)) if ratios else "none measured"
