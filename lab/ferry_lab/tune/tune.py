"""``ferry tune``: measures what ``automatic`` decides from, and writes the profile.

Works in rounds within the time budget. A third of the remaining time explores candidates of as many
settings as fit, a few repeats each. Then the most promising candidate of each is measured against
the defaults, in as many pairs as a verdict needs, and finally all accepted ones together. A setting
stays built-in unless it is faster beyond the noise and nothing is slower.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import msgspec
from msgspec import UNSET

from ferry import __version__, output_files, terminal
from ferry.files import scratch_folder
from ferry.native import Json, read_info
from ferry_lab.results import results
from ferry_lab.run.made_files import make_pattern_file
from ferry_lab.run.measuring import mpiexec, run_plan
from ferry_lab.run.plan import Plan, RuntimeSettings
from ferry_lab.stats import judge
from ferry_lab.tune import profile, tune_ranks
from ferry_lab.tune.entry import Entry, TunedMachine, TuneDocument, TunedSetting, TunedWorkload
from ferry_lab.tune.tune_report import print_report
from ferry_lab.tune.tuning_choice import Outcome, Tuned, Verdict, View, judge_point, pick
from ferry_lab.tune.tuning_workloads import (
    CACHE_BYTES,
    CALL,
    DEFAULTS,
    DURABLE,
    FILE_BYTES,
    FILE_SEED,
    FLUSHED,
    Point,
    Setting,
    Workload,
    crossover_ends,
    make_settings,
)

_EXPLORE_SHARE = 0.35  # of the remaining time
_PAIRS_MAX = 100  # if there is time: more pairs show more
_EXPLORE_REPEATS, _EXPLORE_REPEATS_MIN = 8, 2
_SLACK = 1.15
_CELL_S = 0.02  # how long a cell takes, until measured
_UNPROVEN = "not judged: no state of the caches could be proven"
_MEMORY_FILE_SYSTEMS = ("tmpfs", "ramfs")  # their pages cannot be dropped


@dataclass(frozen=True)
class TuneOptions:
    folder: str  # on the storage to tune; also for scratch files
    budget_s: int
    out: str | None  # None: where the library looks
    json: str | None
    overwrite: bool
    ranks: int | None = None  # MPI ranks whose collective transfers to tune; None: do not


def run(options: TuneOptions) -> None:
    """Measures, prints the recommendation and writes the profile. Raises FerryError."""
    started = results.now()
    path = options.out if options.out is not None else profile.default_path()
    profile.check_target(path, options.overwrite)
    output_files.check_output(options.json, options.overwrite)
    if options.ranks is not None:
        mpiexec()  # raises before measuring
    with scratch_folder(options.folder, 2 * FILE_BYTES) as scratch:
        facts = read_info(str(scratch))
        label = f"tuning {os.path.abspath(options.folder)}, s"
        with terminal.progress(label, options.budget_s) as bar:
            clock = Clock(options.budget_s, bar.advance)
            outcome = measure(str(scratch), facts, clock)
    choice = None if options.ranks is None else tune_ranks.measure(options.folder, options.ranks)
    outcome.spent_s = clock.elapsed_s()
    machine, entry = make_entry(facts, outcome, started.isoformat(timespec="seconds"))
    before = profile.read(path) if os.path.exists(path) and not options.overwrite else None
    if choice is not None:
        entry.settings.append(choice.facts())
    made = msgspec.to_builtins(entry)
    collective = profile.collective_of(before, made) if choice is None else choice.entry()
    entry.collective = collective or UNSET
    merged = profile.merge(before, *map(msgspec.to_builtins, (machine, entry)))
    profile.write(path, merged)
    if options.json != "-":
        folder = os.path.abspath(options.folder)
        print_report(terminal.output_console(), folder, entry, outcome, path)
        if choice is not None:
            tune_ranks.print_choice(terminal.output_console(), choice)
    if options.json is not None:
        document = TuneDocument(machine=machine, profile=path, **msgspec.structs.asdict(entry))
        output_files.write_json(options.json, msgspec.to_builtins(document), options.overwrite)


class Clock:
    """The time budget, its progress bar, and how long a cell takes."""

    def __init__(self, budget_s: float, advance: Callable[[], None]) -> None:
        self.budget_s = budget_s
        self._advance = advance
        self._begin = time.monotonic()
        self._shown_s = 0
        self._measured_s = _CELL_S
        self._cells = 1

    def elapsed_s(self) -> float:
        return time.monotonic() - self._begin

    def left_s(self) -> float:
        return self.budget_s - self.elapsed_s()

    def show(self, _cell: str = "") -> None:
        """Updates the bar, after a sample of any cell."""
        while self._shown_s < min(self.elapsed_s(), self.budget_s) - 1:
            self._shown_s += 1
            self._advance()

    def expected_s(self, cells: int, repeats: int) -> float:
        """Returns how long this many cells will take, with one extra repeat to verify contents."""
        return self._measured_s / self._cells * cells * (repeats + 1)

    def learn(self, time_s: float, cells: int, samples: int) -> None:
        """Records how long cells took."""
        self._measured_s += time_s
        self._cells += cells + samples


# The runtimes and cells of a plan: one cell per workload and point, for some points two.
Key = tuple[Workload, Point, bool]  # the last: a second, identical series


_TIMES: dict[str, Callable[[Json], int]] = {
    CALL: results.call_ns,
    FLUSHED: results.call_and_flush_ns,
    DURABLE: results.durable_ns,
}


class Samples:
    """Times by view and point, from one plan."""

    def __init__(self) -> None:
        self.times: dict[tuple[View, Point], list[float]] = {}
        self.again: dict[View, list[float]] = {}
        self.notes: list[str] = []

    def add(self, key: Key, samples: Sequence[Json]) -> None:
        """Adds the samples of one cell, without cold reads that were not proven cold."""
        workload, point, second = key
        if workload.cold and any(s.cache_state != "cold" for s in samples):
            self.notes.append(f"{workload.name}: left out, because cold could not be proven")
            return
        for view in workload.views:
            series = [float(_TIMES[view](s)) for s in samples]
            if second:
                self.again[workload.name, view] = series
            else:
                self.times[(workload.name, view), point] = series

    def verdict(self, workloads: Iterable[Workload], point: Point) -> Verdict | None:
        """Judges a point by the views for which all three series exist; None if there are none."""
        every = [(workload.name, view) for workload in workloads for view in workload.views]
        views = [v for v in every if {(v, DEFAULTS), (v, point)} <= self.times.keys() and v in self.again]
        return judge_point(views, self.times, self.again, point) if views else None


def run_keys(folder: str, keys: Sequence[Key], repeats: int, time_limit_s: float, clock: Clock) -> Samples:
    """Measures every key, interleaved, ``repeats`` times or until time is up."""
    points = list(dict.fromkeys(point.with_setting("queue_depth", 1) for _, point, _ in keys))
    variants = {point: index for index, point in enumerate(points)}
    cells = [
        workload.cell(number, folder, point, variants[point.with_setting("queue_depth", 1)])
        for number, (workload, point, _) in enumerate(keys)
    ]
    memory_bytes = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    plan = Plan(
        cells,
        repeats,
        RuntimeSettings(cache_bytes=min(CACHE_BYTES, memory_bytes // 32), profile=False),
        variants=[point.variant() for point in points],
        time_limit_ms=max(1, int(time_limit_s * 1000)),
    )
    began_s = clock.elapsed_s()
    measurement = run_plan(plan, clock.show)
    count = sum(len(samples) for samples in measurement.samples.values())
    clock.learn(clock.elapsed_s() - began_s, len(cells), count)
    samples = Samples()
    for number, key in enumerate(keys):
        samples.add(key, measurement.samples[str(number)])
    return samples


def measure(folder: str, facts: Json, clock: Clock) -> Outcome:
    """Explores and confirms while there is time, then confirms all together. Raises FerryError."""
    make_file(folder)
    system = facts["path"]["file_system"]["type"]
    settings = make_settings(facts["machine"]["cpus_usable"], system not in _MEMORY_FILE_SYSTEMS)
    outcome = Outcome([Tuned(setting) for setting in settings])
    waiting = outcome.tuned
    while explored := _explore(folder, waiting, outcome, clock):
        waiting = _without(waiting, explored)
        _confirm(folder, explored, outcome, clock, bool(waiting))
    for tuned in waiting:
        tuned.reason = "not tried: out of time; raise --budget"
    _confirm_whole(folder, outcome, clock)
    outcome.notes = list(dict.fromkeys(outcome.notes))
    return outcome


def _without(tuned: Sequence[Tuned], others: Sequence[Tuned]) -> list[Tuned]:
    return [one for one in tuned if not any(one is other for other in others)]


def _explore(folder: str, waiting: Sequence[Tuned], outcome: Outcome, clock: Clock) -> list[Tuned]:
    """Explores candidates of as many settings as fit into the round, at least one."""
    explored: list[Tuned] = []
    until_s = clock.elapsed_s() + _EXPLORE_SHARE * clock.left_s()
    weights = [len(_explore_keys(tuned.setting)) for tuned in waiting]
    for index, tuned in enumerate(waiting):
        keys = _explore_keys(tuned.setting)
        needed_s = clock.expected_s(len(keys), _EXPLORE_REPEATS_MIN)
        left_s = until_s - clock.elapsed_s()
        if needed_s > (left_s if explored else clock.left_s()):
            continue
        share_s = max(needed_s, left_s * weights[index] / sum(weights[index:]))
        samples = run_keys(folder, keys, _EXPLORE_REPEATS, share_s, clock)
        outcome.notes += samples.notes
        tuned.candidate = pick(tuned.setting, samples.times)
        explored.append(tuned)
    return explored


def make_file(folder: str) -> None:
    """Makes the file that workloads read."""
    make_pattern_file(f"{folder}/data", FILE_BYTES, FILE_SEED)


def _explore_keys(setting: Setting) -> list[Key]:
    if setting.is_crossover:
        points: list[Point] = list(crossover_ends(setting))
    else:
        points = [DEFAULTS, *(DEFAULTS.with_setting(setting.key, c) for c in setting.candidates)]
    return [(workload, point, False) for workload in setting.workloads for point in points]


def _pair_keys(wanted: dict[Workload, list[Point]]) -> list[Key]:
    """Returns, for each workload, the defaults, the points, and the defaults again."""
    keys: list[Key] = []
    for workload, points in wanted.items():
        keys.append((workload, DEFAULTS, False))
        keys += [(workload, point, False) for point in points]
        keys.append((workload, DEFAULTS, True))
    return keys


def _wanted(tuned: Sequence[Tuned], point: Point | None = None) -> dict[Workload, list[Point]]:
    """Returns the points to measure for each workload: the candidates', or the given one."""
    wanted: dict[Workload, list[Point]] = {}
    for one in tuned:
        for workload in one.workloads():
            points = wanted.setdefault(workload, [])
            if point is None or point not in points:
                points.append(one.point() if point is None else point)
    return wanted


