"""Judging ratios: known inputs, and each of the three verdicts."""

import numpy as np
import pytest
from ferry_lab.stats import judge


def around(center: float, width: float, count: int = 40, seed: int = 7) -> list[float]:
    """Ratios scattered evenly around ``center``."""
    return list(np.random.default_rng(seed).uniform(center - width, center + width, count))


def test_pairs_are_divided_one_by_one() -> None:
    assert list(judge.pair_ratios([2, 9, 4], [1, 3, 8])) == [2, 3, 0.5]


@pytest.mark.parametrize(("a", "b"), [([1], [1, 2]), ([], []), ([1, 0], [1, 1]), ([1, 1], [1, -1])])
def test_pairs_that_are_none(a: list[float], b: list[float]) -> None:
    with pytest.raises(ValueError, match="pairs need"):
        judge.pair_ratios(a, b)


def test_bounds_of_equal_values_are_that_value() -> None:
    assert judge.median_bounds([3.0] * 25) == judge.Bounds(3.0, 3.0, 3.0)


def test_bounds_hold_the_median_and_shrink_with_more_pairs() -> None:
    few, many = judge.median_bounds(around(1, 0.2, 20)), judge.median_bounds(around(1, 0.2, 400))
    for bounds in (few, many):
        assert bounds.low <= bounds.median <= bounds.high
    assert many.high - many.low < few.high - few.low


def test_bounds_are_the_same_every_time() -> None:
    values = around(1, 0.3)
    assert judge.median_bounds(values) == judge.median_bounds(values)


@pytest.mark.parametrize("count", [1, 2, 7, 20, 150])
def test_bounds_are_quantiles_of_resampled_medians(count: int) -> None:
    values = np.asarray(around(1, 0.3, count))
    for _ in range(2):  # the first call may keep what it draws
        found = judge.median_bounds(list(values))
        chosen = np.random.default_rng(judge._SEED).integers(0, count, size=(judge.RESAMPLES, count))
        low, high = np.quantile(np.median(values[chosen], axis=1), [0.025, 0.975])
        assert (found.median, found.low, found.high) == pytest.approx((np.median(values), low, high), rel=1e-12)


def test_bounds_cover_the_true_median_about_95_times_in_100() -> None:
    hits = 0
    for seed in range(200):
        bounds = judge.median_bounds(around(1, 0.2, 30, seed))
        hits += bounds.low <= 1 <= bounds.high
    assert 175 <= hits <= 200


def test_a_ratio_of_series_apart_needs_no_pairs() -> None:
    assert judge.ratio_of_medians([2.0] * 9, [4.0] * 6) == judge.Bounds(0.5, 0.5, 0.5)
    a, b = around(1, 0.1, 60), around(2, 0.1, 40)
    ratio, inverse = judge.ratio_of_medians(b, a), judge.ratio_of_medians(a, b)
    assert 1.8 < ratio.low < ratio.median < ratio.high < 2.2
    assert inverse.median == pytest.approx(1 / ratio.median)
    for wrong in ([], [1.0, 0.0]):
        with pytest.raises(ValueError, match="above zero"):
            judge.ratio_of_medians(wrong, [1.0])


def test_bounds_of_equal_series_apart_hold_1_about_95_times_in_100() -> None:
    hits = 0
    for seed in range(200):
        bounds = judge.ratio_of_medians(around(1, 0.2, 30, seed), around(1, 0.2, 30, 1000 + seed))
        hits += bounds.low <= 1 <= bounds.high
    assert hits >= 180


def test_the_spread_of_an_aa_run_includes_1() -> None:
    assert judge.spread(judge.Bounds(1.0, 0.98, 1.03)) == pytest.approx(0.05)
    assert judge.spread(judge.Bounds(1.1, 1.09, 1.12)) == pytest.approx(0.12)
    assert judge.spread(judge.Bounds(0.9, 0.88, 0.91)) == pytest.approx(0.12)


