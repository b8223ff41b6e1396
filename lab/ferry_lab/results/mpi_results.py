"""Rows of ``ferry-bench-mpi``: measurements of many ranks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ferry_lab.results.results import (
    CSV_RATES,
    bandwidth_mib_per_s,
    cache_state,
    csv_rates,
    storage_of,
    summarize,
)
from ferry_lab.run.mpi_plan import MpiCell

Json = dict[str, Any]

# Of each sample, by the metric's name.
_COUNTED: dict[str, Callable[[Json], float]] = {
    "open_ns": lambda s: s["open_ns"],
    "io_ns": lambda s: s["io_ns"],
    "sync_ns": lambda s: s["sync_ns"],
    "close_ns": lambda s: s["close_ns"],
    "elapsed_ns": lambda s: s["elapsed_ns"],
    "operations_per_s": lambda s: s["operations"] / (max(s["io_ns"], 1) * 1e-9),
    "ranks_user_cpu_ns": lambda s: s["ranks_usage"]["user_cpu_ns"],
    "ranks_system_cpu_ns": lambda s: s["ranks_usage"]["system_cpu_ns"],
    "ranks_context_switches": lambda s: (
        s["ranks_usage"]["voluntary_switches"] + s["ranks_usage"]["involuntary_switches"]
    ),
    "read_and_write_calls": lambda s: (
        s["ranks_usage"]["read_calls"] + s["ranks_usage"]["write_calls"]
    ),
    "machine_user_cpu_ns": lambda s: s["machine_usage"]["user_cpu_ns"],
    "machine_system_cpu_ns": lambda s: s["machine_usage"]["system_cpu_ns"],
    "machine_context_switches": lambda s: s["machine_usage"]["context_switches"],
    "machine_network_bytes": lambda s: s["machine_usage"]["network_bytes"],
    "machine_network_packets": lambda s: s["machine_usage"]["network_packets"],
}
COUNTS = (
    *("messages", "message_bytes", "remote_messages", "remote_bytes", "shared_bytes"),
    *("storage_requests", "storage_bytes", "storage_opens", "gpu_bytes"),
)
PHASES = ("plan_ns", "exchange_ns", "pack_ns", "file_io_ns", "sync_ns", "wait_ns")


def whole_ns(sample: Json) -> int:
    """Returns the time from the beginning of open to the end of close."""
    return int(sample["elapsed_ns"])


def durable_ns(sample: Json) -> int:
    """Returns the time in the transfers and in the fsync after them, if there is one."""
    return int(sample["io_ns"] + sample["sync_ns"])


def communication_ns(phases: Json) -> int:
    """Returns the time of a time split that goes to other ranks: agreeing, messages, waiting."""
    return int(phases["plan_ns"] + phases["exchange_ns"] + phases["wait_ns"])


def file_ns(phases: Json) -> int:
    """Returns the time of a time split that goes to the file."""
    return int(phases["file_io_ns"] + phases["sync_ns"])


def make_row(
    cell: MpiCell, group: str, samples: Sequence[Json], virtual_machine: bool = False
) -> Json:
    """Returns one row of the document, as results.make_row does for one process."""
    state = cache_state(samples)
    if virtual_machine and state == "cold":
        state = "guest-cold"
    return {
        "id": cell.id,
        "group": group,
        "interface": cell.interface,
        "method": cell.method if cell.interface == "ferry" else None,
        "collective": cell.collective,
        "program": "ranks",
        "operation": cell.operation,
        "pattern": cell.pattern,
        "path": cell.path,
        "ranks": cell.ranks,
        "writers": cell.writers or None,
        "file_per_writer": cell.file_per_writer,
        "transfer_bytes": cell.transfer_bytes,
        "total_bytes": cell.total_bytes,
        "piece_bytes": cell.piece_bytes if cell.pattern == "interleaved" else None,
        "buffer_bytes": cell.buffer_bytes or None,
        "stripe_bytes": cell.stripe_bytes or None,
        "stripe_count": cell.stripe_count or None,
        "byte_order": cell.byte_order,
        "element_bytes": cell.element_bytes if cell.byte_order != "native" else None,
        "sync": cell.sync,
        "oversubscribed": any(s["oversubscribed"] for s in samples),
        "cache_state": state,
        "device_cache_state": None,
        "verified": all(s["verified"] for s in samples),
        "metrics": {name: summarize(values) for name, values in _metrics(samples).items()},
        "repeats": list(samples),
    }


def _metrics(samples: Sequence[Json]) -> dict[str, list[float]]:
    def rates(time_ns: Callable[[Json], int]) -> list[float]:
        return [bandwidth_mib_per_s(s["bytes"], time_ns(s)) for s in samples]

    metrics: dict[str, list[float]] = {
        "bandwidth_mib_per_s": rates(lambda s: int(s["io_ns"])),
        "bandwidth_with_sync_mib_per_s": rates(durable_ns),
        "bandwidth_open_to_close_mib_per_s": rates(whole_ns),
        **{name: [of(s) for s in samples] for name, of in _COUNTED.items()},
    }
    if all(s["counts"] for s in samples):
        metrics |= {name: [s["counts"][name] for s in samples] for name in COUNTS}
    if all(s["time_split"] for s in samples):
        for kind in ("mean", "maximum"):
            parts = [s["time_split"][kind] for s in samples]
            metrics[f"communication_{kind}_ns"] = [communication_ns(p) for p in parts]
            metrics[f"pack_{kind}_ns"] = [p["pack_ns"] for p in parts]
            metrics[f"file_{kind}_ns"] = [file_ns(p) for p in parts]
    return metrics


CSV_FACTS = (
    *("id", "group", "interface", "method", "collective", "operation", "pattern", "path", "ranks"),
    *("writers", "file_per_writer", "transfer_bytes", "total_bytes", "piece_bytes"),
    *("buffer_bytes", "stripe_bytes", "stripe_count", "byte_order", "element_bytes", "sync"),
)
CSV_NUMBERS = (
    *("repeat", "elapsed_ns", "open_ns", "io_ns", "sync_ns", "close_ns", "operations"),
    *("oversubscribed", "cache_state", "verified", "bytes"),
)


def csv_lines(rows: Sequence[Json], environment: Json) -> list[list[Any]]:
    """Returns the heads and one line for each repeat."""
    usages = (
        *(("ranks_usage", n) for n in ("user_cpu_ns", "system_cpu_ns")),
        *(("ranks_usage", n) for n in ("voluntary_switches", "involuntary_switches")),
        *(("ranks_usage", n) for n in ("read_calls", "write_calls")),
        *(("machine_usage", n) for n in ("user_cpu_ns", "system_cpu_ns", "context_switches")),
        *(("machine_usage", n) for n in ("network_bytes", "network_packets")),
        *(("counts", n) for n in COUNTS),
    )
    phases = [(kind, name) for kind in ("mean", "maximum") for name in PHASES]
    heads = [
        *CSV_FACTS,
        "storage",
        *CSV_NUMBERS,
        *CSV_RATES,
        *(f"{group.removesuffix('_usage')}_{name}" for group, name in usages),
        *(f"{kind}_{name}" for kind, name in phases),
    ]
    lines: list[list[Any]] = [heads]
    for row in rows:
        for sample in row["repeats"]:
            split = sample["time_split"] or {"mean": {}, "maximum": {}}
            lines.append(
                [
                    *(row[name] for name in CSV_FACTS),
                    storage_of(row["path"], environment),
                    *(sample[name] for name in CSV_NUMBERS),
                    *csv_rates(sample),
                    *((sample[group] or {}).get(name) for group, name in usages),
                    *(split[kind].get(name) for kind, name in phases),
                ]
            )
    return lines
