"""The study ``endian``: the cost of byte-swapped output, for one rank and many (after Fahey 2007).

Ranks write and read one file through ferry.collective, in native byte order and byte-swapped, for
all element sizes. Rows' ids are ``operation/order/ranks``; an order is ``native``, ``again`` (the
same, for the noise) or ``swapped8``. A *test* is which time of them counts.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ferry.sizes import MIB, format_size
from ferry_lab.render.bars import Bar, BarPanel, Bars
from ferry_lab.render.findings import Axis, Finding, Findings, range_of
from ferry_lab.render.mpi_tables import bandwidth_of, count_of, counted_table, label_of
from ferry_lab.render.sections import HOW_TO_READ, Answer, Figure, Section, Word
from ferry_lab.render.tables import Table
from ferry_lab.results import results
from ferry_lab.results.results import durable_ns
from ferry_lab.run.plan import RanksCell
from ferry_lab.run.ranks_study import RanksPlan, RanksStudy
from ferry_lab.run.remote_files import Place
from ferry_lab.run.study import StudyOptions
from ferry_lab.stats import judge
from ferry_lab.stats.comparing import TimeOf, make_comparison, speed_ratio_of_rows
from ferry_lab.studies import published

Json = dict[str, Any]

ELEMENTS, QUICK_ELEMENTS = [2, 4, 8, 16], [4, 8]
TRANSFER_BYTES = 8 * MIB  # as in the paper
BYTES_PER_RANK, QUICK_BYTES_PER_RANK = 64 * MIB, 16 * MIB
RANKS_MAX = 64
FOREIGN = "big" if sys.byteorder == "little" else "little"
SEED = 1


class Endian(RanksStudy):
    """See the module."""

    name = "endian"

    repeats = judge.PAIRS_MIN
    quick_repeats = judge.FINDING_PAIRS_MIN

    def plan(self, options: StudyOptions, notes: list[str]) -> RanksPlan:
        """Returns what is measured, by operation and number of ranks."""
        ranks = rank_counts(options.quick)
        elements = QUICK_ELEMENTS if options.quick else ELEMENTS
        each = QUICK_BYTES_PER_RANK if options.quick else BYTES_PER_RANK

        def cells(places: Sequence[Place]) -> dict[str, list[RanksCell]]:
            return {
                f"{operation}, {count_of(count, 'rank')}": endian_cells(
                    places[0], operation, count, count * each, elements
                )
                for operation in ("write", "read")
                for count in ranks
            }

        # A file of each kind to read, by each number of ranks, and the one being written.
        scratch_bytes = sum(ranks) * each * (len(elements) + 2)
        settings = {
            "ranks": ranks,
            "elements_bytes": elements,
            "bytes_per_rank": each,
            "transfer_bytes": min(TRANSFER_BYTES, each),
            "byte_order": FOREIGN,
        }
        return RanksPlan(scratch_bytes, settings, cells)

    def compare(self, rows: Sequence[Json]) -> list[Json]:
        """Sets each swapped row beside the native one of as many ranks."""
        comparisons = []
        for test in TESTS:
            for row in rows:
                if row["operation"] != test.operation or row["element_bytes"] is None:
                    continue
                native, again = (test.row(rows, one, row["ranks"]) for one in ("native", "again"))
                aa = speed_ratio_of_rows(native, again, test.time_ns)
                question = "swapped_and_native"
                comparisons.append(
                    make_comparison(question, test.metric, test.time_ns, row, native, aa)
                )
        return comparisons

    def answer(self, document: Json) -> Answer:
        """Says what is left of the bandwidth, by test."""
        settings = document["settings"]
        # Nobody tells what a storage that is not mounted has in its caches.
        cache = "" if settings["storage"] else (
            " Reads find the file in the page cache, where swapping costs most."
        )
        return Answer(
            "What does byte-swapped output cost?",
            [_what_is_left(document, test) for test in TESTS],
            [
                f"Each rank writes and reads {format_size(settings['bytes_per_rank'])} of one file in "
                f"calls of {format_size(settings['transfer_bytes'])} ({settings['mpi']}), through "
                f"ferry.collective: native as it lies in memory, swapped "
                f"{settings['byte_order']}-endian, with the bytes of every element reversed on the "
                f"way.{cache} MiB/s of all ranks together. {HOW_TO_READ}"
            ],
            [Word(order, _label(order), _meaning(order)) for order in _orders(document)],
        )

    def sections(self, document: Json) -> Sequence[Section]:
        """Returns a section for each test, what was counted, and the paper."""
        return [
            *(_section(document, test) for test in TESTS),
            Section("What was counted", tables=[_counts_table(document)]),
            Section(
                "Beside the paper",
                [
                    f"The study follows {published.SOURCES['004']}: unformatted Fortran output on a "
                    "Cray XT, which the language's library swapped, with one process and with many."
                ],
                tables=[_paper_table(document)],
            ),
        ]


@dataclass(frozen=True)
class Test:
    """One of the ways to look at the rows."""

    name: str
    operation: str
    metric: str
    time_ns: TimeOf

    def row(self, rows: Sequence[Json], order: str, ranks: int) -> Json:
        """Returns one row."""
        wanted = f"{self.operation}/{order}/{ranks}"
        return next(row for row in rows if row["id"] == wanted)

    def points(self, document: Json, ranks: int) -> list[Json]:
        """Returns the comparisons with so many ranks, by element size."""
        wanted = (self.metric, self.operation, ranks)
        return [
            point
            for point in document["comparisons"]
            if (point["metric"], point["operation"], point["threads"]) == wanted
        ]

    def findings(self, document: Json, ranks: int) -> Findings:
        """Returns how swapped data compares with native."""
        sizes = {row["id"]: row["element_bytes"] for row in document["rows"]}
        axis = Axis(lambda point: sizes[point["row"]], str, "with elements of {} bytes")
        points = self.points(document, ranks)
        about = f"{self.name.capitalize()}, {count_of(ranks, 'rank')}"
        return Findings(about, [Finding("swapped", "native", points, axis)])


TESTS = (
    Test("write", "write", "bandwidth_mib_per_s", results.call_ns),
    Test("write+sync", "write", "bandwidth_with_sync_mib_per_s", durable_ns),
    Test("read", "read", "bandwidth_mib_per_s", results.call_ns),
)


# ---- what is measured ----------------------------------------------------------------------------


def rank_counts(quick: bool) -> list[int]:
    """Returns one, as many as there are CPUs, and twice as many, at least 2 and 4."""
    cpus = max(2, min(len(os.sched_getaffinity(0)), RANKS_MAX // 2))
    return [1, cpus] if quick else [1, cpus, 2 * cpus]


def endian_cells(
    place: Place, operation: str, ranks: int, total: int, elements: Sequence[int]
) -> list[RanksCell]:
    """Returns native output, twice for the noise, and swapped output for each element size."""
    ways = [("native", "native", 8), ("again", "native", 8)]
    ways += [(f"swapped{size}", FOREIGN, size) for size in elements]
    cells = [
        RanksCell(
            id=f"{operation}/{name}/{ranks}",
            interface="ferry",
            operation=operation,
            path=place.path(f"{operation}.{ranks}.{name.replace('again', 'native')}"),
            ranks=ranks,
            transfer_bytes=min(TRANSFER_BYTES, total // ranks),
            total_bytes=total,
            byte_order=order,
            element_bytes=size,
            sync="fsync" if operation == "write" else "none",
            seed=SEED,
        )
        for name, order, size in ways
    ]
    for cell in cells:
        place.handed_out += cell.paths
    return cells


# ---- what it shows -------------------------------------------------------------------------------


def _orders(document: Json) -> list[str]:
    """Returns the orders that were measured, native first."""
    return ["native", *(f"swapped{size}" for size in document["settings"]["elements_bytes"])]


def _label(order: str) -> str:
    """Returns "native", or "swapped, 8 bytes"."""
    size = order.removeprefix("swapped")
    return order if size == order else f"swapped, {size} bytes"


def _meaning(order: str) -> str:
    if order == "native":
        return "written as it lies in memory"
    return f"elements of {order.removeprefix('swapped')} bytes, reversed on the way"


def _what_is_left(document: Json, test: Test) -> str:
    points = [p for ranks in document["settings"]["ranks"] for p in test.points(document, ranks)]
    ratios = [point["ratio_median"] for point in points]
    slower = sum(point["finding"] == "slower" for point in points)
    return (
        f"{test.name.capitalize()}: swapped data has {range_of(min(ratios), max(ratios))} of "
        f"native's bandwidth; slower by more than the noise at {slower} of {len(points)} points."
    )


def _section(document: Json, test: Test) -> Section:
    counts, panels, lines = document["settings"]["ranks"], [], []
    for ranks in counts:
        bars = []
        points = {point["row"]: point for point in test.points(document, ranks)}
        for order in _orders(document):
            row = test.row(document["rows"], order, ranks)
            bars.append(Bar.of(order, _label(order), row["metrics"][test.metric], "MiB/s"))
            ratio = ""
            if point := points.get(row["id"]):
                low, high = point["ratio_low_95"], point["ratio_high_95"]
                ratio = f"{point['ratio_median']:.2f} ({range_of(low, high)})"
            name = f"{count_of(ranks, 'rank')}, {_label(order)}"
            lines.append([name, bandwidth_of(row, test.metric), ratio, label_of(row)])
        panels.append(BarPanel(count_of(ranks, "rank"), bars))
    figure = Figure(
        test.name.replace("+", "-and-"),
        Bars(panels, common_scale=False, label_width=140.0),
        "Bars of bandwidth, native and swapped, by the number of ranks; the table below has the "
        "numbers.",
        f"{test.name.capitalize()}: bandwidth of all ranks together. The line across the end is the "
        "median's 95 % bounds. Each panel has a scale of its own.",
    )
    return Section(
        f"{test.name.capitalize()} (MiB/s)",
        figure=figure,
        findings=[test.findings(document, ranks) for ranks in counts],
        tables=[Table("", ["", "bandwidth", "of native", ""], lines)],
    )


def _counts_table(document: Json) -> Table:
    rows = [
        (f"{test.operation}, {n}, {_label(order)}", test.row(document["rows"], order, n))
        for test in (TESTS[0], TESTS[2])
        for n in document["settings"]["ranks"]
        for order in _orders(document)
    ]
    return counted_table("ranks and order", rows)


# ---- the paper -----------------------------------------------------------------------------------


def paper_ratios() -> dict[int, float]:
    """Returns the share of the bandwidth that paper 004 had left, by the number of ranks."""
    found = {(n.operation, int(n.threads)): n.value for n in published.of_study("endian")}
    return {
        ranks: swapped / found["write native", ranks]
        for (operation, ranks), swapped in found.items()
        if operation == "write byte-swapped"
    }


def _paper_table(document: Json) -> Table:
    lines = [
        [f"paper 004, {count_of(ranks, 'rank')}", f"{ratio:.2f}"]
        for ranks, ratio in paper_ratios().items()
    ]
    for test in TESTS[:2]:
        for ranks in document["settings"]["ranks"]:
            ratios = [point["ratio_median"] for point in test.points(document, ranks)]
            name = f"here, {test.name}, {count_of(ranks, 'rank')}"
            lines.append([name, range_of(min(ratios), max(ratios))])
    title = "What byte-swapped output leaves of the bandwidth"
    return Table(title, ["", "of native"], lines)