def test_reached() -> None:
    result = judge.judge(around(0.97, 0.02), around(1, 0.01), target=0.9)
    assert result.verdict == "reached"
    assert result.ratio.low >= 0.9
    assert result.sentence().startswith("reached: 0.9")


def test_missed() -> None:
    assert judge.judge(around(0.85, 0.02), around(1, 0.01), target=0.9).verdict == "missed"


def test_missed_when_only_the_median_reaches_it() -> None:
    result = judge.judge(around(0.91, 0.08), around(1, 0.01), target=0.9)
    assert result.ratio.median >= 0.9 > result.ratio.low
    assert result.verdict == "missed"


@pytest.mark.parametrize("center", [0.97, 0.85])
def test_too_noisy_is_neither(center: float) -> None:
    result = judge.judge(around(center, 0.01), around(1, 0.5), target=0.9)
    assert result.verdict == "too noisy"
    assert "wider than the margin" in result.sentence()


@pytest.mark.parametrize(("center", "verdict"), [(2, "reached"), (0.4, "missed")])
def test_noise_smaller_than_the_distance_changes_nothing(center: float, verdict: str) -> None:
    noise = around(1, 0.5)
    assert judge.spread(judge.median_bounds(noise)) > 0.1, "else this shows nothing"
    assert judge.judge(around(center, 0.01), noise, target=0.9).verdict == verdict


def test_at_most_looks_at_the_upper_bound() -> None:
    quiet = around(1, 0.01)
    assert judge.judge(around(1.3, 0.02), quiet, 1.4, "at most").verdict == "reached"
    assert judge.judge(around(1.5, 0.02), quiet, 1.4, "at most").verdict == "missed"


def test_what_cannot_be_judged() -> None:
    good = around(1, 0.01)
    with pytest.raises(ValueError, match="at least 20"):
        judge.judge(good[:19], good[:19], 0.9)
    with pytest.raises(ValueError, match="as many pairs"):
        judge.judge(good, good[:-1], 0.9)
    with pytest.raises(ValueError, match="margin"):
        judge.judge(good, good, 1.0)
    assert judge.judge(good, good, 1.0, margin=0.05).margin == 0.05


def test_the_best_is_picked_on_the_odd_pairs_only() -> None:
    assert judge.odd_and_even([1, 2, 3, 4, 5]) == ([1, 3, 5], [2, 4])
    assert judge.pick_best({"host": [1, 9, 1, 9], "compute": [2, 0.1, 2, 0.1]}) == "host"
    with pytest.raises(ValueError, match="nothing"):
        judge.pick_best({})


def test_a_series_shows_its_own_noise() -> None:
    assert list(judge.neighbour_ratios([2, 1, 3, 3, 9])) == [2, 1]
    assert list(judge.neighbour_ratios([5])) == [1]
    assert judge.spread(judge.median_bounds(judge.neighbour_ratios([5, 5, 5, 5]))) == 0
    with pytest.raises(ValueError, match="pairs"):
        judge.neighbour_ratios([])


@pytest.mark.parametrize(
    ("bounds", "noise", "finding"),
    [
        (judge.Bounds(0.99, 0.97, 1.01), 0.02, "within_5_percent"),
        (judge.Bounds(0.99, 0.97, 1.01), 0.20, "no_difference"),
        (judge.Bounds(0.80, 0.75, 0.85), 0.05, "slower"),
        (judge.Bounds(0.80, 0.75, 0.85), 0.30, "no_difference"),
        (judge.Bounds(0.80, 0.60, 1.05), 0.05, "no_difference"),
        (judge.Bounds(1.30, 1.20, 1.40), 0.05, "faster"),
        (judge.Bounds(10.0, 8.0, 12.0), 2.0, "faster"),
        (judge.Bounds(0.10, 0.08, 0.13), 2.0, "slower"),
    ],
)
def test_findings_say_no_more_than_the_numbers(bounds: judge.Bounds, noise: float, finding: str) -> None:
    assert judge.finding(bounds, noise, 6) == finding
    assert judge.finding(bounds, noise, 5) == "no_difference"
