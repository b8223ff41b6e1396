"""``ferry study writers --simulate``: how many writers a described cluster should have.

Measures nothing: the numbers come from a discrete-event model (studies.writers_simulation) of the
cluster in a file. The output says how far to trust it: four numbers of Fahey 2007 calibrate it, all
others test it.
"""

from __future__ import annotations

import csv
import dataclasses
import io
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ferry import __version__, output_files, terminal
from ferry.files import signals_ignored
from ferry_lab.render.terminal import print_answer
from ferry_lab.results import results
from ferry_lab.run.study import check_out, write_out
from ferry_lab.run.study_files import RESULTS_CSV, RESULTS_JSON
from ferry_lab.studies.cluster_model import MB, Cluster, built_in_cluster, read_cluster, to_json
from ferry_lab.studies.writers_paper import NOT_HELD_AGAINST, points
from ferry_lab.studies.writers_simulate_page import make_page
from ferry_lab.studies.writers_simulate_text import conclude, print_report
from ferry_lab.studies.writers_simulation import (
    REQUESTS_MAX,
    Operation,
    Outcome,
    Transfer,
    simulate,
)

SCHEMA = "ferry.simulation/1"
CLOSE_TO_BEST = 0.95  # of the best bandwidth; so few writers are as good
_OPERATIONS: tuple[Operation, ...] = ("write", "read")

Json = dict[str, Any]


@dataclass(frozen=True)
class Options:
    """What was asked for."""

    cluster: str | None  # a file; None: the XT3 of paper 004
    quick: bool
    out: str | None
    json: str | None
    overwrite: bool


def run(options: Options) -> None:
    """Simulates, prints tables and conclusions, writes what was asked for. Raises FerryError."""
    started = results.now().isoformat(timespec="seconds")
    cluster = built_in_cluster() if options.cluster is None else read_cluster(options.cluster)
    output_files.check_output(options.json, options.overwrite)
    check_out(options.out, options.overwrite)
    document = make_document(cluster, options.quick, started)
    if options.json != "-":
        console = terminal.output_console()
        print_answer(console, make_page(document).answer())
        print_report(console, document)
    files = _files(document) if options.out is not None else {}
    with signals_ignored():
        if options.json is not None:
            output_files.write_json(options.json, document, options.overwrite)
        write_out(options.out, files, options.overwrite)


def make_document(cluster: Cluster, quick: bool, started: str) -> Json:
    """Simulates everything; returns the document (schema ``ferry.simulation/1``)."""
    by_writers = [
        (cluster, Transfer(operation, writers))
        for operation in _OPERATIONS
        for writers in writer_counts(cluster, quick)
    ]
    by_ranks = [
        (_of_ranks(cluster, ranks), Transfer(operation, ranks))
        for operation in _OPERATIONS
        for ranks in _powers(cluster.job.ranks, 4 if quick else 2)
    ]
    held = points(built_in_cluster())
    with terminal.progress("writers", len(by_writers) + len(by_ranks) + len(held)) as bar:

        def outcome(where: Cluster, transfer: Transfer) -> Outcome:
            made = simulate(where, transfer)
            bar.advance()
            return made

        rows = [
            make_row(group, where, transfer, outcome(where, transfer))
            for group, chosen in (("by writers", by_writers), ("all ranks write", by_ranks))
            for where, transfer in chosen
        ]
        paper = [
            {
                **make_row("paper 004", p.cluster, p.transfer, outcome(p.cluster, p.transfer)),
                "where": p.where,
                "calibrated": p.calibrated,
                "published_mb_per_s": p.published_mb_per_s,
            }
            for p in held
        ]
    for row in paper:
        row["deviation"] = row["bandwidth_mb_per_s"] / row["published_mb_per_s"] - 1
    best = {operation: find_best(rows, operation) for operation in _OPERATIONS}
    document = {
        "schema": SCHEMA,
        "ferry_version": __version__,
        "kind": "simulation",
        "study": "writers",
        "command": ["ferry", *sys.argv[1:]],
        "started": started,
        "finished": results.now().isoformat(timespec="seconds"),
        # As results have it; no machine, because what is computed does not depend on one.
        "environment": {
            "machine": None,
            "versions": {"ferry": __version__, "git_revision": results.git_revision()},
        },
        "settings": {"quick": quick, "cluster": to_json(cluster)},
        "notes": _notes(cluster, rows),
        "rows": rows,
        "best": best,
        "paper": paper,
        "conclusions": [],
    }
    document["conclusions"] = conclude(document)
    return document


