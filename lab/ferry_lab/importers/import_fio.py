"""Imports the output of fio ``--output-format=json``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ferry_lab.importers.imported import NotUnderstood, make_row
from ferry_lab.results.records import ImportedCallers, ImportedRepeat, ImportedRow, Latencies, Operation, Source

Json = dict[str, Any]

_INTERFACES = {"psync": "posix", "pvsync": "posix", "mmap": "mmap", "io_uring": "uring"}
_NS_PER_MS = 1_000_000


def read_rows(document: Json, file: str) -> list[ImportedRow]:
    """Returns one row per job and direction that moved data. Raises NotUnderstood.

    Entries with the same name and group ran in parallel: they are threads of one measurement.
    """
    together: dict[tuple[str, int], list[Json]] = {}
    for job in document["jobs"]:
        if job["error"] != 0:
            raise NotUnderstood(f"job {job['jobname']} ended with error {job['error']}")
        together.setdefault((job["jobname"], job["groupid"]), []).append(job)
    rows = [
        _row(document, jobs, operation, file)
        for jobs in together.values()
        for operation in ("write", "read")
        if any(job[operation]["total_ios"] > 0 for job in jobs)
    ]
    if not rows:
        raise NotUnderstood("no job moved anything")
    return rows


def _row(document: Json, jobs: Sequence[Json], operation: Operation, file: str) -> ImportedRow:
    # Global options apply where a job sets nothing else.
    asked = {**document.get("global options", {}), **jobs[0].get("job options", {})}
    moved = [job[operation] for job in jobs]
    size_bytes = sum(m["io_bytes"] for m in moved)
    operations = sum(m["total_ios"] for m in moved)
    name = str(jobs[0]["jobname"])
    engine = str(asked.get("ioengine", "psync"))
    runtime_ns = max(m["runtime"] for m in moved) * _NS_PER_MS
    repeat = ImportedRepeat(
        repeat=0,
        elapsed_ns=runtime_ns,
        bytes=size_bytes,
        operations=operations,
        open_ns=None,
        io_ns=runtime_ns,
        close_ns=None,
        latency_ns=_latency(moved),
        callers=_callers(jobs, operation),
    )
    return make_row(
        Source("fio", str(document["fio version"]), None, str(document["time"]), [file]),
        [repeat],
        id=f"fio/{name}/{operation}",
        interface=_INTERFACES.get(engine, engine),
        operation=operation,
        pattern="random" if str(asked.get("rw", "read")).startswith("rand") else "sequential",
        path=str(asked.get("filename") or asked.get("directory") or name),
        transfer_bytes=size_bytes // operations,
        total_bytes=size_bytes,
        # With group_reporting, one entry represents all of them.
        threads=len(jobs) if len(jobs) > 1 else int(asked.get("numjobs", 1)),
        queue_depth=int(asked.get("iodepth", 1)),
        segments=1,
        file_per_thread="filename" not in asked,
        direct=str(asked.get("direct", "0")) not in ("0", ""),
        synced=any(asked.get(k, "0") != "0" for k in _SYNCS),
        verified="verify" in asked and asked["verify"] != "0",
    )


_SYNCS = ("fsync", "end_fsync", "fsync_on_close", "fdatasync")


def _latency(moved: Sequence[Json]) -> Latencies | None:
    """Percentiles of several jobs cannot be combined."""
    found = moved[0]["clat_ns"]
    percentiles = found.get("percentile", {})
    wanted = {"p50": "50.000000", "p90": "90.000000", "p99": "99.000000"}
    if len(moved) > 1 or found["N"] == 0 or not percentiles.keys() >= set(wanted.values()):
        return None
    return Latencies(
        **{name: percentiles[key] for name, key in wanted.items()}, max=found["max"], samples=found["N"], one_call_in=1
    )


def _callers(jobs: Sequence[Json], operation: Operation) -> ImportedCallers | None:
    """fio counts both directions of a job together."""
    other = "read" if operation == "write" else "write"
    if any(job[other]["total_ios"] > 0 for job in jobs):
        return None

    def cpu_ns(kind: str) -> int:
        return round(sum(job[kind] / 100 * job["job_runtime"] for job in jobs) * _NS_PER_MS)

    return ImportedCallers(
        user_cpu_ns=cpu_ns("usr_cpu"), system_cpu_ns=cpu_ns("sys_cpu"), context_switches=sum(job["ctx"] for job in jobs)
    )
