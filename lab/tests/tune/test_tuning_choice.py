"""How settings are chosen, with artificial times."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest
from ferry.sizes import KIB, MIB
from ferry_lab.stats.judge import PAIRS_MIN
from ferry_lab.tune.tuning_choice import Times, View, judge_point, pick
from ferry_lab.tune.tuning_workloads import (
    DEFAULTS,
    NEVER,
    SIZES,
    Point,
    Setting,
    Workload,
    by_host,
    crossover_ends,
    make_settings,
)

TUNED = DEFAULTS.with_setting("page_bytes", 4096)


def find(key: str) -> Setting:
    return next(s for s in make_settings(2, True) if s.key == key)


def series(time: float, wobble: float = 0.001, count: int = PAIRS_MIN, seed: int = 1) -> list[float]:
    generator = random.Random(f"{seed}{time}")
    return [time * (1 + generator.uniform(-wobble, wobble)) for _ in range(count)]


def explored(setting: Setting, time_of: Callable[[Workload, Point], float]) -> Times:
    """The result of exploring, where a workload takes ``time_of`` at a point."""
    points = (
        list(crossover_ends(setting))
        if setting.is_crossover
        else [DEFAULTS, *(DEFAULTS.with_setting(setting.key, c) for c in setting.candidates)]
    )
    return {
        ((w.name, view), point): series(time_of(w, point), count=4)
        for w in setting.workloads
        for view in w.views
        for point in points
    }


@pytest.mark.parametrize("truth", [4 * KIB, 256 * KIB, MIB, NEVER])
def test_a_crossover_is_found(truth: int | str) -> None:
    setting = find("host_stream_read_bytes_min")
    host, _ = crossover_ends(setting)

    def time_of(workload: Workload, point: Point) -> float:
        return 100.0 if (point == host) == by_host(workload.transfer_bytes, truth) else 200.0

    candidate = pick(setting, explored(setting, time_of))
    assert candidate is not None
    assert candidate.value == truth
    assert candidate.gain == pytest.approx(2.0, rel=0.01)


def test_a_default_that_is_best_stays() -> None:
    for setting in make_settings(2, True):
        host, _ = crossover_ends(setting)

        def time_of(workload: Workload, point: Point, setting: Setting = setting, host: Point = host) -> float:
            if setting.is_crossover:
                right = by_host(workload.transfer_bytes, setting.default)
                return 100.0 if (point == host) == right else 200.0
            return 100.0 if point == DEFAULTS else 110.0

        assert pick(setting, explored(setting, time_of)) is None, setting.key


def test_what_costs_one_workload_much_is_not_picked() -> None:
    setting = find("page_bytes")
    loser = setting.workloads[0]

    def time_of(workload: Workload, point: Point) -> float:
        if point == DEFAULTS:
            return 100.0
        if point.page_bytes == 16 * KIB:  # the fastest but for one
            return 130.0 if workload == loser else 50.0
        return 80.0 if point.page_bytes == 128 * KIB else 100.0

    candidate = pick(setting, explored(setting, time_of))
    assert candidate is not None
    assert candidate.value == 128 * KIB


def test_nothing_measured_is_nothing_picked() -> None:
    assert pick(find("page_bytes"), {}) is None


@pytest.mark.parametrize("kept", [0, 1])
def test_views_that_lack_a_point_do_not_count(kept: int) -> None:
    setting = find("page_bytes")
    times = dict(explored(setting, lambda _, point: 100.0 if point == DEFAULTS else 50.0))
    views = list(dict.fromkeys(view for view, _ in times))
    for view in views[kept:]:
        del times[view, DEFAULTS]
    candidate = pick(setting, times)
    assert (candidate is not None) == (kept > 0)


VIEWS: list[View] = [("stream read", "call"), ("other read", "call")]


def verdict_of(tuned: tuple[float, float], wobble: float = 0.001, count: int = PAIRS_MIN) -> tuple[bool, str]:
    times = {(v, DEFAULTS): series(100.0, wobble, count) for v in VIEWS}
    times |= {(v, TUNED): series(t, wobble, count, 2) for v, t in zip(VIEWS, tuned, strict=True)}
    again = {v: series(100.0, wobble, count, 3) for v in VIEWS}
    verdict = judge_point(VIEWS, times, again, TUNED)
    return verdict.taken, verdict.reason


def test_faster_beyond_the_noise_is_taken() -> None:
    assert verdict_of((80.0, 80.0))[0]
    assert verdict_of((80.0, 100.0))[0]


def test_within_the_noise_the_default_stays() -> None:
    assert verdict_of((100.0, 100.0)) == (False, "no difference beyond the noise")
    taken, reason = verdict_of((97.0, 97.0), wobble=0.3)
    assert (taken, reason) == (False, "no difference beyond the noise")


def test_what_makes_one_workload_slower_is_not_taken() -> None:
    taken, reason = verdict_of((50.0, 110.0))
    assert not taken
    assert reason.startswith("other read call would be slower: 0.91")


WRITE_VIEWS: list[View] = [("write", view) for view in ("call", "call + flush", "call + fsync")]


def verdict_of_writes(speeds: dict[str, list[float]]) -> tuple[bool, str]:
    """Writes that take 100 with the defaults, and that over these speeds with the others."""
    times = {(v, DEFAULTS): [100.0] * 40 for v in WRITE_VIEWS}
    for view in WRITE_VIEWS:
        cycle = speeds.get(view[1], [1.0])
        times[view, TUNED] = [100.0 / cycle[i % len(cycle)] for i in range(40)]
    again = {v: [100.0, 101.0] * 20 for v in WRITE_VIEWS}
    verdict = judge_point(WRITE_VIEWS, times, again, TUNED)
    return verdict.taken, verdict.reason


def test_noise_excuses_no_loss() -> None:
    """A flush of varying duration may be slower, so the setting is rejected."""
    wavering = [0.67, 0.2, 1.4, 0.67, 0.25, 1.3, 0.67]
    taken, reason = verdict_of_writes({"call": [10.0], "call + flush": wavering})
    assert not taken
    assert reason.startswith("write call + flush may be slower: 0.67 (")


def test_what_an_fsync_may_lose_counts_and_what_it_gains_does_not() -> None:
    assert verdict_of_writes({"call": [1.5], "call + flush": [1.5]})[0]
    taken, reason = verdict_of_writes({"call": [1.5], "call + flush": [1.5], "call + fsync": [0.7, 1.2, 0.9]})
    assert (taken, reason[:33]) == (False, "write call + fsync may be slower:")
    taken, reason = verdict_of_writes({"call + fsync": [2.0]})
    assert (taken, reason) == (False, "no difference beyond the noise")


def test_too_few_pairs_are_no_verdict() -> None:
    taken, reason = verdict_of((50.0, 50.0), count=PAIRS_MIN - 1)
    assert not taken
    assert "19 pairs, and 20 are needed" in reason


def test_workloads_have_names_of_their_own_and_whole_calls() -> None:
    for cpus in (1, 2, 16, 256):
        for setting in make_settings(cpus, True):
            names = [workload.name for workload in setting.workloads]
            assert len(set(names)) == len(names)
            for workload in setting.workloads:
                cell = workload.cell(0, "/folder", DEFAULTS, 0)
                assert cell.total_bytes % (cell.transfer_bytes * cell.threads) == 0


def test_without_cold_reads_there_are_none() -> None:
    for setting in make_settings(2, False):
        assert not any(workload.cold for workload in setting.workloads)


def test_a_crossover_changes_only_what_lies_between() -> None:
    setting = find("host_write_bytes_min")
    changed = [w.transfer_bytes for w in setting.relevant(256 * KIB)]
    assert changed == [16 * KIB, 64 * KIB]
    assert [w.transfer_bytes for w in setting.relevant(NEVER)] == [size for size in SIZES if size >= 16 * KIB]
