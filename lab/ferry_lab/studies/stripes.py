"""The study ``stripes``: the effect of file layouts and writers' buffers (after Fahey 2007).

One writer and many write a shared file for all ranks, by stripe count, stripe size and buffer size,
each beside the storage's default. Without stripes, only the buffer size varies.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from rich.console import Console

from ferry.errors import FerryError
from ferry.native import run_layout
from ferry.sizes import KIB, MIB
from ferry_lab.run.mpi_plan import MpiCell
from ferry_lab.run.ranks_study import RanksPlan, RanksStudy
from ferry_lab.run.remote_files import Place
from ferry_lab.run.study import PagedFindings, PagedStudy, StudyOptions
from ferry_lab.stats import judge
from ferry_lab.studies.stripes_report import (
    AGAIN,
    COUNT,
    DEFAULT,
    SIZE,
    compare,
    conclude,
    print_report,
)
from ferry_lab.studies.stripes_report import BUFFER as BUFFERS_AXIS

if TYPE_CHECKING:
    from ferry_lab.render.report import Page

RANKS, QUICK_RANKS = 8, 4
BYTES_PER_RANK, QUICK_BYTES_PER_RANK = 16 * MIB, 8 * MIB
COUNTS, QUICK_COUNTS = [1, 2, 4, 8], [1, 4]
SIZES, QUICK_SIZES = [256 * KIB, MIB, 4 * MIB], [256 * KIB, 4 * MIB]
BUFFERS, QUICK_BUFFERS = [MIB, 4 * MIB, 16 * MIB], [MIB, 16 * MIB]
SIZE_OF_COUNTS, COUNT_OF_SIZES = MIB, 4  # what the one axis has where the other is varied
SEED = 1

Json = dict[str, Any]


class Stripes(RanksStudy, PagedStudy):
    """See the module."""

    name = "stripes"

    repeats = judge.PAIRS_MIN
    quick_repeats = judge.FINDING_PAIRS_MIN

    def plan(self, options: StudyOptions, notes: list[str]) -> RanksPlan:
        """Returns what is measured, by number of writers."""
        where = options.storage or options.folder
        ranks = QUICK_RANKS if options.quick else RANKS
        each = QUICK_BYTES_PER_RANK if options.quick else BYTES_PER_RANK
        layout = default_layout(where)
        if layout is None:
            notes.append(f"{where} has no stripes that Ferry can set: measured by buffer size alone")
        axes = {
            COUNT: (QUICK_COUNTS if options.quick else COUNTS) if layout else [],
            SIZE: (QUICK_SIZES if options.quick else SIZES) if layout else [],
            BUFFERS_AXIS: QUICK_BUFFERS if options.quick else BUFFERS,
        }

        def cells(places: Sequence[Place]) -> dict[str, list[MpiCell]]:
            return {
                f"{writers} writer{'s' if writers > 1 else ''}": stripes_cells(
                    places[0], ranks, writers, ranks * each, axes
                )
                for writers in (1, ranks)
            }

        settings = {
            "ranks": ranks,
            "writers": [1, ranks],
            "bytes_per_rank": each,
            "axes": axes,
            "stripe_bytes_of_counts": SIZE_OF_COUNTS,
            "stripe_count_of_sizes": COUNT_OF_SIZES,
            "default_layout": layout,
        }
        return RanksPlan(3 * ranks * each, settings, cells)

    def findings(self, rows: Sequence[Json]) -> PagedFindings:
        """Sets each point beside the default."""
        comparisons = compare(rows)
        return PagedFindings(comparisons, conclude(comparisons))

    def print_tables(self, console: Console, document: Json) -> None:
        """Prints a table for each question."""
        print_report(console, document)

    def page(self, document: Json) -> Page:
        """Returns the report's plots and tables."""
        from ferry_lab.studies.stripes_page import make_page  # see Study.page

        return make_page(document)


def default_layout(where: str) -> Json | None:
    """Returns the layout that files get there by themselves; None where nothing is striped."""
    try:
        answer = run_layout(["get", where])
    except FerryError as error:
        if "stripes files" in str(error):
            return None
        raise
    layout: Json = answer["layout"]
    return layout


def stripes_cells(
    place: Place, ranks: int, writers: int, total: int, axes: dict[str, list[int]]
) -> list[MpiCell]:
    """Returns the default, twice for the noise, and every point of each axis.

    Ids are ``axis/value/writers``.
    """
    fields: list[tuple[str, int, Json]] = [(DEFAULT, 0, {}), (AGAIN, 0, {})]
    fields += [
        (COUNT, count, {"stripe_count": count, "stripe_bytes": SIZE_OF_COUNTS})
        for count in axes[COUNT]
    ]
    fields += [
        (SIZE, size, {"stripe_count": COUNT_OF_SIZES, "stripe_bytes": size}) for size in axes[SIZE]
    ]
    fields += [(BUFFERS_AXIS, size, {"buffer_bytes": size}) for size in axes[BUFFERS_AXIS]]
    cells = [
        MpiCell(
            id=f"{axis}/{value}/{writers}",
            interface="ferry",
            method="aggregate",
            operation="write",
            path=place.path("stripes"),
            ranks=ranks,
            writers=writers,
            transfer_bytes=total // ranks,
            total_bytes=total,
            sync="fsync",
            seed=SEED,
            **changes,
        )
        for axis, value, changes in fields
    ]
    place.handed_out += cells[0].paths
    return cells
