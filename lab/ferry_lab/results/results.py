"""One document for all measurements (schema ``ferry.results/3``, see results.records)."""

from __future__ import annotations

import csv
import datetime
import io
import json
import platform
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ferry import __version__, file_systems
from ferry.sizes import MIB
from ferry.uris import is_uri
from ferry_lab.results.records import SCHEMA
from ferry_lab.run.measuring import Measurement
from ferry_lab.run.plan import Cell
from ferry_lab.stats import judge

# What the page cache in the device's memory counts; samples have them under "cache".
CACHE_COUNTERS = (
    *("hits", "misses", "fills", "fill_bytes", "evictions", "write_backs", "write_back_bytes"),
    *("waits", "readahead_issued", "readahead_used", "readahead_wasted"),
)

Json = dict[str, Any]


def summarize(values: Sequence[float]) -> Json:
    """Returns count, mean, median, its 95 % bootstrap bounds, and standard deviation.

    The standard deviation is that of a sample (n - 1), null for a single value.
    """
    sample = np.asarray(values, float)
    bounds = judge.median_bounds(sample)
    return {
        "count": int(sample.size),
        "mean": float(sample.mean()),
        "median": bounds.median,
        "median_low_95": bounds.low,
        "median_high_95": bounds.high,
        "standard_deviation": float(sample.std(ddof=1)) if sample.size > 1 else None,
        "minimum": float(sample.min()),
        "maximum": float(sample.max()),
    }


def call_ns(sample: Json) -> int:
    """Returns the time in the transfers alone."""
    return int(sample["io_ns"])


def call_and_flush_ns(sample: Json) -> int:
    """Returns the time in the transfers and in the flush after them."""
    return int(sample["io_ns"] + sample["flush_ns"])


def call_and_sync_ns(sample: Json) -> int:
    """Returns the time in the transfers and in all that makes them durable: flush and fsync."""
    return int(sample["io_ns"] + sample["flush_ns"] + sample["sync_ns"])


def loop_ns(sample: Json) -> int:
    """Returns the time of a program's whole loop: calls and computing."""
    return int(sample["io_ns"] + (sample["compute_ns"] or 0))


def bandwidth_mib_per_s(size_bytes: int, time_ns: int) -> float:
    """Returns MiB per second."""
    return size_bytes / MIB / (max(time_ns, 1) * 1e-9)


def loop_and_sync_ns(sample: Json) -> int:
    """Returns the time of a program's whole loop and of what makes its writes durable."""
    return loop_ns(sample) + int(sample["flush_ns"] + sample["sync_ns"])


def cache_state(samples: Sequence[Json], key: str = "cache_state") -> str | None:
    """Returns the state of all repeats, ``unverified`` where they differ, None where none is."""
    states = {sample[key] for sample in samples}
    return states.pop() if len(states) == 1 else "unverified"


def basic_metrics(samples: Sequence[Json]) -> dict[str, list[float]]:
    """Returns, by name, what every measurement has: one value for each sample."""
    return {
        "bandwidth_mib_per_s": [bandwidth_mib_per_s(s["bytes"], call_ns(s)) for s in samples],
        "elapsed_ns": [s["elapsed_ns"] for s in samples],
        "io_ns": [s["io_ns"] for s in samples],
        "operations_per_s": [s["operations"] / (max(s["io_ns"], 1) * 1e-9) for s in samples],
    }


def make_row(
    cell: Cell, group: str, samples: Sequence[Json], virtual_machine: bool = False
) -> Json:
    """Returns one row of the document: what was measured, summaries, and every repeat.

    In a virtual machine a cold row is ``guest-cold``: what its disk's host has cached nobody here
    knows. That of a URI is ``client-cold``, for what its servers have cached.
    """
    state = cache_state(samples)
    if state == "cold" and is_uri(cell.path):
        state = "client-cold"
    if virtual_machine and state == "cold":
        state = "guest-cold"
    metrics = basic_metrics(samples)
    if "flush" in cell.sync:
        metrics["flush_ns"] = [s["flush_ns"] for s in samples]
        metrics["bandwidth_with_flush_mib_per_s"] = [
            bandwidth_mib_per_s(s["bytes"], call_and_flush_ns(s)) for s in samples
        ]
    if "fsync" in cell.sync:
        metrics["sync_ns"] = [s["sync_ns"] for s in samples]
        metrics["bandwidth_with_sync_mib_per_s"] = [
            bandwidth_mib_per_s(s["bytes"], call_and_sync_ns(s)) for s in samples
        ]
    if cell.computes:
        metrics["compute_ns"] = [s["compute_ns"] for s in samples]
        metrics["loop_ns"] = [loop_ns(s) for s in samples]
        if "fsync" in cell.sync:
            metrics["loop_with_sync_ns"] = [loop_and_sync_ns(s) for s in samples]
    return {
        "id": cell.id,
        "group": group,
        "interface": cell.interface,
        "placement": cell.placement,
        "program": cell.program,
        "operation": cell.operation,
        "pattern": cell.pattern,
        "path": cell.path,
        "transfer_bytes": cell.transfer_bytes,
        "total_bytes": cell.total_bytes,
        "threads": cell.threads,
        "queue_depth": cell.queue_depth,
        "segments": cell.segments,
        "file_per_thread": cell.file_per_thread,
        "reorder": cell.reorder,
        "barriers": cell.barriers,
        "deadline_ms": cell.deadline_ms,
        "check": cell.check,
        "rewrite": cell.rewrite,
        "buffer_offset_bytes": cell.buffer_offset_bytes,
        "cache_switches": None if cell.cache_switches is None else list(cell.cache_switches),
        "direct": cell.direct,
        "sync": cell.sync,
        "cache_state": state,
        "device_cache_state": cache_state(samples, "device_cache_state"),
        "verified": all(s["verified"] for s in samples),
        "metrics": {name: summarize(values) for name, values in metrics.items()},
        "repeats": list(samples),
    }


