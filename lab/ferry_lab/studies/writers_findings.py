"""The findings of the study ``writers``. For rows' ids see studies.writers_cells."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ferry_lab.render.findings import largest_noise, listed
from ferry_lab.results.results import whole_ns
from ferry_lab.stats.comparing import make_comparison, speed_ratio_of_rows
from ferry_lab.studies.writers_cells import AGAIN, ALL, FILES, OPERATIONS, SUBSETS

Json = dict[str, Any]

METRIC = "bandwidth_open_to_close_mib_per_s"
SUBSET, BEST = "subset_and_all", "writers_and_best"


def rows_of(rows: Sequence[Json], operation: str, kind: str, way: str | None = None) -> list[Json]:
    """Returns the rows of one measurement by writers, without the second run of all ranks."""
    head = f"{operation}/{kind}/"
    found = [row for row in rows if row["id"].startswith(head) and way_of(row) != AGAIN]
    if way is not None:
        found = [row for row in found if way_of(row) == way]
    return sorted(found, key=lambda row: int(row["writers"]))


def way_of(row: Json) -> str:
    """Returns "all", "aggregate" or "serial"."""
    return str(row["id"].split("/")[2])


def name_of(row: Json) -> str:
    """Returns "2 writers, aggregated", or "all 8 ranks"."""
    if way_of(row) not in SUBSETS:
        return f"all {row['ranks']} ranks"
    return f"{_count(row)}, {SUBSETS[way_of(row)]}"


def _count(row: Json) -> str:
    who = "writer" if row["operation"] == "write" else "reader"
    return f"{row['writers']} {who}{'s' if row['writers'] != 1 else ''}"


def best_row(rows: Sequence[Json]) -> Json:
    """Returns the row with the highest median."""
    return max(rows, key=lambda row: float(row["metrics"][METRIC]["median"]))


def compare(rows: Sequence[Json]) -> list[Json]:
    """Sets each subset beside all ranks, and every point beside the best of its measurement."""
    comparisons = []
    for kind in FILES:
        for operation in OPERATIONS:
            found = rows_of(rows, operation, kind)
            every = next(row for row in found if way_of(row) == ALL)
            again = next(
                row for row in rows if row["id"] == f"{operation}/{kind}/{AGAIN}/{every['ranks']}"
            )
            aa = speed_ratio_of_rows(every, again, whole_ns)
            best = best_row(found)
            pairs = [(SUBSET, row, every) for row in found if row is not every]
            pairs += [(BEST, row, best) for row in found if row is not best]
            comparisons += [
                make_comparison(question, METRIC, whole_ns, row, baseline, aa)
                for question, row, baseline in pairs
            ]
    return comparisons


def points_of(comparisons: Sequence[Json], question: str, operation: str, kind: str) -> list[Json]:
    """Returns the comparisons of one measurement."""
    return [
        point
        for point in comparisons
        if point["question"] == question and point["row"].startswith(f"{operation}/{kind}/")
    ]


def conclude(comparisons: Sequence[Json], rows: Sequence[Json]) -> list[str]:
    """Returns all sentences."""
    by_id = {row["id"]: row for row in rows}
    return [
        f"{operation.capitalize()}, {FILES[kind]}: {sentence}"
        for kind in FILES
        for operation in OPERATIONS
        for sentence in (
            _best_sentence(comparisons, rows, by_id, operation, kind),
            _subset_sentence(comparisons, by_id, operation, kind),
        )
    ]


def _best_sentence(
    comparisons: Sequence[Json],
    rows: Sequence[Json],
    by_id: dict[str, Json],
    operation: str,
    kind: str,
) -> str:
    """Names the fastest, and who loses against it: points that noise does not explain."""
    best = best_row(rows_of(rows, operation, kind))
    points = points_of(comparisons, BEST, operation, kind)
    losing = [point for point in points if point["finding"] == "slower"]
    is_one = way_of(best) in SUBSETS and best["writers"] == 1
    fastest = (
        f"fastest {'was' if is_one else 'were'} {name_of(best)} "
        f"({best['metrics'][METRIC]['median']:.0f} MiB/s)"
    )
    if not losing:
        return f"{fastest}; no point is slower by more than the noise ({largest_noise(points)})."
    shares = [
        f"{name_of(by_id[point['row']])} ({point['ratio_median']:.2f} times)" for point in losing
    ]
    lose = f"lose{'s' if len(losing) == 1 else ''} against {'it' if is_one else 'them'}"
    return f"{fastest}; {listed(shares)} {lose}."


def _subset_sentence(
    comparisons: Sequence[Json], by_id: dict[str, Json], operation: str, kind: str
) -> str:
    """Says which subsets beat all ranks."""
    points = points_of(comparisons, SUBSET, operation, kind)
    clauses = []
    for finding, words in (("faster", "faster"), ("slower", "slower")):
        alike = [point for point in points if point["finding"] == finding]
        if alike:
            names = listed(
                [f"{name_of(by_id[p['row']])} ({p['ratio_median']:.2f} times)" for p in alike]
            )
            clauses.append(f"{words} than all ranks: {names}")
    unclear = [point for point in points if point["finding"] == "no_difference"]
    if unclear:
        names = listed([name_of(by_id[p["row"]]) for p in unclear], "or")
        if len(unclear) == len(points):
            names = "any subset of them"
        noise = largest_noise(unclear)
        clauses.append(f"no difference measured between all ranks and {names} ({noise})")
    close = [point for point in points if point["finding"] == "within_5_percent"]
    if close:
        names = listed([name_of(by_id[p["row"]]) for p in close])
        clauses.append(f"within 5 % of all ranks: {names}")
    return f"{'; '.join(clauses)}."
