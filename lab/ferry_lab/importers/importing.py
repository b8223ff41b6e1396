"""``ferry import``: results of IOR, fio and ferry, in one table and one document."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
from msgspec.structs import replace
from rich.console import Console

from ferry import output_files, terminal
from ferry.errors import FerryError
from ferry.native import Json
from ferry.sizes import format_size
from ferry_lab.importers.other_tools import NotUnderstood, read_fio, read_ior
from ferry_lab.render.mpi_tables import count_of
from ferry_lab.results import reading, results
from ferry_lab.results.records import GroupRow, ImportedRow, Metrics, RanksMetrics, RanksRow, Row
from ferry_lab.run.measuring import Measurement

_HOW = "name what ior -O summaryFormat=JSON, fio --output-format=json or ferry bench --json has written"


@dataclass
class _Gathered:
    """Rows of all files, and the environments of ferry's own."""

    rows: list[Row]
    measurements: list[Measurement]
    notes: list[str]


def run(files: Sequence[str], json_path: str | None, overwrite: bool) -> None:
    """Reads the files, prints the table, and writes the document. Raises FerryError."""
    started = results.now()
    gathered = _Gathered([], [], [])

    def read() -> Json:
        for path in files:
            _gather(path, gathered)
        gathered.rows = _merge(gathered.rows)
        settings = {"files": list(files)}
        measurements, rows, notes = gathered.measurements, gathered.rows, gathered.notes
        document = results.make_document("import", settings, measurements, rows, started=started, notes=notes)
        made: Json = msgspec.to_builtins(document)
        return made

    output_files.report(json_path, overwrite, read, lambda console, _: _print(console, gathered))


def _gather(path: str, gathered: _Gathered) -> None:
    parsed = reading.load(path, _HOW)
    document = reading.own(path, parsed, _HOW)
    if document is not None:
        gathered.rows += document.rows
        gathered.measurements.append(Measurement(environment=document.environment))
        gathered.notes += [note for note in document.notes if note not in gathered.notes]
        return
    reader = _reader(parsed)
    if reader is None:
        raise FerryError(f"{path} is nothing that ferry import knows; {_HOW}")
    try:
        rows = reader(parsed, path)
        json.dumps(msgspec.to_builtins(rows), allow_nan=False)  # ValueError for a rate without bound
        gathered.rows += rows
    except NotUnderstood as error:
        raise FerryError(f"{path}: {error}; {_HOW}") from None
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        what = f"{type(error).__name__}: {error}"
        raise FerryError(f"{path} is not as it should be ({what}); {_HOW}") from None


def _reader(document: Json) -> Callable[[Json, str], list[ImportedRow]] | None:
    if "fio version" in document:
        return read_fio
    if "tests" in document and "Command line" in document:
        return read_ior
    return None


def _merge(rows: Sequence[Row]) -> list[Row]:
    """Joins rows with equal measurements by the same tool into one, as repeats."""
    merged: dict[str, Row] = {}
    for row in rows:
        different = {"repeats", "metrics", "source"}
        if getattr(row, "direct", None):
            different.add("cache_state")  # of an unused cache
        facts = [getattr(row, name) for name in row.__struct_fields__ if name not in different]
        if isinstance(row, ImportedRow):
            facts += [row.source.tool, row.source.version]
        key = repr((type(row), facts))
        merged[key] = _join(merged[key], row) if key in merged else row
    return list(merged.values())


def _join(row: Row, more: Row) -> Row:
    repeats = [replace(sample, repeat=number) for number, sample in enumerate(row.repeats + more.repeats)]
    joined = replace(row, repeats=repeats, metrics=_metrics(row, repeats))
    if row.cache_state != more.cache_state:
        joined.cache_state = "unverified"
    if isinstance(row, ImportedRow):
        files = list(dict.fromkeys(row.source.files + more.source.files))
        joined.source = replace(row.source, files=files)
    return joined


def _metrics(row: Row, repeats: list[Any]) -> Metrics | RanksMetrics:
    if isinstance(row, RanksRow):
        return results.make_ranks_metrics(repeats)
    if isinstance(row, ImportedRow | GroupRow):
        return results.make_metrics(repeats)
    return results.make_metrics(repeats, row.sync, row.program)


def _print(console: Console, gathered: _Gathered) -> None:
    columns = ["tool", "interface", "access", "transfer", "total", "threads", "depth", "n"]
    table = terminal.BlockTable(None, [*columns, "MiB/s", "95 % bounds"], left=3)
    for row in gathered.rows:
        bandwidth = row.metrics.bandwidth_mib_per_s
        table.add_row(
            row.source.tool if isinstance(row, ImportedRow) else "ferry",
            *_what(row),
            str(bandwidth.count),
            f"{bandwidth.median:.1f}",
            f"{bandwidth.median_low_95:.1f} to {bandwidth.median_high_95:.1f}",
        )
    console.print(table)
    console.print(
        "MiB/s: medians of n repeats, from the first transfer to the last. IOR and fio count fsync "
        "within, ferry apart.",
        soft_wrap=True,
    )
    for note in gathered.notes:
        console.print(f"note: {note}", soft_wrap=True)


def _what(row: Row) -> list[str]:
    """Returns the columns about what was measured."""
    if isinstance(row, GroupRow):
        transfer = format_size(row.transfer_bytes) if row.transfer_bytes else "–"
        return [count_of(len(row.jobs), "job"), row.operation, transfer, format_size(row.total_bytes), "–", "–"]
    of_ranks = isinstance(row, RanksRow)
    placement = None if of_ranks else row.placement
    return [
        row.interface + (f"/{placement}" if placement else ""),
        _access(row),
        format_size(row.transfer_bytes),
        format_size(row.total_bytes),
        str(row.ranks if of_ranks else row.threads),
        "1" if of_ranks else str(row.queue_depth),
    ]


def _access(row: Row) -> str:
    """A few words on how it was read or written."""
    words = [row.pattern] if row.pattern in ("random", "interleaved") else []
    if getattr(row, "direct", None):
        words.append("direct")
    elif row.cache_state in ("hot", "cold"):
        words.append(row.cache_state)
    return " ".join([*words, row.operation])
