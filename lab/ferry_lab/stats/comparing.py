"""Finds records by their axes, and compares two rows: their ratio, its noise, and what it shows."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeVar

from ferry.sizes import MIB
from ferry_lab.results.records import Comparison, RanksRow, Row
from ferry_lab.results.results import TIMES
from ferry_lab.stats import judge

_Placed = TypeVar("_Placed", Row, Comparison)


def where(records: Iterable[_Placed], **axes: str | int) -> list[_Placed]:
    """Returns the rows or comparisons that lie there; axes that are not named may be anything."""
    return [one for one in records if one.axes.items() >= axes.items()]


def row_at(rows: Iterable[Row], **axes: str | int) -> Row:
    """Returns the only row that lies there. Raises ValueError where there are none or several."""
    (row,) = where(rows, **axes)
    return row


def values(records: Iterable[_Placed], axis: str) -> list[str | int]:
    """Returns the values that an axis has, each once and in their order."""
    return list(dict.fromkeys(one.axes[axis] for one in records if axis in one.axes))


def times_of(row: Row, metric: str) -> list[float]:
    """Returns the time for one MiB in each repeat: some rows move more than others."""
    return [TIMES[metric](sample) * MIB / sample.bytes for sample in row.repeats]


def speed_ratio(times: Sequence[float], baseline: Sequence[float]) -> judge.Bounds:
    """Bounds of the ratio of speeds: the baseline's time over the row's."""
    return judge.median_bounds(judge.pair_ratios(baseline, times))


def make_comparison(
    question: str,
    metric: str,
    row: Row,
    baseline: Row,
    noise: tuple[Row, Row],
    *,
    device_cache: str | None = None,
    even: bool = False,
) -> Comparison:
    """Returns one entry of a document's ``comparisons``.

    ``noise`` are two identical (A/A) series measured beside them. ``even`` leaves out the odd
    repeats, on which the baseline was picked.
    """
    times, others = times_of(row, metric), times_of(baseline, metric)
    own = [judge.spread(judge.median_bounds(judge.neighbour_ratios(t))) for t in (times, others)]
    if even:
        times, others = (judge.odd_and_even(series)[1] for series in (times, others))
    ratio, pairs = speed_ratio(times, others), len(times)
    aa = speed_ratio(*(times_of(one, metric) for one in noise))
    widest = max(judge.spread(aa), *own)
    return Comparison(
        group=row.group,
        question=question,
        metric=metric,
        row=row.id,
        axes=row.axes,
        baseline=baseline.id,
        baseline_axes=baseline.axes,
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
        noise=widest,
        finding=judge.finding(ratio, widest, pairs),
    )
