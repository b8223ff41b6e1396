"""The cells of the study ``storages``, by group.

Their axes are ``part`` (``threads``, ``again``, which is one thread once more for the noise,
``sizes``, or ``disk``: the disk itself), ``operation``, ``storage``, ``threads`` and ``file_bytes``. A
write and its fsync are one cell: "write" is the time of the calls, "write+sync" that of both.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ferry.sizes import MIB
from ferry_lab.run.plan import Cell, at
from ferry_lab.run.remote_files import Place

RECORD_BYTES = 4 * MIB  # as in the paper
FILE_BYTES = 32 * MIB  # likewise
RAW_TRANSFER_BYTES = MIB
RAW_QUEUE_DEPTH = 8
RAW_FILE_BYTES = 64 * MIB
SEED = 1
OPERATIONS = ("write", "cold", "reread")


@dataclass(frozen=True)
class StoragePlace:
    """What cells need to know of a storage."""

    name: str
    folder: Path | None  # None: it is reached by a URI
    in_memory: bool  # nothing is colder than a re-read
    remote: Place | None = None

    def path(self, name: str) -> str:
        if self.remote is not None:
            return self.remote.path(name)
        assert self.folder is not None
        return str(self.folder / name)

    @property
    def scratch(self) -> str:
        """Returns what the paths of all files in it begin with."""
        return str(self.folder) if self.remote is None else self.remote.beginning

    @property
    def way(self) -> dict[str, Any]:
        """Returns the interface that reaches it: plain calls, or those of Ferry where it is a URI."""
        if self.remote is not None:
            return {"interface": "ferry", "placement": "host"}
        return {"interface": "posix"}

    def operations(self) -> Sequence[str]:
        return ("write", "reread") if self.in_memory else OPERATIONS


def _cell(
    part: str, operation: str, place: StoragePlace, name: str, size: int, threads: int = 1, **changes: Any
) -> Cell:
    """Returns an operation on a file of that size for each thread; reads find it under that name."""
    axes = {"part": part, "operation": operation, "storage": place.name}
    fields: dict[str, Any] = {
        **at(**axes, threads=threads, file_bytes=size),
        **place.way,
        "transfer_bytes": RECORD_BYTES,
        "total_bytes": threads * size,
        "threads": threads,
    }
    if operation == "write":
        fields |= {"operation": "write", "path": place.path("written"), "sync": "fsync", "seed": SEED}
    else:
        fields |= {"operation": "read", "path": place.path(name), "cold": operation == "cold"}
        fields["expect_pattern_seed"] = SEED
    return Cell(**{**fields, **changes})


def _measured(places: Sequence[StoragePlace]) -> list[tuple[str, StoragePlace]]:
    return [(one, place) for one in OPERATIONS for place in places if one in place.operations()]


def thread_cells(places: Sequence[StoragePlace], threads: Sequence[int]) -> list[Cell]:
    """Returns all operations by one thread and by many, each with a file of its own.

    One thread runs twice, for the noise.
    """
    return [
        _cell(part, operation, place, "own", FILE_BYTES, count, file_per_thread=True)
        for operation, place in _measured(places)
        for part, count in [("again", 1), *(("threads", count) for count in threads)]
    ]


def size_cells(places: Sequence[StoragePlace], size: int) -> list[Cell]:
    """Returns all operations by one thread on a file of that size."""
    return [_cell("sizes", operation, place, f"sized.{size}", size) for operation, place in _measured(places)]


def raw_cells(place: StoragePlace) -> list[Cell]:
    """Returns what the disk below gives: direct transfers, several in flight, past every cache.

    Writes go over a file whose blocks it has already, so that there is no more to do than to write.
    """
    raw: Any = {
        "interface": "uring",
        "direct": True,
        "transfer_bytes": RAW_TRANSFER_BYTES,
        "queue_depth": RAW_QUEUE_DEPTH,
    }
    return [
        _cell("disk", operation, place, f"sized.{RAW_FILE_BYTES}", RAW_FILE_BYTES, rewrite=operation == "write", **raw)
        for operation in ("write", "cold")
    ]
