"""Plans for ``ferry-bench``: what to measure (schema ``ferry.plan/3``)."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ferry.sizes import KIB
from ferry.uris import with_suffix

SCHEMA = "ferry.plan/3"
DEVICES = ("cpu", "cuda")
INTERFACES = ("ferry", "posix", "mmap", "uring")
RANKS_INTERFACES = ("posix", "mpiio", "ferry", "native")
# Interfaces with several calls in flight per thread, and the maximum.
QUEUE_DEPTH_MAX = {"ferry": 63, "uring": 1024}
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


Axes = Mapping[str, str | int]


def at(**axes: str | int) -> dict[str, Any]:
    """Returns the fields of a cell that say where on a study's axes it lies."""
    return {"id": "/".join(map(str, axes.values())), "axes": axes}


@dataclass(frozen=True)
class Cell:
    """One point of a study's matrix: one way to move ``total_bytes``, in one file whose segments hold
    a block of each thread, or in one file per thread.
    """

    id: str
    interface: str  # one of INTERFACES
    operation: str  # read, write, mixed
    path: str
    transfer_bytes: int
    total_bytes: int
    placement: str | None = None  # interface ferry: where calls run
    program: str = "stream"  # stream, iterative, once, files (a file for each transfer), metadata
    pattern: str = "sequential"  # sequential, random, zipf:EXPONENT, hotspot:FILE/CALLS (percent)
    threads: int = 1
    queue_depth: int = 1
    segments: int = 1
    file_per_thread: bool = False  # PATH.00000000, PATH.00000001, ...
    same_part: bool = False  # every thread goes over the whole file
    offset_bytes: int = 0  # of a file, where the data begins
    passes: int = 1  # so often each thread goes over its data, one pass after the other
    open_files: int = 0  # reads: in so many files PATH.00000000, ..., open at once; 0: in one
    reorder: str = "none"  # none, neighbour, random: whose data a thread reads
    barriers: bool = True  # between the phases of a repeat
    start_delay_ms: int = 0  # before it opens its files
    deadline_ms: int = 0  # transfers start at most this long after the first; 0: no limit
    time_ms: int = 0  # transfers go on for so long, over and over; 0: once
    ramp_ms: int = 0  # of a timed run: before that, and not counted
    rate_bytes_per_s: int = 0  # of each thread, at most; 0: as fast as it goes
    check: bool = False  # reads: compare while timed; writes: read back through the interface
    latency: bool = False  # time every call, and report the histogram
    stride_bytes: int = 0  # reads: distance between calls; 0: contiguous
    variant: int | None = None  # index of the plan's variant; None: the plan's own runtime
    direct: bool = False
    sync: str = "none"  # none, flush, fsync, flush+fsync
    sync_every_calls: int = 0  # a thread syncs behind so many of its writes; 0: not before
    cold: bool = False  # drop the file from the host's cache first
    warm: bool = False  # fill the device's cache first
    rewrite: bool = False  # writes: over existing contents
    read_percent: int = 0  # operation mixed: so many of the calls read, the others rewrite
    buffer_offset_bytes: int = 0  # of the buffer, from the beginning of a page
    cache_switches: Sequence[str] | None = None  # optimisations switched on; None: all
    overwrite: bool = False
    keep: bool = False
    make: bool = False  # reads: makes the files, and removes them at the end
    group: str = ""  # cells of one name, side by side in the plan, are jobs that run together
    empty_files: bool = False  # program metadata: files have no bytes, not transfer_bytes
    seed: int = 1
    expect_pattern_seed: int | None = None
    axes: Axes = field(default_factory=dict)  # of the row; what measures it does not know them

    def __post_init__(self) -> None:
        """Checks that exactly the interfaces with placements have one."""
        if (self.placement in PLACEMENTS) != (self.interface == "ferry"):
            raise ValueError(f"{self.interface} with placement {self.placement}")

    @property
    def computes(self) -> bool:
        """Whether its program does more than move bytes."""
        return self.program in ("iterative", "once")


