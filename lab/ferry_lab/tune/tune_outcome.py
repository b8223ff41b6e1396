"""The outcome of tuning, setting by setting."""

from __future__ import annotations

from dataclasses import dataclass, field

from ferry_lab.tune.tuning_choice import Candidate, Verdict
from ferry_lab.tune.tuning_workloads import DEFAULTS, Point, Setting, Workload


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
