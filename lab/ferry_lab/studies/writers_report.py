"""The study ``writers`` on the terminal: a table by writers for each measurement, and the paper."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rich.console import Console

from ferry.sizes import format_size
from ferry_lab.render.mpi_tables import (
    bandwidth_of,
    counted_table,
    label_of,
    place_of,
    split_ratio,
    split_table,
)
from ferry_lab.render.tables import Table
from ferry_lab.render.terminal import print_wrapped
from ferry_lab.studies import published
from ferry_lab.studies.writers_cells import ALL, FILES, OPERATIONS, SUBSETS
from ferry_lab.studies.writers_findings import BEST, METRIC, points_of, rows_of, way_of
from ferry_lab.studies.writers_predicted import check_paper, predictions

Json = dict[str, Any]


def print_report(console: Console, document: Json) -> None:
    """Prints the whole study."""
    console.print(f"Study writers on {place_of(document)}", soft_wrap=True)
    print_wrapped(console, how_to_read(document))
    console.print()
    for kind in FILES:
        for operation in OPERATIONS:
            console.print(writers_table(document, operation, kind).shown())
            for sentence in sentences_of(document, operation, kind):
                print_wrapped(console, sentence, "  ")
            console.print()
    console.print(split_table(NAMED, named(document)).shown())
    console.print(counted_table(NAMED, named(document)).shown())
    console.print(paper_table().shown())
    console.print(ratios_table(document).shown())
    for note in document["notes"]:
        print_wrapped(console, f"note: {note}", "  ")


def how_to_read(document: Json) -> str:
    """Says what the numbers are."""
    settings = document["settings"]
    return (
        f"{settings['ranks']} ranks with {format_size(settings['bytes_per_rank'])} each "
        f"({settings['mpi']}), written and read through ferry.collective. all: each rank its own. "
        "aggregated: so many of them gather what the others have. sent serially: they take what the "
        "others have, one after the other. The time goes from open to close, a write's with an "
        "fsync in it. MiB/s of all ranks together, medians, ± half the width of their 95 % bounds. "
        "The model: see docs/reference/writers-model.md, with this machine's numbers from all ranks "
        "and from one writer. Every transfer's contents verified."
    )


def sentences_of(document: Json, operation: str, kind: str) -> list[str]:
    """Returns the conclusions of one measurement."""
    head = f"{operation.capitalize()}, {FILES[kind]}: "
    return [sentence for sentence in document["conclusions"] if sentence.startswith(head)]


def losing(document: Json, operation: str, kind: str) -> set[str]:
    """Returns the ids of the rows that are slower than the best by more than the noise."""
    points = points_of(document["comparisons"], BEST, operation, kind)
    return {point["row"] for point in points if point["finding"] == "slower"}


def writers_table(document: Json, operation: str, kind: str) -> Table:
    """Returns one measurement by the number of writers."""
    rows = document["rows"]
    said = predictions(rows, operation, kind)
    lost = losing(document, operation, kind)
    lines = []
    for row in rows_of(rows, operation, kind):
        median = row["metrics"][METRIC]["median"]
        model = said.get(row["id"])
        lines.append(
            [
                way_label(row),
                str(row["writers"]),
                bandwidth_of(row, METRIC),
                f"{row['metrics']['open_ns']['median'] / 1e6:.1f}",
                "calibrated" if model is None else f"{model:.0f}",
                "" if model is None else f"{round((model / median - 1) * 100):+d} %",
                "loses" if row["id"] in lost else "",
                label_of(row),
            ]
        )
    who = "writers" if operation == "write" else "readers"
    heads = ["way", who, "MiB/s", "opens ms", "model", "deviation", "", ""]
    labels = list(WAY_LABELS.values())
    lines.sort(key=lambda line: labels.index(line[0]))
    return Table(f"{operation.capitalize()}, {FILES[kind]}", heads, lines)


WAY_LABELS = {ALL: "all ranks", **SUBSETS}


def way_label(row: Json) -> str:
    """Returns "all ranks", "aggregated" or "sent serially"."""
    return WAY_LABELS[way_of(row)]


def named(document: Json) -> list[tuple[str, Json]]:
    """Returns all rows with names for a table."""
    return [
        (f"{operation} {kind}: {row['writers']} {way_label(row)}", row)
        for kind in FILES
        for operation in OPERATIONS
        for row in rows_of(document["rows"], operation, kind)
    ]


NAMED = "shared file, or own of each"


def paper_table() -> Table:
    """Returns paper 004's numbers by writers beside the model of its machine."""
    lines = []
    for point in check_paper():
        deviation = point["model_mb_per_s"] / point["published_mb_per_s"] - 1
        lines.append(
            [
                *(point["where"], point["operation"], str(point["writers"])),
                f"{point['published_mb_per_s'] / 1000:.2f} GB/s",
                f"{point['model_mb_per_s'] / 1000:.2f} GB/s",
                f"{round(deviation * 100):+d} %",
                "calibrated" if point["calibrated"] else "held out",
            ]
        )
    heads = ["row", "", "writers", "published", "model", "deviation", ""]
    return Table("Paper 004, beside the model of its machine", heads, lines, left=2)


def ratios_table(document: Json) -> Table:
    """Returns the paper's ratios of communication and file I/O beside those of here."""
    lines = [
        [f"paper 004, {number.system}", f"{number.x:g}", f"{number.value:.2f}"]
        for number in published.of_study("collective")
    ]
    for operation in OPERATIONS:
        rows = rows_of(document["rows"], operation, "shared", "aggregate")
        found: Sequence[float] = [r for row in rows if (r := split_ratio(row)) is not None]
        if found:
            name = f"here, {operation}, one shared file, aggregated"
            ranks = str(document["settings"]["ranks"])
            low, high = (f"{value:.2f}" for value in (min(found), max(found)))
            lines.append([name, ranks, low if low == high else f"{low} to {high}"])
    title = "Communication over file I/O in collective calls (here: rest/file)"
    return Table(title, ["", "ranks", "ratio"], lines)


