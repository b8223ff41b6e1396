"""Compares the model of studies.writers_simulation with the numbers of Fahey 2007 and with this machine's.

Four parameters are calibrated from the paper's 5 MB rows on the XT3 (calibrate); all its other
bandwidths by number of writers test the model. Of this machine, four parameters come from two
measured rows of each measurement, all ranks and one gathering writer; the rest are predictions.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

from ferry.sizes import MIB
from ferry_lab.render.tables import Table
from ferry_lab.results.records import Row
from ferry_lab.results.simulation import PaperRow
from ferry_lab.stats.comparing import row_at
from ferry_lab.studies import published
from ferry_lab.studies.cluster_model import MB, Client, Cluster, Job, Metadata, Network, Servers, built_in_cluster
from ferry_lab.studies.published import Number
from ferry_lab.studies.writers_cells import ALL, METRIC, rows_of, writers_of
from ferry_lab.studies.writers_simulation import SimulatedTransfer, SimulationOutcome, simulate

XT4_SERVERS = 144  # its OSTs
_ONE_WRITER_BYTES = 2000 * MB  # the paper does not say how large its files were
_CLOSE_ENOUGH = 0.001
_STEPS_MAX = 40
_NO_LIMIT_MB_PER_S = 1e6
_REQUEST_BYTES = 4 * MIB

NOT_HELD_AGAINST = (
    "The ratios of communication and file I/O (IOR, FlashIO): the paper does not say how much data.",
    "One process with Fortran's sequential records, 18 MB/s, and all byte-swapped rows: what the "
    "language's library costs is not in the model.",
    "The paper's figures (IOR with 16, 32 and 64 GB): their numbers are in pictures only.",
)


@dataclass(frozen=True)
class PaperPoint:
    """One published number, and what is simulated for it."""

    number: Number
    where: str
    cluster: Cluster
    transfer: SimulatedTransfer
    calibrated: bool

    @property
    def published_mb_per_s(self) -> float:
        return self.number.value * (1000 if self.number.unit == "GB/s" else 1)


def points(xt3: Cluster) -> list[PaperPoint]:
    """Returns all that can be compared with the model of the XT3, calibrated ones first."""
    made = [
        *(_writers_point(xt3, number) for number in published.of_study("writers")),
        *(_stripes_point(xt3, number) for number in published.of_study("stripes")),
        *(
            _processes_point(xt3, number)
            for number in published.of_study("endian", operation="write native", unit="GB/s")
        ),
    ]
    return sorted(made, key=lambda point: not point.calibrated)


def calibrate(xt3: Cluster) -> Cluster:
    """Returns the cluster with those four parameters that give the paper's 5 MB rows.

    The rate of a server follows from the subset's row, the backlog from that of all ranks. Raises
    ValueError if nothing gives them.
    """
    for operation in ("write", "read"):
        chosen = {
            point.transfer.writers: point
            for point in points(xt3)
            if point.calibrated and point.transfer.operation == operation
        }
        few, many = (chosen[writers] for writers in sorted(chosen))
        for _ in range(_STEPS_MAX):
            rate, backlog = (
                point.published_mb_per_s / simulate(xt3, point.transfer).bandwidth_mb_per_s for point in (few, many)
            )
            if max(abs(rate - 1), abs(backlog - 1)) < _CLOSE_ENOUGH:
                break
            xt3 = _scaled(xt3, operation, rate, backlog)
        else:
            raise ValueError(f"no parameters give the {operation} rows of Fahey (2007)")
    return xt3


def _scaled(cluster: Cluster, operation: str, rate: float, backlog: float) -> Cluster:
    rate_key = f"{operation}_mb_per_s"
    backlog_key = "create_backlog" if operation == "write" else "open_backlog"
    servers, metadata = cluster.servers, cluster.metadata
    return replace(
        cluster,
        servers=replace(servers, **{rate_key: getattr(servers, rate_key) * rate}),
        metadata=replace(metadata, **{backlog_key: getattr(metadata, backlog_key) * backlog}),
    )


def _writers_point(xt3: Cluster, number: Number) -> PaperPoint:
    """One file for each writer; the other ranks send it their data."""
    size_mb, writers = number.x, int(number.threads)
    xt4 = size_mb == 8
    cluster = replace(
        xt3,
        job=replace(xt3.job, ranks=9216 if xt4 else 8640, bytes_per_rank=int(size_mb * MB)),
        servers=replace(xt3.servers, count=XT4_SERVERS if xt4 else xt3.servers.count),
    )
    gather = "serial" if "serially" in number.note else "aggregate"
    how = "all ranks" if writers == cluster.job.ranks else f"a subset ({gather})"
    where = f"{'XT4' if xt4 else 'XT3'}, {size_mb:g} MB, {how}"
    transfer = SimulatedTransfer(number.operation, writers, gather)
    return PaperPoint(number, where, cluster, transfer, not xt4 and size_mb == 5)


def _stripes_point(xt3: Cluster, number: Number) -> PaperPoint:
    """One writer; there are as many servers as its file has stripes, if that is more."""
    stripes = int(number.x)
    servers = replace(xt3.servers, count=max(xt3.servers.count, stripes))
    job = replace(xt3.job, ranks=1, bytes_per_rank=_ONE_WRITER_BYTES, stripe_bytes=20 * MB, stripe_count=stripes)
    cluster = replace(xt3, servers=servers, job=job)
    return PaperPoint(number, f"one writer, stripe count {stripes}", cluster, SimulatedTransfer("write", 1), False)


def _processes_point(xt3: Cluster, number: Number) -> PaperPoint:
    """16 MB each: 96 processes on nodes of their own, 192 two by two."""
    ranks = int(number.threads)
    client = replace(xt3.client, ranks_per_node=1 if ranks == 96 else 2)
    cluster = replace(xt3, client=client, job=replace(xt3.job, ranks=ranks, bytes_per_rank=16 * MB))
    return PaperPoint(number, "16 MB, Fortran, all ranks", cluster, SimulatedTransfer("write", ranks), False)


# ---- what is shown -------------------------------------------------------------------------------


def facts_of(group: str, cluster: Cluster, transfer: SimulatedTransfer, outcome: SimulationOutcome) -> dict[str, Any]:
    """Returns what every row of a simulated transfer has."""
    facts = dataclasses.asdict(outcome)
    del facts["bytes_moved"]
    return {
        **{"group": group, "bandwidth_mb_per_s": outcome.bandwidth_mb_per_s, **facts},
        **dataclasses.asdict(transfer),
        "ranks": cluster.job.ranks,
        "servers": cluster.servers.count,
        "bytes_per_rank": cluster.job.bytes_per_rank,
    }


def paper_row(point: PaperPoint, outcome: SimulationOutcome) -> PaperRow:
    """Returns what the model says of a published number."""
    return PaperRow(
        **facts_of(published.CITED["004"], point.cluster, point.transfer, outcome),
        where=point.where,
        calibrated=point.calibrated,
        published_mb_per_s=point.published_mb_per_s,
        deviation=outcome.bandwidth_mb_per_s / point.published_mb_per_s - 1,
    )


@cache
def check_paper() -> tuple[PaperRow, ...]:
    """Returns the numbers by writers, and what the model of the paper's machine says of them."""
    held = [point for point in points(built_in_cluster()) if point.number.study == "writers"]
    return tuple(paper_row(point, simulate(point.cluster, point.transfer)) for point in held)


