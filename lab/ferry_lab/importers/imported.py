"""Rows of other tools' results, in ferry's schema."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ferry_lab.results.records import ImportedRepeat, ImportedRow, Operation, Source
from ferry_lab.results.results import make_metrics


class NotUnderstood(Exception):
    """A file of a known tool that cannot be read; the message is one line."""


def make_row(
    source: Source, repeats: Sequence[ImportedRepeat], *, operation: Operation, synced: bool, **facts: Any
) -> ImportedRow:
    """Returns the row; ``facts`` are its other fields: the settings of the tool."""
    return ImportedRow(
        group="import",
        placement=None,
        program="stream",
        operation=operation,
        sync="fsync" if synced and operation == "write" else "none",
        cache_state="unverified" if operation == "read" else None,
        device_cache_state=None,
        metrics=make_metrics(repeats),
        repeats=list(repeats),
        source=source,
        **facts,
    )


def to_ns(seconds: float) -> int:
    """Returns nanoseconds."""
    return round(seconds * 1e9)
