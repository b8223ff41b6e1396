"""Rows of other tools' results, in ferry's schema."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ferry_lab.results import results

Json = dict[str, Any]


class NotUnderstood(Exception):
    """A file of a known tool that cannot be read; the message is one line."""


@dataclass(frozen=True)
class Imported:
    """The settings of a tool; sizes in bytes."""

    id: str
    tool: str
    version: str
    command: str | None
    started: str | None
    file: str  # as reported by it
    interface: str
    operation: str
    pattern: str
    path: str
    transfer_bytes: int
    total_bytes: int
    threads: int
    queue_depth: int
    segments: int
    file_per_thread: bool
    direct: bool | None
    sync: bool
    verified: bool


def make_row(facts: Imported, repeats: Sequence[Json]) -> Json:
    """Returns the row; ``repeats`` follow the schema's ``imported_repeat``."""
    metrics = results.basic_metrics(repeats)
    return {
        "id": facts.id,
        "group": "import",
        "interface": facts.interface,
        "placement": None,
        "program": "stream",
        "operation": facts.operation,
        "pattern": facts.pattern,
        "path": facts.path,
        "transfer_bytes": facts.transfer_bytes,
        "total_bytes": facts.total_bytes,
        "threads": facts.threads,
        "queue_depth": facts.queue_depth,
        "segments": facts.segments,
        "file_per_thread": facts.file_per_thread,
        "direct": facts.direct,
        "sync": "fsync" if facts.sync else "none",
        "cache_state": "unverified" if facts.operation == "read" else None,
        "device_cache_state": None,
        "verified": facts.verified,
        "metrics": {name: results.summarize(values) for name, values in metrics.items()},
        "repeats": list(repeats),
        "source": {
            "tool": facts.tool,
            "version": facts.version,
            "command": facts.command,
            "started": facts.started,
            "files": [facts.file],
        },
    }


def to_ns(seconds: float) -> int:
    """Returns nanoseconds."""
    return round(seconds * 1e9)
