"""The cells of the study ``writers``, by group.

Their axes are ``operation``, ``files``, ``way`` and ``writers``. A *way* is how data moves between all
ranks and the writers: ``all`` (each rank writes its own; ``again`` is the same for the noise),
``aggregate`` (some gather the others' data), ``serial`` (some take the others' data in turn).
"""

from __future__ import annotations

from collections.abc import Sequence

from ferry_lab.results.records import Row
from ferry_lab.run.plan import RanksCell
from ferry_lab.run.remote_files import Place
from ferry_lab.stats.comparing import where
from ferry_lab.studies.ranks_cells import ranks_cell

FILES = {"shared": "one shared file", "own": "a file for each writer"}
OPERATIONS = ("write", "read")
ALL, AGAIN = "all", "again"
SUBSETS = {"aggregate": "aggregated", "serial": "sent serially"}
LABELS = {ALL: "all ranks", **SUBSETS}
METRIC = "bandwidth_open_to_close_mib_per_s"


def writers_cells(
    place: Place, kind: str, operation: str, ranks: int, bytes_per_rank: int, counts: Sequence[int]
) -> list[RanksCell]:
    """Returns all ranks, twice for the noise, and each number of writers in both ways."""
    ways = [(ALL, ranks), (AGAIN, ranks)]
    ways += [(way, count) for way in SUBSETS for count in counts if count < ranks]
    # What is read is one file for all ways, as far as they read the same.
    return [
        ranks_cell(
            place,
            f"{operation}.{kind}.{writers}" if kind == "own" else f"{operation}.{kind}",
            {"operation": operation, "files": kind, "way": way, "writers": writers},
            method=way if way in SUBSETS else "independent",
            ranks=ranks,
            writers=writers,
            file_per_writer=kind == "own",
            transfer_bytes=bytes_per_rank,
            total_bytes=ranks * bytes_per_rank,
            cold=operation == "read",
        )
        for way, writers in ways
    ]


def rows_of(rows: Sequence[Row], operation: str, kind: str, way: str | None = None) -> list[Row]:
    """Returns the rows of one measurement by writers, without the second run of all ranks."""
    there = where(rows, operation=operation, files=kind)
    found = [row for row in there if row.axes["way"] in (LABELS if way is None else (way,))]
    return sorted(found, key=writers_of)


def writers_of(row: Row) -> int:
    """Returns how many write, or read."""
    return int(row.axes["writers"])