def _confirm(folder: str, explored: Sequence[Tuned], outcome: Outcome, clock: Clock, more: bool) -> None:
    """Judges candidates against the defaults, most promising first, while time allows.

    ``more``: other settings are still untried, so save time.
    """
    found = [tuned for tuned in explored if tuned.candidate is not None]
    waiting = sorted(found, key=_promise, reverse=True)
    while chosen := _fitting(waiting, outcome, clock):
        waiting = _without(waiting, chosen)
        left_s = clock.left_s() - _whole_s(outcome, chosen, clock)
        pairs = judge.PAIRS_MIN if waiting or more else _PAIRS_MAX
        # The estimate may be short, and too few pairs are useless.
        enough_s = clock.expected_s(len(_pair_keys(_wanted(chosen))), judge.PAIRS_MIN) * _SLACK
        _judge(folder, chosen, outcome, clock, pairs, max(left_s, enough_s))
    for tuned in waiting:
        tuned.reason = "not measured again: out of time; raise --budget"


def _fitting(waiting: Sequence[Tuned], outcome: Outcome, clock: Clock) -> list[Tuned]:
    """Returns those for which there is time, including a joint verdict on all accepted ones."""
    chosen: list[Tuned] = []
    for tuned in waiting:
        wider = [*chosen, tuned]
        cells = len(_pair_keys(_wanted(wider)))
        needed_s = clock.expected_s(cells, judge.PAIRS_MIN) + _whole_s(outcome, wider, clock)
        if needed_s <= clock.left_s():
            chosen = wider
    return chosen


