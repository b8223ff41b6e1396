"""The model of many writers (studies.writers_simulation) with this machine's numbers.

Four parameters come from two measured rows of each measurement, all ranks and one gathering writer;
the rest are predictions to compare with measurements.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

from ferry.sizes import MIB
from ferry_lab.results.records import Row
from ferry_lab.stats.comparing import row_at
from ferry_lab.studies.cluster_model import MB, Client, Cluster, Job, Metadata, Network, Servers
from ferry_lab.studies.writers_cells import ALL, METRIC, rows_of, writers_of
from ferry_lab.studies.writers_simulation import SimulatedTransfer, simulate

_NO_LIMIT_MB_PER_S = 1e6
_REQUEST_BYTES = 4 * MIB


def predictions(rows: Sequence[Row], operation: str, kind: str) -> dict[str, float]:
    """Returns what the model says, in MiB/s, by the ids of the rows it was not calibrated from."""
    found = rows_of(rows, operation, kind)
    every, one = row_at(found, way=ALL), row_at(found, way="aggregate", writers=1)
    cluster = _calibrated(every, one, kind)
    said = {}
    for row in found:
        if row is every or row is one:
            continue
        gather = "serial" if row.axes["way"] == "serial" else "aggregate"
        outcome = simulate(cluster, SimulatedTransfer(row.operation, writers_of(row), gather))
        said[row.id] = outcome.bandwidth_mb_per_s * MB / MIB
    return said


def _calibrated(every: Row, one: Row, kind: str) -> Cluster:
    """One server and one metadata server, as fast as all ranks found them.

    Ranks share the memory of a node; its rate is what one gathering writer needs beyond that.
    """
    ranks, total = writers_of(every), every.total_bytes
    open_s = every.metrics.open_ns.median * 1e-9
    whole_s = total / MIB / every.metric(METRIC).median
    server_mb_per_s = total / MB / max(whole_s - open_s, 1e-6)
    one_s = total / MIB / one.metric(METRIC).median
    beyond_s = max(one_s - total / MB / server_mb_per_s, 1e-6)
    moved = total - total // ranks
    return Cluster(
        name="this machine",
        client=Client(ranks, _NO_LIMIT_MB_PER_S, 2, moved / MB / beyond_s),
        network=Network(_NO_LIMIT_MB_PER_S, 0.0),
        servers=Servers(1, server_mb_per_s, server_mb_per_s, _REQUEST_BYTES, 0.0),
        metadata=Metadata(
            create_ms=open_s * 1e3 / ranks, open_ms=open_s * 1e3 / ranks, create_backlog=1e9, open_backlog=1e9
        ),
        job=Job(
            ranks=ranks,
            bytes_per_rank=total // ranks,
            file="shared" if kind == "shared" else "per-writer",
            stripe_bytes=_REQUEST_BYTES,
            stripe_count=1,
        ),
    )


@dataclass(frozen=True)
class Checked:
    """One of the numbers of Fahey (2007) by writers, and what the model of its machine says of it."""

    where: str
    operation: str
    writers: int
    published_mb_per_s: float
    model_mb_per_s: float
    calibrated: bool


@cache
def check_paper() -> tuple[Checked, ...]:
    """Returns all of them."""
    from ferry_lab.studies.cluster_model import built_in_cluster
    from ferry_lab.studies.writers_paper import points

    return tuple(
        Checked(
            *(point.where, point.transfer.operation, point.transfer.writers),
            point.published_mb_per_s,
            simulate(point.cluster, point.transfer).bandwidth_mb_per_s,
            point.calibrated,
        )
        for point in points(built_in_cluster())
        if point.number.study == "writers"
    )
