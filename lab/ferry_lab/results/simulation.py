"""The records of ``ferry study writers --simulate`` (``ferry.simulation/1``)."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta

from ferry_lab.results.records import Count, Operation, Positive, Record

Share = Annotated[float, Meta(ge=0, le=1.000001)]
Above0 = Annotated[float, Meta(gt=0)]
Numbers = dict[str, Count | Annotated[float, Meta(ge=0)]]
_VERSIONS = {"required": ["ferry", "git_revision"]}


class SimulatedRow(Record):
    """One simulated transfer."""

    group: Literal["by writers", "all ranks write", "Fahey (2007)", "paper 004"]  # older documents
    operation: Operation
    gather: Literal["aggregate", "serial"]
    ranks: Positive
    writers: Positive
    servers: Positive
    bytes_per_rank: Positive
    bandwidth_mb_per_s: Above0
    time_s: Above0
    opens_s: Annotated[float, Meta(ge=0)]
    requests: Positive
    request_bytes: Positive
    servers_busy_share: Share
    metadata_busy_share: Share


class PaperRow(SimulatedRow):
    """One of the paper's measurements, simulated."""

    where: str
    calibrated: bool
    published_mb_per_s: Above0
    deviation: Annotated[float, Meta(gt=-1)]


class Best(Record):
    """The best number of writers, and those within 5 % of it."""

    writers: Positive
    bandwidth_mb_per_s: Above0
    fewest_writers_within_5_percent: Positive
    most_writers_within_5_percent: Positive


class BestOfBoth(Record):
    write: Best
    read: Best


class SimulatedJob(Record):
    ranks: Positive
    bytes_per_rank: Positive
    file: Literal["per-writer", "shared"]
    stripe_bytes: Positive
    stripe_count: Positive


class SimulatedCluster(Record):
    name: str
    client: Numbers
    network: Numbers
    servers: Numbers
    metadata: Numbers
    job: SimulatedJob


class SimulationSettings(Record):
    quick: bool
    cluster: SimulatedCluster


class SimulationEnvironment(Record):
    """No machine: what is computed does not depend on one."""

    machine: None
    versions: Annotated[dict[str, str | None], Meta(extra_json_schema=_VERSIONS)]


class Simulation(Record):
    """What ferry study writers --simulate computes."""

    schema: Literal["ferry.simulation/1"]
    ferry_version: str
    kind: Literal["simulation"]
    study: Literal["writers"]
    command: list[str]
    started: str
    finished: str
    environment: SimulationEnvironment
    settings: SimulationSettings
    notes: list[str]
    rows: Annotated[list[SimulatedRow], Meta(min_length=1)]
    best: BestOfBoth
    paper: Annotated[list[PaperRow], Meta(min_length=1)]
    conclusions: Annotated[list[str], Meta(min_length=1, max_length=3)]
