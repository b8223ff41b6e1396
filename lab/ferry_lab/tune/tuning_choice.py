"""How ``ferry tune`` chooses: a candidate from a few repeats, and a verdict from many pairs.

Works on times by view: a workload and one of its times. Views are averaged as the mean logarithm of
a time, so twice as fast here and half as fast there cancel out. The time up to an ``fsync`` depends
on the storage device: it never counts as a gain, but must not become longer.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from ferry_lab.stats import judge
from ferry_lab.tune.tuning_workloads import DEFAULTS, DURABLE, Point, Setting, Workload, by_host, crossover_ends

View = tuple[str, str]  # workload, and which of its times
Times = Mapping[tuple[View, Point], Sequence[float]]  # ns, by repeat

# A candidate slower than this in any view, in the few repeats, is dropped.
_LOSS_MAX = 0.10
# So is one that promises less than this.
_GAIN_MIN = 0.02


@dataclass(frozen=True)
class Candidate:
    """The best candidate of a setting, and its promised speed-up."""

    value: int | str
    gain: float  # 1.2: a fifth faster, over all views of the setting


@dataclass(frozen=True)
class WorkloadComparison:
    """The default's time over another's, by view: above 1 if the other is faster."""

    view: View
    ratio: judge.Bounds
    noise: float
    finding: judge.Finding


@dataclass(frozen=True)
class Verdict:
    """Whether a point replaces the defaults."""

    taken: bool
    reason: str
    gain: judge.Bounds  # over all views together
    noise: float
    comparisons: list[WorkloadComparison]


@dataclass
class Tuned:
    """The outcome for one setting."""

    setting: Setting
    candidate: Candidate | None = None
    verdict: Verdict | None = None
    in_force: bool = False  # accepted, and not dropped later
    reason: str = "no candidate looked better"

    def point(self) -> Point:
        """Returns the defaults with the candidate, which must exist."""
        assert self.candidate is not None
        return DEFAULTS.with_setting(self.setting.key, self.candidate.value)

    def workloads(self) -> list[Workload]:
        """Returns the workloads that the candidate, which must exist, changes."""
        assert self.candidate is not None
        return self.setting.relevant(self.candidate.value)


@dataclass
class Outcome:
    """The outcome of all settings."""

    tuned: list[Tuned]
    whole: Verdict | None = None  # of all accepted settings together
    notes: list[str] = field(default_factory=list)
    spent_s: float = 0.0

    def point(self) -> Point:
        """Returns the settings to recommend."""
        point = DEFAULTS
        for tuned in self.tuned:
            if tuned.in_force and tuned.candidate is not None:
                point = point.with_setting(tuned.setting.key, tuned.candidate.value)
        return point


def pick(setting: Setting, times: Times) -> Candidate | None:
    """Returns the most promising candidate of a setting; None if the default is best.

    ``times`` has the defaults and every candidate for each view of the setting; for a crossover,
    its two extremes. Views that lack some, because time was up or a cell failed, do not count. The
    odd repeats select a value, the even ones estimate its gain.
    """
    values = [setting.default, *setting.candidates]
    gaining = [
        view
        for view in _views(setting, times)
        if view[1] != DURABLE and all((view, _point(setting, view, value)) in times for value in values)
    ]
    if not gaining:
        return None
    best: tuple[float, int | str] | None = None
    for value in setting.candidates:
        gains = [_log_gain(setting, view, value, times, 0) for view in gaining]
        mean = sum(gains) / len(gains)
        if min(gains) < -_LOSS_MAX or mean < math.log1p(_GAIN_MIN):
            continue
        if best is None or mean > best[0] + math.log1p(_GAIN_MIN):  # the earlier one, if equal
            best = (mean, value)
    if best is None:
        return None
    value = best[1]
    gains = [_log_gain(setting, view, value, times, 1) for view in gaining]
    changed = [gain for gain in gains if gain != 0] or [0.0]
    return Candidate(value, math.exp(sum(changed) / len(changed)))


def _views(setting: Setting, times: Times) -> list[View]:
    """The setting's measured candidates."""
    names = {workload.name for workload in setting.workloads}
    return list(dict.fromkeys(view for view, _ in times if view[0] in names))