def _whole_s(outcome: Outcome, chosen: Sequence[Tuned], clock: Clock) -> float:
    """Returns how long the joint verdict on accepted and candidate settings takes."""
    together = [*(one for one in outcome.tuned if one.in_force), *chosen]
    if len(together) < 2:
        return 0.0
    return clock.expected_s(len(_pair_keys(_wanted(together, DEFAULTS))), judge.PAIRS_MIN)


def _judge(
    folder: str, chosen: Sequence[Tuned], outcome: Outcome, clock: Clock, pairs: int, time_limit_s: float
) -> None:
    samples = run_keys(folder, _pair_keys(_wanted(chosen)), pairs, time_limit_s, clock)
    outcome.notes += samples.notes
    for tuned in chosen:
        tuned.verdict = samples.verdict(tuned.workloads(), tuned.point())
        tuned.in_force = tuned.verdict is not None and tuned.verdict.taken
        tuned.reason = _UNPROVEN if tuned.verdict is None else tuned.verdict.reason


def _promise(tuned: Tuned) -> float:
    return tuned.candidate.gain if tuned.candidate is not None else 0.0


def _confirm_whole(folder: str, outcome: Outcome, clock: Clock) -> None:
    """Judges all accepted settings together; if they fail, only the best one remains."""
    taken = [tuned for tuned in outcome.tuned if tuned.in_force]
    if len(taken) < 2:
        outcome.whole = taken[0].verdict if taken else None
        return
    point = outcome.point()
    wanted = _wanted(taken, point)
    left_s = clock.left_s()
    keys = _pair_keys(wanted)
    verdict = None
    why = "there was no time to measure them; raise --budget"
    if clock.expected_s(len(keys), judge.PAIRS_MIN) <= left_s * _SLACK:
        samples = run_keys(folder, keys, _PAIRS_MAX, left_s * _SLACK, clock)
        verdict = samples.verdict(wanted, point)
        why = _UNPROVEN if verdict is None else verdict.reason
    if verdict is not None and verdict.taken:
        outcome.whole = verdict
        return
    best = max(taken, key=lambda one: one.verdict.gain.median if one.verdict is not None else 0.0)
    outcome.whole = best.verdict
    outcome.notes.append(f"the settings together are not better: {why}")
    for tuned in taken:
        if tuned is not best:
            tuned.in_force = False
            tuned.reason = f"dropped: better alone, but not together with {best.setting.title}"


