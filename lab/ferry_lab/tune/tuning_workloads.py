"""What ``ferry tune`` measures: workloads, points (runtime settings), and settings to choose.

Workloads run with placement ``automatic``, which the profile is for; those with several calls in
flight run with placement ``host``, which executes them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from ferry.native import Json
from ferry.sizes import KIB, MIB, format_size, largest_power_of_two
from ferry_lab.run.plan import Cell

NEVER = "never"
CALL, FLUSHED, DURABLE = "call", "call + flush", "call + fsync"
FILE_BYTES = 16 * MIB  # bytes to read, and of new files
FILE_SEED = 1
CACHE_BYTES = 128 * MIB  # limits readahead to a sixteenth of it
_SMALL_CALLS_BYTES = 4 * MIB  # for calls below 16 KiB: enough to measure, and quick
_SCATTER_STRIDE = 256 * KIB  # minimum; every page is touched once
_SCATTERED_CALLS = 64
SIZES = [4 * KIB << step for step in range(0, 13, 2)]  # 4 KiB to 16 MiB


@dataclass(frozen=True)
class Workload:
    """One way to use a file: operation, pattern, transfer size, and cached data."""

    operation: str  # read, write
    pattern: str  # stream, scattered (each place once), random (places may repeat)
    transfer_bytes: int
    cold: bool = False  # the host's page cache
    deep: bool = False  # calls in flight: the point's setting
    threads: int = 1

    @property
    def name(self) -> str:
        """Describes it; unique."""
        words = [self.pattern, self.operation, format_size(self.transfer_bytes)]
        if self.operation == "read":
            words.append("cold" if self.cold else "hot")
        if self.deep:
            words.append("in flight")
        if self.threads > 1:
            words.append(f"by {self.threads} threads")
        return " ".join(words)

    @property
    def views(self) -> tuple[str, ...]:
        """The times that count: for a write, including what follows."""
        return (FLUSHED, DURABLE) if self.operation == "write" else (CALL,)

    def cell(self, number: int, folder: str, point: Point, variant: int) -> Cell:
        """Returns the cell that measures it at a point."""
        stride = max(_SCATTER_STRIDE, self.transfer_bytes) if self.pattern == "scattered" else 0
        return Cell(
            id=str(number),
            interface="ferry",
            placement="host" if self.deep else "automatic",
            operation=self.operation,
            path=f"{folder}/{'data' if self.operation == 'read' else f'new-{number}'}",
            transfer_bytes=self.transfer_bytes,
            total_bytes=self._total_bytes(stride),
            stride_bytes=stride,
            pattern="sequential" if self.pattern == "stream" else "random",
            threads=self.threads,
            queue_depth=point.queue_depth if self.deep else 1,
            sync="flush+fsync" if self.operation == "write" else "none",
            cold=self.cold,
            variant=variant,
            expect_pattern_seed=FILE_SEED if self.operation == "read" else None,
        )

    def _total_bytes(self, stride: int) -> int:
        if stride > 0:
            return min(FILE_BYTES // stride, _SCATTERED_CALLS) * self.transfer_bytes
        return _SMALL_CALLS_BYTES if self.transfer_bytes < 16 * KIB else FILE_BYTES


@dataclass(frozen=True)
class Point:
    """Settings that are measured together; None and () are built-in."""

    page_bytes: int | None = None
    readahead_bytes: int | None = None
    server_threads: int | None = None
    crossovers: tuple[tuple[str, int | str], ...] = ()
    queue_depth: int = 1

    def variant(self) -> Json:
        """Returns the plan's form of this runtime."""
        named = {
            "page_bytes": self.page_bytes,
            "readahead_bytes": self.readahead_bytes,
            "server_threads": self.server_threads,
            "crossovers": dict(self.crossovers) or None,
        }
        return {key: value for key, value in named.items() if value is not None}

    def with_setting(self, key: str, value: int | str) -> Point:
        """Returns this point with one setting changed."""
        changes: Json = {key: value}
        if key not in Point.__dataclass_fields__:
            changes = {"crossovers": tuple(sorted({**dict(self.crossovers), key: value}.items()))}
        return replace(self, **changes)


