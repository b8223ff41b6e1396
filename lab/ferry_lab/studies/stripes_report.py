"""The study ``stripes`` on the terminal: what its numbers show, and the paper beside it.

Rows' ids are ``axis/value/writers``; see studies.stripes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rich.console import Console

from ferry.sizes import format_size
from ferry_lab.render.findings import largest_noise, listed
from ferry_lab.render.mpi_tables import bandwidth_of, counted_table, label_of, place_of
from ferry_lab.render.tables import Table
from ferry_lab.render.terminal import print_wrapped
from ferry_lab.results.results import durable_ns
from ferry_lab.stats.comparing import make_comparison, speed_ratio_of_rows
from ferry_lab.studies import published

Json = dict[str, Any]

DEFAULT, AGAIN = "default", "again"
COUNT, SIZE, BUFFER = "stripe count", "stripe size", "buffer"
METRIC = "bandwidth_with_sync_mib_per_s"
QUESTION = "stripes_and_default"


def compare(rows: Sequence[Json]) -> list[Json]:
    """Sets each point beside the default with as many writers."""
    by_id = {row["id"]: row for row in rows}
    comparisons = []
    for row in rows:
        axis, _, writers = row["id"].split("/")
        if axis in (DEFAULT, AGAIN):
            continue
        base = by_id[f"{DEFAULT}/0/{writers}"]
        aa = speed_ratio_of_rows(base, by_id[f"{AGAIN}/0/{writers}"], durable_ns)
        comparisons.append(make_comparison(QUESTION, METRIC, durable_ns, row, base, aa))
    return comparisons


def points_of(comparisons: Sequence[Json], axis: str, writers: int) -> list[Json]:
    """Returns the comparisons along one axis."""
    found = [p for p in comparisons if p["row"].split("/")[::2] == [axis, str(writers)]]
    return sorted(found, key=value_of)


def value_of(point: Json) -> int:
    """Returns where on its axis a comparison's row lies."""
    return int(point["row"].split("/")[1])


def value_label(axis: str, value: int) -> str:
    """Returns "4", or "1 MiB"."""
    return str(value) if axis == COUNT else format_size(value)


def conclude(comparisons: Sequence[Json]) -> list[str]:
    """Returns a sentence for each axis and number of writers."""
    sentences = []
    counts = sorted({int(point["row"].split("/")[2]) for point in comparisons})
    for axis in (COUNT, SIZE, BUFFER):
        for writers in counts:
            points = points_of(comparisons, axis, writers)
            if not points:
                continue
            clauses = [
                _clause(axis, finding, [p for p in points if p["finding"] == finding])
                for finding in dict.fromkeys(point["finding"] for point in points)
            ]
            head = f"{axis.capitalize()}, {writers} writer{'s' if writers > 1 else ''}"
            sentences.append(f"{head}: {'; '.join(clauses)}.")
    return sentences


def _clause(axis: str, finding: str, points: Sequence[Json]) -> str:
    if finding in ("faster", "slower"):
        values = [
            f"{value_label(axis, value_of(p))} ({p['ratio_median']:.2f} times)" for p in points
        ]
        return f"{finding} than the default with {listed(values)}"
    values = [value_label(axis, value_of(point)) for point in points]
    if finding == "within_5_percent":
        return f"within 5 % of the default with {listed(values)}"
    return (
        f"no difference from the default measured with {listed(values, 'or')} "
        f"({largest_noise(points)})"
    )


def row_of(document: Json, axis: str, value: int, writers: int) -> Json:
    """Returns one row."""
    wanted = f"{axis}/{value}/{writers}"
    return next(row for row in document["rows"] if row["id"] == wanted)


def print_report(console: Console, document: Json) -> None:
    """Prints the whole study."""
    console.print(f"Study stripes on {place_of(document)}", soft_wrap=True)
    print_wrapped(console, how_to_read(document))
    console.print()
    for axis in axes_of(document):
        console.print(axis_table(document, axis).shown())
        for sentence in sentences_of(document, axis):
            print_wrapped(console, sentence, "  ")
        console.print()
    console.print(counts_table(document).shown())
    console.print(paper_table(document).shown())
    for note in document["notes"]:
        print_wrapped(console, f"note: {note}", "  ")


