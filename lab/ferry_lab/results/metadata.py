"""The records of ``ferry metadata`` (``ferry.metadata/1``)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Literal

from msgspec import Meta

from ferry_lab.results.records import Environment, MetadataPhase, MetadataRepeat, Record, about

SCHEMA = "ferry.metadata/1"
PHASES: tuple[MetadataPhase, ...] = ("create", "stat", "read", "remove")


class MetadataRate(Record):
    """Over the repeats."""

    phase: MetadataPhase
    files_per_s_median: Annotated[float, Meta(gt=0)]
    files_per_s_min: Annotated[float, Meta(gt=0)]
    files_per_s_max: Annotated[float, Meta(gt=0)]


class MetadataResults(Record):
    """How many files a second are made, looked at, read and removed. Units are in the names."""

    schema: Literal["ferry.metadata/1"]
    ferry_version: str
    command: list[str]
    started: str
    finished: str
    environment: Environment
    settings: dict[str, Any]
    rates: Annotated[list[MetadataRate], about("one for each phase, in their order")]
    repeats: Annotated[list[MetadataRepeat], Meta(min_length=1, description="one for each phase of each repeat")]


def files_per_s(repeats: Sequence[MetadataRepeat]) -> list[float]:
    """Returns the rate of each repeat."""
    return [one.files / (one.elapsed_ns * 1e-9) for one in repeats]
