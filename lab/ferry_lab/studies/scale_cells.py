"""The cells of the study ``scale``: one axis after the other, all else equal.

Their axes are ``axis`` (a key of AXES), ``value`` (the axis's number), and of a second, equal series
at the first value, for the noise, ``variant`` ``again``. Every call reads 4 KiB.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from ferry.sizes import GIB, KIB, MIB, format_size
from ferry_lab.run.plan import Cell, RuntimeSettings, at
from ferry_lab.run.study import Group, Json

TIB = 1024 * GIB
CALL_BYTES = 4 * KIB
PAGE_BYTES = 64 * KIB
SEED = 1
PLACES = 4096  # of a sparse file
READERS = 16  # of one page
# Below so much, ferry-bench warms up with several passes: too many where a pass takes a fixed time.
_TIMED_BYTES = 64 * MIB
_UNIFORM = "hotspot:50/50"  # half of the file gets half of the calls: each place is as likely


@dataclass(frozen=True)
class Growth:
    """One thing that grows."""

    title: str
    label: Callable[[int], str]
    head: str  # of the table's first column
    about: str  # what is measured
    words: str  # where the differences are, as render.findings has it
    baseline: str  # a program at the first value
    unit: Literal["bytes", "threads"] = "threads"  # as render.curves has it


def _count(value: int) -> str:
    return f"{value:,}"


def _percent(value: int) -> str:
    return f"{value} %"


AXES = {
    "callers": Growth(
        "Callers that find their pages in the device's cache",
        _count,
        "callers",
        "Threads of the device read at random, each in a part of its own of one file, whose pages are "
        "all in the cache. The calls are shared among them: many callers make a few each.",
        "with {} callers",
        "one with 1 caller",
    ),
    "server": Growth(
        "Callers whose calls the I/O server executes",
        _count,
        "callers",
        "The same by placement host: through the ring to the server, and an answer back. Where callers "
        "wait for one server, a call lasts as long as all before it; what a call costs is in the first "
        "column of times.",
        "with {} callers",
        "one with 1 caller",
    ),
    "cache": Growth(
        "The size of the cache",
        format_size,
        "cache",
        "Reads at random of a file half as large as the cache, one place in each of its pages, all "
        "of which are there. The pages' places and the lines that tell about them outgrow the processor's "
        "own caches.",
        "with a cache of {}",
        "one with the smallest cache",
        "bytes",
    ),
    "pages": Growth(
        "The size of a page",
        format_size,
        "page",
        "Reads at random of one file, whose pages are all in the cache.",
        "with pages of {}",
        "one with the smallest pages",
        "bytes",
    ),
    "hits": Growth(
        "The hit rate",
        _percent,
        "wanted",
        "Reads at random of one file, each place as likely as any other, through a cache that holds so "
        "much of it. A miss reads a page of 64 KiB from the host's memory.",
        "with {} of the file in the cache",
        "one with all of the file in the cache",
    ),
    "file": Growth(
        "The size of the file",
        format_size,
        "file",
        f"Reads at random of {PLACES:,} places, spread evenly over a file with holes between them. Their "
        "pages are in the cache.",
        "in a file of {}",
        "one with the smallest file",
        "bytes",
    ),
    "small": Growth(
        "Many small files",
        _count,
        "files",
        "Each call opens a file of 4 KiB, reads it and closes it again; all are in one folder.",
        "with {} files",
        "one with the fewest files",
    ),
    "open": Growth(
        "Open files",
        _count,
        "files",
        "The same data in one file or in many, all of which are open; reads at random over all of "
        "them, whose pages (4 KiB) are in the cache.",
        "with {} open files",
        "one with 1 open file",
    ),
    "writes": Growth(
        "Writes among the readers of one page",
        _percent,
        "writes",
        f"{READERS} threads work on one page, each on 4 KiB of it. So many of the calls write. The "
        "percentiles are those of the reads alone.",
        "with {} of writes",
        "one that only reads",
    ),
    "fairness": Growth(
        "Fairness",
        _count,
        "callers",
        "Callers that the server serves for a while. How many calls a second has the slowest of "
        "them, the median one and the fastest?",
        "with {} callers",
        "",
    ),
}

VALUES: dict[str, list[int]] = {
    "callers": [1, 16, 256, 1024],
    "server": [1, 16, 256],
    "cache": [64 * MIB, 256 * MIB, GIB, 4 * GIB, 16 * GIB],
    "pages": [4 * KIB, 16 * KIB, 64 * KIB, 256 * KIB, 2 * MIB],
    "hits": [100, 99, 90, 50],
    "file": [GIB, 16 * GIB, 128 * GIB, TIB],
    "small": [1024, 8192, 65536],
    "open": [1, 16, 256, 4096, 16384, 65536],
    "writes": [0, 1, 6, 50],
    "fairness": [16, 64, 256],
}
QUICK_VALUES: dict[str, list[int]] = {
    "callers": [1, 16, 256],
    "server": [1, 16, 256],
    "cache": [64 * MIB, 256 * MIB],
    "pages": [4 * KIB, 64 * KIB, 2 * MIB],
    "hits": [100, 90, 50],
    "file": [GIB, TIB],
    "small": [256, 2048],
    "open": [1, 64, 1024],
    "writes": [0, 6],
    "fairness": [16, 256],
}
_TIMES_MS = {"cache": 60, "hits": 150, "writes": 100, "fairness": 300}
_QUICK_TIMES_MS = {"cache": 30, "hits": 60, "writes": 30, "fairness": 150}


@dataclass(frozen=True)
class Shape:
    """What is measured: the values of each axis, and how much the calls of one repeat move."""

    values: dict[str, list[int]]
    total_bytes: int  # of warm reads
    server_bytes: int  # through the server
    times_ms: Mapping[str, int]  # of the axes whose calls go on for a while
    timed_bytes: int = _TIMED_BYTES  # of the files that those read

    @classmethod
    def of(cls, quick: bool) -> Shape:
        """Returns that of a whole study, or of a quick one."""
        values = {axis: list(those) for axis, those in (QUICK_VALUES if quick else VALUES).items()}
        if quick:
            return cls(values, 32 * MIB, 4 * MIB, _QUICK_TIMES_MS)
        return cls(values, 256 * MIB, 16 * MIB, _TIMES_MS)

    @property
    def open_bytes(self) -> int:
        """Returns how much lies in the open files: one call at least goes to each."""
        return max(self.values["open"], default=1) * CALL_BYTES


@dataclass(frozen=True)
class SystemFiles:
    """Where the study's files lie."""

    folder: str

    def plain(self, size: int) -> str:
        """Returns the path of a file full of the pattern."""
        return f"{self.folder}/plain.{size}"

    def sparse(self, places: int, apart_bytes: int) -> str:
        """Returns that of one which has it at some places."""
        return f"{self.folder}/sparse.{places}.{apart_bytes}"

    def pieces(self, axis: str, count: int) -> str:
        """Returns what the paths of many files have in common; every number has a folder."""
        return f"{self.folder}/{axis}.{count}/f"

    @property
    def written(self) -> str:
        return f"{self.folder}/written"


