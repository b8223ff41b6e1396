"""The study ``placements`` on the terminal: a table per half, then the conclusions."""

from __future__ import annotations

from typing import Any

from rich.console import Console

from ferry.sizes import format_size
from ferry.terminal import plain_table

Json = dict[str, Any]


def print_report(console: Console, document: Json) -> None:
    """Prints the whole study; bandwidths are medians in MiB/s, times are medians in ms."""
    _print_head(console, document)
    total = format_size(document["settings"]["total_bytes"])
    _print_sizes(console, document, "read", "bandwidth_mib_per_s", f"Reads of {total}", "pread")
    if any(row["group"] == "write" for row in document["rows"]):
        title = f"Writes of {total} into a new file"
        _print_sizes(
            console, document, "write", "bandwidth_mib_per_s", f"{title}, the call", "pwrite"
        )
        metric = "bandwidth_with_sync_mib_per_s"
        _print_sizes(console, document, "write", metric, f"{title}, call + fsync", "pwrite")
    _print_programs(console, document)
    for sentence in document["conclusions"]:
        console.print(sentence, soft_wrap=True)
    for note in document["notes"]:
        console.print(f"note: {note}", soft_wrap=True)


def _print_head(console: Console, document: Json) -> None:
    environment = document["environment"]
    runtime = environment["runtimes"][0]
    systems = environment["file_systems"]
    where = f"{systems[0]['type']} on {systems[0]['source']}" if systems else "unknown file system"
    console.print(
        f"Study placements on {where}: device CPUs {runtime['device_cpus']}, "
        f"server CPUs {runtime['server_cpus']}, {runtime['storage_engine']}",
        soft_wrap=True,
    )
    for note in runtime["notes"]:
        console.print(f"note: {note}", soft_wrap=True)
    console.print(
        "Medians; every transfer's contents verified. The ratio is host's bandwidth to plain "
        "calls', with its 95 % bounds; noise is what two equal series of plain calls differ by.",
        soft_wrap=True,
    )
    console.print()


def _comparison(document: Json, row_id: str, metric: str) -> Json:
    return next(c for c in document["comparisons"] if c["row"] == row_id and c["metric"] == metric)


def _ratio_cells(comparison: Json) -> list[str]:
    low, high = comparison["ratio_low_95"], comparison["ratio_high_95"]
    return [
        f"{comparison['ratio_median']:.2f} ({low:.2f} to {high:.2f})",
        format_noise(comparison["aa_spread"]),
    ]


def format_noise(spread: float) -> str:
    """Returns percent; beyond 100 % the exact number says nothing."""
    return f"{spread * 100:.0f} %" if spread <= 1 else "> 100 %"


def _number(value: float) -> str:
    return f"{value:.0f}" if value >= 100 else f"{value:.1f}"


def _print_sizes(
    console: Console, document: Json, group: str, metric: str, title: str, plain: str
) -> None:
    rows = {row["id"]: row for row in document["rows"] if row["group"] == group}
    heads = ["transfer", "host", plain, "mmap", f"host/{plain}", "noise"]
    states = {row["cache_state"] for row in rows.values()}
    state = "".join(f", {name}" for name in ("hot", "unverified") if name in states)
    table = plain_table(f"{title}{state} (MiB/s)", heads)
    for row_id, row in rows.items():
        head, series, size = row_id.split("/")
        if series != "host":
            continue
        medians = [
            rows[f"{head}/{name}/{size}"]["metrics"][metric]["median"]
            for name in ("host", "plain", "mmap")
        ]
        ratio = _ratio_cells(_comparison(document, row_id, metric))
        table.add_row(format_size(row["transfer_bytes"]), *map(_number, medians), *ratio)
    console.print(table)


def _print_programs(console: Console, document: Json) -> None:
    rows = {row["id"]: row for row in document["rows"] if row["group"] == "programs"}
    total = format_size(document["settings"]["total_bytes"])
    piece = format_size(document["settings"]["piece_bytes"])
    heads = ["program", "way", "calls", "compute", "loop", "host/plain speed", "noise"]
    table = plain_table(f"Programs over {total}, pieces of {piece} (ms in the loop)", heads, left=2)
    for row_id, row in rows.items():
        head, series, _ = row_id.split("/")
        label = _label(series, row["operation"])
        if label is None:
            continue
        metrics = row["metrics"]
        times = [metrics[name]["median"] * 1e-6 for name in ("io_ns", "compute_ns", "loop_ns")]
        ratio = ["", ""]
        if series == "host":
            ratio = _ratio_cells(_comparison(document, row_id, "loop_ns"))
        name = head.replace("-", " ") if series == "host" else ""
        table.add_row(name, label, *(f"{time:.2f}" for time in times), *ratio)
    console.print(table)


def _label(series: str, operation: str) -> str | None:
    """What the table calls a series; None: it is only there for the noise."""
    if series == "plain":
        return "pread" if operation == "read" else "pwrite"
    return None if series == "again" else series
