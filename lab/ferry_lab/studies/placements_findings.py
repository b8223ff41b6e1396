"""What the numbers of the study ``placements`` show: ratios, and the sentences they allow.

A *view* is one question, answered by one table: one metric of some rows, all with the device's
cache in one state. The rows' ids are ``head/series/size``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from ferry_lab.results import results
from ferry_lab.stats import judge
from ferry_lab.stats.comparing import make_comparison, speed_ratio, speed_ratio_of_rows, times_of
from ferry_lab.stats.crossings import (
    describe_curves,
    describe_finding,
    describe_findings,
    largest_noise,
    nothing_shown,
)

Json = dict[str, Any]


@dataclass(frozen=True)
class View:
    """One question: which rows, which time, and what to call it in a sentence."""

    head: str  # of the rows' ids
    metric: str  # of the rows, "..._mib_per_s" or "..._ns"
    time_ns: Callable[[Json], int]
    name: str
    warm: bool = False
    program: bool = False

    def series(self, way: str) -> str:
        """Returns the series' name in ids: ``compute`` is ``compute-warm`` in a warm view."""
        return f"{way}-warm" if self.warm and way in ("compute", "service", "automatic") else way

    def plain(self) -> str:
        """Returns what plain calls are called in this view."""
        if "read" in self.head:
            return "pread"
        return "pwrite + fsync" if "sync" in self.metric else "pwrite"


def _reads(head: str, name: str) -> tuple[View, View]:
    metric, time_ns = "bandwidth_mib_per_s", results.call_ns
    return (
        View(head, metric, time_ns, f"{name}, device cache cold"),
        View(head, metric, time_ns, f"{name}, device cache warm", warm=True),
    )


def _writes() -> tuple[View, View, View]:
    head, name = "write", "Writes"
    with_flush, with_sync = "bandwidth_with_flush_mib_per_s", "bandwidth_with_sync_mib_per_s"
    return (
        View(head, "bandwidth_mib_per_s", results.call_ns, f"{name}, the call alone"),
        View(head, with_flush, results.call_and_flush_ns, f"{name}, call + flush"),
        View(head, with_sync, results.call_and_sync_ns, f"{name}, call + fsync"),
    )


def _program(program: str) -> tuple[View, View, View]:
    read, write, loop = f"{program}-read", f"{program}-write", results.loop_ns
    name = f"Program {program}"
    return (
        View(read, "loop_ns", loop, f"{name}, read, device cache cold", program=True),
        View(read, "loop_ns", loop, f"{name}, read, device cache warm", warm=True, program=True),
        View(
            write,
            "loop_with_sync_ns",
            results.loop_and_sync_ns,
            f"{name}, write + fsync",
            program=True,
        ),
    )


READ_VIEWS = _reads("read", "Reads")
WRITE_VIEWS = _writes()
LARGE_READ_VIEWS = _reads("large-read", "Large reads")
PROGRAM_VIEWS = _program("iterative") + _program("once")
VIEWS = READ_VIEWS + WRITE_VIEWS + LARGE_READ_VIEWS + PROGRAM_VIEWS

WAYS = ("host", "compute", "service", "automatic")
# Whose curves are set beside each other.
_CURVES = (("compute", "host"), ("service", "compute"))
_CANDIDATES = ("host", "compute", "service")


def compare(rows: Sequence[Json]) -> list[Json]:
    """Sets the placements beside plain calls, each other, and ``automatic`` beside the best."""
    by_id = {row["id"]: row for row in rows}
    comparisons = []
    for view in VIEWS:
        sizes = dict.fromkeys(
            row["transfer_bytes"] for row in rows if row["id"].startswith(f"{view.head}/")
        )
        for size in sizes:
            comparisons += _compare_point(view, by_id, size)
    return comparisons