def _point(setting: Setting, view: View, value: int | str) -> Point:
    """The measured point that stands for a value."""
    if setting.is_crossover:
        size = next(w.transfer_bytes for w in setting.workloads if w.name == view[0])
        host, compute = crossover_ends(setting)
        return host if by_host(size, value) else compute
    return DEFAULTS if value == setting.default else DEFAULTS.with_setting(setting.key, value)


def _log_gain(setting: Setting, view: View, value: int | str, times: Times, half: int) -> float:
    """The time a view saves with ``value``, on odd (0) or even (1) repeats."""

    def median(chosen: int | str) -> float:
        series = times[view, _point(setting, view, chosen)]
        return float(np.median(judge.odd_and_even(series)[half] or series))

    return math.log(median(setting.default)) - math.log(median(value))


def compare(view: View, default: Sequence[float], again: Sequence[float], other: Sequence[float]) -> WorkloadComparison:
    """Compares two series of one view; ``again`` is the default's second one, for the noise."""
    ratio = judge.median_bounds(judge.pair_ratios(default, other))
    aa = judge.median_bounds(judge.pair_ratios(default, again))
    own = (judge.spread(judge.median_bounds(judge.neighbour_ratios(s))) for s in (default, other))
    noise = max(judge.spread(aa), *own)
    return WorkloadComparison(view, ratio, noise, judge.finding(ratio, noise, len(default)))


def judge_point(views: Sequence[View], times: Times, again: Mapping[View, Sequence[float]], point: Point) -> Verdict:
    """Judges a point against the defaults by the rule of stats.judge, over all ``views``.

    A point is accepted if all views together are faster by more than the noise, and no view may be
    slower: the lower bound of each ratio is within 5 % of 1, however noisy it is. Needs 20 pairs.
    """
    series = [(times[v, DEFAULTS], again[v], times[v, point]) for v in views]
    pairs = min(len(s) for three in series for s in three)
    series = [(d[:pairs], a[:pairs], o[:pairs]) for d, a, o in series]
    comparisons = [compare(v, *three) for v, three in zip(views, series, strict=True)]
    gaining = [s for v, s in zip(views, series, strict=True) if v[1] != DURABLE] or series
    whole = compare(("all", "call"), *(_mean_times([s[i] for s in gaining]) for i in range(3)))
    taken = False
    if pairs < judge.PAIRS_MIN:
        reason = f"not judged: {pairs} pairs, and {judge.PAIRS_MIN} are needed; raise --budget"
    elif harm := _proven_harm(comparisons):
        reason = harm
    elif whole.finding != "faster":
        reason = "no difference beyond the noise"
    elif harm := _possible_harm(comparisons):
        reason = harm
    else:
        taken, reason = True, "faster beyond the noise, and nothing slower"
    return Verdict(taken, reason, whole.ratio, whole.noise, comparisons)


def _proven_harm(comparisons: Sequence[WorkloadComparison]) -> str | None:
    slower = [c for c in comparisons if c.finding == "slower"]
    if not slower:
        return None
    worst = min(slower, key=lambda c: c.ratio.median)
    return f"{' '.join(worst.view)} would be slower: {worst.ratio.median:.2f} of its speed"


def _possible_harm(comparisons: Sequence[WorkloadComparison]) -> str | None:
    """Noise excuses no loss: a view may be slower unless shown otherwise."""
    unproven = [c for c in comparisons if c.ratio.low < 1 - judge.CLOSE]
    if not unproven:
        return None
    worst = min(unproven, key=lambda c: c.ratio.low)
    ratio = worst.ratio
    return (
        f"{' '.join(worst.view)} may be slower: {ratio.median:.2f} ({ratio.low:.2f} to {ratio.high:.2f}) of its speed"
    )


def _mean_times(series: Sequence[Sequence[float]]) -> list[float]:
    """Returns, by repeat, the geometric mean of several series."""
    return [float(value) for value in np.exp(np.mean(np.log(np.asarray(series)), axis=0))]
