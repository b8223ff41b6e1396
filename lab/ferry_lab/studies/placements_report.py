"""The study ``placements`` on the terminal: a table per question, and under it what it shows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rich.console import Console

from ferry.sizes import format_size
from ferry_lab.render.study_text import (
    describe_place,
    format_bandwidth,
    print_wrapped,
    runtime_notes,
)
from ferry_lab.render.tables import Table
from ferry_lab.stats.crossings import format_noise
from ferry_lab.studies.placements_findings import (
    LARGE_READ_VIEWS,
    PROGRAM_VIEWS,
    READ_VIEWS,
    WAYS,
    WRITE_VIEWS,
    View,
    conclude,
    of_view,
    points_of,
)

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


def print_report(console: Console, document: Json) -> None:
    """Prints the whole study; bandwidths are medians in MiB/s, times are medians in ms."""
    _print_head(console, document)
    for view in READ_VIEWS + WRITE_VIEWS + LARGE_READ_VIEWS:
        if has_rows(document, view):
            _print(console, document, size_table(document, view), [view])
    for operation in ("read", "write"):
        views = program_views(document, operation)
        if views:
            _print(console, document, program_table(document, operation), views)
    for note in document["notes"]:
        console.print(f"note: {note}", soft_wrap=True)


def has_rows(document: Json, view: View) -> bool:
    """Whether what a view is about was measured."""
    return any(row["id"].startswith(f"{view.head}/") for row in document["rows"])


def program_views(document: Json, operation: str) -> list[View]:
    """Returns the views of the programs that read, or that write, as far as they were measured."""
    return [v for v in PROGRAM_VIEWS if operation in v.head and has_rows(document, v)]


def describe_cache(document: Json) -> str:
    """Says what the device's page cache is."""
    runtimes = document["environment"]["runtimes"]
    caches = [r["page_cache"] for r in runtimes if r["page_cache"] is not None]
    sizes = dict.fromkeys(format_size(cache["cache_bytes"]) for cache in caches)
    pages = format_size(caches[0]["page_bytes"])
    return f"The device's page cache has {' or '.join(sizes)}, in pages of {pages}."


def describe_ways(document: Json) -> dict[str, str]:
    """Says of each placement who executes its calls."""
    runtimes = document["environment"]["runtimes"]
    served = next((r["service"] for r in runtimes if r["page_cache"] and r["service"]), None)
    serving = "on cores that serve others"
    if served and served["threads"] > 0:
        serving += f" (CPUs {served['cpus']}, threads: {served['threads']})"
    elif served:
        serving = "by the I/O server's threads, as no cores are set aside"
    return {
        "host": "by the I/O server, without that cache",
        "compute": "on the calling core, through it",
        "service": f"{serving}, through it",
        "automatic": "Ferry chooses, call by call",
    }


def _print_head(console: Console, document: Json) -> None:
    runtime = document["environment"]["runtimes"][0]
    console.print(
        f"Study placements on {describe_place(document)}: device CPUs {runtime['device_cpus']}, "
        f"server CPUs {runtime['server_cpus']}, {runtime['storage_engine']}",
        soft_wrap=True,
    )
    for note in runtime_notes(document):
        console.print(f"note: {note}", soft_wrap=True)
    print_wrapped(console, describe_cache(document))
    ways = describe_ways(document).items()
    print_wrapped(console, " ".join(f"{way}: {meaning}." for way, meaning in ways))
    print_wrapped(
        console,
        "Medians, ± half the width of their 95 % bounds. noise is what two equal series of plain "
        "calls differ by. Under a table, differences smaller than that, or than what neighbouring "
        "repeats of the two ways differ by, are called none. Every transfer's contents verified.",
    )
    console.print()


def _print(console: Console, document: Json, table: Table, views: Sequence[View]) -> None:
    """Prints a table and, under it, what it shows."""
    console.print(table.shown())
    for view in views:
        for sentence in conclude(view, document["comparisons"]):
            print_wrapped(console, sentence, "  ")
    console.print()


def sizes_of(document: Json, view: View) -> list[int]:
    """Returns the transfer sizes that were measured, in bytes."""
    rows = [row for row in document["rows"] if row["id"].startswith(f"{view.head}/")]
    return list(dict.fromkeys(row["transfer_bytes"] for row in rows))


