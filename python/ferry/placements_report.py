"""The study ``placements`` on the terminal: a table per question, and under it what it shows."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import Any

from rich.console import Console

from ferry.crossings import format_noise
from ferry.placements_findings import (
    LARGE_READ_VIEWS,
    PROGRAM_VIEWS,
    READ_VIEWS,
    WRITE_VIEWS,
    View,
    conclude,
    of_view,
    points_of,
)
from ferry.sizes import format_size
from ferry.terminal import plain_table

Json = dict[str, Any]

_QUESTIONS = {
    "Reads, device cache cold": "How fast are reads of {total} while the device's cache is cold?",
    "Reads, device cache warm": "How fast are they once the device's cache has the file?",
    "Writes, the call alone": "How fast are writes of {total} into a new file, the calls alone?",
    "Writes, call + flush": "How fast are they with the flush that hands all to the host's kernel?",
    "Writes, call + fsync": "How fast are they with the fsync that makes all durable?",
    "Large reads, device cache cold": "And reads of {large}, the device's cache cold?",
    "Large reads, device cache warm": "And reads of {large}, the device's cache warm?",
}
_WIDTH = 100


def print_report(console: Console, document: Json) -> None:
    """Prints the whole study; bandwidths are medians in MiB/s, times are medians in ms."""
    _print_head(console, document)
    for view in READ_VIEWS + WRITE_VIEWS + LARGE_READ_VIEWS:
        if any(row["id"].startswith(f"{view.head}/") for row in document["rows"]):
            _print_sizes(console, document, view)
    _print_programs(console, document, "read")
    if any(row["id"].startswith("iterative-write/") for row in document["rows"]):
        _print_programs(console, document, "write")
    for note in document["notes"]:
        console.print(f"note: {note}", soft_wrap=True)


def _print_head(console: Console, document: Json) -> None:
    environment = document["environment"]
    runtimes = environment["runtimes"]
    systems = environment["file_systems"]
    where = f"{systems[0]['type']} on {systems[0]['source']}" if systems else "unknown file system"
    console.print(
        f"Study placements on {where}: device CPUs {runtimes[0]['device_cpus']}, "
        f"server CPUs {runtimes[0]['server_cpus']}, {runtimes[0]['storage_engine']}",
        soft_wrap=True,
    )
    caches = [r["page_cache"] for r in runtimes if r["page_cache"] is not None]
    sizes = dict.fromkeys(format_size(cache["cache_bytes"]) for cache in caches)
    pages = format_size(caches[0]["page_bytes"])
    served = next((r["service"] for r in runtimes if r["page_cache"] and r["service"]), None)
    serving = "on cores that serve others"
    if served and served["threads"] > 0:
        serving += f" (CPUs {served['cpus']}, threads: {served['threads']})"
    elif served:
        serving = "by the I/O server's threads, as no cores are set aside"
    lines = [
        f"The device's page cache has {' or '.join(sizes)}, in pages of {pages}.",
        "host: by the I/O server, without that cache. compute: on the calling core, through it. "
        f"service: {serving}, through it. automatic: Ferry chooses, call by call.",
        "Medians, ± half the width of their 95 % bounds. noise is what two equal series of plain "
        "calls differ by. Under a table, differences smaller than that, or than what neighbouring "
        "repeats of the two ways differ by, are called none. Every transfer's contents verified.",
    ]
    for note in dict.fromkeys(note for runtime in runtimes for note in runtime["notes"]):
        console.print(f"note: {note}", soft_wrap=True)
    for line in lines:
        _wrapped(console, line)
    console.print()


def _wrapped(console: Console, text: str, indent: str = "") -> None:
    """Prints at most 100 columns: what is said under a table is not wider than tables are."""
    width = min(console.width, _WIDTH)
    for line in textwrap.wrap(text, width, subsequent_indent=indent, break_on_hyphens=False):
        console.print(line, soft_wrap=True)


def _print_sizes(console: Console, document: Json, view: View) -> None:
    rows = {row["id"]: row for row in document["rows"]}
    plain = view.plain().removesuffix(" + fsync")
    heads = ["transfer", "host", "compute", "service", "automatic", plain, "mmap", "noise"]
    ways = ["host", "compute", "service", "automatic", "plain", "mmap"]
    chosen = [
        [rows[f"{view.head}/{view.series(way)}/{size}"] for way in ways]
        for size in dict.fromkeys(
            row["transfer_bytes"] for row in rows.values() if row["id"].startswith(f"{view.head}/")
        )
    ]
    table = plain_table(_title(view, document, chosen), heads)
    for line in chosen:
        size = line[0]["transfer_bytes"]
        noise = of_view(view, document["comparisons"], size)[0]["aa_spread"]
        cells = [_bandwidth(row["metrics"][view.metric]) for row in line]
        table.add_row(format_size(size), *cells, format_noise(noise))
    console.print(table)
    _print_conclusions(console, document, view)
    console.print()


def _title(view: View, document: Json, chosen: Sequence[Sequence[Json]]) -> str:
    settings = document["settings"]
    total = format_size(settings["total_bytes"])
    large = format_size(settings["large_total_bytes"] or 0)
    title = _QUESTIONS[view.name].format(total=total, large=large)
    rows = [row for line in chosen for row in line]
    states = [row[key] for row in rows for key in ("cache_state", "device_cache_state")]
    unverified = ", unverified" if "unverified" in states else ""
    return f"{title} (MiB/s{unverified})"


def _print_conclusions(console: Console, document: Json, view: View) -> None:
    for sentence in conclude(view, document["comparisons"]):
        _wrapped(console, sentence, "  ")


def _bandwidth(summary: Json) -> str:
    median = summary["median"]
    half = (summary["median_high_95"] - summary["median_low_95"]) / 2
    number = f"{median:.0f}" if median >= 100 else f"{median:.1f}"
    return f"{number} ±{min(half / median * 100, 999):.0f}%"


def _print_programs(console: Console, document: Json, operation: str) -> None:
    views = [view for view in PROGRAM_VIEWS if operation in view.head]
    rows = {row["id"]: row for row in document["rows"] if row["group"] == "programs"}
    total = format_size(document["settings"]["total_bytes"])
    piece = format_size(document["settings"]["piece_bytes"])
    plain = views[0].plain()
    ends = ["loop"] if operation == "read" else ["loop", "sync", "total"]
    heads = ["program", "way", "calls", "computing", *ends, f"speed, {plain} = 1", "noise"]
    verb = "sum" if operation == "read" else "fill"
    title = f"Programs that {operation} {total} and {verb} pieces of {piece}: where is the time?"
    table = plain_table(f"{title} (ms)", heads, left=2)
    for program in dict.fromkeys(view.head for view in views):
        of_program = [view for view in views if view.head == program]
        for label, view, way in _program_lines(of_program, operation):
            row_id = f"{view.head}/{view.series(way)}/{document['settings']['piece_bytes']}"
            name = program.split("-")[0] if label == "host" else ""
            speed = _speed(view, document, way)
            table.add_row(name, label, *_program_times(rows[row_id], operation), *speed)
    console.print(table)
    for view in views:
        _print_conclusions(console, document, view)
    console.print()


def _program_lines(views: Sequence[View], operation: str) -> list[tuple[str, View, str]]:
    """Returns label, view and way for each line of one program."""
    cold = views[0]
    lines = [("host", cold, "host")]
    for view in views:
        state = f", {'warm' if view.warm else 'cold'}" if operation == "read" else ""
        lines += [(f"{way}{state}", view, way) for way in ("compute", "service", "automatic")]
    plain = "pread" if operation == "read" else "pwrite"
    return [*lines, (plain, cold, "plain"), ("mmap", cold, "mmap")]


def _program_times(row: Json, operation: str) -> list[str]:
    medians = {name: summary["median"] for name, summary in row["metrics"].items()}
    times = [medians["io_ns"], medians["compute_ns"], medians["loop_ns"]]
    if operation == "write":
        times += [medians["flush_ns"] + medians["sync_ns"], medians["loop_with_sync_ns"]]
    return [f"{time * 1e-6:.2f}" for time in times]


def _speed(view: View, document: Json, way: str) -> list[str]:
    points = points_of(view, document["comparisons"], "placement_and_plain", way, "plain")
    if not points:
        return ["", ""]
    (point,) = points
    bounds = f"{point['ratio_low_95']:.2f} to {point['ratio_high_95']:.2f}"
    return [f"{point['ratio_median']:.2f} ({bounds})", format_noise(point["aa_spread"])]