def make_groups(shape: Shape, files: SystemFiles, repeats: Callable[[str], int]) -> dict[str, Group]:
    """Returns what is measured, by axis; ``repeats``: of an axis."""
    makers = {
        "callers": _callers,
        "server": _server,
        "cache": _cache,
        "pages": _pages,
        "hits": _hits,
        "file": _file,
        "small": _small,
        "open": _open,
        "writes": _writes,
        "fairness": _fairness,
    }
    groups = {}
    for axis, make in makers.items():
        if shape.values[axis]:
            cells, runtime, variants = make(shape, files)
            groups[axis] = Group(cells, repeats(axis), runtime, variants)
    return groups


_Made = tuple[list[Cell], RuntimeSettings, Sequence[Json]]


def _along(axis: str, values: Sequence[int], make: Callable[[int, int], dict[str, Any]]) -> list[Cell]:
    """Returns a cell for each value, and the first again; ``make``: its fields, of index and value."""
    cells = []
    again = [] if axis == "fairness" else [(0, values[0])]  # nothing is judged by it
    for index, value in [*enumerate(values), *again]:
        axes: dict[str, str | int] = {"axis": axis, "value": value}
        if len(cells) == len(values):
            axes["variant"] = "again"
        cells.append(Cell(**{**_READ, **at(**axes), **make(index, value)}))
    return cells


_READ: dict[str, Any] = {
    "interface": "ferry",
    "placement": "compute",
    "operation": "read",
    "pattern": "random",
    "transfer_bytes": CALL_BYTES,
    "latency": True,
    "expect_pattern_seed": SEED,
}


def _callers(shape: Shape, files: SystemFiles) -> _Made:
    size = shape.total_bytes
    fields = {"path": files.plain(size), "total_bytes": size, "warm": True}
    cells = _along("callers", shape.values["callers"], lambda _, callers: {**fields, "threads": callers})
    return cells, RuntimeSettings(cache_bytes=2 * size), ()


def _server(shape: Shape, files: SystemFiles) -> _Made:
    size = shape.server_bytes
    fields = {"path": files.plain(size), "total_bytes": size, "placement": "host"}
    cells = _along("server", shape.values["server"], lambda _, callers: {**fields, "threads": callers})
    return cells, RuntimeSettings(), ()


