"""The study ``writers``: how many ranks should write, or read, for all (after Fahey 2007).

One shared file or one per writer, written and read by all ranks, or by some that gather the others'
data, at once or in turn. Times go from open to close, with an fsync for writes: opening by all
ranks is part of their cost.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from rich.console import Console

from ferry.sizes import MIB
from ferry_lab.run.mpi_plan import MpiCell
from ferry_lab.run.ranks_study import RanksPlan, RanksStudy
from ferry_lab.run.remote_files import Place
from ferry_lab.run.study import PagedFindings, PagedStudy, StudyOptions
from ferry_lab.stats import judge
from ferry_lab.studies.writers_cells import FILES, OPERATIONS, writers_cells
from ferry_lab.studies.writers_findings import compare, conclude
from ferry_lab.studies.writers_report import print_report

if TYPE_CHECKING:
    from ferry_lab.render.report import Page

RANKS, QUICK_RANKS = 16, 8
BYTES_PER_RANK, QUICK_BYTES_PER_RANK = 8 * MIB, 4 * MIB

Json = dict[str, Any]


class Writers(RanksStudy, PagedStudy):
    """See the module."""

    name = "writers"

    repeats = judge.PAIRS_MIN
    quick_repeats = judge.FINDING_PAIRS_MIN

    def plan(self, options: StudyOptions, notes: list[str]) -> RanksPlan:
        """Returns what is measured, by kind of files and operation."""
        ranks = QUICK_RANKS if options.quick else RANKS
        bytes_per_rank = QUICK_BYTES_PER_RANK if options.quick else BYTES_PER_RANK
        counts = [1 << power for power in range(ranks.bit_length())]

        def cells(places: Sequence[Place]) -> dict[str, list[MpiCell]]:
            return {
                f"{operation}, {FILES[kind]}": writers_cells(
                    places[0], kind, operation, ranks, bytes_per_rank, counts
                )
                for kind in FILES
                for operation in OPERATIONS
            }

        # What is read by each number of readers, and the file being written.
        scratch_bytes = (len(counts) + 2) * ranks * bytes_per_rank
        settings = {"ranks": ranks, "bytes_per_rank": bytes_per_rank, "writers": counts}
        return RanksPlan(scratch_bytes, settings, cells)

    def findings(self, rows: Sequence[Json]) -> PagedFindings:
        """Sets every subset beside all ranks, and every point beside the best."""
        comparisons = compare(rows)
        return PagedFindings(comparisons, conclude(comparisons, rows))

    def print_tables(self, console: Console, document: Json) -> None:
        """Prints a table for each question."""
        print_report(console, document)

    def page(self, document: Json) -> Page:
        """Returns the report's plots and tables."""
        from ferry_lab.studies.writers_page import make_page  # see Study.page

        return make_page(document)
