"""``ferry import``: results of IOR, fio and ferry, in one table and one document."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from ferry import output_files, terminal
from ferry.errors import FerryError
from ferry.sizes import format_size
from ferry_lab.importers import import_fio, import_ior
from ferry_lab.importers.imported import NotUnderstood
from ferry_lab.results import results
from ferry_lab.run.measuring import Measurement

Json = dict[str, Any]

_HOW = (
    "name what ior -O summaryFormat=JSON, fio --output-format=json or ferry bench --json has written"
)


@dataclass
class _Gathered:
    """Rows of all files, and the environments of ferry's own."""

    rows: list[Json]
    measurements: list[Measurement]
    notes: list[str]


def run(files: Sequence[str], json_path: str | None, overwrite: bool) -> None:
    """Reads the files, prints the table, and writes the document. Raises FerryError."""
    started = results.now()
    output_files.check_output(json_path, overwrite)
    gathered = _Gathered([], [], [])
    for path in files:
        _gather(path, gathered)
    gathered.rows = _merge(gathered.rows)
    if json_path != "-":
        _print(gathered)
    if json_path is not None:
        document = results.make_document(
            "import",
            {"files": list(files)},
            gathered.measurements,
            gathered.rows,
            started=started,
            notes=gathered.notes,
        )
        output_files.write_json(json_path, document, overwrite)


def _gather(path: str, gathered: _Gathered) -> None:
    document = _load(path)
    if document.get("schema") == results.SCHEMA:
        gathered.rows += document["rows"]
        gathered.measurements.append(Measurement(environment=document["environment"]))
        gathered.notes += [note for note in document["notes"] if note not in gathered.notes]
        return
    if str(document.get("schema", "")).startswith("ferry."):
        raise FerryError(
            f"{path} is {document['schema']}, and this is about {results.SCHEMA}; measure again"
        )
    reader = _reader(document)
    if reader is None:
        raise FerryError(f"{path} is nothing that ferry import knows; {_HOW}")
    try:
        gathered.rows += reader(document, path)
    except NotUnderstood as error:
        raise FerryError(f"{path}: {error}; {_HOW}") from None
    except (KeyError, IndexError, TypeError, ValueError, ZeroDivisionError) as error:
        what = f"{type(error).__name__}: {error}"
        raise FerryError(f"{path} is not as it should be ({what}); {_HOW}") from None


def _reader(document: Json) -> Callable[[Json, str], list[Json]] | None:
    if "fio version" in document:
        return import_fio.read_rows
    if "tests" in document and "Command line" in document:
        return import_ior.read_rows
    return None


def _load(path: str) -> Json:
    """Returns the object in a file; skips lines before it, like fio's warnings."""
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            text = file.read()
    except FileNotFoundError:
        raise FerryError(f"{path} does not exist; {_HOW}") from None
    except OSError as error:
        raise FerryError(f"{path}: {error.strerror}; {_HOW}") from None
    lines = text.splitlines(keepends=True)
    first = next((i for i, line in enumerate(lines) if line.startswith("{")), None)
    try:
        document = json.loads("".join(lines[first:]) if first is not None else text)
    except ValueError:
        raise FerryError(f"{path} is no JSON; {_HOW}") from None
    if not isinstance(document, dict):
        raise FerryError(f"{path} holds no JSON object; {_HOW}")
    return document


def _merge(rows: Sequence[Json]) -> list[Json]:
    """Joins rows with equal measurements by the same tool into one, as repeats."""
    merged: dict[str, Json] = {}
    for row in rows:
        source = row.get("source")
        different = {"repeats", "metrics", "source"}
        if row["direct"]:
            different.add("cache_state")  # of an unused cache
        facts = {name: value for name, value in row.items() if name not in different}
        if source is not None:
            facts["tool"] = (source["tool"], source["version"])
        key = json.dumps(facts, sort_keys=True)
        if key in merged:
            merged[key] = _join(merged[key], row)
        else:
            merged[key] = row
    return list(merged.values())


def _join(row: Json, more: Json) -> Json:
    repeats = [*row["repeats"], *more["repeats"]]
    repeats = [{**sample, "repeat": number} for number, sample in enumerate(repeats)]
    joined = {**row, "repeats": repeats}
    metrics = results.basic_metrics(repeats)
    if row["cache_state"] != more["cache_state"]:
        joined["cache_state"] = "unverified"
    joined["metrics"] = {name: results.summarize(values) for name, values in metrics.items()}
    if "source" in row:
        files = [*row["source"]["files"], *more["source"]["files"]]
        joined["source"] = {**row["source"], "files": list(dict.fromkeys(files))}
    return joined


def _print(gathered: _Gathered) -> None:
    columns = ["tool", "interface", "access", "transfer", "total", "threads", "depth", "n"]
    table = terminal.BlockTable(None, [*columns, "MiB/s", "95 % bounds"], left=3)
    for row in gathered.rows:
        bandwidth = row["metrics"]["bandwidth_mib_per_s"]
        table.add_row(
            row["source"]["tool"] if "source" in row else "ferry",
            row["interface"] + (f"/{row['placement']}" if row["placement"] else ""),
            _access(row),
            format_size(row["transfer_bytes"]),
            format_size(row["total_bytes"]),
            str(row["threads"]),
            str(row["queue_depth"]),
            str(bandwidth["count"]),
            f"{bandwidth['median']:.1f}",
            f"{bandwidth['median_low_95']:.1f} to {bandwidth['median_high_95']:.1f}",
        )
    console = terminal.output_console()
    console.print(table)
    console.print(
        "MiB/s: medians of n repeats, from the first transfer to the last. IOR and fio count fsync "
        "within, ferry apart.",
        soft_wrap=True,
    )
    for note in gathered.notes:
        console.print(f"note: {note}", soft_wrap=True)


def _access(row: Json) -> str:
    """A few words on how it was read or written."""
    words = ["random"] if row["pattern"] == "random" else []
    if row["direct"]:
        words.append("direct")
    elif row["cache_state"] in ("hot", "cold"):
        words.append(row["cache_state"])
    return " ".join([*words, row["operation"]])
