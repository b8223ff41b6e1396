"""One document for all measurements (schema ``ferry.results/3``, see results.records)."""

from __future__ import annotations

import datetime
import platform
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from msgspec import UNSET

from ferry import __version__
from ferry.sizes import MIB
from ferry.uris import is_uri
from ferry_lab.results import latencies
from ferry_lab.results.records import (
    SCHEMA,
    Comparison,
    Document,
    Environment,
    GroupRepeat,
    GroupRow,
    ImportedRepeat,
    JobRepeat,
    JobRow,
    MeasuredRow,
    Metrics,
    Phases,
    RanksMetrics,
    RanksRepeat,
    RanksRow,
    Repeat,
    Row,
    Summary,
    TransferCounts,
)
from ferry_lab.run.measuring import Measurement
from ferry_lab.run.plan import Cell, RanksCell
from ferry_lab.stats import judge

AnyRepeat = Repeat | ImportedRepeat | RanksRepeat | JobRepeat | GroupRepeat


def summarize(values: Sequence[float]) -> Summary:
    """Returns count, mean, median, its 95 % bootstrap bounds, and standard deviation.

    The standard deviation is that of a sample (n - 1), None for a single value.
    """
    sample = np.asarray(values, float)
    bounds = judge.median_bounds(sample)
    return Summary(
        count=int(sample.size),
        mean=float(sample.mean()),
        median=bounds.median,
        median_low_95=bounds.low,
        median_high_95=bounds.high,
        standard_deviation=float(sample.std(ddof=1)) if sample.size > 1 else None,
        minimum=float(sample.min()),
        maximum=float(sample.max()),
    )


# ---- times of a repeat ---------------------------------------------------------------------------


def call_ns(sample: AnyRepeat) -> int:
    """Returns the time in the transfers alone."""
    return sample.io_ns


def call_and_flush_ns(sample: Repeat) -> int:
    """Returns the time in the transfers and in the flush after them."""
    return sample.io_ns + sample.flush_ns


def durable_ns(sample: Repeat | RanksRepeat | JobRepeat) -> int:
    """Returns the time in the transfers and in all that makes them durable: flush and fsync."""
    flush_ns = 0 if isinstance(sample, RanksRepeat) else sample.flush_ns
    return sample.io_ns + flush_ns + sample.sync_ns


def whole_ns(sample: AnyRepeat) -> int:
    """Returns the time from the beginning of open to the end of close."""
    return sample.elapsed_ns


def loop_ns(sample: Repeat) -> int:
    """Returns the time of a program's whole loop: calls and computing."""
    return sample.io_ns + (sample.compute_ns or 0)


def loop_and_sync_ns(sample: Repeat) -> int:
    """Returns the time of a program's whole loop and of what makes its writes durable."""
    return loop_ns(sample) + sample.flush_ns + sample.sync_ns


def communication_ns(phases: Phases) -> int:
    """Returns the time of a time split that goes to other ranks: agreeing, messages, waiting."""
    return phases.plan_ns + phases.exchange_ns + phases.wait_ns


def file_ns(phases: Phases) -> int:
    """Returns the time of a time split that goes to the file."""
    return phases.file_io_ns + phases.sync_ns


def bandwidth_mib_per_s(size_bytes: int, time_ns: int) -> float:
    """Returns MiB per second."""
    return size_bytes / MIB / (max(time_ns, 1) * 1e-9)


# ---- metrics -------------------------------------------------------------------------------------

_Metric = Callable[[Any], float]  # of a repeat

# The time of a repeat that a metric is, or is the rate of.
TIMES: dict[str, Callable[[Any], int]] = {
    "bandwidth_mib_per_s": call_ns,
    "bandwidth_with_flush_mib_per_s": call_and_flush_ns,
    "bandwidth_with_sync_mib_per_s": durable_ns,
    "bandwidth_open_to_close_mib_per_s": whole_ns,
    "elapsed_ns": whole_ns,
    "loop_ns": loop_ns,
    "loop_with_sync_ns": loop_and_sync_ns,
}


def _bandwidth(metric: str) -> _Metric:
    return lambda s: bandwidth_mib_per_s(s.bytes, TIMES[metric](s))


# The metrics that are rates.
RATES: dict[str, _Metric] = {
    **{metric: _bandwidth(metric) for metric in TIMES if metric.startswith("bandwidth_")},
    "operations_per_s": lambda s: s.operations / (max(s.io_ns, 1) * 1e-9),
}


def _rate(metric: str) -> dict[str, _Metric]:
    return {metric: RATES[metric]}


