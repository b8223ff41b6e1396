"""Compares the model of studies.writers_simulation with the numbers of Fahey 2007.

Four parameters are calibrated from its 5 MB rows on the XT3 (calibrate); all its other bandwidths
by number of writers test the model.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeVar

from ferry_lab.studies import published
from ferry_lab.studies.cluster_model import MB, Cluster
from ferry_lab.studies.published import Number
from ferry_lab.studies.writers_simulation import Gather, Operation, SimulatedTransfer, simulate

_Part = TypeVar("_Part")

XT4_SERVERS = 144  # its OSTs
_ONE_WRITER_BYTES = 2000 * MB  # the paper does not say how large its files were
_CLOSE_ENOUGH = 0.001
_STEPS_MAX = 40

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
        """Returns the number in MB/s."""
        return self.number.value * (1000 if self.number.unit == "GB/s" else 1)


def points(xt3: Cluster) -> list[PaperPoint]:
    """Returns all that can be compared with the model of the XT3, calibrated ones first."""
    made = [
        *(_writers_point(xt3, number) for number in _numbers("writers")),
        *(_stripes_point(xt3, number) for number in _numbers("stripes")),
        *(
            _processes_point(xt3, number)
            for number in _numbers("endian")
            if number.operation == "write native" and number.unit == "GB/s"
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
    return dataclasses.replace(
        cluster,
        servers=_with(servers, {rate_key: getattr(servers, rate_key) * rate}),
        metadata=_with(metadata, {backlog_key: getattr(metadata, backlog_key) * backlog}),
    )


def _with(part: _Part, changes: Mapping[str, object]) -> _Part:
    replace: Callable[..., _Part] = dataclasses.replace
    return replace(part, **changes)


def _numbers(study: str) -> list[Number]:
    return [number for number in published.of_study(study) if number.paper == "004"]


def _writers_point(xt3: Cluster, number: Number) -> PaperPoint:
    """One file for each writer; the other ranks send it their data."""
    size_mb, writers = number.x, int(number.threads)
    xt4 = size_mb == 8
    cluster = _with(
        xt3,
        {
            "job": _with(xt3.job, {"ranks": 9216 if xt4 else 8640, "bytes_per_rank": int(size_mb * MB)}),
            "servers": _with(xt3.servers, {"count": XT4_SERVERS if xt4 else xt3.servers.count}),
        },
    )
    operation: Operation = "write" if number.operation == "write" else "read"
    gather: Gather = "serial" if "serially" in number.note else "aggregate"
    how = "all ranks" if writers == cluster.job.ranks else f"a subset ({gather})"
    where = f"{'XT4' if xt4 else 'XT3'}, {size_mb:g} MB, {how}"
    return PaperPoint(number, where, cluster, SimulatedTransfer(operation, writers, gather), not xt4 and size_mb == 5)


def _stripes_point(xt3: Cluster, number: Number) -> PaperPoint:
    """One writer; there are as many servers as its file has stripes, if that is more."""
    stripes = int(number.x)
    servers = _with(xt3.servers, {"count": max(xt3.servers.count, stripes)})
    job = _with(
        xt3.job, {"ranks": 1, "bytes_per_rank": _ONE_WRITER_BYTES, "stripe_bytes": 20 * MB, "stripe_count": stripes}
    )
    cluster = _with(xt3, {"servers": servers, "job": job})
    return PaperPoint(number, f"one writer, stripe count {stripes}", cluster, SimulatedTransfer("write", 1), False)


def _processes_point(xt3: Cluster, number: Number) -> PaperPoint:
    """16 MB each: 96 processes on nodes of their own, 192 two by two."""
    ranks = int(number.threads)
    client = _with(xt3.client, {"ranks_per_node": 1 if ranks == 96 else 2})
    job = _with(xt3.job, {"ranks": ranks, "bytes_per_rank": 16 * MB})
    cluster = _with(xt3, {"client": client, "job": job})
    return PaperPoint(number, "16 MB, Fortran, all ranks", cluster, SimulatedTransfer("write", ranks), False)
