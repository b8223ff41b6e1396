"""The parameters of a cluster model, and their TOML file.

Sizes are bytes; rates are MB/s with MB = 10**6 bytes, as in the papers; times are milliseconds.
docs/reference/writers-model.md explains every key.
"""

from __future__ import annotations

import dataclasses
import math
import tomllib
import typing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from ferry.errors import FerryError

MB = 10**6
RANKS_MAX = 100_000
BUILT_IN_FILE = Path(__file__).resolve().parent / "data" / "xt3.toml"


@dataclass(frozen=True)
class Client:
    """The compute nodes: what lies between a writer and the storage's network."""

    ranks_per_node: int
    link_mb_per_s: float  # one node and the storage, either way
    requests_in_flight: int  # of one writer
    exchange_mb_per_s: float  # into or out of one node, between ranks


@dataclass(frozen=True)
class Network:
    """What all clients share on the way to the servers."""

    total_mb_per_s: float
    latency_ms: float  # there and back


@dataclass(frozen=True)
class Servers:
    """The storage's servers (OSTs, OSDs), each with a queue of its own."""

    count: int
    write_mb_per_s: float  # one server
    read_mb_per_s: float
    request_bytes: int  # a client's largest request
    switch_ms: float  # before a request of another stream than the last one


@dataclass(frozen=True)
class Metadata:
    """The metadata server: one queue. A backlog that long doubles the time of an open."""

    create_ms: float  # an open for writing, with nobody else waiting
    open_ms: float
    create_backlog: float
    open_backlog: float


@dataclass(frozen=True)
class Job:
    """What is written and read."""

    ranks: int
    bytes_per_rank: int
    file: Literal["per-writer", "shared"]
    stripe_bytes: int
    stripe_count: int  # servers that one file lies on


@dataclass(frozen=True)
class Cluster:
    """A described cluster and the job on it."""

    name: str
    client: Client
    network: Network
    servers: Servers
    metadata: Metadata
    job: Job


_MAY_BE_ZERO = {"latency_ms", "switch_ms", "create_ms", "open_ms"}


def read_cluster(path: str | Path) -> Cluster:
    """Returns the cluster that a file describes. Raises FerryError, which names file and key."""
    try:
        with open(path, "rb") as file:
            document = tomllib.load(file)
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        reason = " ".join(str(error).split())
        raise FerryError(f"{path} is no TOML ({reason}); mend it there") from None
    except OSError as error:
        raise FerryError(f"{path}: {error.strerror}; name a cluster's file") from None
    try:
        return _checked(_made(Cluster, document))
    except ValueError as error:
        explained = "docs/reference/writers-model.md explains the keys"
        raise FerryError(f"{path}: {error}; {explained}") from None


def built_in_cluster() -> Cluster:
    """Returns the XT3 of Fahey (2007), with the calibrated numbers."""
    return read_cluster(BUILT_IN_FILE)


def _made(kind: type[Any], values: dict[str, Any], before: str = "") -> Any:
    """Returns the dataclass that a section of the file has the fields of; ``before``: its name and a dot."""
    types_of = typing.get_type_hints(kind)
    for key in sorted(set(values) - set(types_of)):
        raise ValueError(f"{before}{key} is no key of a cluster")
    return kind(**{key: _value_of(f"{before}{key}", values.get(key), of) for key, of in types_of.items()})


def _value_of(key: str, value: Any, kind: Any) -> Any:
    if kind is str:
        if not isinstance(value, str) or not value.strip():
            raise ValueError(f"{key} is missing, a text that says which cluster it is")
        return " ".join(value.split())
    if dataclasses.is_dataclass(kind):
        if not isinstance(value, dict):
            raise ValueError(f"the section [{key}] is missing")
        return _made(kind, value, f"{key}.")
    if value is None:
        raise ValueError(f"{key} is missing")
    if typing.get_origin(kind) is Literal:
        allowed = typing.get_args(kind)
        if value not in allowed:
            raise ValueError(f"{key} is {value!r} and may be {' or '.join(map(repr, allowed))}")
        return value
    if isinstance(value, bool) or not isinstance(value, int if kind is int else int | float):
        raise ValueError(f"{key} is {value!r} and must be a {'whole ' * (kind is int)}number")
    zero = key.split(".")[1] in _MAY_BE_ZERO
    if not math.isfinite(value) or value < 0 or (value == 0 and not zero):
        raise ValueError(f"{key} is {value!r} and must be {'0 or ' * zero}more than 0")
    return kind(value)


def _checked(cluster: Cluster) -> Cluster:
    if cluster.job.ranks > RANKS_MAX:
        raise ValueError(f"job.ranks is {cluster.job.ranks} and may be {RANKS_MAX} at most")
    if cluster.job.stripe_count > cluster.servers.count:
        raise ValueError(
            f"job.stripe_count is {cluster.job.stripe_count}, and there are {cluster.servers.count} servers"
        )
    return cluster
