"""The study ``endian`` on the terminal: what its numbers show, and the paper beside it.

Rows' ids are ``operation/order/ranks`` (see studies.endian). A *test* is which time of them counts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from rich.console import Console

from ferry.sizes import format_size
from ferry_lab.render.findings import largest_noise, listed, range_of
from ferry_lab.render.mpi_tables import bandwidth_of, counted_table, label_of, place_of
from ferry_lab.render.tables import Table
from ferry_lab.render.terminal import print_wrapped
from ferry_lab.results import results
from ferry_lab.results.results import durable_ns
from ferry_lab.stats.comparing import TimeOf, make_comparison, speed_ratio_of_rows
from ferry_lab.studies import published

Json = dict[str, Any]

QUESTION = "swapped_and_native"


@dataclass(frozen=True)
class Test:
    """One of the ways to look at the rows."""

    name: str
    operation: str
    metric: str
    time_ns: TimeOf


TESTS = (
    Test("write", "write", "bandwidth_mib_per_s", results.call_ns),
    Test("write+sync", "write", "bandwidth_with_sync_mib_per_s", durable_ns),
    Test("read", "read", "bandwidth_mib_per_s", results.call_ns),
)


def compare(rows: Sequence[Json]) -> list[Json]:
    """Sets each swapped row beside the native one of as many ranks."""
    by_id = {row["id"]: row for row in rows}
    comparisons = []
    for test in TESTS:
        for row in rows:
            operation, order, ranks = row["id"].split("/")
            if operation != test.operation or not order.startswith("swapped"):
                continue
            native = by_id[f"{operation}/native/{ranks}"]
            again = by_id[f"{operation}/again/{ranks}"]
            aa = speed_ratio_of_rows(native, again, test.time_ns)
            comparisons.append(
                make_comparison(QUESTION, test.metric, test.time_ns, row, native, aa)
            )
    return comparisons


def points_of(comparisons: Sequence[Json], test: Test, ranks: int) -> list[Json]:
    """Returns the comparisons of one test with so many ranks, by element size."""
    return [
        point
        for point in comparisons
        if point["metric"] == test.metric
        and point["operation"] == test.operation
        and point["threads"] == ranks
    ]


def element_of(point: Json) -> int:
    """Returns the element size of a comparison's row, in bytes."""
    return int(point["row"].split("/")[1].removeprefix("swapped"))


def conclude(comparisons: Sequence[Json]) -> list[str]:
    """Returns a sentence for each test and number of ranks."""
    sentences = []
    for test in TESTS:
        for ranks in sorted({point["threads"] for point in comparisons}):
            points = points_of(comparisons, test, ranks)
            clauses = [
                _clause(finding, [p for p in points if p["finding"] == finding])
                for finding in dict.fromkeys(point["finding"] for point in points)
            ]
            head = f"{test.name.capitalize()}, {ranks} rank{'s' if ranks > 1 else ''}"
            sentences.append(f"{head}: {'; '.join(clauses)}.")
    return sentences


def _clause(finding: str, points: Sequence[Json]) -> str:
    sizes = f"elements of {listed([str(element_of(point)) for point in points])} bytes"
    ratios = [point["ratio_median"] for point in points]
    if finding == "no_difference":
        return f"swapping {sizes}: no difference from native measured ({largest_noise(points)})"
    if finding == "within_5_percent":
        return f"swapping {sizes} is within 5 % of native"
    return f"swapping {sizes} gives {range_of(min(ratios), max(ratios))} of native's bandwidth"


def row_of(document: Json, operation: str, order: str, ranks: int) -> Json:
    """Returns one row."""
    wanted = f"{operation}/{order}/{ranks}"
    return next(row for row in document["rows"] if row["id"] == wanted)


def print_report(console: Console, document: Json) -> None:
    """Prints the whole study."""
    console.print(f"Study endian on {place_of(document)}", soft_wrap=True)
    print_wrapped(console, how_to_read(document))
    console.print()
    for test in TESTS:
        console.print(bandwidth_table(document, test).shown())
        for sentence in sentences_of(document, test):
            print_wrapped(console, sentence, "  ")
        console.print()
    console.print(counts_table(document).shown())
    console.print(paper_table(document).shown())
    for note in document["notes"]:
        print_wrapped(console, f"note: {note}", "  ")


