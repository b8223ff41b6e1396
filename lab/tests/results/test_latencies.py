"""Histograms of latencies: added up over repeats, and by powers of two."""

from __future__ import annotations

from ferry_lab.results import latencies
from ferry_lab.results.records import Bucket, Latencies
from msgspec import UNSET


def of(histogram: list[Bucket], longest: int) -> Latencies:
    calls = sum(count for _, _, count in histogram)
    return Latencies(1, 1, 1, longest, calls, 1, p99_9=1, histogram=histogram)


def test_histograms_add_up() -> None:
    merged = latencies.merge([of([(5, 6, 3), (128, 130, 1)], 129), of([(128, 130, 6), (1024, 1040, 990)], 1030)])
    assert merged.histogram == [(5, 6, 3), (128, 130, 7), (1024, 1040, 990)]
    assert (merged.samples, merged.max) == (1000, 1030)
    assert (merged.p50, merged.p99_9) == (1030, 1030)  # no percentile exceeds the longest call


def test_percentiles_are_by_nearest_rank() -> None:
    merged = latencies.merge([of([(10, 11, 500), (20, 21, 400), (1024, 1040, 99), (4096, 4160, 1)], 4100)])
    assert (merged.p50, merged.p90, merged.p99, merged.p99_9, merged.max) == (10, 20, 1032, 1032, 4100)


def test_buckets_by_powers_of_two_leave_no_gap() -> None:
    assert latencies.by_powers_of_two([(0, 1, 2), (1, 2, 1), (5, 6, 3), (7, 8, 1)]) == [
        *((0, 1, 2), (1, 2, 1), (2, 4, 0), (4, 8, 4))
    ]


def test_percentiles_are_shown_as_far_as_all_have_the_calls() -> None:
    many, few = of([(10, 11, 1000)], 10), of([(10, 11, 99)], 10)
    assert latencies.shown([many]) == ["p50", "p90", "p99", "p99_9"]
    assert latencies.shown([many, few]) == ["p50", "p90"]
    many.p99_9 = UNSET
    assert latencies.shown([many]) == ["p50", "p90", "p99"]
    assert [latencies.words(name) for name in latencies.PERCENTILES] == ["50 %", "90 %", "99 %", "99.9 %"]
