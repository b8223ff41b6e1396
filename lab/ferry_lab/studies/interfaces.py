"""The study ``interfaces``: the fastest way into one shared file (after Tirupati Nagaraj 2009).

2, 4 and 6 clients write and read their parts of one file in calls of 1 MiB to 1 GiB. The total is
the same for any number of clients.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from rich.console import Console

from ferry.sizes import GIB, MIB, format_size
from ferry_lab.render.mpi_tables import memory_bytes
from ferry_lab.run.mpi_plan import MpiCell
from ferry_lab.run.ranks_study import RanksPlan, RanksStudy
from ferry_lab.run.remote_files import Place
from ferry_lab.run.study import PagedFindings, StudyOptions
from ferry_lab.stats import judge
from ferry_lab.studies.interfaces_cells import OPERATIONS, cells_of, present
from ferry_lab.studies.interfaces_findings import compare, conclude
from ferry_lab.studies.interfaces_report import print_report

if TYPE_CHECKING:
    from ferry_lab.render.report import Page

CLIENTS = [2, 4, 6]
TRANSFERS = [MIB, 4 * MIB, 16 * MIB, 64 * MIB, 256 * MIB, GIB]
QUICK_TRANSFERS = [MIB, 4 * MIB]
# Multiples of every transfer size times 2, 4 and 6.
QUICK_TOTAL_BYTES = 48 * MIB
TOTAL_BYTES = 768 * MIB

Json = dict[str, Any]


class Interfaces(RanksStudy):
    """See the module."""

    name = "interfaces"

    repeats = 6
    quick_repeats = judge.FINDING_PAIRS_MIN

    def places(self, options: StudyOptions) -> list[str]:
        """Returns the folder and the storage, or one of them."""
        # What is mounted elsewhere is not the storage of --storage.
        folder = options.storage is None or options.folder_given
        storage = [] if options.storage is None else [options.storage]
        return [options.folder, *storage] if folder else storage

    def plan(self, options: StudyOptions, notes: list[str]) -> RanksPlan:
        """Returns what is measured, by operation, number of clients and transfer size."""
        transfers = QUICK_TRANSFERS if options.quick else fitting(TRANSFERS, notes)
        totals = {transfer: total_bytes(transfer, options.quick) for transfer in transfers}
        settings = {
            "clients": CLIENTS,
            "transfers_bytes": transfers,
            "totals_bytes": list(totals.values()),
            "larger_than_caches": min(totals.values()) > memory_bytes(),
        }

        def cells(places: Sequence[Place]) -> dict[str, list[MpiCell]]:
            folder = places[0] if options.storage is None or options.folder_given else None
            storage = None if options.storage is None else places[-1]
            # Which there are is known now.
            interfaces, settings["absent"] = present(folder, storage)
            settings["interfaces"] = [one.name for one in interfaces]
            return {
                f"{operation}, {clients} clients, {format_size(transfer)}": cells_of(
                    interfaces, operation, clients, transfer, totals[transfer]
                )
                for operation in OPERATIONS
                for clients in CLIENTS
                for transfer in transfers
            }

        return RanksPlan(3 * max(totals.values()), settings, cells)

    def notes(self, rows: Sequence[Json], machine: Json) -> list[str]:
        """Says what the totals leave to caches, and where clients had to share CPUs."""
        notes = []
        if min(row["total_bytes"] for row in rows) <= machine["memory_bytes"]:
            notes.append(
                f"within the caches: the data is smaller than the memory "
                f"({format_size(machine['memory_bytes'])}), so writes count with their fsync, and "
                "reads are of a file that the kernel has dropped from its page cache"
            )
        return notes + super().notes(rows, machine)

    def findings(self, rows: Sequence[Json]) -> PagedFindings:
        """Sets each interface beside the first one."""
        comparisons = compare(rows)
        return PagedFindings(comparisons, conclude(comparisons, rows))

    def print_tables(self, console: Console, document: Json) -> None:
        """Prints a table for each question."""
        print_report(console, document)

    def page(self, document: Json) -> Page:
        """Returns the report's plots and tables."""
        from ferry_lab.studies.interfaces_page import make_page  # see Study.page

        return make_page(document)


def fitting(transfers: Sequence[int], notes: list[str]) -> list[int]:
    """Returns the transfer sizes whose data, which all clients hold, needs a quarter of the memory."""
    most = memory_bytes() // 4
    kept = [transfer for transfer in transfers if total_bytes(transfer, False) <= most]
    left_out = [format_size(transfer) for transfer in transfers if transfer not in kept]
    if left_out:
        notes.append(
            f"calls of {' and '.join(left_out)} are left out: six clients would hold more than a "
            "quarter of the memory"
        )
    return kept


def total_bytes(transfer: int, quick: bool) -> int:
    """Returns the data of all clients: every number of them has whole calls of that size."""
    least = 12 * transfer  # divisible by 2, 4 and 6 clients
    total = QUICK_TOTAL_BYTES if quick else TOTAL_BYTES
    return max(total, least)
