"""The output of ``ferry study writers --simulate``, on the terminal and in the report."""

from __future__ import annotations

import statistics
from typing import Any

from rich.console import Console

from ferry_lab.render.tables import Table
from ferry_lab.render.terminal import print_wrapped

Json = dict[str, Any]


def print_report(console: Console, document: Json) -> None:
    """Prints tables, conclusions and notes; rates are of MB = 10**6 bytes, as in the paper."""
    console.print(f"Study writers, simulated: {cluster_line(document)}", soft_wrap=True)
    console.print()
    for table in (writers_table(document), ranks_table(document), paper_table(document)):
        console.print(table.shown())
    for sentence in document["conclusions"]:
        print_wrapped(console, sentence)
    console.print()
    for note in document["notes"]:
        print_wrapped(console, f"note: {note}", "  ")


def cluster_line(document: Json) -> str:
    """Returns the cluster and its job in one line."""
    cluster = document["settings"]["cluster"]
    job = cluster["job"]
    files = "one shared file" if job["file"] == "shared" else "a file for each writer"
    return (
        f"{cluster['name']}; {job['ranks']} ranks with {job['bytes_per_rank'] / 1e6:g} MB each, "
        f"{files}, {cluster['servers']['count']} servers"
    )


def rate(mb_per_s: float) -> str:
    """Returns a rate with its unit, which is that of all tables and plots."""
    return f"{mb_per_s / 1000:.1f} GB/s" if mb_per_s >= 1000 else f"{mb_per_s / 1000:.3f} GB/s"


def percent(share: float) -> str:
    """Returns a share in per cent."""
    return f"{share * 100:.0f} %"


def rows_of(document: Json, group: str, operation: str) -> list[Json]:
    """Returns the rows of a group, by writers."""
    found = [r for r in document["rows"] if (r["group"], r["operation"]) == (group, operation)]
    return sorted(found, key=lambda row: row["writers"])


def writers_table(document: Json) -> Table:
    """Returns the sweep over the number of writers."""
    return _sweep_table(document, "by writers", "The same data, by the number of writers")


def ranks_table(document: Json) -> Table:
    """Returns the sweep over the number of ranks, all of which write."""
    return _sweep_table(document, "all ranks write", "As many ranks as writers, the same for each")


def _sweep_table(document: Json, group: str, title: str) -> Table:
    written = rows_of(document, group, "write")
    read = rows_of(document, group, "read")
    return Table(
        title,
        ["writers", "write GB/s", "opens", "servers busy", "read GB/s", "opens", "servers busy"],
        [
            [str(one["writers"]), *_sweep_cells(one), *_sweep_cells(other)]
            for one, other in zip(written, read, strict=True)
        ],
    )


def _sweep_cells(row: Json) -> list[str]:
    return [
        f"{row['bandwidth_mb_per_s'] / 1000:.2f}",
        f"{row['opens_s']:.2f} s",
        percent(row["servers_busy_share"]),
    ]


def paper_table(document: Json) -> Table:
    """Returns the published numbers beside the model's."""
    return Table(
        "Paper 004 beside the model of its XT3",
        ["row", "", "writers", "published", "model", "deviation", ""],
        [
            [
                row["where"],
                row["operation"],
                str(row["writers"]),
                rate(row["published_mb_per_s"]),
                rate(row["bandwidth_mb_per_s"]),
                f"{round(row['deviation'] * 100):+d} %",
                "calibrated" if row["calibrated"] else "held out",
            ]
            for row in document["paper"]
        ],
        left=2,
    )


def conclude(document: Json) -> list[str]:
    """Returns three sentences: the best number, what others cost, how far to trust it."""
    return [_best_sentence(document), _extremes_sentence(document), trust_sentence(document)]


def _best_sentence(document: Json) -> str:
    clauses = []
    for operation, best in document["best"].items():
        few, many = best["fewest_writers_within_5_percent"], best["most_writers_within_5_percent"]
        span = f"{few} to {many} are" if few != many else "no other number tried is"
        clauses.append(
            f"{best['writers']} to {operation} ({rate(best['bandwidth_mb_per_s'])}; {span} within 5 %)"
        )
    return f"Best numbers of writers: {', '.join(clauses)}."


def _extremes_sentence(document: Json) -> str:
    ranks = document["settings"]["cluster"]["job"]["ranks"]
    clauses = []
    for operation, best in document["best"].items():
        rows = {r["writers"]: r for r in rows_of(document, "by writers", operation)}
        one, every = (
            percent(rows[n]["bandwidth_mb_per_s"] / best["bandwidth_mb_per_s"]) for n in (1, ranks)
        )
        clauses.append(f"{operation}: {every} with all {ranks}, {one} with one")
    return f"Of the best that is, {'; '.join(clauses)}."


def trust_sentence(document: Json) -> str:
    """Returns how the model does where it was not calibrated."""
    held = [row for row in document["paper"] if not row["calibrated"]]
    worst = max(held, key=lambda row: abs(row["deviation"]))
    median = statistics.median(abs(row["deviation"]) for row in held)
    return (
        f"Calibrated from {len(document['paper']) - len(held)} numbers of paper 004, the model of "
        f"its XT3 is off by {percent(median)} in the median of {len(held)} others, at worst by "
        f"{worst['deviation'] * 100:+.0f} % ({worst['operation']} on {worst['where']})."
    )
