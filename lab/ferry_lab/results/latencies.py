"""Histograms of the latencies of single calls: added up, and by powers of two."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from ferry_lab.results.records import Bucket, Latencies

# Percentiles, by the names they have in results, and the timed calls below which one is just the longest call.
PERCENTILES = {"p50": (500, 1), "p90": (900, 10), "p99": (990, 100), "p99_9": (999, 1000)}


def shown(latencies: Sequence[Latencies]) -> list[str]:
    """Returns the percentiles for which each of them has enough calls."""
    fewest = min(one.samples for one in latencies)
    return [
        name
        for name, (_, least) in PERCENTILES.items()
        if fewest >= least and all(isinstance(getattr(one, name), int) for one in latencies)
    ]


def words(name: str) -> str:
    """Returns "99.9 %" for the percentile p99_9."""
    return f"{PERCENTILES[name][0] / 10:g} %"


def merge(latencies: Sequence[Latencies]) -> Latencies:
    """Returns those of all repeats together, from their histograms, as ferry-bench would."""
    calls: Counter[tuple[int, int]] = Counter()
    for one in latencies:
        for low, high, count in one.histogram or ():
            calls[low, high] += count
    histogram = [(low, high, count) for (low, high), count in sorted(calls.items())]
    longest = max(one.max for one in latencies)
    return Latencies(
        **{name: min(_percentile(histogram, permille), longest) for name, (permille, _) in PERCENTILES.items()},
        max=longest,
        samples=calls.total(),
        one_call_in=latencies[0].one_call_in,
        histogram=histogram,
    )


def _percentile(histogram: Sequence[Bucket], permille: int) -> int:
    """Nearest rank: the middle of the bucket in which it lies."""
    left = max(-(-sum(count for _, _, count in histogram) * permille // 1000), 1)
    for low, high, count in histogram:
        left -= count
        if left <= 0:
            return low + (high - low) // 2
    raise ValueError("a histogram without calls")


def by_powers_of_two(histogram: Sequence[Bucket]) -> list[Bucket]:
    """Returns it with one bucket for each power of two from the first that has calls to the last."""
    calls: Counter[int] = Counter()
    for low, _, count in histogram:
        calls[low.bit_length()] += count  # from 2^(n - 1) up
    powers = range(min(calls), max(calls) + 1)
    return [(1 << power >> 1, 1 << power, calls[power]) for power in powers]
