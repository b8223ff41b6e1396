"""What ``ferry tune`` writes of one storage: an entry of the profile, and its JSON document."""

from __future__ import annotations

from typing import Literal

from msgspec import UNSET, UnsetType

from ferry_lab.results.records import Record

Value = int | str | list[int]


class TunedSetting(Record):
    """One setting: what was tried, and why it was accepted or not."""

    name: str
    default: Value
    taken: bool
    reason: str
    ranks: int | UnsetType = UNSET  # of collective transfers
    candidate: Value | UnsetType = UNSET
    predicted_gain: float | UnsetType = UNSET
    gain_median: float | UnsetType = UNSET
    gain_low_95: float | UnsetType = UNSET
    gain_high_95: float | UnsetType = UNSET
    noise: float | UnsetType = UNSET


class TunedWorkload(Record):
    """How fast the recommended settings are for one workload, beside the built-in ones."""

    workload: str
    time: str
    speed_ratio_median: float
    speed_ratio_low_95: float
    speed_ratio_high_95: float
    noise: float
    finding: str


class TunedMachine(Record):
    cpu_model: str
    cpus_usable: int


class Entry(Record, kw_only=True):
    """The recommended settings of one storage; those that are missing stay built in."""

    device: Literal["cpu"] = "cpu"
    file_system: str | None
    block_device: str | UnsetType = UNSET
    block_device_bytes: int | UnsetType = UNSET
    mount_point: str | None
    measured: str
    kernel: str
    ferry_version: str
    page_bytes: int | UnsetType = UNSET
    readahead_bytes: int | UnsetType = UNSET
    server_threads: int | UnsetType = UNSET
    crossovers: dict[str, int | str] | UnsetType = UNSET
    queue_depth: int | UnsetType = UNSET
    settings: list[TunedSetting]
    workloads: list[TunedWorkload]
    collective: dict[str, int] | UnsetType = UNSET  # settings of transfers by many ranks


class TuneDocument(Entry, kw_only=True):
    """What ``--json`` writes."""

    schema: Literal["ferry.tune/1"] = "ferry.tune/1"
    machine: TunedMachine
    profile: str
