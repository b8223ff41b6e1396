"""Imports the output of IOR ``-O summaryFormat=JSON``."""

from __future__ import annotations

from typing import Any

from ferry.sizes import MIB
from ferry_lab.importers.imported import NotUnderstood, make_row, to_ns
from ferry_lab.results.records import ImportedRepeat, ImportedRow, Operation, Source

Json = dict[str, Any]

_INTERFACES = {"POSIX": "posix", "MMAP": "mmap"}


def read_rows(document: Json, file: str) -> list[ImportedRow]:
    """Returns one row per test and operation. Raises NotUnderstood."""
    rows = []
    for test in document["tests"]:
        if not test["Results"]:
            raise NotUnderstood("the test has no results")
        for operation in ("write", "read"):
            found = [r for r in test["Results"] if r["access"] == operation]
            if found:
                rows.append(_row(document, test, operation, found, file))
    return rows


def _row(document: Json, test: Json, operation: Operation, found: list[Json], file: str) -> ImportedRow:
    asked = test["Parameters"]
    command = str(document["Command line"])
    threads = int(test["Options"]["tasks"])
    transfer_bytes, segments = int(asked["transferSize"]), int(asked["segmentCount"])
    total_bytes = int(asked["blockSize"]) * segments * threads
    return make_row(
        Source("ior", str(document["Version"]), command, str(test["StartTime"]), [file]),
        [_repeat(n, one, transfer_bytes, total_bytes) for n, one in enumerate(found)],
        id=f"ior/{test['TestID']}/{operation}",
        interface=_INTERFACES.get(asked["api"], str(asked["api"])),
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


def _repeat(number: int, found: Json, transfer_bytes: int, total_bytes: int) -> ImportedRepeat:
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
        elapsed_ns=to_ns(moved_bytes / MIB / found["bwMiB"]),
        bytes=moved_bytes,
        operations=operations,
        open_ns=to_ns(found["openTime"]),
        io_ns=to_ns(operations / found["iops"]),
        close_ns=to_ns(found["closeTime"]),
        latency_ns=None,
        callers=None,
    )
