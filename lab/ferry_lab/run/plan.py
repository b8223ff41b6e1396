"""Plans for ``ferry-bench``: what to measure (schema ``ferry.plan/2``)."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from ferry.sizes import KIB

SCHEMA = "ferry.plan/2"
DEVICES = ("cpu", "cuda")
INTERFACES = ("ferry", "posix", "mmap", "uring")
PLACEMENTS = ("host", "compute", "service", "automatic")


@dataclass(frozen=True)
class RuntimeSettings:
    """How to set up the device and its I/O server. Zero and "" let Ferry choose.

    Cells with other placements than host use the page cache and the service threads.
    """

    device: str = "cpu"  # one of DEVICES
    device_threads: int = 0
    server_threads: int = 0
    arena_bytes: int = 0
    device_cpus: str = ""
    server_cpus: str = ""
    engine: str = "automatic"
    service_threads: int = 0
    cache_bytes: int = 0
    page_bytes: int = 64 * KIB
    profile: bool = True  # use the profile of `ferry tune` for open settings


@dataclass(frozen=True)
class Cell:
    """One point of a study's matrix: one way to move ``total_bytes``, in one file whose segments hold
    a block of each thread, or in one file per thread.
    """

    id: str
    interface: str  # one of INTERFACES
    operation: str  # read, write
    path: str
    transfer_bytes: int
    total_bytes: int
    placement: str | None = None  # interface ferry: where calls run
    program: str = "stream"  # stream, iterative, once, files (a file for each transfer)
    pattern: str = "sequential"  # sequential, random
    threads: int = 1
    queue_depth: int = 1
    segments: int = 1
    file_per_thread: bool = False  # PATH.00000000, PATH.00000001, ...
    reorder: str = "none"  # none, neighbour, random: whose data a thread reads
    barriers: bool = True  # between the phases of a repeat
    deadline_ms: int = 0  # transfers start at most this long after the first; 0: no limit
    check: bool = False  # reads: compare while timed; writes: read back through the interface
    stride_bytes: int = 0  # reads: distance between calls; 0: contiguous
    variant: int | None = None  # index of the plan's variant; None: the plan's own runtime
    direct: bool = False
    sync: str = "none"  # none, flush, fsync, flush+fsync
    cold: bool = False  # drop the file from the host's cache first
    warm: bool = False  # fill the device's cache first
    rewrite: bool = False  # writes: over existing contents
    buffer_offset_bytes: int = 0  # of the buffer, from the beginning of a page
    cache_switches: Sequence[str] | None = None  # optimisations switched on; None: all
    overwrite: bool = False
    keep: bool = False
    seed: int = 1
    expect_pattern_seed: int | None = None

    def __post_init__(self) -> None:
        """Checks that exactly the interfaces with placements have one."""
        if (self.placement in PLACEMENTS) != (self.interface == "ferry"):
            raise ValueError(f"{self.interface} with placement {self.placement}")

    @property
    def computes(self) -> bool:
        """Whether its program does more than move bytes."""
        return self.program in ("iterative", "once")


@dataclass(frozen=True)
class Plan:
    """The cells of one invocation, interleaved, ``repeats`` times each."""

    cells: list[Cell]
    repeats: int
    runtime: RuntimeSettings = field(default_factory=RuntimeSettings)
    # Further runtimes, each by its differences: page_bytes, server_threads and so on.
    variants: Sequence[dict[str, Any]] = ()
    time_limit_ms: int = 0  # no new round of repeats after this time; 0: no limit

    def to_json(self) -> dict[str, Any]:
        """Returns the document that ``ferry-bench --plan`` reads."""
        return {
            "schema": SCHEMA,
            "repeats": self.repeats,
            "time_limit_ms": self.time_limit_ms,
            "runtime": dataclasses.asdict(self.runtime),
            "variants": list(self.variants),
            "cells": [dataclasses.asdict(cell) for cell in self.cells],
        }