_EVERY: dict[str, _Metric] = {
    **_rate("bandwidth_mib_per_s"),
    "elapsed_ns": whole_ns,
    "io_ns": call_ns,
    **_rate("operations_per_s"),
}
_FLUSHED: dict[str, _Metric] = {"flush_ns": lambda s: s.flush_ns, **_rate("bandwidth_with_flush_mib_per_s")}
_SYNCED: dict[str, _Metric] = {"sync_ns": lambda s: s.sync_ns, **_rate("bandwidth_with_sync_mib_per_s")}
_COMPUTED: dict[str, _Metric] = {"compute_ns": lambda s: s.compute_ns, "loop_ns": loop_ns}
_OF_RANKS: dict[str, _Metric] = {
    **_EVERY,
    **_SYNCED,
    **_rate("bandwidth_open_to_close_mib_per_s"),
    "open_ns": lambda s: s.open_ns,
    "close_ns": lambda s: s.close_ns,
    "ranks_user_cpu_ns": lambda s: s.ranks_usage.user_cpu_ns,
    "ranks_system_cpu_ns": lambda s: s.ranks_usage.system_cpu_ns,
    "ranks_context_switches": lambda s: s.ranks_usage.voluntary_switches + s.ranks_usage.involuntary_switches,
    "read_and_write_calls": lambda s: s.ranks_usage.read_calls + s.ranks_usage.write_calls,
    "machine_user_cpu_ns": lambda s: s.machine_usage.user_cpu_ns,
    "machine_system_cpu_ns": lambda s: s.machine_usage.system_cpu_ns,
    "machine_context_switches": lambda s: s.machine_usage.context_switches,
    "machine_network_bytes": lambda s: s.machine_usage.network_bytes,
    "machine_network_packets": lambda s: s.machine_usage.network_packets,
}


def _summaries(metrics: dict[str, _Metric], samples: Sequence[AnyRepeat]) -> dict[str, Summary]:
    return {name: summarize([of(s) for s in samples]) for name, of in metrics.items()}


def make_metrics(
    samples: Sequence[Repeat | ImportedRepeat | JobRepeat | GroupRepeat], sync: str = "none", program: str = "stream"
) -> Metrics:
    """Returns the metrics that a row of one process has, imported or not."""
    metrics = dict(_EVERY)
    if "flush" in sync:
        metrics |= _FLUSHED
    if "fsync" in sync:
        metrics |= _SYNCED
    if program in ("iterative", "once"):
        metrics |= _COMPUTED
        if "fsync" in sync:
            metrics["loop_with_sync_ns"] = loop_and_sync_ns
    return Metrics(**_summaries(metrics, samples))


def make_ranks_metrics(samples: Sequence[RanksRepeat]) -> RanksMetrics:
    """Returns those of many ranks."""
    metrics = dict(_OF_RANKS)
    if all(s.counts for s in samples):
        for name in TransferCounts.__struct_fields__:
            metrics[name] = lambda s, name=name: getattr(s.counts, name)
    if all(s.time_split for s in samples):
        parts = {"communication": communication_ns, "pack": lambda p: p.pack_ns, "file": file_ns}
        for kind in ("mean", "maximum"):
            for part, time_ns in parts.items():
                metrics[f"{part}_{kind}_ns"] = lambda s, kind=kind, time_ns=time_ns: time_ns(
                    getattr(s.time_split, kind)
                )
    return RanksMetrics(**_summaries(metrics, samples))


# ---- rows ----------------------------------------------------------------------------------------


def cache_state(samples: Sequence[Any], key: str = "cache_state") -> Any:
    """Returns the state of all repeats, ``unverified`` where they differ, None where none is."""
    states = {getattr(sample, key) for sample in samples}
    return states.pop() if len(states) == 1 else "unverified"


def make_row(
    cell: Cell | RanksCell, group: str, samples: Sequence[Any], virtual_machine: bool = False
) -> MeasuredRow | RanksRow:
    """Returns one row of the document: what was measured, summaries, and every repeat.

    In a virtual machine a cold row is ``guest-cold``: what its disk's host has cached nobody here
    knows. That of a URI is ``client-cold``, for what its servers have cached.
    """
    state = cache_state(samples)
    if state == "cold" and isinstance(cell, Cell) and is_uri(cell.path):
        state = "client-cold"
    if virtual_machine and state == "cold":
        state = "guest-cold"
    shared = {
        "group": group,
        "axes": dict(cell.axes),
        "cache_state": state,
        "verified": all(s.verified for s in samples),
        "repeats": list(samples),
    }
    if isinstance(cell, RanksCell):
        return _make_ranks_row(cell, samples, shared)
    return MeasuredRow(
        **_facts(cell, MeasuredRow) | shared,
        cache_switches=None if cell.cache_switches is None else list(cell.cache_switches),
        device_cache_state=cache_state(samples, "device_cache_state"),
        metrics=make_metrics(samples, cell.sync, cell.program),
        latency_ns=latencies.merge([s.latency_ns for s in samples]) if cell.latency else UNSET,
    )


