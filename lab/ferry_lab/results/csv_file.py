"""The rows of a study as CSV: one line for each repeat."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from ferry import file_systems
from ferry.uris import is_uri
from ferry_lab.results.records import (
    CacheCounters,
    Environment,
    MachineUsage,
    Phases,
    RanksRow,
    RanksUsage,
    Record,
    Repeat,
    Row,
    TransferCounts,
)
from ferry_lab.results.results import TIMES, bandwidth_mib_per_s

_RATES = (*("bandwidth_mib_per_s", "bandwidth_with_sync_mib_per_s"), "bandwidth_open_to_close_mib_per_s")


@dataclass(frozen=True)
class _Columns:
    facts: Sequence[str]  # of the row
    numbers: Sequence[str]  # of the repeat
    # Records within the repeat: how their columns' names begin, where they are, what they are.
    nested: Sequence[tuple[str, str, type[Record]]]

    def heads(self, axes: Iterable[str]) -> list[str]:
        """Returns the first line; the study's axes stand behind the facts."""
        nested = [f"{head}_{name}" for head, _, kind in self.nested for name in _names(kind)]
        named = (f"axis_{name}" for name in axes)
        return [*self.facts, *named, "storage", *self.numbers, *_RATES, *nested]

    def line(self, row: Row, sample: Repeat, axes: Iterable[str], environment: Environment) -> list[Any]:
        """Returns that of one repeat."""
        facts = [getattr(row, name) for name in self.facts]
        return [
            *(" ".join(fact) if isinstance(fact, list) else fact for fact in facts),
            *(row.axes.get(name) for name in axes),
            storage_of(row.path, environment),
            *(getattr(sample, name) for name in self.numbers),
            *(round(bandwidth_mib_per_s(sample.bytes, TIMES[name](sample)), 3) for name in _RATES),
            *(getattr(_at(sample, path), name, None) for _, path, kind in self.nested for name in _names(kind)),
        ]


_MEASURED = _Columns(
    (
        *("id", "group", "interface", "placement", "program", "operation", "pattern", "path"),
        *("transfer_bytes", "total_bytes", "threads", "queue_depth", "direct", "sync"),
        *("rewrite", "buffer_offset_bytes", "cache_switches"),
    ),
    (
        *("repeat", "elapsed_ns", "open_ns", "io_ns", "compute_ns", "flush_ns", "sync_ns"),
        *("close_ns", "operations", "cache_state", "device_cache_state", "verified", "bytes"),
    ),
    [("cache", "cache", CacheCounters)],
)
_OF_RANKS = _Columns(
    (
        *("id", "group", "interface", "method", "collective", "operation", "pattern", "path"),
        *("ranks", "writers", "file_per_writer", "transfer_bytes", "total_bytes", "piece_bytes"),
        *("buffer_bytes", "stripe_bytes", "stripe_count", "byte_order", "element_bytes", "sync"),
    ),
    (
        *("repeat", "elapsed_ns", "open_ns", "io_ns", "sync_ns", "close_ns", "operations"),
        *("oversubscribed", "cache_state", "verified", "bytes"),
    ),
    [
        ("ranks", "ranks_usage", RanksUsage),
        ("machine", "machine_usage", MachineUsage),
        ("counts", "counts", TransferCounts),
        ("mean", "time_split.mean", Phases),
        ("maximum", "time_split.maximum", Phases),
    ],
)


def to_csv(rows: Sequence[Row], environment: Environment) -> str:
    """Returns the rows of a study; what many ranks measured has columns of its own."""
    columns = _OF_RANKS if isinstance(rows[0], RanksRow) else _MEASURED
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    axes = dict.fromkeys(name for row in rows for name in row.axes)
    writer.writerow(columns.heads(axes))
    for row in rows:
        writer.writerows(columns.line(row, sample, axes, environment) for sample in row.repeats)
    return text.getvalue()


def storage_of(path: str, environment: Environment) -> str:
    """Returns on what a measured path lies: "ext4 on /dev/vda", or "ceph" for a URI."""
    if is_uri(path):
        return path.partition(":")[0]
    inside = [
        system for system in environment.file_systems if f"{path}/".startswith(f"{system.mount_point.rstrip('/')}/")
    ]
    if not inside:
        return file_systems.UNKNOWN
    return str(max(inside, key=lambda system: len(system.mount_point)))


def _names(kind: type[Record]) -> tuple[str, ...]:
    return kind.__struct_fields__


def _at(record: Any, path: str) -> Any:
    """Returns the record at a path of names within another; None where one is None."""
    for name in path.split("."):
        record = getattr(record, name, None)
    return record
