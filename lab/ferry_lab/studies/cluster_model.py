"""The parameters of a cluster model, and their TOML file.

Sizes are bytes; rates are MB/s with MB = 10**6 bytes, as in the papers; times are milliseconds.
docs/reference/writers-model.md explains every key.
"""

from __future__ import annotations

import dataclasses
import math
import tomllib
import types
import typing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from ferry.errors import FerryError

MB = 10**6
RANKS_MAX = 100_000
BUILT_IN_FILE = Path(__file__).resolve().parent / "data" / "xt3.toml"

FileMode = Literal["per-writer", "shared"]


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
    file: FileMode
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


_SECTIONS: dict[str, type[Any]] = {
    "client": Client,
    "network": Network,
    "servers": Servers,
    "metadata": Metadata,
    "job": Job,
}
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
        return _cluster_of(document)
    except ValueError as error:
        explained = "docs/reference/writers-model.md explains the keys"
        raise FerryError(f"{path}: {error}; {explained}") from None


def built_in_cluster() -> Cluster:
    """Returns the XT3 of Fahey (2007), with the calibrated numbers."""
    return read_cluster(BUILT_IN_FILE)


def to_json(cluster: Cluster) -> dict[str, Any]:
    """Returns all parameters, as the file has them."""
    return dataclasses.asdict(cluster)


def _cluster_of(document: dict[str, Any]) -> Cluster:
    unknown = sorted(set(document) - set(_SECTIONS) - {"name"})
    if unknown:
        raise ValueError(f"{unknown[0]} is no key of a cluster")
    name = document.get("name")
    if not isinstance(name, str) or not name.strip():
        raise ValueError("name is missing, a text that says which cluster it is")
    parts = {section: _part_of(document, section) for section in _SECTIONS}
    cluster = Cluster(name=" ".join(name.split()), **parts)
    _check_together(cluster)
    return cluster


def _part_of(document: dict[str, Any], section: str) -> Any:
    made = _SECTIONS[section]
    values = document.get(section)
    if not isinstance(values, dict):
        raise ValueError(f"the section [{section}] is missing")
    types_of = typing.get_type_hints(made)
    unknown = sorted(set(values) - set(types_of))
    if unknown:
        raise ValueError(f"{section}.{unknown[0]} is no key of a cluster")
    missing = [key for key in types_of if key not in values]
    if missing:
        raise ValueError(f"{section}.{missing[0]} is missing")
    return made(**{k: _value_of(f"{section}.{k}", v, types_of[k]) for k, v in values.items()})


def _value_of(key: str, value: Any, kind: Any) -> Any:
    if typing.get_origin(kind) is Literal:
        allowed = typing.get_args(kind)
        if value not in allowed:
            raise ValueError(f"{key} is {value!r} and may be {' or '.join(map(repr, allowed))}")
        return value
    accepted: type | types.UnionType = int if kind is int else int | float
    if isinstance(value, bool) or not isinstance(value, accepted):
        raise ValueError(f"{key} is {value!r} and must be a {'whole ' * (kind is int)}number")
    zero = key.split(".")[1] in _MAY_BE_ZERO
    if not math.isfinite(value) or value < 0 or (value == 0 and not zero):
        raise ValueError(f"{key} is {value!r} and must be {'0 or ' * zero}more than 0")
    return kind(value)


def _check_together(cluster: Cluster) -> None:
    if cluster.job.ranks > RANKS_MAX:
        raise ValueError(f"job.ranks is {cluster.job.ranks} and may be {RANKS_MAX} at most")
    if cluster.job.stripe_count > cluster.servers.count:
        raise ValueError(
            f"job.stripe_count is {cluster.job.stripe_count}, and there are {cluster.servers.count} servers"
        )