def make_group_rows(cells: Sequence[Cell], samples: Mapping[str, Sequence[Any]]) -> list[JobRow | GroupRow]:
    """Returns a row for each job of a group, and one for all together; ``samples`` by cell and group."""
    rows: list[JobRow | GroupRow] = []
    for cell in cells:
        found = samples[cell.id]
        rows.append(
            JobRow(
                **_facts(cell, JobRow)
                | {
                    "axes": dict(cell.axes),
                    "cache_state": cache_state(found),
                    "verified": all(s.verified for s in found),
                    "repeats": list(found),
                },
                device_cache_state=None,
                metrics=make_metrics(found, cell.sync),
                latency_ns=latencies.merge([s.latency_ns for s in found]) if cell.latency else UNSET,
            )
        )
    together = samples[cells[0].group]
    operations, sizes = {cell.operation for cell in cells}, {cell.transfer_bytes for cell in cells}
    rows.append(
        GroupRow(
            id=cells[0].group,
            group=cells[0].group,
            jobs=[cell.id for cell in cells],
            program="group",
            operation=operations.pop() if len(operations) == 1 else "mixed",
            path=None,
            transfer_bytes=sizes.pop() if len(sizes) == 1 else None,
            total_bytes=sum(cell.total_bytes for cell in cells),
            cache_state=None,
            device_cache_state=None,
            verified=all(row.verified for row in rows),
            metrics=make_metrics(together),
            repeats=list(together),
        )
    )
    return rows


def _make_ranks_row(cell: RanksCell, samples: Sequence[RanksRepeat], shared: dict[str, Any]) -> RanksRow:
    facts = _facts(cell, RanksRow) | {
        "method": cell.method if cell.interface == "ferry" else None,
        "piece_bytes": cell.piece_bytes if cell.pattern == "interleaved" else None,
        "element_bytes": cell.element_bytes if cell.byte_order != "native" else None,
    }
    for name in ("writers", "buffer_bytes", "stripe_bytes", "stripe_count"):
        facts[name] = facts[name] or None
    return RanksRow(
        **facts | shared,
        program="ranks",
        oversubscribed=any(s.oversubscribed for s in samples),
        device_cache_state=None,
        metrics=make_ranks_metrics(samples),
        latency_ns=latencies.merge([s.latency_ns for s in samples]) if cell.latency else UNSET,
    )


def _facts(cell: Cell | RanksCell, row: type[Row]) -> dict[str, Any]:
    """Returns what a row takes over from its cell."""
    names = [name for name in row.__struct_fields__ if hasattr(cell, name) and name != "cache_switches"]
    return {name: getattr(cell, name) for name in names}


# ---- documents -----------------------------------------------------------------------------------


def make_document(
    kind: str,
    settings: dict[str, Any],
    measurements: Sequence[Measurement],
    rows: Sequence[Row],
    *,
    study: str | None = None,
    started: datetime.datetime,
    notes: Sequence[str] = (),
    comparisons: Sequence[Comparison] = (),
    conclusions: Sequence[str] = (),
) -> Document:
    """Returns the whole document; ``measurements`` were made on one machine, in this order."""
    return Document(
        schema=SCHEMA,
        ferry_version=__version__,
        kind=kind,
        study=study,
        command=["ferry", *sys.argv[1:]],
        started=started.isoformat(timespec="seconds"),
        finished=now().isoformat(timespec="seconds"),
        environment=environment_of([m.environment for m in measurements]),
        settings=settings,
        notes=list(notes),
        rows=list(rows),
        comparisons=list(comparisons),
        conclusions=list(conclusions),
    )


def environment_of(parts: Sequence[Environment]) -> Environment:
    """Returns where it was measured; without ``parts`` nobody knows."""
    systems = {s.mount_point: s for part in parts for s in part.file_systems}
    return Environment(
        machine=parts[0].machine if parts else None,
        versions={
            **(parts[0].versions if parts else {"ferry": __version__, "compiler": None}),
            "python": platform.python_version(),
            "numpy": np.__version__,
            "git_revision": git_revision(),
        },
        file_systems=list(systems.values()),
        storages=list({repr(s): s for part in parts for s in part.storages or []}.values()),
        runtimes=[runtime for part in parts for runtime in part.runtimes],
    )


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
