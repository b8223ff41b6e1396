"""Plans for ``ferry-bench``: what to measure (schema ``ferry.plan/1``)."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from typing import Any

SCHEMA = "ferry.plan/1"


@dataclass(frozen=True)
class RuntimeSettings:
    """How the device and its I/O server are set up. Zero and "" leave the choice to Ferry."""

    device_threads: int = 0
    server_threads: int = 0
    arena_bytes: int = 0
    device_cpus: str = ""
    server_cpus: str = ""
    engine: str = "automatic"


@dataclass(frozen=True)
class Cell:
    """One point of a study's matrix: one way to move ``total_bytes`` of one file."""

    id: str
    interface: str  # ferry, posix, mmap
    operation: str  # read, write
    path: str
    transfer_bytes: int
    total_bytes: int
    program: str = "stream"  # stream, iterative, once
    pattern: str = "sequential"  # sequential, random
    threads: int = 1
    queue_depth: int = 1
    direct: bool = False
    sync: str = "none"  # none, fsync
    cold: bool = False
    overwrite: bool = False
    keep: bool = False
    seed: int = 1
    expect_pattern_seed: int | None = None

    @property
    def placement(self) -> str | None:
        """Where Ferry executes the call; None for the interfaces that are not Ferry's."""
        return "host" if self.interface == "ferry" else None

    def to_json(self) -> dict[str, Any]:
        """Returns the cell as the plan has it."""
        return {**dataclasses.asdict(self), "placement": self.placement}


@dataclass(frozen=True)
class Plan:
    """Cells that are measured in one invocation, interleaved, ``repeats`` times each."""

    cells: list[Cell]
    repeats: int
    runtime: RuntimeSettings = field(default_factory=RuntimeSettings)

    def to_json(self) -> dict[str, Any]:
        """Returns the document that ``ferry-bench --plan`` reads."""
        return {
            "schema": SCHEMA,
            "repeats": self.repeats,
            "runtime": dataclasses.asdict(self.runtime),
            "cells": [cell.to_json() for cell in self.cells],
        }
