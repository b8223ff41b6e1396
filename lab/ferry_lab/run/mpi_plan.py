"""Plans for ``ferry-bench-mpi``: what the ranks measure (schema ``ferry.mpi-plan/1``)."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any

from ferry.sizes import KIB
from ferry.uris import is_uri

SCHEMA = "ferry.mpi-plan/1"
INTERFACES = ("posix", "mpiio", "ferry", "native")


@dataclass(frozen=True)
class MpiCell:
    """One point of a study's matrix: one way for many ranks to move ``total_bytes``, in one file or
    one per writer.
    """

    id: str
    interface: str  # one of INTERFACES
    operation: str  # read, write
    path: str  # or a URI
    ranks: int
    transfer_bytes: int  # per call of a rank
    total_bytes: int  # over all ranks
    method: str = "automatic"  # interface ferry: how data reaches the writers
    collective: bool = False  # interface mpiio: with collective calls
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

    def __post_init__(self) -> None:
        if self.interface not in INTERFACES:
            raise ValueError(f"no interface {self.interface}")

    @property
    def paths(self) -> list[str]:
        """Returns the files it creates."""
        if not self.file_per_writer:
            return [self.path]
        path, question, query = self.path, "", ""
        if is_uri(path):
            path, question, query = path.partition("?")
        digits = len(str(self.writers - 1))
        return [f"{path}.{number:0{digits}}{question}{query}" for number in range(self.writers)]


@dataclass(frozen=True)
class MpiPlan:
    """The cells of one invocation, interleaved, ``repeats`` times each."""

    cells: list[MpiCell]
    repeats: int

    @property
    def ranks(self) -> int:
        """Returns the number of ranks; in cells with fewer, the rest sleep."""
        return max(cell.ranks for cell in self.cells)

    def to_json(self) -> dict[str, Any]:
        """Returns the document that ``ferry-bench-mpi --plan`` reads."""
        return {
            "schema": SCHEMA,
            "repeats": self.repeats,
            "cells": [dataclasses.asdict(cell) for cell in self.cells],
        }
