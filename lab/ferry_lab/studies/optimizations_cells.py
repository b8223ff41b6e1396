"""The cells of the study ``optimizations``, by group.

Their axes are ``part`` (``records``, ``alignment`` or ``small files``), ``operation``, ``way``,
``variant`` (of buffers ``aligned`` and ``unaligned``; of small files ``many``, ``one`` and
``records``; of both ``again``, for the noise) and ``file_bytes``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ferry.sizes import KIB, MIB
from ferry_lab.run.plan import Cell, at

RECORD_BYTES = 4 * MIB  # as in the paper
SMALL_FILE_BYTES = 8 * KIB  # the paper advises against files under 16 KiB
SMALL_TOTAL_BYTES = 4 * MIB
ALIGNMENT_BYTES = 16 * MIB
UNALIGNED_BYTES = 1  # from a page's beginning, and so from a cache line's
SEED = 1

# The cache's switches (docs/internals/page-cache.md), and what a reader calls them.
SWITCHES = {
    "batched_allocation": "batched allocation",
    "batched_insertion": "batched insertion",
    "precomputed_hash": "precomputed hash",
    "streaming_copies": "streaming copies",
    "quiet_wakeups": "quiet wake-ups",
    "readahead": "readahead",
}
KERNEL_KINDS = ("tmpfs", "ramfs")
PLAIN = "plain"  # pwrite and pread where the settings' files lie
OPERATIONS = ("write", "rewrite", "read", "reread")


@dataclass(frozen=True)
class Way:
    """One way of moving the bytes."""

    name: str
    fields: Mapping[str, Any]

    @property
    def cached(self) -> bool:
        return bool(self.fields["interface"] == "ferry")


def _cached(name: str, switches: Sequence[str] | None) -> Way:
    fields = {"interface": "ferry", "placement": "compute", "cache_switches": switches}
    return Way(name, fields)


OFF = _cached("off", ())
AGAIN = _cached("again", ())  # equals the first, and is there for the noise
ALL = _cached("all", None)
SETTINGS = (OFF, *(_cached(name, (name,)) for name in SWITCHES), ALL, AGAIN)


@dataclass(frozen=True)
class SystemPlace:
    """Where one way's files lie."""

    folder: str

    def read_path(self, size: int) -> str:
        """Returns the path of a file to read: readahead knows no end but the file's."""
        return f"{self.folder}/read.{size}"

    @property
    def write_path(self) -> str:
        return f"{self.folder}/written"

    @property
    def small_path(self) -> str:
        """Returns the path that many small files to read have in common."""
        return f"{self.folder}/small"


@dataclass(frozen=True)
class Places:
    """Where files lie: those of the settings, and those of the kernel's memory file systems."""

    cache: SystemPlace
    kernel: Mapping[str, SystemPlace] = field(default_factory=dict)  # by kind, as far as they are there

    def of(self, way: str) -> SystemPlace:
        return self.kernel.get(way, self.cache)

    def all(self) -> list[SystemPlace]:
        return [self.cache, *self.kernel.values()]


def _kernel_ways(places: Places) -> list[Way]:
    return [Way(kind, {"interface": "posix"}) for kind in places.kernel]


def record_cells(operation: str, places: Places, size: int) -> list[Cell]:
    """Returns one operation in every setting, and beside them in the kernel's file systems.

    A re-write or re-read finds the pages in the device's cache. The kernel's memory file systems
    know no difference between reading and re-reading, so that theirs is measured once.
    """
    again = operation in ("rewrite", "reread")
    ways = [*SETTINGS, *(_kernel_ways(places) if operation != "reread" else [])]
    return [_cell("records", operation, way, places, size, warm=again and way.cached) for way in ways]


def alignment_cells(places: Places) -> list[Cell]:
    """Returns re-writes and re-reads with buffers that are aligned, and with such that are not.

    Only copies are left in them. The aligned ones run twice, for the noise.
    """
    return [
        _cell(
            *("alignment", operation, way, places, ALIGNMENT_BYTES, variant),
            warm=way.cached,
            buffer_offset_bytes=offset,
        )
        for operation in ("rewrite", "reread")
        for way in (OFF, ALL, *_kernel_ways(places))
        for variant, offset in (("aligned", 0), ("unaligned", UNALIGNED_BYTES), ("again", 0))
    ]


def small_file_cells(places: Places) -> list[Cell]:
    """Returns many small files beside one large one, by small transfers and by records.

    The large one by small transfers runs twice, for the noise.
    """
    variants: dict[str, dict[str, Any]] = {
        "many": {"program": "files", "transfer_bytes": SMALL_FILE_BYTES},
        "one": {"transfer_bytes": SMALL_FILE_BYTES},
        "again": {"transfer_bytes": SMALL_FILE_BYTES},
        "records": {},
    }
    return [
        _cell("small files", operation, way, places, SMALL_TOTAL_BYTES, variant, **fields)
        for operation in ("write", "read")
        for way in (OFF, ALL, Way(PLAIN, {"interface": "posix"}), *_kernel_ways(places))
        for variant, fields in variants.items()
    ]


def _cell(
    part: str, operation: str, way: Way, places: Places, size: int, variant: str | None = None, **given: Any
) -> Cell:
    """Returns an operation on a file of that size by records, unless another transfer size is given."""
    axes = {"part": part, "operation": operation, "way": way.name}
    axes |= {"variant": variant} if variant is not None else {}
    place = places.of(way.name)
    fields: dict[str, Any] = {"operation": "write", "path": place.write_path, "seed": SEED}
    if operation in ("read", "reread"):
        path = place.small_path if variant == "many" else place.read_path(size)
        fields = {"operation": "read", "path": path, "expect_pattern_seed": SEED}
    fields |= {"rewrite": operation == "rewrite", "transfer_bytes": RECORD_BYTES, **way.fields, **given}
    return Cell(**at(**axes, file_bytes=size), total_bytes=size, **fields)
