"""How a ratio is judged: pairs, medians, bootstrap bounds, and the noise of the machine.

The rule, from the design page: at least 20 pairs in the order A B B A; the target is reached when
the 95 % bootstrap bound of the median ratio reaches it; an A/A run of the same length is made as
well, and if its spread is wider than the margin the answer is "too noisy", neither pass nor fail.
Not so where the bound lies further from the target than that spread: twice as fast is twice as fast
on a machine that wavers by a fifth.
For ``automatic`` the best placement is picked on the odd pairs and judged on the even ones.

Ratios are plain numbers without a unit. Everything here is deterministic: the bootstrap's random
numbers have a fixed seed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from ferry_lab.stats.limits import FINDING_PAIRS_MIN as FINDING_PAIRS_MIN
from ferry_lab.stats.limits import PAIRS_MIN as PAIRS_MIN

CONFIDENCE = 0.95
RESAMPLES = 4000
_SEED = 20120629

Verdict = Literal["reached", "missed", "too noisy"]
Direction = Literal["at least", "at most"]


@dataclass(frozen=True)
class Bounds:
    """The median of a sample, and the 95 % bootstrap bounds of that median."""

    median: float
    low: float
    high: float


@dataclass(frozen=True)
class Judgement:
    """What became of a target, and the numbers that decided it."""

    verdict: Verdict
    ratio: Bounds
    aa: Bounds
    aa_spread: float  # see spread()
    margin: float
    target: float
    direction: Direction
    pairs: int

    def sentence(self) -> str:
        """Returns the judgement in one line."""
        text = (
            f"{self.verdict}: {self.ratio.median:.3f} ({self.ratio.low:.3f} to "
            f"{self.ratio.high:.3f}), wanted {self.direction} {self.target:g}; {self.pairs} pairs"
        )
        if self.verdict == "too noisy":
            text += f"; A/A spread {self.aa_spread:.3f} is wider than the margin {self.margin:.3f}"
        return text


def pair_ratios(measured: Sequence[float], baseline: Sequence[float]) -> np.ndarray:
    """Returns measured[i] / baseline[i], the ratios of neighbours in the order A B B A.

    Raises ValueError where the two are not of one length, are empty, or hold a value that is not
    above zero.
    """
    above, below = np.asarray(measured, float), np.asarray(baseline, float)
    if above.shape != below.shape or above.ndim != 1 or above.size == 0:
        raise ValueError("pairs need two lists of one length")
    if not (np.all(above > 0) and np.all(below > 0)):
        raise ValueError("pairs need values above zero")
    return above / below


def median_bounds(values: Sequence[float], confidence: float = CONFIDENCE) -> Bounds:
    """Returns the median and its bootstrap percentile bounds (two-sided, ``confidence`` between).

    One value is its own bounds. Raises ValueError where there are none.
    """
    sample = np.asarray(values, float)
    if sample.size == 0:
        raise ValueError("a median needs values")
    generator = np.random.default_rng(_SEED)
    chosen = generator.integers(0, sample.size, size=(RESAMPLES, sample.size))
    medians = np.median(sample[chosen], axis=1)
    tail = (1 - confidence) / 2
    low, high = np.quantile(medians, [tail, 1 - tail])
    return Bounds(float(np.median(sample)), float(low), float(high))


def spread(aa: Bounds) -> float:
    """Returns the noise that an A/A run shows: the width of its bounds, drawn out to include 1."""
    return max(aa.high, 1.0) - min(aa.low, 1.0)


def neighbour_ratios(times: Sequence[float]) -> np.ndarray:
    """Returns the ratios of one series to itself: each odd repeat over the even one after it.

    An A/A run of half the length for nothing: it shows what disturbs this series and not another,
    like a second thread that has to wait for its CPU. One repeat is 1. Raises ValueError for none.
    """
    first, second = odd_and_even(times)
    if not second:
        return pair_ratios(first, first)
    return pair_ratios(first[: len(second)], second)


def judge(
    ratios: Sequence[float],
    aa_ratios: Sequence[float],
    target: float,
    direction: Direction = "at least",
    margin: float | None = None,
) -> Judgement:
    """Judges a target.

    ``ratios`` are those of the pairs (see pair_ratios), ``aa_ratios`` those of an A/A run of the
    same length. ``direction`` "at least" wants the lower bound at or above ``target``, "at most"
    wants the upper bound at or below it. ``margin`` is how much noise the question bears; by
    default the distance of the target from 1, so that "within 5 %" bears 5 %.

    Raises ValueError for fewer than 20 pairs, an A/A run of another length, and a target of 1
    without a margin.
    """
    if len(ratios) < PAIRS_MIN:
        raise ValueError(f"{len(ratios)} pairs; at least {PAIRS_MIN} are needed")
    if len(aa_ratios) != len(ratios):
        raise ValueError("the A/A run must have as many pairs")
    if margin is None:
        margin = abs(1 - target)
    if margin <= 0:
        raise ValueError("a target of 1 needs a margin")
    ratio, aa = median_bounds(ratios), median_bounds(aa_ratios)
    reached = ratio.low >= target if direction == "at least" else ratio.high <= target
    verdict: Verdict = "reached" if reached else "missed"
    # How far the bounds lie from the target, as a share of it; below 0 where it lies between them.
    distance = max(ratio.low / target, target / ratio.high) - 1
    if spread(aa) > max(margin, distance):
        verdict = "too noisy"
    return Judgement(verdict, ratio, aa, spread(aa), margin, target, direction, len(ratios))


def odd_and_even(values: Sequence[float]) -> tuple[list[float], list[float]]:
    """Returns the values of the odd pairs (the first, third, ...) and of the even ones."""
    return list(values[0::2]), list(values[1::2])


def pick_best(times: Mapping[str, Sequence[float]]) -> str:
    """Returns the name whose median time is shortest on the odd pairs.

    For ``automatic``: judge it against this one on the even pairs only, so that luck in picking
    does not count. Raises ValueError where there is nothing to pick from.
    """
    if not times:
        raise ValueError("nothing to pick from")
    return min(times, key=lambda name: float(np.median(odd_and_even(times[name])[0])))


Finding = Literal["within_5_percent", "slower", "faster", "no_difference"]
CLOSE = 0.05


def finding(ratio: Bounds, noise: float, pairs: int) -> Finding:
    """Says what a ratio of bandwidths shows, given the noise; a difference must exceed it.

    ``pairs`` is how many the ratio is of; fewer than FINDING_PAIRS_MIN show nothing.

    ``within_5_percent`` needs bounds within 5 % of 1 and noise that is no wider. Which of the two
    is the baseline changes nothing: a tenth of the speed is as clear as ten times.
    """
    if pairs < FINDING_PAIRS_MIN:
        return "no_difference"
    if ratio.low >= 1 - CLOSE and ratio.high <= 1 + CLOSE and noise <= CLOSE:
        return "within_5_percent"
    if ratio.high < 1 and 1 / ratio.median - 1 > noise:
        return "slower"
    if ratio.low > 1 and ratio.median - 1 > noise:
        return "faster"
    return "no_difference"