DEFAULTS = Point()


@dataclass(frozen=True)
class Setting:
    """A setting to choose: built-in value, candidates, and the workloads that judge it."""

    key: str  # as in the profile
    title: str
    default: int | str
    candidates: Sequence[int | str]
    workloads: Sequence[Workload]
    # For a crossover, the candidates are the workloads' sizes; two measurements (always and never
    # by the host) show the effect of each.
    is_crossover: bool = False
    is_bytes: bool = True

    def format(self, value: int | str) -> str:
        """Returns the value as people read it."""
        if isinstance(value, str):
            return value
        if self.is_crossover and value == 0:
            return "any size"
        return format_size(value) if self.is_bytes else str(value)

    def relevant(self, value: int | str) -> list[Workload]:
        """Returns the workloads that differ between the default and ``value``."""
        if not self.is_crossover:
            return list(self.workloads)
        return [
            w for w in self.workloads if by_host(w.transfer_bytes, value) != by_host(w.transfer_bytes, self.default)
        ]


def by_host(transfer_bytes: int, crossover: int | str) -> bool:
    """Whether the host executes calls of that size, by this crossover."""
    return crossover != NEVER and transfer_bytes >= int(crossover)


def _reads(pattern: str, sizes: Sequence[int], cold: bool) -> list[Workload]:
    states = (False, True) if cold else (False,)
    return [Workload("read", pattern, size, cold=state) for size in sizes for state in states]


def make_settings(cpus: int, can_be_cold: bool) -> list[Setting]:
    """Returns all settings to tune on a machine with this many usable CPUs."""
    cold = can_be_cold
    small_streams = _reads("stream", [4 * KIB, 32 * KIB], cold)
    scattered_4k = Workload("read", "scattered", 4 * KIB)
    random_4k = Workload("read", "random", 4 * KIB)
    writes = [Workload("write", "stream", size) for size in SIZES]
    in_flight = [
        Workload("read", pattern, size, cold=cold, deep=True)
        for pattern, size in (("scattered", 4 * KIB), ("scattered", 64 * KIB))
    ]
    settings = [
        Setting(
            "page_bytes",
            "page size",
            64 * KIB,
            [16 * KIB, 128 * KIB, 256 * KIB],
            [*small_streams, scattered_4k, random_4k, writes[0], writes[4]],
        ),
        Setting("readahead_bytes", "readahead per stream", 8 * MIB, [512 * KIB, MIB, 2 * MIB, 4 * MIB], small_streams),
        Setting(
            "host_stream_read_bytes_min",
            "streams read by the host from",
            64 * KIB,
            [*SIZES, NEVER],
            _reads("stream", SIZES, cold),
            is_crossover=True,
        ),
        Setting(
            "host_read_bytes_min",
            "other reads by the host from",
            0,
            [*SIZES[1:4], NEVER],
            [random_4k, *_reads("scattered", SIZES[:4], cold)],
            is_crossover=True,
        ),
        Setting(
            "host_write_bytes_min", "writes by the host from", 16 * KIB, [*SIZES, NEVER], writes, is_crossover=True
        ),
        Setting("queue_depth", "calls in flight", 1, [4, 8, 16, 32], in_flight, is_bytes=False),
    ]
    callers = largest_power_of_two(max(1, min(cpus - 1, 16)))
    default = max(1, callers // 8)  # like src/runtime/cpu_plan.cpp
    threads = [count for count in (1, 2, 4, 8) if count <= cpus and count != default]
    if threads:
        loads = [replace(load, threads=callers) for load in (small_streams[-1], *in_flight)]
        settings.append(Setting("server_threads", "server threads", default, threads, loads, is_bytes=False))
    return settings


def crossover_ends(setting: Setting) -> tuple[Point, Point]:
    """Returns the points where the host executes every call, and none."""
    return DEFAULTS.with_setting(setting.key, 0), DEFAULTS.with_setting(setting.key, NEVER)
