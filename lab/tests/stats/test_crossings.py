"""Where curves cross, from made-up numbers."""

from __future__ import annotations

from typing import Any

from ferry.sizes import KIB, MIB
from ferry_lab.stats import crossings, judge

SIZES = (4 * KIB, 64 * KIB, MIB, 16 * MIB)


def points(*ratios: float, noise: float = 0.02, spread: float = 0.01) -> list[dict[str, Any]]:
    """Comparisons at SIZES, found as the study finds them."""
    made = []
    for size, ratio in zip(SIZES, ratios, strict=False):
        low, high = ratio * (1 - spread), ratio * (1 + spread)
        made.append(
            {
                "transfer_bytes": size,
                "ratio_median": ratio,
                "ratio_low_95": low,
                "ratio_high_95": high,
                "noise": noise,
                "finding": judge.finding(judge.Bounds(ratio, low, high), noise, 20),
            }
        )
    return made


def places(found: list[crossings.Crossing]) -> list[tuple[int, int]]:
    return [(c.last["transfer_bytes"], c.first["transfer_bytes"]) for c in found]


def describe(made: list[dict[str, Any]]) -> str:
    return crossings.describe_curves("compute", "host", made, "bandwidth")


def test_curves_that_cross() -> None:
    made = points(4, 2, 0.5, 0.4)
    assert places(crossings.find_crossings(made)) == [(64 * KIB, MIB)]
    assert describe(made) == (
        "compute and host cross between 64 KiB (1.98 to 2.02) and 1 MiB (0.49 to 0.51): compute is "
        "faster from 4 KiB to 64 KiB, 2.00 to 4.00 times the bandwidth of host; compute is slower "
        "from 1 MiB up, 0.40 to 0.50 times the bandwidth of host"
    )


def test_the_order_of_the_points_does_not_matter() -> None:
    made = points(4, 2, 0.5, 0.4)
    assert describe(made[::-1]) == describe(made)


def test_a_crossing_lies_between_decided_sizes() -> None:
    made = points(4, 1.0, 1.01, 0.4)
    assert places(crossings.find_crossings(made)) == [(4 * KIB, 16 * MIB)]
    assert "compute is within 5 % of host from 64 KiB to 1 MiB" in describe(made)


def test_curves_that_do_not_cross() -> None:
    made = points(4, 2, 1.5, 1.2)
    assert crossings.find_crossings(made) == []
    assert describe(made) == (
        "no crossing of compute and host measured: compute is faster at every size, 1.20 to 4.00 "
        "times the bandwidth of host"
    )


def test_curves_that_meet_do_not_cross() -> None:
    made = points(4, 2, 1.0, 1.0)
    assert crossings.find_crossings(made) == []
    assert describe(made).startswith("no crossing of compute and host measured: ")


def test_noise_larger_than_the_difference_shows_nothing() -> None:
    made = points(1.3, 1.1, 0.9, 0.8, noise=0.5)
    assert crossings.find_crossings(made) == []
    assert crossings.nothing_shown(made)
    nothing = "no difference measured between compute and host at any size (noise 50 %)"
    assert describe(made) == nothing


def test_noise_hides_one_side_of_a_crossing() -> None:
    made = points(4, 2, 0.9, 0.8, noise=0.5)
    assert crossings.find_crossings(made) == []
    assert describe(made) == (
        "no crossing of compute and host measured: compute is faster from 4 KiB to 64 KiB, 2.00 to "
        "4.00 times the bandwidth of host; no difference measured from 1 MiB up (noise 50 %)"
    )


def test_bounds_that_include_1_decide_nothing() -> None:
    made = points(1.2, 1.2, 0.8, 0.8, spread=0.3)
    assert crossings.find_crossings(made) == []
    assert crossings.nothing_shown(made)


def test_curves_that_cross_twice() -> None:
    made = points(0.5, 2, 2, 0.5)
    assert places(crossings.find_crossings(made)) == [(4 * KIB, 64 * KIB), (MIB, 16 * MIB)]
    assert describe(made).count(" and between ") == 1


def test_noise_that_differs_is_named_by_its_largest() -> None:
    made = points(1.0) + points(1.0, noise=3)
    assert crossings.largest_noise(made) == "noise up to > 100 %"
    assert crossings.largest_noise(made[:1]) == "noise 2 %"
    found = crossings.describe_findings("a", "b", made[:1], "speed")
    assert found == "a is within 5 % of b at every size"


def test_sizes_are_listed_as_people_do() -> None:
    made = points(0.5, 1, 0.5, 1, noise=0.04)
    for index, size in enumerate((4, 8, 16, 32)):
        made[index]["transfer_bytes"] = size * KIB
    more = [{**made[0], "transfer_bytes": 64 * KIB}]
    found = crossings.describe_findings("a", "b", made + more, "speed")
    assert found.startswith("a is slower at 4 KiB, at 16 KiB and at 64 KiB, 0.50 times the speed")
