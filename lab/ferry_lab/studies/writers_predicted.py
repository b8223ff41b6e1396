"""The model of many writers (studies.writers_simulation) with this machine's numbers.

Four parameters come from two measured rows of each measurement, all ranks and one gathering writer;
the rest are predictions to compare with measurements.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

from ferry.sizes import MIB
from ferry_lab.studies.cluster_model import MB, Client, Cluster, Job, Metadata, Network, Servers
from ferry_lab.studies.writers_cells import ALL, METRIC, rows_of, way_of
from ferry_lab.studies.writers_simulation import Transfer, simulate

Json = dict[str, Any]

_NO_LIMIT_MB_PER_S = 1e6
_REQUEST_BYTES = 4 * MIB


def predictions(rows: Sequence[Json], operation: str, kind: str) -> dict[str, float]:
    """Returns what the model says, in MiB/s, by the ids of the rows it was not calibrated from."""
    found = rows_of(rows, operation, kind)
    every = next(row for row in found if way_of(row) == ALL)
    one = next(row for row in found if row["writers"] == 1 and way_of(row) == "aggregate")
    cluster = _calibrated(every, one, kind)
    said = {}
    for row in found:
        if row is every or row is one:
            continue
        gather = "serial" if way_of(row) == "serial" else "aggregate"
        outcome = simulate(cluster, Transfer(row["operation"], row["writers"], gather))
        said[row["id"]] = outcome.bandwidth_mb_per_s * MB / MIB
    return said


def _calibrated(every: Json, one: Json, kind: str) -> Cluster:
    """One server and one metadata server, as fast as all ranks found them.

    Ranks share the memory of a node; its rate is what one gathering writer needs beyond that.
    """
    ranks, total = every["ranks"], every["total_bytes"]
    metrics = every["metrics"]
    open_s = metrics["open_ns"]["median"] * 1e-9
    whole_s = total / MIB / metrics[METRIC]["median"]
    server_mb_per_s = total / MB / max(whole_s - open_s, 1e-6)
    one_s = total / MIB / one["metrics"][METRIC]["median"]
    beyond_s = max(one_s - total / MB / server_mb_per_s, 1e-6)
    moved = total - every["total_bytes"] // ranks
    return Cluster(
        name="this machine",
        client=Client(ranks, _NO_LIMIT_MB_PER_S, 2, moved / MB / beyond_s),
        network=Network(_NO_LIMIT_MB_PER_S, 0.0),
        servers=Servers(1, server_mb_per_s, server_mb_per_s, _REQUEST_BYTES, 0.0),
        metadata=Metadata(
            create_ms=open_s * 1e3 / ranks,
            open_ms=open_s * 1e3 / ranks,
            create_backlog=1e9,
            open_backlog=1e9,
        ),
        job=Job(
            ranks=ranks,
            bytes_per_rank=total // ranks,
            file="shared" if kind == "shared" else "per-writer",
            stripe_bytes=_REQUEST_BYTES,
            stripe_count=1,
        ),
    )


@cache
def check_paper() -> tuple[Json, ...]:
    """Returns paper 004's numbers by writers, and what the model of its machine says of them."""
    from ferry_lab.studies.cluster_model import built_in_cluster
    from ferry_lab.studies.writers_paper import points

    return tuple(
        {
            "where": point.where,
            "operation": point.transfer.operation,
            "writers": point.transfer.writers,
            "ranks": point.cluster.job.ranks,
            "published_mb_per_s": point.published_mb_per_s,
            "model_mb_per_s": simulate(point.cluster, point.transfer).bandwidth_mb_per_s,
            "calibrated": point.calibrated,
        }
        for point in points(built_in_cluster())
        if point.number.study == "writers"
    )
