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

from ferry.sizes import format_size
from ferry_lab.results.records import Comparison

_DECIDED = ("faster", "slower")


@dataclass(frozen=True)
class Axis:
    """What the points of a finding differ in."""

    value: Callable[[Comparison], int]  # of a point
    label: Callable[[int], str] = format_size
    words: str = ""  # "with {} threads": values are listed in it; empty: sizes, named as ranges

    @classmethod
    def named(cls, name: str, label: Callable[[int], str], words: str) -> Axis:
        """Returns one of the axes of a study's rows, whose values are counts or sizes."""
        return cls(lambda point: int(point.axes[name]), label, words)


TRANSFER = Axis(lambda point: point.transfer_bytes)
FILE = Axis(lambda point: point.total_bytes)
THREADS = Axis(lambda point: point.threads, str, "with {} threads")


@dataclass(frozen=True)
class Finding:
    """How one way compares with another."""

    subject: str
    baseline: str
    points: Sequence[Comparison]  # in any order; none: not measured
    axis: Axis | None = TRANSFER  # None: there is one point, and its place needs no words
    quantity: str = "bandwidth"  # "2.00 times the bandwidth of"
    crossover: bool = False  # say between which sizes the two cross, too

    def clause(self) -> str:
        """Returns what the points show, without a full stop."""
        if self.axis is None:
            return self._verdict(self.points)
        if not self.crossover or not any(point.finding in _DECIDED for point in self.points):
            return self._verdicts()
        both, verdicts = f"{self.subject} and {self.baseline}", self._verdicts(named=True)
        crossings = " and ".join(
            f"between {self._bounds_at(last)} and {self._bounds_at(first)}" for last, first in self.crossings()
        )
        if crossings:
            return f"{both} cross {crossings}: {verdicts}"
        return f"no crossing of {both} measured: {verdicts}"

    def crossings(self) -> list[tuple[Comparison, Comparison]]:
        """Returns the decided points between which the faster one changes, in pairs."""
        decided = [point for point in self._ordered() if point.finding in _DECIDED]
        pairs = zip(decided, decided[1:], strict=False)
        return [(last, first) for last, first in pairs if last.finding != first.finding]

    def shows_nothing(self) -> bool:
        """Whether no difference was measured at any point."""
        return all(point.finding == "no_difference" for point in self.points)

    def winners(self) -> str:
        """Says where which of the two is faster and by how much: what to use."""
        clauses = []
        for verdict, winner, loser in (
            ("faster", self.subject, self.baseline),
            ("slower", self.baseline, self.subject),
        ):
            ratios = [p.ratio_median for p in self.points if p.finding == verdict]
            if ratios:
                factors = ratios if verdict == "faster" else [1 / ratio for ratio in ratios]
                times = f"{range_of(min(factors), max(factors), 1)} times the {self.quantity}"
                clauses.append(f"{winner} has {times} of {loser}{self._where(verdict)}")
        rest = {point.finding for point in self.points} - set(_DECIDED)
        if rest == {"within_5_percent"}:
            where = "elsewhere " if clauses else ""
            clauses.append(f"{where}{self.subject} and {self.baseline} are within 5 %")
        elif rest:
            where = "elsewhere" if clauses else f"between {self.subject} and {self.baseline}"
            clauses.append(f"no difference is measured {where}")
        return ", and ".join([", ".join(clauses[:-1]), clauses[-1]] if clauses[1:] else clauses)

    def _verdicts(self, named: bool = False) -> str:
        """Returns a clause for each verdict, with its places; ``named``: see _verdict."""
        verdicts = dict.fromkeys(point.finding for point in self._ordered())
        return "; ".join(
            self._verdict([p for p in self.points if p.finding == v], self._where(v), named) for v in verdicts
        )

    def _verdict(self, points: Sequence[Comparison], where: str = "", named: bool = False) -> str:
        """Says what points with one verdict show; ``named``: what is compared was said before."""
        verdict = points[0].finding
        if verdict == "no_difference":
            between = "" if named else f" between {self.subject} and {self.baseline}"
            where = where.replace("every", "any")
            return f"no difference measured{between}{where} ({largest_noise(points)})"
        if verdict == "within_5_percent":
            return f"{self.subject} is within 5 % of {self.baseline}{where}"
        ratios = [point.ratio_median for point in points]
        times = f"{range_of(min(ratios), max(ratios))} times the {self.quantity}"
        return f"{self.subject} is {verdict}{where}, {times} of {self.baseline}"

    def _where(self, verdict: str) -> str:
        """Names the places with that verdict, sizes as ranges: " at 4 KiB and from 64 KiB up"."""
        axis, points = self.axis or TRANSFER, self._ordered()
        names = [axis.label(axis.value(point)) for point in points]
        chosen = [point.finding == verdict for point in points]
        if axis.words:
            named = [name for name, inside in zip(names, chosen, strict=True) if inside]
            words = f" {axis.words.format(listed(named))}"
            return words.removesuffix("s") if named == ["1"] else words
        if all(chosen):
            return " at every size"
        ranges = []
        for inside, run in groupby(range(len(chosen)), chosen.__getitem__):
            indexes = list(run)
            first, last = indexes[0], indexes[-1]
            if inside and first == last:
                ranges.append(f"at {names[first]}")
            elif inside and last == len(chosen) - 1:
                ranges.append(f"from {names[first]} up")
            elif inside:
                ranges.append(f"from {names[first]} to {names[last]}")
        return f" {listed(ranges)}"

    def _bounds_at(self, point: Comparison) -> str:
        axis = self.axis or TRANSFER
        bounds = range_of(point.ratio_low_95, point.ratio_high_95)
        return f"{axis.label(axis.value(point))} ({bounds})"

    def _ordered(self) -> list[Comparison]:
        return sorted(self.points, key=(self.axis or TRANSFER).value)


