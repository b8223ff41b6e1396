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
        """Returns the path of a file in it."""
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
        """Returns what can be measured here."""
        return ("write", "reread") if self.in_memory else OPERATIONS


def _fields(operation: str, place: StoragePlace, name: str) -> dict[str, Any]:
    if operation == "write":
        path = place.path("written")
        return {**place.way, "operation": "write", "path": path, "sync": "fsync", "seed": SEED}
    return {
        **place.way,
        "operation": "read",
        "path": place.path(name),
        "cold": operation == "cold",
        "expect_pattern_seed": SEED,
    }


def thread_cells(places: Sequence[StoragePlace], threads: Sequence[int]) -> list[Cell]:
    """Returns all operations by one thread and by many, each with a file of its own.

    One thread runs twice, for the noise.
    """
    return [
        Cell(
            **_at(part, operation, place, count, FILE_BYTES),
            transfer_bytes=RECORD_BYTES,
            total_bytes=count * FILE_BYTES,
            threads=count,
            file_per_thread=True,
            **_fields(operation, place, "own"),
        )
        for operation in OPERATIONS
        for place in places
        if operation in place.operations()
        for part, count in [("again", 1), *(("threads", count) for count in threads)]
    ]


def _at(part: str, operation: str, place: StoragePlace, threads: int, size: int) -> dict[str, Any]:
    axes = {"part": part, "operation": operation, "storage": place.name}
    return at(**axes, threads=threads, file_bytes=size)


def size_cells(places: Sequence[StoragePlace], size: int) -> list[Cell]:
    """Returns all operations by one thread on a file of that size."""
    return [
        Cell(
            **_at("sizes", operation, place, 1, size),
            transfer_bytes=RECORD_BYTES,
            total_bytes=size,
            **_fields(operation, place, f"sized.{size}"),
        )
        for operation in OPERATIONS
        for place in places
        if operation in place.operations()
    ]


def raw_cells(place: StoragePlace) -> list[Cell]:
    """Returns what the disk below gives: direct transfers, several in flight, past every cache.

    Writes go over a file whose blocks it has already, so that there is no more to do than to write.
    """
    shared: dict[str, Any] = {
        "interface": "uring",
        "direct": True,
        "transfer_bytes": RAW_TRANSFER_BYTES,
        "total_bytes": RAW_FILE_BYTES,
        "queue_depth": RAW_QUEUE_DEPTH,
    }
    writes = {"operation": "write", "path": place.path("written"), "seed": SEED}
    reads = {**_fields("cold", place, f"sized.{RAW_FILE_BYTES}"), **shared}
    write, cold = (_at("disk", one, place, 1, RAW_FILE_BYTES) for one in ("write", "cold"))
    return [Cell(**write, rewrite=True, sync="fsync", **writes, **shared), Cell(**cold, **reads)]
