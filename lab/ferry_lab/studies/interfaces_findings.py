"""The findings of the study ``interfaces``. For rows' ids see studies.interfaces_cells."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ferry_lab.render.findings import describe_findings, largest_noise, nothing_shown
from ferry_lab.results.mpi_results import durable_ns
from ferry_lab.stats.comparing import make_comparison, speed_ratio_of_rows
from ferry_lab.studies.interfaces_cells import AGAIN, LABELS, OPERATIONS

Json = dict[str, Any]

METRIC = "bandwidth_with_sync_mib_per_s"
QUESTION = "interface_and_posix"


def interface_of(row: Json) -> str:
    """Returns the name of its interface."""
    return str(row["id"].split("/")[1])


def interfaces_of(rows: Sequence[Json]) -> list[str]:
    """Returns the names of those that were measured, the baseline first."""
    return [n for n in dict.fromkeys(map(interface_of, rows)) if n != AGAIN]


def row_of(rows: Sequence[Json], operation: str, name: str, clients: int, transfer: int) -> Json:
    """Returns one row."""
    wanted = f"{operation}/{name}/{clients}/{transfer}"
    return next(row for row in rows if row["id"] == wanted)


def compare(rows: Sequence[Json]) -> list[Json]:
    """Sets each interface beside the first one, at every point."""
    first, *others = interfaces_of(rows)
    comparisons = []
    for row in rows:
        operation, name, clients, transfer = row["id"].split("/")
        if name not in others:
            continue
        where = (int(clients), int(transfer))
        base = row_of(rows, operation, first, *where)
        aa = speed_ratio_of_rows(base, row_of(rows, operation, AGAIN, *where), durable_ns)
        comparisons.append(make_comparison(QUESTION, METRIC, durable_ns, row, base, aa))
    return comparisons


def points_of(comparisons: Sequence[Json], operation: str, name: str, clients: int) -> list[Json]:
    """Returns the comparisons of one interface, by transfer size."""
    head = f"{operation}/{name}/{clients}/"
    return [point for point in comparisons if point["row"].startswith(head)]


def conclude(comparisons: Sequence[Json], rows: Sequence[Json]) -> list[str]:
    """Returns a sentence for each operation and number of clients."""
    first, *others = interfaces_of(rows)
    counts = sorted({row["ranks"] for row in rows})
    sentences = []
    for operation in OPERATIONS:
        for clients in counts:
            clauses, silent = [], []
            for name in others:
                points = points_of(comparisons, operation, name, clients)
                if nothing_shown(points):
                    silent += points
                else:
                    clauses.append(
                        describe_findings(LABELS[name], LABELS[first], points, "bandwidth")
                    )
            if silent:
                names = list(dict.fromkeys(LABELS[interface_of({"id": p["row"]})] for p in silent))
                clauses.append(
                    f"no difference measured between {LABELS[first]} and {' or '.join(names)} "
                    f"({largest_noise(silent)})"
                )
            if clauses:
                head = f"{operation.capitalize()}, {clients} clients: "
                sentences.append(f"{head}{'; '.join(clauses)}.")
    return sentences
