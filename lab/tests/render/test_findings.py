"""Findings and the sentences about them, from made-up numbers."""

from __future__ import annotations

from fnmatch import fnmatchcase

import pytest
from ferry.sizes import KIB, MIB
from ferry_lab.render.findings import THREADS, Finding, Findings, largest_noise
from ferry_lab.results.records import Comparison
from ferry_lab.stats import judge
from made_up import placements_document
from msgspec.structs import replace

SIZES = (4 * KIB, 64 * KIB, MIB, 16 * MIB)
POINT = placements_document(writes=False).comparisons[0]


def points(*ratios: float, noise: float = 0.02, spread: float = 0.01) -> list[Comparison]:
    """Comparisons at SIZES, found as the study finds them."""
    made = []
    for size, ratio in zip(SIZES, ratios, strict=False):
        low, high = ratio * (1 - spread), ratio * (1 + spread)
        made.append(
            replace(
                POINT,
                transfer_bytes=size,
                ratio_median=ratio,
                ratio_low_95=low,
                ratio_high_95=high,
                noise=noise,
                finding=judge.finding(judge.Bounds(ratio, low, high), noise, 20),
            )
        )
    return made


NO_CROSSING = "no crossing of compute and host measured: "
NOTHING = "no difference measured between compute and host at any size"


@pytest.mark.parametrize(
    ("made", "crossings", "clause"),
    [
        pytest.param(
            points(4, 2, 0.5, 0.4),
            [(64 * KIB, MIB)],
            "compute and host cross between 64 KiB (1.98 to 2.02) and 1 MiB (0.49 to 0.51): compute is "
            "faster from 4 KiB to 64 KiB, 2.00 to 4.00 times the bandwidth of host; compute is slower "
            "from 1 MiB up, 0.40 to 0.50 times the bandwidth of host",
            id="they cross",
        ),
        pytest.param(
            points(4, 1.0, 1.01, 0.4),
            [(4 * KIB, 16 * MIB)],
            "*compute is within 5 % of host from 64 KiB to 1 MiB*",
            id="a crossing lies between decided sizes",
        ),
        pytest.param(
            points(4, 2, 1.5, 1.2),
            [],
            f"{NO_CROSSING}compute is faster at every size, 1.20 to 4.00 times the bandwidth of host",
            id="they do not cross",
        ),
        pytest.param(points(4, 2, 1.0, 1.0), [], f"{NO_CROSSING}*", id="they meet"),
        pytest.param(
            points(4, 2, 0.9, 0.8, noise=0.5),
            [],
            f"{NO_CROSSING}compute is faster from 4 KiB to 64 KiB, 2.00 to 4.00 times the bandwidth of "
            "host; no difference measured from 1 MiB up (noise 50 %)",
            id="noise hides one side of a crossing",
        ),
        pytest.param(
            points(0.5, 2, 2, 0.5),
            [(4 * KIB, 64 * KIB), (MIB, 16 * MIB)],
            "compute and host cross between * and between *",
            id="they cross twice",
        ),
        pytest.param(
            points(1.3, 1.1, 0.9, 0.8, noise=0.5),
            [],
            f"{NOTHING} (noise 50 %)",
            id="noise is larger than the difference",
        ),
        pytest.param(points(1.2, 1.2, 0.8, 0.8, spread=0.3), [], f"{NOTHING} (*", id="bounds include 1"),
    ],
)
def test_curves(made: list[Comparison], crossings: list[tuple[int, int]], clause: str) -> None:
    finding = Finding("compute", "host", made, crossover=True)
    assert [(a.transfer_bytes, b.transfer_bytes) for a, b in finding.crossings()] == crossings
    assert fnmatchcase(finding.clause(), clause)
    assert finding.clause().count(" and between ") == max(len(crossings) - 1, 0)
    assert finding.shows_nothing() == clause.startswith(NOTHING)


