"""Plans for ``ferry-bench-mpi``: what many ranks measure (schema ``ferry.mpi-plan/1``)."""

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
    """One point of a study's matrix: one way for many ranks to move ``total_bytes``.

    They lie in one file, or in a file for each writer.
    """

    id: str
    interface: str  # one of INTERFACES
    operation: str  # read, write
    path: str  # or a URI
    ranks: int
    transfer_bytes: int  # of one call of a rank
    total_bytes: int  # of all ranks
    method: str = "automatic"  # of interface ferry: how the data gets to who writes it
    collective: bool = False  # of interface mpiio: by its collective calls
    pattern: str = "blocks"  # blocks: a piece for each rank; interleaved: small ones in turn
    writers: int = 0  # who write, or read, for all; 0: as the interface does by itself
    file_per_writer: bool = False  # PATH.0, PATH.1, ... with as many digits as the last
    piece_bytes: int = 4 * KIB
    buffer_bytes: int = 0  # of a writer; 0: the default
    stripe_bytes: int = 0  # of files that are made; 0: left to the storage
    stripe_count: int = 0
    byte_order: str = "native"  # in the file: native, little, big
    element_bytes: int = 8
    sync: str = "none"  # none, fsync
    cold: bool = False  # reads: the kernel's page cache is emptied of the file first
    seed: int = 1

    def __post_init__(self) -> None:
        """Sees that the interface is one."""
        if self.interface not in INTERFACES:
            raise ValueError(f"no interface {self.interface}")

    @property
    def paths(self) -> list[str]:
        """Returns the files that it makes."""
        if not self.file_per_writer:
            return [self.path]
        path, question, query = self.path, "", ""
        if is_uri(path):
            path, question, query = path.partition("?")
        digits = len(str(self.writers - 1))
        return [f"{path}.{number:0{digits}}{question}{query}" for number in range(self.writers)]


@dataclass(frozen=True)
class MpiPlan:
    """Cells that are measured in one invocation, interleaved, ``repeats`` times each."""

    cells: list[MpiCell]
    repeats: int

    @property
    def ranks(self) -> int:
        """Returns how many ranks it needs; cells with fewer leave the others asleep."""
        return max(cell.ranks for cell in self.cells)

    def to_json(self) -> dict[str, Any]:
        """Returns the document that ``ferry-bench-mpi --plan`` reads."""
        return {
            "schema": SCHEMA,
            "repeats": self.repeats,
            "cells": [dataclasses.asdict(cell) for cell in self.cells],
        }