def make_row(group: str, cluster: Cluster, transfer: Transfer, outcome: Outcome) -> Json:
    """Returns one simulated transfer."""
    return {
        "group": group,
        "operation": transfer.operation,
        "gather": transfer.gather,
        "ranks": cluster.job.ranks,
        "writers": transfer.writers,
        "servers": cluster.servers.count,
        "bytes_per_rank": cluster.job.bytes_per_rank,
        "bandwidth_mb_per_s": outcome.bandwidth_mb_per_s,
        "time_s": outcome.time_s,
        "opens_s": outcome.opens_s,
        "requests": outcome.requests,
        "request_bytes": outcome.request_bytes,
        "servers_busy_share": outcome.servers_busy_share,
        "metadata_busy_share": outcome.metadata_busy_share,
    }


def writer_counts(cluster: Cluster, quick: bool) -> list[int]:
    """Returns the numbers of writers to try: powers below the number of servers, then multiples.

    Between the multiples some servers have a file more than others, and everybody waits for them.
    """
    ranks, servers = cluster.job.ranks, cluster.servers.count
    base = 4 if quick else 2
    few = [n for n in _powers(ranks, base) if n < servers]
    many = [n * servers for n in _powers(max(1, ranks // servers), base)]
    return [*few, *(n for n in many if n < ranks), ranks]


def find_best(rows: Sequence[Json], operation: Operation) -> Json:
    """Returns the best number of writers, and those that are within 5 % of it on both sides."""
    of = [r for r in rows if r["group"] == "by writers" and r["operation"] == operation]
    best = max(range(len(of)), key=lambda n: of[n]["bandwidth_mb_per_s"])
    least = CLOSE_TO_BEST * of[best]["bandwidth_mb_per_s"]
    low = high = best
    while low > 0 and of[low - 1]["bandwidth_mb_per_s"] >= least:
        low -= 1
    while high + 1 < len(of) and of[high + 1]["bandwidth_mb_per_s"] >= least:
        high += 1
    return {
        "writers": of[best]["writers"],
        "bandwidth_mb_per_s": of[best]["bandwidth_mb_per_s"],
        "fewest_writers_within_5_percent": of[low]["writers"],
        "most_writers_within_5_percent": of[high]["writers"],
    }


def _powers(most: int, base: int) -> list[int]:
    """Returns 1, base, base² and so on, and ``most``."""
    counts = []
    count = 1
    while count < most:
        counts.append(count)
        count *= base
    return [*counts, most]


def _of_ranks(cluster: Cluster, ranks: int) -> Cluster:
    return dataclasses.replace(cluster, job=dataclasses.replace(cluster.job, ranks=ranks))


def _notes(cluster: Cluster, rows: Sequence[Json]) -> list[str]:
    notes = ["a model: nothing was measured on this machine", *NOT_HELD_AGAINST]
    largest = max(row["request_bytes"] for row in rows)
    if largest > cluster.servers.request_bytes:
        notes.append(
            f"requests of up to {largest / MB:g} MB are simulated in place of "
            f"{cluster.servers.request_bytes / MB:g} MB, so that there are at most about "
            f"{REQUESTS_MAX}"
        )
    return notes


def to_csv(document: Json) -> str:
    """Returns all rows, one line each."""
    text = io.StringIO()
    names = [*document["rows"][0], "where", "calibrated", "published_mb_per_s", "deviation"]
    writer = csv.DictWriter(text, names, lineterminator="\n", restval="")
    writer.writeheader()
    writer.writerows([*document["rows"], *document["paper"]])
    return text.getvalue()


# ---- what is written -----------------------------------------------------------------------------


def _files(document: Json) -> dict[str, bytes]:
    from ferry_lab.render import report  # it loads matplotlib, which takes a while

    return {
        RESULTS_JSON: output_files.encode(output_files.to_json(document)),
        RESULTS_CSV: to_csv(document).encode(),
        **report.files(make_page(document), document),
    }
