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
    """How the device and its I/O server are set up. Zero and "" leave the choice to Ferry.

    The page cache and the service threads are there for the cells that are not placed on the host.
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
    profile: bool = True  # what `ferry tune` measured holds for what is left open


@dataclass(frozen=True)
class Cell:
    """One point of a study's matrix: one way to move ``total_bytes``.

    They lie in one file, in which every segment has a block of each thread, or in a file for each.
    """

    id: str
    interface: str  # one of INTERFACES
    operation: str  # read, write
    path: str
    transfer_bytes: int
    total_bytes: int
    placement: str | None = None  # of interface ferry: where it executes the calls
    program: str = "stream"  # stream, iterative, once, files (a file for each transfer)
    pattern: str = "sequential"  # sequential, random
    threads: int = 1
    queue_depth: int = 1
    segments: int = 1
    file_per_thread: bool = False  # PATH.00000000, PATH.00000001, ...
    reorder: str = "none"  # none, neighbour, random: whose part a thread reads
    barriers: bool = True  # between the phases of a repeat
    deadline_ms: int = 0  # transfers start no later than this after the first; 0: none
    check: bool = False  # reads: compare while timed; writes: read back through the interface
    stride_bytes: int = 0  # reads: from one call's place to the next; 0: one behind the other
    variant: int | None = None  # which of the plan's variants; None: the plan's own runtime
    direct: bool = False
    sync: str = "none"  # none, flush, fsync, flush+fsync
    cold: bool = False  # the host's cache is emptied first
    warm: bool = False  # the device's cache is filled first
    rewrite: bool = False  # writes: over what the file holds already
    buffer_offset_bytes: int = 0  # of the buffer from a page's beginning
    cache_switches: Sequence[str] | None = None  # optimisations that are on; None: all
    overwrite: bool = False
    keep: bool = False
    seed: int = 1
    expect_pattern_seed: int | None = None

    def __post_init__(self) -> None:
        """Sees that a placement is given exactly where there is one."""
        if (self.placement in PLACEMENTS) != (self.interface == "ferry"):
            raise ValueError(f"{self.interface} with placement {self.placement}")

    @property
    def computes(self) -> bool:
        """Whether its program does more than to move bytes."""
        return self.program in ("iterative", "once")


@dataclass(frozen=True)
class Plan:
    """Cells that are measured in one invocation, interleaved, ``repeats`` times each."""

    cells: list[Cell]
    repeats: int
    runtime: RuntimeSettings = field(default_factory=RuntimeSettings)
    # Runtimes side by side with that one, each by what it has instead: page_bytes, server_threads,
    # readahead_bytes, crossovers.
    variants: Sequence[dict[str, Any]] = ()
    time_limit_ms: int = 0  # no further round of repeats begins after that; 0: no limit

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
