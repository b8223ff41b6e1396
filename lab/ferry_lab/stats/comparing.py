"""Compares two rows: the ratio of their speeds, its noise, and what it shows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ferry_lab.results.records import Comparison, RanksRow, Row
from ferry_lab.stats import judge

TimeOf = Callable[[Any], float]  # fields of a sample, in nanoseconds, for the same work


def times_of(row: Row, time_ns: TimeOf) -> list[float]:
    """Returns a row's times, by repeat."""
    return [float(time_ns(sample)) for sample in row.repeats]


def speed_ratio(times: Sequence[float], baseline: Sequence[float]) -> judge.Bounds:
    """Bounds of the ratio of speeds: the baseline's time over the row's."""
    return judge.median_bounds(judge.pair_ratios(baseline, times))


def speed_ratio_of_rows(row: Row, baseline: Row, time_ns: TimeOf) -> judge.Bounds:
    """The same for two rows."""
    return speed_ratio(times_of(row, time_ns), times_of(baseline, time_ns))


def make_comparison(
    question: str,
    metric: str,
    time_ns: TimeOf,
    row: Row,
    baseline: Row,
    aa: judge.Bounds,
    *,
    device_cache: str | None = None,
    ratio: judge.Bounds | None = None,
    pairs: int | None = None,
) -> Comparison:
    """Returns one entry of a document's ``comparisons``.

    ``aa`` is the ratio of two identical (A/A) series measured beside them. ``ratio`` and ``pairs``
    default to all repeats.
    """
    if ratio is None:
        ratio = speed_ratio_of_rows(row, baseline, time_ns)
    pairs = pairs or len(row.repeats)
    own = [
        judge.spread(judge.median_bounds(judge.neighbour_ratios(times_of(one, time_ns))))
        for one in (row, baseline)
    ]
    noise = max(judge.spread(aa), *own)
    return Comparison(
        group=row.group,
        question=question,
        metric=metric,
        row=row.id,
        baseline=baseline.id,
        program=row.program,
        operation=row.operation,
        device_cache=device_cache,
        transfer_bytes=row.transfer_bytes,
        total_bytes=row.total_bytes,
        threads=row.ranks if isinstance(row, RanksRow) else row.threads,
        pairs=pairs,
        ratio_median=ratio.median,
        ratio_low_95=ratio.low,
        ratio_high_95=ratio.high,
        aa_median=aa.median,
        aa_low_95=aa.low,
        aa_high_95=aa.high,
        aa_spread=judge.spread(aa),
        noise=noise,
        finding=judge.finding(ratio, noise, pairs),
    )