def test_the_order_of_the_points_does_not_matter() -> None:
    made = points(4, 2, 0.5, 0.4)
    backwards = Finding("compute", "host", made[::-1], crossover=True)
    assert backwards.clause() == Finding("compute", "host", made, crossover=True).clause()


def test_noise_that_differs_is_named_by_its_largest() -> None:
    made = points(1.0) + points(1.0, noise=3)
    assert largest_noise(made) == "noise up to > 100 %"
    assert largest_noise(made[:1]) == "noise 2 %"
    found = Finding("a", "b", made[:1], quantity="speed").clause()
    assert found == "a is within 5 % of b at every size"


def test_sizes_are_listed_as_people_do() -> None:
    made = points(0.5, 1, 0.5, 1, noise=0.04)
    for index, size in enumerate((4, 8, 16, 32)):
        made[index].transfer_bytes = size * KIB
    more = [replace(made[0], transfer_bytes=64 * KIB)]
    found = Finding("a", "b", made + more, quantity="speed").clause()
    assert found.startswith("a is slower at 4 KiB, at 16 KiB and at 64 KiB, 0.50 times the speed")


# ---- findings together ---------------------------------------------------------------------------


def test_what_is_not_measured_is_not_spoken_of() -> None:
    assert Findings("Reads", [Finding("a", "b", [])]).sentences() == []


def test_what_shows_nothing_shares_a_clause() -> None:
    unclear = points(1.3, 1.1, 0.9, 0.8, noise=0.5)
    found = Findings(
        "Reads",
        [
            Finding("a", "b", unclear),
            Finding("c", "d", points(2, 2, 2, 2)),
            Finding("e", "b", unclear),
            Finding("e", "f", unclear[:1]),
        ],
    )
    assert found.sentences() == [
        "Reads: c is faster at every size, 2.00 times the bandwidth of d.",
        "Reads: no difference measured at any size between a or e and b, nor between e and f (noise 50 %).",
    ]


def test_single_points_share_a_sentence() -> None:
    found = Findings(
        "Program once",
        [
            Finding("a", "b", points(0.5), None, "speed"),
            Finding("c", "b", points(1.0), None, "speed"),
            Finding("d", "b", points(1.1, noise=0.5), None, "speed"),
        ],
    )
    assert found.sentences() == [
        "Program once: a is slower, 0.50 times the speed of b; c is within 5 % of b; no difference "
        "measured between d and b (noise 50 %)."
    ]


def test_an_axis_that_is_no_size_lists_its_values() -> None:
    made = [replace(p, threads=n) for n, p in zip((2, 4, 8), points(1.9, 3.5, 1.0), strict=True)]
    found = Findings("Reads", [Finding("many", "one", made[::-1], THREADS)])
    assert found.clauses() == [
        "many is faster with 2 and 4 threads, 1.90 to 3.50 times the bandwidth of one; many is "
        "within 5 % of one with 8 threads"
    ]


def test_one_of_an_axis_is_not_several() -> None:
    made = [replace(p, threads=n) for n, p in zip((1, 2), points(0.5, 2), strict=True)]
    assert Finding("many", "one", made, THREADS).clause() == (
        "many is slower with 1 thread, 0.50 times the bandwidth of one; many is faster with 2 "
        "threads, 2.00 times the bandwidth of one"
    )


def test_the_winners_are_named_where_they_win() -> None:
    def winners(*ratios: float, noise: float = 0.02) -> str:
        return Finding("compute", "host", points(*ratios, noise=noise)).winners()

    assert winners(4, 2, 0.5, 0.4) == (
        "compute has 2.0 to 4.0 times the bandwidth of host from 4 KiB to 64 KiB, and host has 2.0 "
        "to 2.5 times the bandwidth of compute from 1 MiB up"
    )
    assert winners(2, 1, 1, 1) == (
        "compute has 2.0 times the bandwidth of host at 4 KiB, and elsewhere compute and host are within 5 %"
    )
    assert winners(1, 1, 1, 1) == "compute and host are within 5 %"
    assert winners(1.2, 0.9, noise=0.5) == "no difference is measured between compute and host"