def how_to_read(document: Json) -> str:
    """Says what the numbers are."""
    settings = document["settings"]
    cache = "Reads find the file in the page cache, where swapping costs most. "
    if settings["storage"]:
        cache = ""  # nobody tells what is there
    return (
        f"Each rank writes and reads {format_size(settings['bytes_per_rank'])} of one file in calls "
        f"of {format_size(settings['transfer_bytes'])} ({settings['mpi']}), through "
        f"ferry.collective: native as it lies in memory, swapped {settings['byte_order']}-endian, "
        f"with the bytes of every element reversed on the way. {cache}MiB/s of all ranks together, "
        "medians, ± half the width of their 95 % bounds. Every transfer's contents verified."
    )


def sentences_of(document: Json, test: Test) -> list[str]:
    """Returns the conclusions of one test."""
    head = f"{test.name.capitalize()}, "
    return [sentence for sentence in document["conclusions"] if sentence.startswith(head)]


def orders(document: Json) -> list[str]:
    """Returns the orders that were measured, native first."""
    return ["native", *(f"swapped{size}" for size in document["settings"]["elements_bytes"])]


def order_label(order: str) -> str:
    """Returns "native", or "swapped, 8 bytes"."""
    size = order.removeprefix("swapped")
    return order if size == order else f"swapped, {size} bytes"


def bandwidth_table(document: Json, test: Test) -> Table:
    """Returns bandwidths by ranks, and what share of native's is left."""
    lines = []
    for ranks in document["settings"]["ranks"]:
        ratios = {
            f"swapped{element_of(point)}": point
            for point in points_of(document["comparisons"], test, ranks)
        }
        for order in orders(document):
            row = row_of(document, test.operation, order, ranks)
            ratio = ""
            if order in ratios:
                point = ratios[order]
                low, high = point["ratio_low_95"], point["ratio_high_95"]
                ratio = f"{point['ratio_median']:.2f} ({range_of(low, high)})"
            name = f"{ranks} rank{'s' if ranks > 1 else ''}, {order_label(order)}"
            lines.append([name, bandwidth_of(row, test.metric), ratio, label_of(row)])
    title = f"{test.name.capitalize()} (MiB/s)"
    return Table(title, ["", "bandwidth", "of native", ""], lines)



def counts_table(document: Json) -> Table:
    """Returns what was counted."""
    rows = [
        (f"{operation}, {ranks}, {order_label(order)}", row_of(document, operation, order, ranks))
        for operation in ("write", "read")
        for ranks in document["settings"]["ranks"]
        for order in orders(document)
    ]
    return counted_table("ranks and order", rows)


def paper_ratio(ranks: int) -> float | None:
    """Returns the share that paper 004 had left with so many ranks; None where it does not say."""
    found = {
        n.operation: n.value for n in published.of_study("endian") if int(n.threads) == ranks
    }
    if not found:
        return None
    return found["write byte-swapped"] / found["write native"]


def paper_table(document: Json) -> Table:
    """Returns what swapping left of the bandwidth in the paper, and here."""
    lines = []
    for number in published.of_study("endian"):
        if number.operation != "write byte-swapped":
            continue
        ranks = int(number.threads)
        ratio = paper_ratio(ranks)
        lines.append([f"paper 004, {ranks} rank{'s' if ranks > 1 else ''}", f"{ratio:.2f}"])
    for test in TESTS[:2]:
        for ranks in document["settings"]["ranks"]:
            ratios = [p["ratio_median"] for p in points_of(document["comparisons"], test, ranks)]
            name = f"here, {test.name}, {ranks} rank{'s' if ranks > 1 else ''}"
            lines.append([name, range_of(min(ratios), max(ratios))])
    title = "What byte-swapped output leaves of the bandwidth"
    return Table(title, ["", "of native"], lines)