@dataclass(frozen=True)
class RanksCell:
    """One point of a study's matrix: one way for many ranks to move ``total_bytes``, in one file or
    one per writer.
    """

    id: str
    interface: str  # one of RANKS_INTERFACES
    operation: str  # read, write; where it streams mixed, too
    path: str  # or a URI
    ranks: int
    transfer_bytes: int  # per call of a rank
    total_bytes: int  # over all ranks
    method: str = "automatic"  # interface ferry: how data reaches the writers
    collective: bool = False  # interface mpiio, and ferry where it streams: with collective calls
    pattern: str = "blocks"  # blocks: one piece per rank; interleaved: small pieces in turn
    writers: int = 0  # aggregators; 0: the interface's choice
    file_per_writer: bool = False  # PATH.0, PATH.1, ... with as many digits as the last
    piece_bytes: int = 4 * KIB
    buffer_bytes: int = 0  # per writer; 0: the default
    stripe_bytes: int = 0  # of new files; 0: the storage's choice
    stripe_count: int = 0
    byte_order: str = "native"  # of the file: native, little, big
    element_bytes: int = 8
    sync: str = "none"  # none, fsync
    cold: bool = False  # reads: drop the file from the kernel's page cache first
    seed: int = 1
    streams: bool = False  # through one buffer of a transfer, and reads what is there; the rest needs it
    segments: int = 1
    file_per_rank: bool = False  # PATH.00000000, PATH.00000001, ...
    offsets: str = "sequential"  # sequential, random, zipf:EXPONENT, hotspot:FILE/CALLS (percent)
    reorder: str = "none"  # reads: none, neighbour, random: whose data a rank reads
    deadline_ms: int = 0  # as of a Cell, likewise below
    time_ms: int = 0
    ramp_ms: int = 0
    rate_bytes_per_s: int = 0  # of each rank
    read_percent: int = 0
    latency: bool = False
    direct: bool = False
    check: bool = False  # reads: compare while timed; writes: read back through the interface
    overwrite: bool = False
    keep: bool = False
    expect_pattern_seed: int | None = None
    axes: Axes = field(default_factory=dict)  # likewise

    def __post_init__(self) -> None:
        if self.interface not in RANKS_INTERFACES:
            raise ValueError(f"no interface {self.interface}")

    @property
    def random(self) -> bool:
        """Whether its transfers go to each place once, in random order."""
        return self.offsets == "random"

    @property
    def paths(self) -> list[str]:
        """Returns the files it creates."""
        if not self.file_per_writer:
            return [self.path]
        digits = len(str(self.writers - 1))
        return [with_suffix(self.path, f".{number:0{digits}}") for number in range(self.writers)]


@dataclass(frozen=True)
class Plan:
    """The cells of one invocation, interleaved, ``repeats`` times each."""

    cells: Sequence[Cell] | Sequence[RanksCell]
    repeats: int
    runtime: RuntimeSettings = field(default_factory=RuntimeSettings)  # ranks have none
    # Further runtimes, each by its differences: page_bytes, cache_bytes and so on.
    variants: Sequence[dict[str, Any]] = ()
    time_limit_ms: int = 0  # no new round of repeats after this time; 0: no limit
    in_order: bool = False  # each cell with all its repeats, then the next

    @property
    def ranks(self) -> int:
        """Returns the number of ranks, 0 without any; in cells with fewer, the rest sleep."""
        return max((c.ranks for c in self.cells if isinstance(c, RanksCell)), default=0)

    @staticmethod
    def group_of(cell: Cell | RanksCell) -> Sequence[str]:
        """Returns the name of its group, if it has one."""
        return [cell.group] if isinstance(cell, Cell) and cell.group else []

    def to_json(self) -> dict[str, Any]:
        """Returns the document that ``ferry-bench`` or ``ferry-bench-mpi`` reads."""
        return {
            "schema": SCHEMA,
            "repeats": self.repeats,
            "time_limit_ms": self.time_limit_ms,
            "in_order": self.in_order,
            "runtime": {"device": "ranks"} if self.ranks else dataclasses.asdict(self.runtime),
            "variants": list(self.variants),
            "cells": [
                {name: value for name, value in dataclasses.asdict(cell).items() if name != "axes"}
                for cell in self.cells
            ],
        }
