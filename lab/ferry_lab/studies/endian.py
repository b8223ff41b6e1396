"""The study ``endian``: the cost of byte-swapped output, for one rank and many (after Fahey 2007).

Ranks write and read one file through ferry.collective, in native byte order and byte-swapped, for
all element sizes. The axes of its rows are ``operation``, ``order`` (``native``, ``again``, which is
the same for the noise, or ``swapped``), ``element_bytes`` (of what is swapped) and ``ranks``. A
*test* is which time of them counts.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass

from ferry.sizes import MIB, format_size
from ferry_lab.render.bars import Bar, BarPanel, Bars
from ferry_lab.render.findings import Axis, Finding, Findings, range_of
from ferry_lab.render.mpi_tables import bandwidth_of, count_of, counted_table, label_of
from ferry_lab.render.sections import HOW_TO_READ, Answer, Figure, Section, Word
from ferry_lab.render.tables import Table
from ferry_lab.results.records import Comparison, Document, Row
from ferry_lab.run.plan import RanksCell
from ferry_lab.run.ranks_study import RanksPlan, RanksStudy
from ferry_lab.run.remote_files import Place
from ferry_lab.run.study import StudyOptions
from ferry_lab.stats import judge
from ferry_lab.stats.comparing import row_at, where
from ferry_lab.studies import published
from ferry_lab.studies.ranks_cells import beside, ranks_cell

ELEMENTS, QUICK_ELEMENTS = [2, 4, 8, 16], [4, 8]
TRANSFER_BYTES = 8 * MIB  # as in the paper
BYTES_PER_RANK, QUICK_BYTES_PER_RANK = 64 * MIB, 16 * MIB
RANKS_MAX = 64
FOREIGN = "big" if sys.byteorder == "little" else "little"


class Endian(RanksStudy):
    name = "endian"
    repeats = judge.PAIRS_MIN
    quick_repeats = judge.FINDING_PAIRS_MIN

    def plan(self, options: StudyOptions, notes: list[str]) -> RanksPlan:
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

    def compare(self, rows: Sequence[Row]) -> list[Comparison]:
        """Sets each swapped row beside the native one of as many ranks."""
        comparisons = []
        for test in TESTS:
            for row in where(rows, operation=test.operation, order="swapped"):
                there = {"operation": test.operation, "ranks": row.axes["ranks"]}
                twins = ("native", "again")
                comparisons.append(beside("swapped_and_native", test.metric, row, rows, there, "order", twins))
        return comparisons

    def answer(self, document: Document) -> Answer:
        settings = document.settings
        # Nobody tells what a storage that is not mounted has in its caches.
        cache = "" if settings["storage"] else (" Reads find the file in the page cache, where swapping costs most.")
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
            [
                Word("native", "native", "written as it lies in memory"),
                *(
                    Word(_name(size), _label(size), f"elements of {size} bytes, reversed on the way")
                    for size in settings["elements_bytes"]
                ),
            ],
        )

    def sections(self, document: Document) -> Sequence[Section]:
        rows = [
            (f"{test.operation}, {n}, {_label(size)}", row)
            for test in (TESTS[0], TESTS[2])
            for n in document.settings["ranks"]
            for size, row in test.rows(document, n).items()
        ]
        return [
            *(_section(document, test) for test in TESTS),
            Section("What was counted", tables=[counted_table("ranks and order", rows)]),
            published.beside_the_paper(
                "004",
                ": unformatted Fortran output on a Cray XT, which the language's library swapped, "
                "with one process and with many.",
                [_paper_table(document)],
            ),
        ]


@dataclass(frozen=True)
class EndianTest:
    """One of the ways to look at the rows."""

    name: str
    operation: str
    metric: str

    def rows(self, document: Document, ranks: int) -> dict[int, Row]:
        """Returns its rows with so many ranks, by the bytes of swapped elements; 0: native."""
        there = where(document.rows, operation=self.operation, ranks=ranks)
        rows = [row_at(there, order="native"), *where(there, order="swapped")]
        return {int(row.axes.get("element_bytes", 0)): row for row in rows}

    def points(self, document: Document, ranks: int) -> list[Comparison]:
        """Returns the comparisons with so many ranks, by element size."""
        there = where(document.comparisons, operation=self.operation, ranks=ranks)
        return [point for point in there if point.metric == self.metric]

    def findings(self, document: Document, ranks: int) -> Findings:
        """Returns how swapped data compares with native."""
        axis = Axis.named("element_bytes", str, "with elements of {} bytes")
        points = self.points(document, ranks)
        about = f"{self.name.capitalize()}, {count_of(ranks, 'rank')}"
        return Findings(about, [Finding("swapped", "native", points, axis)])


TESTS = (
    EndianTest("write", "write", "bandwidth_mib_per_s"),
    EndianTest("write+sync", "write", "bandwidth_with_sync_mib_per_s"),
    EndianTest("read", "read", "bandwidth_mib_per_s"),
)


# ---- what is measured ----------------------------------------------------------------------------


def rank_counts(quick: bool) -> list[int]:
    """Returns one, as many as there are CPUs, and twice as many, at least 2 and 4."""
    cpus = max(2, min(len(os.sched_getaffinity(0)), RANKS_MAX // 2))
    return [1, cpus] if quick else [1, cpus, 2 * cpus]


def endian_cells(place: Place, operation: str, ranks: int, total: int, elements: Sequence[int]) -> list[RanksCell]:
    """Returns native output, twice for the noise, and swapped output for each element size."""
    orders: list[dict[str, str | int]] = [{"order": "native"}, {"order": "again"}]
    orders += [{"order": "swapped", "element_bytes": size} for size in elements]
    return [
        ranks_cell(
            place,
            f"{operation}.{ranks}.{_name(int(order.get('element_bytes', 0)))}",
            {"operation": operation, **order, "ranks": ranks},
            ranks=ranks,
            transfer_bytes=min(TRANSFER_BYTES, total // ranks),
            total_bytes=total,
            byte_order=FOREIGN if order["order"] == "swapped" else "native",
            element_bytes=int(order.get("element_bytes", 8)),
        )
        for order in orders
    ]


# ---- what it shows -------------------------------------------------------------------------------


def _name(size: int) -> str:
    """Returns what plots and files call an order: that of swapped elements, 0 is native."""
    return f"swapped{size}" if size else "native"


def _label(size: int) -> str:
    return f"swapped, {size} bytes" if size else "native"


def _what_is_left(document: Document, test: EndianTest) -> str:
    points = [p for ranks in document.settings["ranks"] for p in test.points(document, ranks)]
    ratios = [point.ratio_median for point in points]
    slower = sum(point.finding == "slower" for point in points)
    return (
        f"{test.name.capitalize()}: swapped data has {range_of(min(ratios), max(ratios))} of "
        f"native's bandwidth; slower by more than the noise at {slower} of {len(points)} points."
    )


def _section(document: Document, test: EndianTest) -> Section:
    counts, panels, lines = document.settings["ranks"], [], []
    for ranks in counts:
        bars = []
        ratios = {
            p.row: f"{p.ratio_median:.2f} ({range_of(p.ratio_low_95, p.ratio_high_95)})"
            for p in test.points(document, ranks)
        }
        for size, row in test.rows(document, ranks).items():
            bars.append(Bar.of(_name(size), _label(size), row.metric(test.metric), "MiB/s"))
            name = f"{count_of(ranks, 'rank')}, {_label(size)}"
            lines.append([name, bandwidth_of(row, test.metric), ratios.get(row.id, ""), label_of(row)])
        panels.append(BarPanel(count_of(ranks, "rank"), bars))
    figure = Figure(
        test.name.replace("+", "-and-"),
        Bars(panels, common_scale=False, label_width=140.0),
        "Bars of bandwidth, native and swapped, by the number of ranks; the table below has the numbers.",
        f"{test.name.capitalize()}: bandwidth of all ranks together. The line across the end is the "
        "median's 95 % bounds. Each panel has a scale of its own.",
    )
    return Section(
        f"{test.name.capitalize()} (MiB/s)",
        figure=figure,
        findings=[test.findings(document, ranks) for ranks in counts],
        tables=[Table("", ["", "bandwidth", "of native", ""], lines)],
    )


# ---- the paper -----------------------------------------------------------------------------------


def paper_ratios() -> dict[int, float]:
    """Returns the share of the bandwidth that was left in Fahey (2007), by the number of ranks."""
    native, swapped = (
        {int(n.threads): n.value for n in published.of_study("endian", operation=f"write {order}")}
        for order in ("native", "byte-swapped")
    )
    return {ranks: value / native[ranks] for ranks, value in swapped.items()}


def _paper_table(document: Document) -> Table:
    lines = [
        [f"{published.CITED['004']}, {count_of(ranks, 'rank')}", f"{ratio:.2f}"]
        for ranks, ratio in paper_ratios().items()
    ]
    for test in TESTS[:2]:
        for ranks in document.settings["ranks"]:
            ratios = [point.ratio_median for point in test.points(document, ranks)]
            name = f"here, {test.name}, {count_of(ranks, 'rank')}"
            lines.append([name, range_of(min(ratios), max(ratios))])
    title = "What byte-swapped output leaves of the bandwidth"
    return Table(title, ["", "of native"], lines)