def paper_table(about: str, rows: Iterable[PaperRow], rate: Callable[[float], str]) -> Table:
    """Returns published numbers beside the model; ``rate`` says a rate with its unit."""
    lines = [
        [
            *(row.where, row.operation, str(row.writers)),
            *(rate(row.published_mb_per_s), rate(row.bandwidth_mb_per_s)),
            f"{round(row.deviation * 100):+d} %",
            "calibrated" if row.calibrated else "held out",
        ]
        for row in rows
    ]
    heads = ["row", "", "writers", "published", "model", "deviation", ""]
    return Table(f"{published.CITED['004']}{about}", heads, lines, left=2)


# ---- this machine ---------------------------------------------------------------------------------


def predictions(rows: Sequence[Row], operation: str, kind: str) -> dict[str, float]:
    """Returns what the model says, in MiB/s, by the ids of the rows it was not calibrated from."""
    found = rows_of(rows, operation, kind)
    every, one = row_at(found, way=ALL), row_at(found, way="aggregate", writers=1)
    cluster = _this_machine(every, one, kind)
    said = {}
    for row in found:
        if row is every or row is one:
            continue
        gather = "serial" if row.axes["way"] == "serial" else "aggregate"
        outcome = simulate(cluster, SimulatedTransfer(row.operation, writers_of(row), gather))
        said[row.id] = outcome.bandwidth_mb_per_s * MB / MIB
    return said


def _this_machine(every: Row, one: Row, kind: str) -> Cluster:
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