@dataclass(frozen=True)
class Findings:
    """The findings about one thing, which is a heading above them."""

    about: str
    findings: Sequence[Finding]

    def clauses(self) -> list[str]:
        """Returns one clause each; all that show nothing share one, single points too."""
        measured = [one for one in self.findings if one.points]
        clauses = [one.clause() for one in measured if not one.shows_nothing()]
        unclear = [one for one in measured if one.shows_nothing()]
        if unclear:
            pairs = [
                f"{listed([one.subject for one in group], 'or')} and {baseline}"
                for baseline, group in groupby(unclear, lambda one: one.baseline)
            ]
            noise = largest_noise([point for one in unclear for point in one.points])
            axis = unclear[0].axis
            where = "" if axis is None or axis.words else " at any size"
            clauses.append(f"no difference measured{where} between {', nor between '.join(pairs)} ({noise})")
        if clauses and all(one.axis is None for one in measured):
            return ["; ".join(clauses)]
        return clauses

    def sentences(self) -> list[str]:
        """Returns the same as sentences that stand alone, as in the document."""
        return [f"{self.about}: {clause}." for clause in self.clauses()]


def largest_noise(points: Sequence[Comparison]) -> str:
    """Returns "noise 12 %", or "noise up to 12 %" where it differs."""
    spreads = {format_noise(point.noise) for point in points}
    most = format_noise(max(point.noise for point in points))
    return f"noise {most}" if len(spreads) == 1 else f"noise up to {most}"


def format_noise(spread: float) -> str:
    """Returns percent; beyond 100 % the exact number is meaningless."""
    return f"{spread * 100:.0f} %" if spread <= 1 else "> 100 %"


def format_ratio(point: Comparison) -> str:
    """Returns the ratio with its bounds: "0.50 (0.48 to 0.52)"."""
    bounds = f"{point.ratio_low_95:.2f} to {point.ratio_high_95:.2f}"
    return f"{point.ratio_median:.2f} ({bounds})"


def range_of(low: float, high: float, decimals: int = 2) -> str:
    """Returns "0.28 to 0.71", or one number if both look alike."""
    texts = [f"{value:.{decimals}f}" for value in (low, high)]
    return " to ".join(dict.fromkeys(texts))


def listed(names: Sequence[str], last: str = "and") -> str:
    """Returns "a, b and c"."""
    return f" {last} ".join([", ".join(names[:-1]), names[-1]] if names[1:] else names)
