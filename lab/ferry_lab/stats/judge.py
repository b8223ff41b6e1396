"""How a ratio is judged: pairs, medians, bootstrap bounds, and the noise of the machine.

The rule, from the design page: at least 20 pairs in the order A B B A. A target is reached when the
95 % bootstrap bound of the median ratio reaches it. An equally long A/A run measures the noise: if
its spread is wider than the margin, the verdict is "too noisy", unless the bound is further from
the target than that spread. For ``automatic``, the odd pairs select the best placement and the even
ones judge it.

Ratios have no unit. Results are deterministic: the bootstrap's seed is fixed.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from ferry_lab.stats.limits import FINDING_PAIRS_MIN as FINDING_PAIRS_MIN
from ferry_lab.stats.limits import PAIRS_MIN as PAIRS_MIN

CONFIDENCE = 0.95
RESAMPLES = 4000
_SEED = 20120629
_KEPT_SIZE_MAX = 100

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
    """The verdict on a target, and the numbers behind it."""

    verdict: Verdict
    ratio: Bounds
    aa: Bounds
    aa_spread: float  # see spread()
    margin: float
    target: float
    direction: Direction
    pairs: int

    def sentence(self) -> str:
        text = (
            f"{self.verdict}: {self.ratio.median:.3f} ({self.ratio.low:.3f} to "
            f"{self.ratio.high:.3f}), wanted {self.direction} {self.target:g}; {self.pairs} pairs"
        )
        if self.verdict == "too noisy":
            text += f"; A/A spread {self.aa_spread:.3f} is wider than the margin {self.margin:.3f}"
        return text


def pair_ratios(measured: Sequence[float], baseline: Sequence[float]) -> np.ndarray:
    """Returns measured[i] / baseline[i], the ratios of neighbours in the order A B B A.

    Raises ValueError for lists of different lengths, empty lists, and values that are not positive.
    """
    above, below = np.asarray(measured, float), np.asarray(baseline, float)
    if above.shape != below.shape or above.ndim != 1 or above.size == 0:
        raise ValueError("pairs need two lists of one length")
    if not (np.all(above > 0) and np.all(below > 0)):
        raise ValueError("pairs need values above zero")
    return above / below


def median_bounds(values: Sequence[float], confidence: float = CONFIDENCE) -> Bounds:
    """Returns the median and its bootstrap percentile bounds (two-sided, ``confidence`` between).

    A single value is its own bounds. Raises ValueError for none.
    """
    sample = np.asarray(values, float)
    if sample.size == 0:
        raise ValueError("a median needs values")
    if sample.size == 1:
        return Bounds(*[float(sample[0])] * 3)
    (chosen,) = _draws(sample.size)
    return _bounds(np.median(sample), _resampled_medians(sample, chosen), confidence)


def ratio_of_medians(measured: Sequence[float], baseline: Sequence[float]) -> Bounds:
    """Returns the median of one series over that of another, with bootstrap bounds.

    For series that were not measured in pairs: each is resampled for itself. They may have different
    lengths. Raises ValueError for empty ones and for values that are not positive.
    """
    above, below = np.asarray(measured, float), np.asarray(baseline, float)
    if above.size == 0 or below.size == 0 or not (np.all(above > 0) and np.all(below > 0)):
        raise ValueError("a ratio needs values above zero")
    draws = _draws(above.size, below.size)
    of_above, of_below = (_resampled_medians(*each) for each in zip((above, below), draws, strict=True))
    return _bounds(np.median(above) / np.median(below), of_above / of_below, CONFIDENCE)


def _draws(*sizes: int) -> list[np.ndarray]:
    """Returns, for samples of these sizes, which of their values each resample has."""
    return _kept_draws(*sizes) if sum(sizes) <= _KEPT_SIZE_MAX else _drawn(*sizes)


def _drawn(*sizes: int) -> list[np.ndarray]:
    generator = np.random.default_rng(_SEED)
    return [generator.integers(0, size, size=(RESAMPLES, size)) for size in sizes]


_kept_draws = functools.lru_cache(maxsize=8)(_drawn)  # the series of a document have few sizes


def _resampled_medians(sample: np.ndarray, chosen: np.ndarray) -> np.ndarray:
    drawn = sample[chosen]
    drawn.sort(axis=1)  # for short rows much faster than numpy.median
    return (drawn[:, (sample.size - 1) // 2] + drawn[:, sample.size // 2]) / 2


def _bounds(median: np.floating, resampled: np.ndarray, confidence: float) -> Bounds:
    tail = (1 - confidence) / 2
    low, high = np.quantile(resampled, [tail, 1 - tail])
    return Bounds(float(median), float(low), float(high))


def spread(aa: Bounds) -> float:
    """Returns the noise of an A/A run: the width of its bounds, extended to include 1."""
    return max(aa.high, 1.0) - min(aa.low, 1.0)


def neighbour_ratios(times: Sequence[float]) -> np.ndarray:
    """Returns the ratios of one series to itself: each odd repeat over the even one after it.

    A free A/A run of half the length: it shows disturbances of this series only, like a second
    thread that waits for its CPU. One repeat gives 1. Raises ValueError for none.
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

    ``ratios`` are the pairs' (see pair_ratios), ``aa_ratios`` those of an equally long A/A run.
    ``direction`` "at least" wants the lower bound at or above ``target``, "at most" the upper bound
    at or below it. ``margin`` is the tolerable noise, by default the target's distance from 1, so
    that "within 5 %" tolerates 5 %.

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
    # The distance of the bounds from the target, as a share of it; negative if it is inside them.
    distance = max(ratio.low / target, target / ratio.high) - 1
    if spread(aa) > max(margin, distance):
        verdict = "too noisy"
    return Judgement(verdict, ratio, aa, spread(aa), margin, target, direction, len(ratios))


def odd_and_even(values: Sequence[float]) -> tuple[list[float], list[float]]:
    """Returns the values of the odd pairs (the first, third, ...) and of the even ones."""
    return list(values[0::2]), list(values[1::2])


def pick_best(times: Mapping[str, Sequence[float]]) -> str:
    """Returns the name whose median time is shortest on the odd pairs.

    For ``automatic``: judge against this choice on the even pairs only, so that lucky picks do not
    count. Raises ValueError for no choices.
    """
    if not times:
        raise ValueError("nothing to pick from")
    return min(times, key=lambda name: float(np.median(odd_and_even(times[name])[0])))


Finding = Literal["within_5_percent", "slower", "faster", "no_difference"]
CLOSE = 0.05


def finding(ratio: Bounds, noise: float, pairs: int) -> Finding:
    """Returns the finding for a ratio of bandwidths, given the noise that a difference must exceed.

    Fewer than FINDING_PAIRS_MIN ``pairs`` show nothing.

    ``within_5_percent`` needs bounds within 5 % of 1 and noise no wider. Exchanging the two sides
    gives the opposite finding: a tenth of the speed is as clear as ten times.
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
