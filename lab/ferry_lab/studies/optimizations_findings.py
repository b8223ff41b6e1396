"""The findings of the study ``optimizations``: ratios, and sentences about them.

Rows' ids are ``operation/way/size``; see studies.optimizations_cells.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from ferry_lab.render.findings import FILE, describe_findings, largest_noise, listed, nothing_shown
from ferry_lab.results import results
from ferry_lab.stats.comparing import TimeOf, make_comparison, speed_ratio_of_rows
from ferry_lab.studies.optimizations_cells import KERNEL_KINDS, OPERATIONS, PLAIN, SWITCHES

Json = dict[str, Any]

SETTING, KERNEL = "optimization_and_none", "cache_and_kernel"
ALIGNMENT, SMALL = "unaligned_and_aligned", "many_files_and_one"
NAMES = {"write": "Write", "rewrite": "Re-write", "read": "Read", "reread": "Re-read"}
# What ways are called in tables and plots, and what in sentences.
LABELS = {
    **SWITCHES,
    "off": "all off",
    "all": "all on",
    PLAIN: "plain calls",
    **{kind: kind for kind in KERNEL_KINDS},
}
_IN_SENTENCES = {**LABELS, **{kind: f"the kernel's {kind}" for kind in KERNEL_KINDS}}


def elapsed_ns(sample: Json) -> int:
    """Returns the time from the first open to the last close."""
    return int(sample["elapsed_ns"])


def compare(rows: Sequence[Json]) -> list[Json]:
    """Sets rows beside each other, one entry for each question and point."""
    by_id = {row["id"]: row for row in rows}
    comparisons = []
    for row in rows:
        operation, way, size = row["id"].split("/")
        for question, baseline, one, other in _baselines(operation, way):
            ids = [f"{name}/{size}" for name in (baseline, one, other)]
            if not all(name in by_id for name in ids):
                continue
            metric, time_ns = _metric(question)
            aa = speed_ratio_of_rows(by_id[ids[1]], by_id[ids[2]], time_ns)
            comparisons.append(
                make_comparison(question, metric, time_ns, row, by_id[ids[0]], aa)
            )
    return comparisons


def _metric(question: str) -> tuple[str, TimeOf]:
    if question == SMALL:
        return "elapsed_ns", elapsed_ns
    return "bandwidth_mib_per_s", results.call_ns


def _baselines(operation: str, way: str) -> Iterable[tuple[str, str, str, str]]:
    """Gives question, the row beside which a row is set, and two equal ones for the noise."""
    noise = f"{operation}/off", f"{operation}/again"
    if way in (*SWITCHES, "all"):
        yield SETTING, f"{operation}/off", *noise
    if way == "all":
        # The kernel's reads are its re-reads.
        of_kernel = "read" if operation == "reread" else operation
        for kind in KERNEL_KINDS:
            yield KERNEL, f"{of_kernel}/{kind}", *noise
    setting, _, kind = way.partition("-")
    if kind == "unaligned":
        aligned = f"{operation}/{setting}-aligned"
        yield ALIGNMENT, aligned, aligned, f"{operation}/{setting}-again"
    if kind == "many":
        one = f"{operation}/{setting}-one"
        for baseline in (one, f"{operation}/{setting}-records"):
            yield SMALL, baseline, one, f"{operation}/{setting}-again"


def points_of(
    comparisons: Sequence[Json], question: str, operation: str, way: str, other: str = ""
) -> list[Json]:
    """Returns the comparisons of a way with another (empty: any), by file size."""
    points = [
        point
        for point in comparisons
        if point["question"] == question
        and point["row"].startswith(f"{operation}/{way}/")
        and (not other or point["baseline"].split("/")[1] == other)
    ]
    return sorted(points, key=lambda point: int(point["total_bytes"]))


def conclude(comparisons: Sequence[Json]) -> list[str]:
    """Returns all sentences, by table."""
    sentences = [s for operation in OPERATIONS for s in conclude_operation(operation, comparisons)]
    return [*sentences, *conclude_alignment(comparisons), *conclude_small_files(comparisons)]


def conclude_operation(operation: str, comparisons: Sequence[Json]) -> list[str]:
    """Returns what holds of one operation."""
    return [*conclude_settings(operation, comparisons), *conclude_kernel(operation, comparisons)]


def conclude_settings(operation: str, comparisons: Sequence[Json]) -> list[str]:
    """Returns what the optimisations are worth; those that show nothing share a sentence."""
    clauses, undecided, unclear = [], [], []
    for way in ("all", *SWITCHES):
        points = points_of(comparisons, SETTING, operation, way)
        if not points:
            continue
        label = LABELS[way] if way == "all" else f"{LABELS[way]} alone"
        if nothing_shown(points):
            undecided.append(label)
            unclear += points
        else:
            clauses.append(describe_findings(label, "all off", points, "bandwidth", FILE))
    if undecided:
        noise = largest_noise(unclear)
        clauses.append(
            f"no difference from all off measured at any size with {listed(undecided)} ({noise})"
        )
    return [f"{NAMES[operation]}: {clause}." for clause in clauses]


def conclude_kernel(operation: str, comparisons: Sequence[Json]) -> list[str]:
    """Returns how the cache compares with the kernel's file systems in memory."""
    clauses = []
    for kind in KERNEL_KINDS:
        points = points_of(comparisons, KERNEL, operation, "all", kind)
        if points:
            other = _IN_SENTENCES[kind]
            cache = "the cache, all on,"
            clauses.append(describe_findings(cache, other, points, "bandwidth", FILE))
    return [f"{NAMES[operation]}: {clause}." for clause in clauses]


def conclude_alignment(comparisons: Sequence[Json]) -> list[str]:
    """Returns what unaligned buffers cost."""
    subject, other = "an unaligned buffer", "an aligned one"
    operations = ("rewrite", "reread")
    return _of_ways(comparisons, ALIGNMENT, operations, "unaligned", subject, other)


def conclude_small_files(comparisons: Sequence[Json]) -> list[str]:
    """Returns what many small files cost beside a large one, by records."""
    subject, other = "many small files", "one large file by records"
    return _of_ways(comparisons, SMALL, ("write", "read"), "many", subject, other, "records")


def _of_ways(
    comparisons: Sequence[Json],
    question: str,
    operations: Sequence[str],
    shape: str,
    subject: str,
    other: str,
    baseline: str = "",
) -> list[str]:
    sentences = []
    for operation in operations:
        unclear, ways = [], []
        for setting in ("all", "off", PLAIN, *KERNEL_KINDS):
            against = f"{setting}-{baseline}" if baseline else ""
            points = points_of(comparisons, question, operation, f"{setting}-{shape}", against)
            for point in points:
                if point["finding"] == "no_difference":
                    unclear.append(point)
                    ways.append(_IN_SENTENCES[setting])
                else:
                    what = describe_one(subject, other, point)
                    sentences.append(f"{NAMES[operation]}, {_IN_SENTENCES[setting]}: {what}.")
        if unclear:
            noise = largest_noise(unclear)
            sentences.append(
                f"{NAMES[operation]}, {listed(ways)}: no difference measured between {subject} and "
                f"{other} ({noise})."
            )
    return sentences


def describe_one(way: str, other: str, point: Json) -> str:
    """Says what a comparison shows that decides something."""
    verb = "are" if way.startswith("many") else "is"
    if point["finding"] == "within_5_percent":
        return f"{way} {verb} within 5 % of {other}"
    factor = f"{point['ratio_median']:.2g} times the bandwidth of {other}"
    return f"{way} {verb} {point['finding']}, {factor}"