def make_document(
    kind: str,
    settings: Json,
    measurements: Sequence[Measurement],
    rows: list[Json],
    *,
    study: str | None = None,
    started: datetime.datetime,
    notes: Sequence[str] = (),
    comparisons: Sequence[Json] = (),
    conclusions: Sequence[str] = (),
) -> Json:
    """Returns the whole document; ``measurements`` were made on one machine, in this order."""
    return {
        "schema": SCHEMA,
        "ferry_version": __version__,
        "kind": kind,
        "study": study,
        "command": ["ferry", *sys.argv[1:]],
        "started": started.isoformat(timespec="seconds"),
        "finished": now().isoformat(timespec="seconds"),
        "environment": _environment([m.environment for m in measurements]),
        "settings": settings,
        "notes": list(notes),
        "rows": rows,
        "comparisons": list(comparisons),
        "conclusions": list(conclusions),
    }


def _environment(parts: Sequence[Json]) -> Json:
    """Returns where it was measured; without ``parts`` nobody knows."""
    systems = {s["mount_point"]: s for part in parts for s in part["file_systems"]}
    return {
        "machine": parts[0]["machine"] if parts else None,
        "versions": {
            **(parts[0]["versions"] if parts else {"ferry": __version__, "compiler": None}),
            "python": platform.python_version(),
            "numpy": np.__version__,
            "git_revision": git_revision(),
        },
        "file_systems": list(systems.values()),
        "storages": _distinct([s for part in parts for s in part.get("storages", [])]),
        "runtimes": [runtime for part in parts for runtime in part["runtimes"]],
    }


def _distinct(objects: Sequence[Json]) -> list[Json]:
    return list({json.dumps(one, sort_keys=True): one for one in objects}.values())


def now() -> datetime.datetime:
    """Returns the time of day, with the offset to UTC."""
    return datetime.datetime.now().astimezone()


def git_revision() -> str | None:
    """Returns the revision of the checkout this package runs from, None elsewhere."""
    checkout = Path(__file__).resolve().parents[3]
    if not (checkout / ".git").exists():
        return None
    try:
        answer = subprocess.run(
            ["git", "-C", str(checkout), "describe", "--always", "--dirty", "--abbrev=12"],
            capture_output=True,
            text=True,
            timeout=10,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return answer.stdout.strip() or None


def _csv_field(value: Any) -> Any:
    return " ".join(value) if isinstance(value, list) else value


def storage_of(path: str, environment: Json) -> str:
    """Returns on what a measured path lies: "ext4 on /dev/vda", or "ceph" for a URI."""
    if is_uri(path):
        return path.partition(":")[0]
    inside = [
        system
        for system in environment["file_systems"]
        if f"{path}/".startswith(f"{system['mount_point'].rstrip('/')}/")
    ]
    if not inside:
        return file_systems.UNKNOWN
    return file_systems.on_source(max(inside, key=lambda system: len(system["mount_point"])))


def csv_rates(sample: Json) -> list[float]:
    """Returns what CSV_RATES names, of one repeat."""
    durable_ns = sample["io_ns"] + sample.get("flush_ns", 0) + sample["sync_ns"]
    times_ns = (sample["io_ns"], durable_ns, sample["elapsed_ns"])
    return [round(bandwidth_mib_per_s(sample["bytes"], time_ns), 3) for time_ns in times_ns]


CSV_RATES = (
    "bandwidth_mib_per_s",
    "bandwidth_with_sync_mib_per_s",
    "bandwidth_open_to_close_mib_per_s",
)


def to_csv(rows: Sequence[Json], environment: Json) -> str:
    """Returns the rows as CSV, one line per repeat; nested values are left out."""
    facts = [
        *("id", "group", "interface", "placement", "program", "operation", "pattern", "path"),
        *("transfer_bytes", "total_bytes", "threads", "queue_depth", "direct", "sync"),
        *("rewrite", "buffer_offset_bytes", "cache_switches"),
    ]
    numbers = [
        *("repeat", "elapsed_ns", "open_ns", "io_ns", "compute_ns", "flush_ns", "sync_ns"),
        *("close_ns", "operations", "cache_state", "device_cache_state", "verified", "bytes"),
    ]
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow([*facts, "storage", *numbers, *CSV_RATES, *(f"cache_{name}" for name in CACHE_COUNTERS)])
    for row in rows:
        for sample in row["repeats"]:
            cache = sample["cache"] or {}
            writer.writerow(
                [
                    *(_csv_field(row[name]) for name in facts),
                    storage_of(row["path"], environment),
                    *(sample[name] for name in numbers),
                    *csv_rates(sample),
                    *(cache.get(name) for name in CACHE_COUNTERS),
                ]
            )
    return text.getvalue()