def _compare_point(view: View, by_id: dict[str, Json], size: int) -> list[Json]:
    def row(way: str) -> Json:
        return by_id[f"{view.head}/{view.series(way)}/{size}"]

    aa = speed_ratio_of_rows(row("plain"), row("again"), view.time_ns)
    pairs = [("placement_and_plain", way, "plain") for way in WAYS]
    pairs += [("two_placements", way, other) for way, other in _CURVES]
    points = []
    for question, way, other in pairs:
        if view.warm and (way, other) == ("host", "plain"):
            continue  # the same two rows as in the cold view
        points.append(_point(view, question, row(way), row(other), aa))
    times = {way: _times(view, row(way)) for way in _CANDIDATES}
    best = judge.pick_best(times)
    _, even = judge.odd_and_even(_times(view, row("automatic")))
    _, best_even = judge.odd_and_even(times[best])
    if even:
        of_even = {"ratio": speed_ratio(even, best_even), "pairs": len(even)}
        points.append(
            _point(view, "automatic_and_best", row("automatic"), row(best), aa, **of_even)
        )
    return points


def _times(view: View, row: Json) -> list[float]:
    return times_of(row, view.time_ns)


def _point(
    view: View,
    question: str,
    row: Json,
    baseline: Json,
    aa: judge.Bounds,
    **fields: Any,
) -> Json:
    state = _asked_state(view)
    return make_comparison(
        question, view.metric, view.time_ns, row, baseline, aa, device_cache=state, **fields
    )


def _asked_state(view: View) -> str | None:
    if "write" in view.head:
        return None
    return "warm" if view.warm else "cold"


def of_view(view: View, comparisons: Sequence[Json], size: int) -> list[Json]:
    """Returns every comparison of one view at one size."""
    return [
        point
        for point in comparisons
        if point["row"].startswith(f"{view.head}/")
        and point["metric"] == view.metric
        and point["device_cache"] == _asked_state(view)
        and point["transfer_bytes"] == size
    ]


def points_of(
    view: View, comparisons: Sequence[Json], question: str, way: str, other: str = ""
) -> list[Json]:
    """Returns the comparisons of one view between two ways, by size; ``other`` empty: any."""
    return [
        point
        for point in comparisons
        if point["question"] == question
        and point["metric"] == view.metric
        and point["device_cache"] == _asked_state(view)
        and point["row"].startswith(f"{view.head}/{view.series(way)}/")
        and (not other or point["baseline"].startswith(f"{view.head}/{view.series(other)}/"))
    ]


# What a sentence says of: question, way, other in ids, and what the other is called.
def _subjects(view: View) -> list[tuple[str, str, str, str]]:
    curves = [("two_placements", way, other, other) for way, other in _CURVES]
    plain = [("placement_and_plain", way, "plain", view.plain()) for way in ("compute", "host")]
    return [*curves, ("automatic_and_best", "automatic", "", "the best of the three"), *plain]


def conclude(view: View, comparisons: Sequence[Json]) -> list[str]:
    """Returns the sentences about one view, saying no more than its numbers show.

    Programs have one size, so that theirs is one sentence. What shows nothing shares one.
    """
    clauses, undecided, unclear = [], [], []
    for question, way, other, name in _subjects(view):
        points = points_of(view, comparisons, question, way, other)
        if not points:
            continue
        if nothing_shown(points):
            undecided.append(f"{way} and {name}")
            unclear += points
        elif view.program:
            clauses.append(describe_finding(way, name, points, "speed"))
        elif question == "automatic_and_best":
            clauses.append(describe_findings(way, name, points, "bandwidth"))
        else:
            clauses.append(describe_curves(way, name, points, "bandwidth"))
    if undecided:
        where = "" if view.program else " at any size"
        pairs = ", nor between ".join(undecided)
        clauses.append(f"no difference measured{where} between {pairs} ({largest_noise(unclear)})")
    if view.program:
        clauses = ["; ".join(clauses)] if clauses else []
    return [f"{view.name}: {clause}." for clause in clauses]