def size_table(document: Json, view: View) -> Table:
    """Returns the bandwidths of a view by transfer size: medians in MiB/s."""
    rows = {row["id"]: row for row in document["rows"]}
    plain = view.plain().removesuffix(" + fsync")
    heads = ["transfer", *WAYS, plain, "mmap", "noise"]
    chosen = [
        [rows[f"{view.head}/{view.series(way)}/{size}"] for way in (*WAYS, "plain", "mmap")]
        for size in sizes_of(document, view)
    ]
    lines = []
    for line in chosen:
        size = line[0]["transfer_bytes"]
        noise = of_view(view, document["comparisons"], size)[0]["aa_spread"]
        cells = [format_bandwidth(row["metrics"][view.metric]) for row in line]
        lines.append([format_size(size), *cells, format_noise(noise)])
    return Table(_title(view, document, chosen), heads, lines)


def _title(view: View, document: Json, chosen: Sequence[Sequence[Json]]) -> str:
    settings = document["settings"]
    total = format_size(settings["total_bytes"])
    large = format_size(settings["large_total_bytes"] or 0)
    title = _QUESTIONS[view.name].format(total=total, large=large)
    rows = [row for line in chosen for row in line]
    states = [row[key] for row in rows for key in ("cache_state", "device_cache_state")]
    unverified = ", unverified" if "unverified" in states else ""
    return f"{title} (MiB/s{unverified})"


def program_table(document: Json, operation: str) -> Table:
    """Returns where the time of the programs is that read, or that write: medians in ms."""
    views = program_views(document, operation)
    rows = {row["id"]: row for row in document["rows"] if row["group"] == "programs"}
    total = format_size(document["settings"]["total_bytes"])
    piece = format_size(document["settings"]["piece_bytes"])
    ends = ["loop"] if operation == "read" else ["loop", "sync", "total"]
    speed = f"speed, {views[0].plain()} = 1"
    verb = "sum" if operation == "read" else "fill"
    title = f"Programs that {operation} {total} and {verb} pieces of {piece}: where is the time?"
    lines = []
    for program in dict.fromkeys(view.head for view in views):
        of_program = [view for view in views if view.head == program]
        for label, view, way in program_lines(of_program, operation):
            row = rows[program_row(document, view, way)]
            name = program.split("-")[0] if label == "host" else ""
            times = [f"{time:.2f}" for time in program_times_ms(row, operation)]
            lines.append([name, label, *times, *_speed(view, document, way)])
    columns = ["program", "way", "calls", "computing", *ends, speed, "noise"]
    return Table(f"{title} (ms)", columns, lines, left=2)


def program_row(document: Json, view: View, way: str) -> str:
    """Returns the id of a program's row."""
    return f"{view.head}/{view.series(way)}/{document['settings']['piece_bytes']}"


def program_lines(views: Sequence[View], operation: str) -> list[tuple[str, View, str]]:
    """Returns label, view and way for each line of one program."""
    cold = views[0]
    lines = [("host", cold, "host")]
    for view in views:
        state = f", {'warm' if view.warm else 'cold'}" if operation == "read" else ""
        lines += [(f"{way}{state}", view, way) for way in ("compute", "service", "automatic")]
    plain = "pread" if operation == "read" else "pwrite"
    return [*lines, (plain, cold, "plain"), ("mmap", cold, "mmap")]


def program_times_ms(row: Json, operation: str) -> list[float]:
    """Returns calls, computing, loop, and of writes sync and total: medians."""
    medians = {name: summary["median"] for name, summary in row["metrics"].items()}
    times = [medians["io_ns"], medians["compute_ns"], medians["loop_ns"]]
    if operation == "write":
        times += [medians["flush_ns"] + medians["sync_ns"], medians["loop_with_sync_ns"]]
    return [time * 1e-6 for time in times]


def _speed(view: View, document: Json, way: str) -> list[str]:
    points = points_of(view, document["comparisons"], "placement_and_plain", way, "plain")
    if not points:
        return ["", ""]
    (point,) = points
    bounds = f"{point['ratio_low_95']:.2f} to {point['ratio_high_95']:.2f}"
    return [f"{point['ratio_median']:.2f} ({bounds})", format_noise(point["aa_spread"])]
