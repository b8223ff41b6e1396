"""How ``ferry tune`` spends its budget, with artificial times."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from ferry_lab.stats import judge
from ferry_lab.tune import tune
from ferry_lab.tune.tuning_choice import Outcome, Tuned
from ferry_lab.tune.tuning_workloads import DEFAULTS
from made_up import sample

FACTS = {"machine": {"cpus_usable": 8}, "path": {"file_system": {"type": "ext4"}}}
WANT = "out of time"


class MadeUpClock(tune.Clock):
    """Advances only with measurements."""

    def __init__(self, budget_s: float, cell_s: float) -> None:
        super().__init__(budget_s, lambda: None)
        self.now_s = 0.0
        self.cell_s = cell_s

    def elapsed_s(self) -> float:
        return self.now_s


def spent(monkeypatch: pytest.MonkeyPatch, budget_s: float, cell_s: float) -> tuple[Outcome, MadeUpClock]:
    """Tunes where every other value is a fifth faster than the built-in one."""

    def run_keys(
        folder: str, keys: Sequence[tune.Key], repeats: int, limit_s: float, clock: MadeUpClock
    ) -> tune.Samples:
        del folder
        round_s = clock.cell_s * len(keys)
        done = max(1, min(repeats, int(limit_s / round_s)))
        clock.now_s += round_s * (done + 1)
        clock.learn(round_s * (done + 1), len(keys), len(keys) * done)
        samples = tune.Samples()
        for workload, point, second in keys:
            time_ns = 100 if point == DEFAULTS else 80
            times = sample(io_ns=time_ns, cache_state="cold")
            samples.add((workload, point, second), [times] * done)
        return samples

    monkeypatch.setattr(judge, "RESAMPLES", 50)  # what is sure needs no more
    monkeypatch.setattr(tune, "run_keys", run_keys)
    monkeypatch.setattr(tune, "make_file", lambda _: None)
    clock = MadeUpClock(budget_s, cell_s)
    return tune.measure("/folder", FACTS, clock), clock


def needed_s(tuned: Tuned, outcome: Outcome, clock: MadeUpClock) -> float:
    """How long a setting's next step would have taken."""
    if tuned.candidate is None:
        return clock.expected_s(len(tune._explore_keys(tuned.setting)), 2)
    cells = len(tune._pair_keys(tune._wanted([tuned])))
    return clock.expected_s(cells, judge.PAIRS_MIN) + tune._whole_s(outcome, [tuned], clock)


@pytest.mark.parametrize("cell_s", [0.01, 0.05, 0.3])
@pytest.mark.parametrize("budget_s", [10, 60, 120, 600])
def test_want_of_time_is_said_when_there_is_none(
    monkeypatch: pytest.MonkeyPatch, budget_s: float, cell_s: float
) -> None:
    outcome, clock = spent(monkeypatch, budget_s, cell_s)
    first_s = cell_s * len(tune._explore_keys(outcome.tuned[0].setting)) * 9
    assert clock.elapsed_s() <= budget_s * 1.3 + first_s, "how long a cell takes is not known before"
    for tuned in outcome.tuned:
        if WANT in tuned.reason:
            assert needed_s(tuned, outcome, clock) > clock.left_s(), tuned.setting.key


def test_with_time_everything_is_tried_and_judged(monkeypatch: pytest.MonkeyPatch) -> None:
    outcome, clock = spent(monkeypatch, 3600, 0.01)
    assert not [tuned for tuned in outcome.tuned if WANT in tuned.reason]
    assert [tuned for tuned in outcome.tuned if tuned.in_force]
    assert clock.elapsed_s() <= 3600


@pytest.mark.parametrize(("budget_s", "cell_s"), [(60, 0.1), (120, 0.2)])
def test_a_third_of_the_budget_is_not_the_end(monkeypatch: pytest.MonkeyPatch, budget_s: float, cell_s: float) -> None:
    """Even where no candidate can be judged in the time that another share would leave."""
    outcome, clock = spent(monkeypatch, budget_s, cell_s)
    assert clock.elapsed_s() > 0.9 * budget_s
    assert [tuned for tuned in outcome.tuned if tuned.verdict is not None]
