"""Imports the output of IOR ``-O summaryFormat=JSON``."""

from __future__ import annotations

from typing import Any

from ferry.sizes import MIB
from ferry_lab.importers.imported import Imported, NotUnderstood, make_row, to_ns

Json = dict[str, Any]

_INTERFACES = {"POSIX": "posix", "MMAP": "mmap"}


def read_rows(document: Json, file: str) -> list[Json]:
    """Returns one row per test and operation. Raises NotUnderstood."""
    rows = []
    for test in document["tests"]:
        if not test["Results"]:
            raise NotUnderstood("the test has no results")
        for operation in ("write", "read"):
            repeats = [r for r in test["Results"] if r["access"] == operation]
            if repeats:
                rows.append(_row(document, test, operation, repeats, file))
    return rows


def _row(document: Json, test: Json, operation: str, repeats: list[Json], file: str) -> Json:
    asked = test["Parameters"]
    command = str(document["Command line"])
    threads = int(test["Options"]["tasks"])
    block_bytes, segments = int(asked["blockSize"]), int(asked["segmentCount"])
    facts = Imported(
        id=f"ior/{test['TestID']}/{operation}",
        tool="ior",
        version=str(document["Version"]),
        command=command,
        started=str(test["StartTime"]),
        file=file,
        interface=_INTERFACES.get(asked["api"], str(asked["api"])),
        operation=operation,
        pattern="random" if asked["randomOffset"] else "sequential",
        path=str(asked["testFileName"]),
        transfer_bytes=int(asked["transferSize"]),
        total_bytes=block_bytes * segments * threads,
        threads=threads,
        queue_depth=1,
        segments=segments,
        file_per_thread=bool(asked["filePerProc"]),
        direct="odirect" in command,
        sync=bool(asked["fsync"]) and operation == "write",
        verified=bool(asked["checkWrite" if operation == "write" else "checkRead"]),
    )
    samples = [_repeat(facts, number, found) for number, found in enumerate(repeats)]
    return make_row(facts, samples)


def _repeat(facts: Imported, number: int, found: Json) -> Json:
    """IOR rounds times to 0.1 ms; its rates are more precise, so times are computed from them."""
    if found["bwMiB"] <= 0 or found["iops"] <= 0:
        raise NotUnderstood("a repeat moved nothing")
    elapsed_s = float(found["totalTime"])
    # With a deadline it moved less, and both rates are for that.
    moved_bytes = facts.total_bytes
    whole_s = facts.total_bytes / MIB / found["bwMiB"]
    if whole_s > elapsed_s + 0.001:
        moved_bytes = round(found["bwMiB"] * MIB * elapsed_s / facts.transfer_bytes)
        moved_bytes = max(moved_bytes, 1) * facts.transfer_bytes
    operations = moved_bytes // facts.transfer_bytes
    return {
        "repeat": number,
        "elapsed_ns": to_ns(moved_bytes / MIB / found["bwMiB"]),
        "bytes": moved_bytes,
        "operations": operations,
        "open_ns": to_ns(found["openTime"]),
        "io_ns": to_ns(operations / found["iops"]),
        "close_ns": to_ns(found["closeTime"]),
        "latency_ns": None,
        "callers": None,
    }
