"""The study ``endian``: the cost of byte-swapped output, for one rank and many (after Fahey 2007).

Ranks write and read one file through ferry.collective, in native byte order and byte-swapped, for
all element sizes.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from rich.console import Console

from ferry.sizes import MIB
from ferry_lab.run.mpi_plan import MpiCell
from ferry_lab.run.ranks_study import RanksPlan, RanksStudy
from ferry_lab.run.remote_files import Place
from ferry_lab.run.study import PagedFindings, PagedStudy, StudyOptions
from ferry_lab.stats import judge
from ferry_lab.studies.endian_report import compare, conclude, print_report

if TYPE_CHECKING:
    from ferry_lab.render.report import Page

ELEMENTS, QUICK_ELEMENTS = [2, 4, 8, 16], [4, 8]
TRANSFER_BYTES = 8 * MIB  # as in the paper
BYTES_PER_RANK, QUICK_BYTES_PER_RANK = 64 * MIB, 16 * MIB
RANKS_MAX = 64
FOREIGN = "big" if sys.byteorder == "little" else "little"
SEED = 1

Json = dict[str, Any]


class Endian(RanksStudy, PagedStudy):
    """See the module."""

    name = "endian"

    repeats = judge.PAIRS_MIN
    quick_repeats = judge.FINDING_PAIRS_MIN

    def plan(self, options: StudyOptions, notes: list[str]) -> RanksPlan:
        """Returns what is measured, by operation and number of ranks."""
        ranks = rank_counts(options.quick)
        elements = QUICK_ELEMENTS if options.quick else ELEMENTS
        each = QUICK_BYTES_PER_RANK if options.quick else BYTES_PER_RANK

        def cells(places: Sequence[Place]) -> dict[str, list[MpiCell]]:
            return {
                f"{operation}, {count} rank{'s' if count > 1 else ''}": endian_cells(
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

    def findings(self, rows: Sequence[Json]) -> PagedFindings:
        """Sets swapped beside native."""
        comparisons = compare(rows)
        return PagedFindings(comparisons, conclude(comparisons))

    def print_tables(self, console: Console, document: Json) -> None:
        """Prints a table for each question."""
        print_report(console, document)

    def page(self, document: Json) -> Page:
        """Returns the report's plots and tables."""
        from ferry_lab.studies.endian_page import make_page  # see Study.page

        return make_page(document)


def rank_counts(quick: bool) -> list[int]:
    """Returns one, as many as there are CPUs, and twice as many, at least 2 and 4."""
    cpus = max(2, min(len(os.sched_getaffinity(0)), RANKS_MAX // 2))
    return [1, cpus] if quick else [1, cpus, 2 * cpus]


def endian_cells(
    place: Place, operation: str, ranks: int, total: int, elements: Sequence[int]
) -> list[MpiCell]:
    """Returns native output, twice for the noise, and swapped output for each element size.

    Ids are ``operation/order/ranks``; an order is ``native``, ``again`` or ``swapped8``.
    """
    ways = [("native", "native", 8), ("again", "native", 8)]
    ways += [(f"swapped{size}", FOREIGN, size) for size in elements]
    cells = [
        MpiCell(
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
