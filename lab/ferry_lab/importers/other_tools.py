"""Reads the output of other tools as rows in ferry's schema.

IOR's is that of ``-O summaryFormat=JSON``, fio's that of ``--output-format=json``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from msgspec import UNSET

from ferry.native import Json
from ferry.sizes import MIB
from ferry_lab.results.records import ImportedCallers, ImportedRepeat, ImportedRow, Latencies, Operation, Source
from ferry_lab.results.results import make_metrics


class NotUnderstood(Exception):
    """A file of a known tool that cannot be read; the message is one line."""


def _make_row(
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


def _to_ns(seconds: float) -> int:
    return round(seconds * 1e9)


# ---- IOR -----------------------------------------------------------------------------------------

_IOR_INTERFACES = {"POSIX": "posix", "MMAP": "mmap"}


def read_ior(document: Json, file: str) -> list[ImportedRow]:
    """Returns one row per test and operation. Raises NotUnderstood."""
    rows = []
    for test in document["tests"]:
        if not test["Results"]:
            raise NotUnderstood("the test has no results")
        for operation in ("write", "read"):
            found = [r for r in test["Results"] if r["access"] == operation]
            if found:
                rows.append(_ior_row(document, test, operation, found, file))
    return rows


def _ior_row(document: Json, test: Json, operation: Operation, found: list[Json], file: str) -> ImportedRow:
    asked = test["Parameters"]
    command = str(document["Command line"])
    threads = int(test["Options"]["tasks"])
    transfer_bytes, segments = int(asked["transferSize"]), int(asked["segmentCount"])
    total_bytes = int(asked["blockSize"]) * segments * threads
    return _make_row(
        Source("ior", str(document["Version"]), command, str(test["StartTime"]), [file]),
        [_ior_repeat(n, one, transfer_bytes, total_bytes) for n, one in enumerate(found)],
        id=f"ior/{test['TestID']}/{operation}",
        interface=_IOR_INTERFACES.get(asked["api"], str(asked["api"])),
        operation=operation,
        pattern="random" if asked["randomOffset"] else "sequential",
        path=str(asked["testFileName"]),
        transfer_bytes=transfer_bytes,
        total_bytes=total_bytes,
        threads=threads,
        queue_depth=1,
        segments=segments,
        file_per_thread=bool(asked["filePerProc"]),
        direct="odirect" in command,
        synced=bool(asked["fsync"]),
        verified=bool(asked["checkWrite" if operation == "write" else "checkRead"]),
    )


def _ior_repeat(number: int, found: Json, transfer_bytes: int, total_bytes: int) -> ImportedRepeat:
    """IOR rounds times to 0.1 ms; its rates are more precise, so times are computed from them."""
    if found["bwMiB"] <= 0 or found["iops"] <= 0:
        raise NotUnderstood("a repeat moved nothing")
    elapsed_s = float(found["totalTime"])
    # With a deadline it moved less, and both rates are for that.
    moved_bytes = total_bytes
    whole_s = total_bytes / MIB / found["bwMiB"]
    if whole_s > elapsed_s + 0.001:
        moved_bytes = round(found["bwMiB"] * MIB * elapsed_s / transfer_bytes)
        moved_bytes = max(moved_bytes, 1) * transfer_bytes
    operations = moved_bytes // transfer_bytes
    return ImportedRepeat(
        repeat=number,
        elapsed_ns=_to_ns(moved_bytes / MIB / found["bwMiB"]),
        bytes=moved_bytes,
        operations=operations,
        open_ns=_to_ns(found["openTime"]),
        io_ns=_to_ns(operations / found["iops"]),
        close_ns=_to_ns(found["closeTime"]),
        latency_ns=None,
        callers=None,
    )


# ---- fio -----------------------------------------------------------------------------------------

_FIO_INTERFACES = {"psync": "posix", "pvsync": "posix", "mmap": "mmap", "io_uring": "uring"}
_NS_PER_MS = 1_000_000


def read_fio(document: Json, file: str) -> list[ImportedRow]:
    """Returns one row per job and direction that moved data. Raises NotUnderstood.

    Entries with the same name and group ran in parallel: they are threads of one measurement.
    """
    together: dict[tuple[str, int], list[Json]] = {}
    for job in document["jobs"]:
        if job["error"] != 0:
            raise NotUnderstood(f"job {job['jobname']} ended with error {job['error']}")
        together.setdefault((job["jobname"], job["groupid"]), []).append(job)
    rows = [
        _fio_row(document, jobs, operation, file)
        for jobs in together.values()
        for operation in ("write", "read")
        if any(job[operation]["total_ios"] > 0 for job in jobs)
    ]
    if not rows:
        raise NotUnderstood("no job moved anything")
    return rows


def _fio_row(document: Json, jobs: Sequence[Json], operation: Operation, file: str) -> ImportedRow:
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
        latency_ns=_fio_latency(moved),
        callers=_fio_callers(jobs, operation),
    )
    return _make_row(
        Source("fio", str(document["fio version"]), None, str(document["time"]), [file]),
        [repeat],
        id=f"fio/{name}/{operation}",
        interface=_FIO_INTERFACES.get(engine, engine),
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


def _fio_latency(moved: Sequence[Json]) -> Latencies | None:
    """Percentiles of several jobs cannot be combined."""
    found = moved[0]["clat_ns"]
    percentiles = found.get("percentile", {})
    wanted = {"p50": "50.000000", "p90": "90.000000", "p99": "99.000000"}
    if len(moved) > 1 or found["N"] == 0 or not percentiles.keys() >= set(wanted.values()):
        return None
    return Latencies(
        **{name: percentiles[key] for name, key in wanted.items()},
        max=found["max"],
        samples=found["N"],
        one_call_in=1,
        p99_9=percentiles.get("99.900000", UNSET),
    )


def _fio_callers(jobs: Sequence[Json], operation: Operation) -> ImportedCallers | None:
    """fio counts both directions of a job together."""
    other = "read" if operation == "write" else "write"
    if any(job[other]["total_ios"] > 0 for job in jobs):
        return None

    def cpu_ns(kind: str) -> int:
        return round(sum(job[kind] / 100 * job["job_runtime"] for job in jobs) * _NS_PER_MS)

    return ImportedCallers(
        user_cpu_ns=cpu_ns("usr_cpu"), system_cpu_ns=cpu_ns("sys_cpu"), context_switches=sum(job["ctx"] for job in jobs)
    )