def make_entry(facts: Json, outcome: Outcome, measured: str) -> tuple[TunedMachine, Entry]:
    """Returns the profile's machine and its entry for the tuned storage."""
    system, machine, point = facts["path"]["file_system"], facts["machine"], outcome.point()
    disk = system["block_device"] or {}
    comparisons = outcome.whole.comparisons if outcome.whole is not None else []
    entry = Entry(
        file_system=system["type"],
        block_device=disk.get("name", UNSET),
        block_device_bytes=disk.get("size_bytes") or UNSET,
        mount_point=system["mount_point"],
        measured=measured,
        kernel=machine["kernel"],
        ferry_version=__version__,
        **point.variant(),
        queue_depth=point.queue_depth if point.queue_depth != 1 else UNSET,
        settings=[_setting_facts(tuned) for tuned in outcome.tuned],
        workloads=[
            TunedWorkload(*(*one.view, one.ratio.median, one.ratio.low, one.ratio.high), *(one.noise, one.finding))
            for one in comparisons
        ],
    )
    return TunedMachine(machine["cpu_model"] or "", machine["cpus_usable"]), entry


def _setting_facts(tuned: Tuned) -> TunedSetting:
    setting, candidate, verdict = tuned.setting, tuned.candidate, tuned.verdict
    facts = TunedSetting(setting.key, setting.default, tuned.in_force, tuned.reason)
    if candidate is not None:
        facts.candidate, facts.predicted_gain = candidate.value, candidate.gain
    if verdict is not None:
        facts.gain_median, facts.noise = verdict.gain.median, verdict.noise
        facts.gain_low_95, facts.gain_high_95 = verdict.gain.low, verdict.gain.high
    return facts