def axes_of(document: Json) -> list[str]:
    """Returns what was varied."""
    return [axis for axis, values in document["settings"]["axes"].items() if values]


def how_to_read(document: Json) -> str:
    """Says what the numbers are."""
    settings = document["settings"]
    layout = settings["default_layout"]
    default = "nothing is striped here"
    if layout:
        default = f"the default is {_stripes(layout)}, as the storage says"
    return (
        f"{settings['ranks']} ranks with {format_size(settings['bytes_per_rank'])} each "
        f"({settings['mpi']}) write one shared file through one writer, and through all as writers, "
        "aggregated by ferry.collective. Stripes are given when the file is made, and read back; "
        f"{default}. Counts are with stripes of "
        f"{format_size(settings['stripe_bytes_of_counts'])}, sizes with a count of "
        f"{settings['stripe_count_of_sizes']}, buffers with the default layout. The time has the "
        "fsync in it. MiB/s of all ranks together, medians, ± half the width of their 95 % bounds. "
        "Every transfer's contents verified."
    )


def _stripes(layout: Json) -> str:
    """Says what is known of a layout; a directory's may be empty."""
    count, size = layout["stripe_count"], layout["stripe_bytes"]
    if count is None and size is None:
        return "left to the servers"
    counted = "a count left to the servers" if count is None else str(count)
    return f"{counted} of {'a size left to them' if size is None else format_size(size)}"


def sentences_of(document: Json, axis: str) -> list[str]:
    """Returns the conclusions of one axis."""
    head = f"{axis.capitalize()}, "
    return [sentence for sentence in document["conclusions"] if sentence.startswith(head)]


def granted(row: Json) -> str:
    """Returns the layout that the files of a row were granted."""
    layouts = {
        _granted_stripes(layout)
        for sample in row["repeats"]
        if (layout := sample["layout"]) is not None
    }
    return " or ".join(sorted(layouts)) or "no stripes"


def _granted_stripes(layout: Json) -> str:
    count, size = layout["stripe_count"], layout["stripe_bytes"]
    return f"{count or 'unknown'} × {'unknown' if size is None else format_size(size)}"


def axis_table(document: Json, axis: str) -> Table:
    """Returns bandwidths along one axis, beside the default."""
    settings, lines = document["settings"], []
    places = [(DEFAULT, 0), *((axis, value) for value in settings["axes"][axis])]
    for name, value in places:
        rows = [row_of(document, name, value, writers) for writers in settings["writers"]]
        label = "default" if name == DEFAULT else value_label(axis, value)
        cells = [bandwidth_of(row, METRIC) for row in rows]
        labels = dict.fromkeys(label_of(row) for row in rows)
        lines.append([label, *cells, granted(rows[0]), "; ".join(filter(None, labels))])
    heads = [f"{count} writer{'s' if count > 1 else ''}" for count in settings["writers"]]
    return Table(f"By {axis} (MiB/s)", [axis, *heads, "granted", ""], lines)


def counts_table(document: Json) -> Table:
    """Returns what was counted."""
    settings = document["settings"]
    rows = [
        (f"{axis} {value_label(axis, value)}, {writers}", row_of(document, axis, value, writers))
        for writers in settings["writers"]
        for axis in axes_of(document)
        for value in settings["axes"][axis]
    ]
    rows += [(f"default, {n}", row_of(document, DEFAULT, 0, n)) for n in settings["writers"]]
    return counted_table("point and writers", rows)


def paper_table(document: Json) -> Table:
    """Returns the paper's bandwidths of one writer by stripe count, beside ours."""
    settings, lines = document["settings"], []
    for number in published.of_study("stripes"):
        count = int(number.x)
        found = "not measured"
        if count in settings["axes"][COUNT]:
            found = bandwidth_of(row_of(document, COUNT, count, 1), METRIC)
        lines.append([str(count), f"{number.value:.0f} MB/s", found])
    for count in settings["axes"][COUNT]:
        if str(count) not in [line[0] for line in lines]:
            lines.append([str(count), "", bandwidth_of(row_of(document, COUNT, count, 1), METRIC)])
    lines.sort(key=lambda line: int(line[0]))
    title = "Paper 004, one writer, stripes of 20 MB on Lustre, beside ours (MiB/s)"
    return Table(title, ["stripe count", "published", "here"], lines)
