"""The findings of a study as data, and all sentences about them.

A *point* is one comparison of the document (stats.comparing): its place on the axes
(``transfer_bytes``, ``total_bytes``, ``threads``), the ratio of two speeds with its bounds, the
noise, and the verdict (``finding``). A Finding holds the points of one pair along one axis;
Findings hold related ones. Studies make the data; the sentences are made here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from ferry.sizes import format_size

Json = dict[str, Any]

_DECIDED = ("faster", "slower")


@dataclass(frozen=True)
class Axis:
    """What the points of a finding differ in."""

    value: Callable[[Json], int]  # of a point
    label: Callable[[int], str] = format_size
    words: str = ""  # "with {} threads": values are listed in it; empty: sizes, named as ranges


TRANSFER = Axis(lambda point: int(point["transfer_bytes"]))
FILE = Axis(lambda point: int(point["total_bytes"]))
THREADS = Axis(lambda point: int(point["threads"]), str, "with {} threads")


@dataclass(frozen=True)
class Finding:
    """How one way compares with another."""

    subject: str
    baseline: str
    points: Sequence[Json]  # in any order; none: not measured
    axis: Axis | None = TRANSFER  # None: there is one point, and its place needs no words
    quantity: str = "bandwidth"  # "2.00 times the bandwidth of"
    crossover: bool = False  # say between which sizes the two cross, too

    def clause(self) -> str:
        """Returns what the points show, without a full stop."""
        names = (self.subject, self.baseline, self.points, self.quantity)
        if self.axis is None:
            return describe_finding(*names)
        if self.crossover:
            return describe_curves(*names)
        return describe_findings(*names, self.axis)

    def winners(self) -> str:
        """Says where which of the two is faster and by how much: what to use."""
        axis = self.axis or TRANSFER
        ordered = _by_size(self.points, axis)
        clauses = []
        for verdict, winner, loser in (
            ("faster", self.subject, self.baseline),
            ("slower", self.baseline, self.subject),
        ):
            ratios = [p["ratio_median"] for p in ordered if p["finding"] == verdict]
            if ratios:
                factors = ratios if verdict == "faster" else [1 / ratio for ratio in ratios]
                factor = range_of(min(factors), max(factors), 1)
                where = describe_ranges([p["finding"] == verdict for p in ordered], ordered, axis)
                clauses.append(f"{winner} has {factor} times the {self.quantity} of {loser}{where}")
        rest = {point["finding"] for point in ordered} - set(_DECIDED)
        if rest == {"within_5_percent"}:
            where = "elsewhere " if clauses else ""
            clauses.append(f"{where}{self.subject} and {self.baseline} are within 5 %")
        elif rest:
            where = "elsewhere" if clauses else f"between {self.subject} and {self.baseline}"
            clauses.append(f"no difference is measured {where}")
        return ", and ".join([", ".join(clauses[:-1]), clauses[-1]] if clauses[1:] else clauses)


@dataclass(frozen=True)
class Findings:
    """The findings about one thing, which is a heading above them."""

    about: str
    findings: Sequence[Finding]

    def clauses(self) -> list[str]:
        """Returns one clause each; all that show nothing share one, single points too."""
        measured = [one for one in self.findings if one.points]
        clauses = [one.clause() for one in measured if not nothing_shown(one.points)]
        unclear = [one for one in measured if nothing_shown(one.points)]
        if unclear:
            pairs = [
                f"{listed([one.subject for one in group], 'or')} and {baseline}"
                for baseline, group in groupby(unclear, lambda one: one.baseline)
            ]
            noise = largest_noise([point for one in unclear for point in one.points])
            axis = unclear[0].axis
            where = "" if axis is None or axis.words else " at any size"
            clauses.append(
                f"no difference measured{where} between {', nor between '.join(pairs)} ({noise})"
            )
        if clauses and all(one.axis is None for one in measured):
            return ["; ".join(clauses)]
        return clauses

    def sentences(self) -> list[str]:
        """Returns the same as sentences that stand alone, as in the document."""
        return [f"{self.about}: {clause}." for clause in self.clauses()]


@dataclass(frozen=True)
class Crossing:
    """From ``before`` at one size to the opposite finding at the next decided one."""

    last: Json
    first: Json


def find_crossings(points: Sequence[Json]) -> list[Crossing]:
    """Returns every crossover, by size; ``points`` in any order."""
    decided = [point for point in _by_size(points) if point["finding"] in _DECIDED]
    return [
        Crossing(last, first)
        for last, first in zip(decided, decided[1:], strict=False)
        if last["finding"] != first["finding"]
    ]


def describe_curves(way: str, other: str, points: Sequence[Json], quantity: str) -> str:
    """Says where the two cross, or that they do not, and the finding for each size."""
    clauses = "; ".join(_clauses(way, other, points, quantity, "measured"))
    crossings = find_crossings(points)
    if crossings:
        places = " and ".join(_between(crossing) for crossing in crossings)
        return f"{way} and {other} cross {places}: {clauses}"
    if any(point["finding"] in _DECIDED for point in points):
        return f"no crossing of {way} and {other} measured: {clauses}"
    return describe_findings(way, other, points, quantity)


def describe_findings(
    way: str, other: str, points: Sequence[Json], quantity: str, axis: Axis = TRANSFER
) -> str:
    """Returns one clause per finding, with its sizes."""
    measured = f"measured between {way} and {other}"
    return "; ".join(_clauses(way, other, points, quantity, measured, axis))


def _clauses(
    way: str, other: str, points: Sequence[Json], quantity: str, measured: str, axis: Axis = TRANSFER
) -> list[str]:
    """``measured`` ends "no difference measured" and need not repeat names."""
    ordered = _by_size(points, axis)
    clauses = []
    for finding in dict.fromkeys(point["finding"] for point in ordered):
        alike = [point for point in ordered if point["finding"] == finding]
        chosen = [point["finding"] == finding for point in ordered]
        where = describe_ranges(chosen, ordered, axis)
        if finding == "no_difference":
            where = where.replace("every", "any")
            clauses.append(f"no difference {measured}{where} ({largest_noise(alike)})")
        else:
            clauses.append(describe_finding(way, other, alike, quantity, where))
    return clauses


def describe_finding(
    way: str, other: str, points: Sequence[Json], quantity: str, where: str = ""
) -> str:
    """Says what ``points``, all of one finding, show; ``where`` names their sizes."""
    kind = points[0]["finding"]
    if kind == "within_5_percent":
        return f"{way} is within 5 % of {other}{where}"
    if kind == "no_difference":
        return f"no difference measured between {way} and {other}{where} ({largest_noise(points)})"
    low = min(point["ratio_median"] for point in points)
    high = max(point["ratio_median"] for point in points)
    factor = range_of(low, high)
    return f"{way} is {kind}{where}, {factor} times the {quantity} of {other}"


def nothing_shown(points: Sequence[Json]) -> bool:
    """Whether no difference was measured at any size."""
    return all(point["finding"] == "no_difference" for point in points)


def largest_noise(points: Sequence[Json]) -> str:
    """Returns "noise 12 %", or "noise up to 12 %" where it differs."""
    spreads = {format_noise(point["noise"]) for point in points}
    most = format_noise(max(point["noise"] for point in points))
    return f"noise {most}" if len(spreads) == 1 else f"noise up to {most}"


def format_noise(spread: float) -> str:
    """Returns percent; beyond 100 % the exact number is meaningless."""
    return f"{spread * 100:.0f} %" if spread <= 1 else "> 100 %"


def format_ratio(point: Json) -> str:
    """Returns the ratio with its bounds: "0.50 (0.48 to 0.52)"."""
    bounds = f"{point['ratio_low_95']:.2f} to {point['ratio_high_95']:.2f}"
    return f"{point['ratio_median']:.2f} ({bounds})"


def _by_size(points: Sequence[Json], axis: Axis = TRANSFER) -> list[Json]:
    return sorted(points, key=axis.value)


def _between(crossing: Crossing) -> str:
    last, first = (
        f"{format_size(point['transfer_bytes'])} "
        f"({range_of(point['ratio_low_95'], point['ratio_high_95'])})"
        for point in (crossing.last, crossing.first)
    )
    return f"between {last} and {first}"


def range_of(low: float, high: float, decimals: int = 2) -> str:
    """Returns "0.28 to 0.71", or one number if both look alike."""
    texts = [f"{value:.{decimals}f}" for value in (low, high)]
    return " to ".join(dict.fromkeys(texts))


def describe_ranges(
    chosen: Sequence[bool], points: Sequence[Json], axis: Axis = TRANSFER
) -> str:
    """Names the sizes that are chosen, neighbours as ranges: " at 4 KiB and from 64 KiB up"."""
    sizes = [axis.label(axis.value(point)) for point in points]
    if axis.words:
        named = [size for size, inside in zip(sizes, chosen, strict=True) if inside]
        words = f" {axis.words.format(listed(named))}"
        return words.removesuffix("s") if named == ["1"] else words
    if all(chosen):
        return " at every size"
    ranges = []
    for index, inside in enumerate(chosen):
        if not inside or (index > 0 and chosen[index - 1]):
            continue
        last = index
        while last + 1 < len(chosen) and chosen[last + 1]:
            last += 1
        if last == index:
            ranges.append(f"at {sizes[index]}")
        elif last == len(chosen) - 1:
            ranges.append(f"from {sizes[index]} up")
        else:
            ranges.append(f"from {sizes[index]} to {sizes[last]}")
    return f" {listed(ranges)}"


def listed(names: Sequence[str], last: str = "and") -> str:
    """Returns "a, b and c"."""
    return f" {last} ".join([", ".join(names[:-1]), names[-1]] if names[1:] else names)