def _cache(shape: Shape, files: SystemFiles) -> _Made:
    def fields(index: int, cache_bytes: int) -> dict[str, Any]:
        places = cache_bytes // 2 // PAGE_BYTES
        return {
            "path": files.sparse(places, PAGE_BYTES),
            "total_bytes": places * CALL_BYTES,
            "stride_bytes": PAGE_BYTES,
            "time_ms": shape.times_ms["cache"],
            "warm": True,
            "variant": index,
        }

    values = shape.values["cache"]
    return (
        _along("cache", values, fields),
        RuntimeSettings(device_threads=1, cache_bytes=PAGE_BYTES),
        [{"cache_bytes": value} for value in values],
    )


def _pages(shape: Shape, files: SystemFiles) -> _Made:
    size, values = shape.total_bytes, shape.values["pages"]
    fields = {"path": files.plain(size), "total_bytes": size, "warm": True}
    return (
        _along("pages", values, lambda index, _: {**fields, "variant": index}),
        RuntimeSettings(device_threads=1, cache_bytes=2 * size),
        [{"page_bytes": value} for value in values],
    )


def _hits(shape: Shape, files: SystemFiles) -> _Made:
    size, values = shape.timed_bytes, shape.values["hits"]
    fields = {
        "path": files.plain(size),
        "total_bytes": size,
        "pattern": _UNIFORM,
        "time_ms": shape.times_ms["hits"],
        "ramp_ms": shape.times_ms["hits"] // 3,
        "warm": True,
    }
    caches = [2 * size if value == 100 else size * value // 100 // PAGE_BYTES * PAGE_BYTES for value in values]
    return (
        _along("hits", values, lambda index, _: {**fields, "variant": index}),
        RuntimeSettings(device_threads=1, cache_bytes=PAGE_BYTES),
        [{"cache_bytes": cache_bytes} for cache_bytes in caches],
    )


def _file(shape: Shape, files: SystemFiles) -> _Made:
    def fields(_: int, size: int) -> dict[str, Any]:
        apart = size // PLACES
        return {
            "path": files.sparse(PLACES, apart),
            "total_bytes": PLACES * CALL_BYTES,
            "stride_bytes": apart,
            "warm": True,
        }

    runtime = RuntimeSettings(device_threads=1, cache_bytes=2 * PLACES * PAGE_BYTES)
    return _along("file", shape.values["file"], fields), runtime, ()


def _small(shape: Shape, files: SystemFiles) -> _Made:
    def fields(_: int, count: int) -> dict[str, Any]:
        return {
            "path": files.pieces("small", count),
            "total_bytes": count * CALL_BYTES,
            "program": "files",
            "pattern": "sequential",
        }

    return _along("small", shape.values["small"], fields), RuntimeSettings(device_threads=1), ()


def _open(shape: Shape, files: SystemFiles) -> _Made:
    def fields(_: int, count: int) -> dict[str, Any]:
        return {"path": files.pieces("open", count), "total_bytes": shape.open_bytes, "open_files": count, "warm": True}

    # A small file fills no larger page.
    runtime = RuntimeSettings(device_threads=1, cache_bytes=2 * shape.open_bytes, page_bytes=4 * KIB)
    return _along("open", shape.values["open"], fields), runtime, ()


def _writes(shape: Shape, files: SystemFiles) -> _Made:
    size = READERS * CALL_BYTES
    shared = {"total_bytes": size, "threads": READERS, "time_ms": shape.times_ms["writes"], "warm": True}

    def fields(_: int, percent: int) -> dict[str, Any]:
        if percent == 0:
            return {**shared, "path": files.plain(size)}
        return {
            **shared,
            "path": files.written,
            "operation": "mixed",
            "read_percent": 100 - percent,
            "expect_pattern_seed": None,
            "seed": SEED,
        }

    return _along("writes", shape.values["writes"], fields), RuntimeSettings(cache_bytes=shape.timed_bytes), ()


def _fairness(shape: Shape, files: SystemFiles) -> _Made:
    fields = {"path": files.plain(shape.timed_bytes), "total_bytes": shape.timed_bytes, "placement": "host"}
    cells = _along(
        "fairness",
        shape.values["fairness"],
        lambda _, callers: {**fields, "threads": callers, "time_ms": shape.times_ms["fairness"]},
    )
    return cells, RuntimeSettings(), ()


def plain_sizes(shape: Shape) -> list[int]:
    """Returns the sizes of the files full of the pattern that there must be."""
    return sorted({shape.total_bytes, shape.server_bytes, shape.timed_bytes, READERS * CALL_BYTES})


def sparse_files(shape: Shape) -> list[tuple[int, int]]:
    """Returns the places of each sparse file, and how far they are apart."""
    found = [(size // 2 // PAGE_BYTES, PAGE_BYTES) for size in shape.values["cache"]]
    return [*found, *((PLACES, size // PLACES) for size in shape.values["file"])]


def piece_sizes(shape: Shape) -> list[tuple[str, int, int]]:
    """Returns of each number of files the axis, the number, and a file's size."""
    small = [("small", count, CALL_BYTES) for count in shape.values["small"]]
    return [*small, *(("open", count, shape.open_bytes // count) for count in shape.values["open"])]
