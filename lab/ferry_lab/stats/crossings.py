"""Crossovers: the sizes at which one choice stops being the faster one.

Works on comparisons (see stats.comparing): speed ratios by transfer size, or by file size where
``axis`` says so, each with its finding. A crossover is between two sizes with opposite findings;
sizes without a measured difference may be in between.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ferry.sizes import format_size

Json = dict[str, Any]

TRANSFER, FILE = "transfer_bytes", "total_bytes"  # axes: the field that holds a point's size

_DECIDED = ("faster", "slower")


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
    way: str, other: str, points: Sequence[Json], quantity: str, axis: str = TRANSFER
) -> str:
    """Returns one clause per finding, with its sizes."""
    measured = f"measured between {way} and {other}"
    return "; ".join(_clauses(way, other, points, quantity, measured, axis))


def _clauses(
    way: str, other: str, points: Sequence[Json], quantity: str, measured: str, axis: str = TRANSFER
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


def _by_size(points: Sequence[Json], axis: str = TRANSFER) -> list[Json]:
    return sorted(points, key=lambda point: point[axis])


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
    chosen: Sequence[bool], points: Sequence[Json], axis: str = TRANSFER
) -> str:
    """Names the chosen sizes, neighbours as ranges: " at 4 KiB and from 64 KiB up"."""
    if all(chosen):
        return " at every size"
    sizes = [format_size(point[axis]) for point in points]
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
