"""The findings of the study ``storages``: ratios, and sentences about them.

Rows' ids are ``operation/storage/threads/size``; see studies.storages_cells. A *test* is one of the
paper's four: some rows, and one of their times.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ferry.sizes import MIB
from ferry_lab.render.findings import largest_noise, listed, range_of
from ferry_lab.results import results
from ferry_lab.stats.comparing import TimeOf, make_comparison, speed_ratio_of_rows
from ferry_lab.studies.storages_cells import FILE_BYTES

Json = dict[str, Any]

THREADS, STORAGES = "threads_and_one", "storage_and_disk"


def _per_mib(time_ns: TimeOf) -> TimeOf:
    """The time for one MiB: more threads move more."""
    return lambda sample: time_ns(sample) * MIB / sample["bytes"]


@dataclass(frozen=True)
class Test:
    """One of the paper's tests."""

    name: str
    operation: str  # the beginning of the rows' ids
    metric: str
    time_ns: TimeOf

    def operation_on(self, rows: dict[str, Json], storage: str) -> str:
        """Returns the operation whose rows stand for it: in memory a re-read is as cold as any."""
        there = f"{self.operation}/{storage}/1/{FILE_BYTES}" in rows
        return self.operation if there else "reread"


TESTS = (
    Test(
        "write+sync",
        "write",
        "bandwidth_with_sync_mib_per_s",
        _per_mib(results.durable_ns),
    ),
    Test("write", "write", "bandwidth_mib_per_s", _per_mib(results.call_ns)),
    Test("cold read", "cold", "bandwidth_mib_per_s", _per_mib(results.call_ns)),
    Test("re-read", "reread", "bandwidth_mib_per_s", _per_mib(results.call_ns)),
)


def storages_of(rows: Sequence[Json]) -> list[str]:
    """Returns the storages' names, that of --dir first."""
    names = dict.fromkeys(row["id"].split("/")[1] for row in rows)
    return [name for name in names if name != "raw"]


def compare(rows: Sequence[Json]) -> list[Json]:
    """Sets many threads beside one, and each storage beside that of --dir, by one thread."""
    by_id = {row["id"]: row for row in rows}
    names = storages_of(rows)
    comparisons = []
    for test in TESTS:
        for name in names:
            head = f"{test.operation}/{name}"
            one = by_id.get(f"{head}/1/{FILE_BYTES}")
            if one is None:
                continue
            again = by_id[f"{head}/again/{FILE_BYTES}"]
            aa = speed_ratio_of_rows(one, again, test.time_ns)
            pairs = [
                (THREADS, row, one)
                for row in rows
                if row["group"] == "threads"
                and row["id"].startswith(f"{head}/")
                and row["threads"] > 1
            ]
            first = by_id.get(f"{test.operation}/{names[0]}/1/{FILE_BYTES}")
            if name != names[0] and first is not None:
                pairs.append((STORAGES, one, first))
            comparisons += [
                make_comparison(question, test.metric, test.time_ns, row, baseline, aa)
                for question, row, baseline in pairs
            ]
    return comparisons


def points_of(comparisons: Sequence[Json], question: str, test: Test, storage: str) -> list[Json]:
    """Returns the comparisons of one test on one storage, by threads."""
    points = [
        point
        for point in comparisons
        if point["question"] == question
        and point["metric"] == test.metric
        and point["row"].startswith(f"{test.operation}/{storage}/")
    ]
    return sorted(points, key=lambda point: int(point["threads"]))


def best_threads(rows: dict[str, Json], test: Test, storage: str, threads: Sequence[int]) -> Json:
    """Returns the row of the thread count above one with the highest median."""
    operation = test.operation_on(rows, storage)
    counts = [count for count in threads if count > 1]
    found = [rows[f"{operation}/{storage}/{count}/{FILE_BYTES}"] for count in counts]
    return max(found, key=lambda row: float(row["metrics"][test.metric]["median"]))


def scaling(comparisons: Sequence[Json], test: Test, storage: str) -> str:
    """Says what more threads bring: the largest gain that was measured."""
    points = points_of(comparisons, THREADS, test, storage)
    faster = [point for point in points if point["finding"] == "faster"]
    if faster:
        best = max(faster, key=lambda point: float(point["ratio_median"]))
        return f"{best['ratio_median']:.2f}× with {best['threads']}"
    slower = [point for point in points if point["finding"] == "slower"]
    if slower and len(slower) == len(points):
        return "slower with any"
    return "none measured"


def conclude(comparisons: Sequence[Json], rows: Sequence[Json]) -> list[str]:
    """Returns all sentences."""
    names = storages_of(rows)
    sentences = []
    for test in TESTS:
        sentences += conclude_threads(test, comparisons, names)
        sentences += conclude_storages(test, comparisons, names)
    return sentences


def conclude_threads(test: Test, comparisons: Sequence[Json], names: Sequence[str]) -> list[str]:
    """Returns what more threads bring, a sentence for each storage."""
    sentences = []
    for name in names:
        points = points_of(comparisons, THREADS, test, name)
        if points:
            clauses = _thread_clauses(points)
            sentences.append(f"{_capital(test.name)}, {name}: {'; '.join(clauses)}.")
    return sentences


def _thread_clauses(points: Sequence[Json]) -> list[str]:
    clauses = []
    for finding in dict.fromkeys(point["finding"] for point in points):
        alike = [point for point in points if point["finding"] == finding]
        counts = listed([str(point["threads"]) for point in alike], "or")
        ratios = [point["ratio_median"] for point in alike]
        factor = range_of(min(ratios), max(ratios))
        texts = {
            "faster": f"{counts} threads are faster than one, {factor} times its bandwidth",
            "slower": f"{counts} threads together are slower than one, {factor} times its "
            "bandwidth",
            "within_5_percent": f"{counts} threads are within 5 % of one",
            "no_difference": f"no difference measured between {counts} threads and one "
            f"({largest_noise(alike)})",
        }
        clauses.append(texts[finding])
    return clauses


def conclude_storages(test: Test, comparisons: Sequence[Json], names: Sequence[str]) -> list[str]:
    """Returns how each storage compares with that of --dir, by one thread."""
    first, *others = names
    unclear, undecided, sentences = [], [], []
    for name in others:
        for point in points_of(comparisons, STORAGES, test, name):
            if point["finding"] == "no_difference":
                unclear.append(point)
                undecided.append(name)
                continue
            factor = f"{point['ratio_median']:.2g} times the bandwidth of {first}"
            found = f"{name} is {point['finding']}, {factor}"
            if point["finding"] == "within_5_percent":
                found = f"{name} is within 5 % of {first}"
            sentences.append(f"{_capital(test.name)}, one thread: {found}.")
    if undecided:
        sentences.append(
            f"{_capital(test.name)}, one thread: no difference measured between {first} and "
            f"{listed(undecided, 'or')} ({largest_noise(unclear)})."
        )
    return sentences


def _capital(text: str) -> str:
    return text[0].upper() + text[1:]
