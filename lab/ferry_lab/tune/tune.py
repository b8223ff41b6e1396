"""``ferry tune``: measures what ``automatic`` needs to know, and writes the profile.

In rounds, for as long as the time budget lasts: candidates of as many settings as a third of the
time that is left allows, a few times each; then the most promising one of each against the
defaults, in as many pairs as a verdict needs. Where several are taken, all of them together against
the defaults. What is not faster beyond the noise, or not shown to be as fast in everything, stays
as it is built in.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from ferry import __version__, output_files, terminal
from ferry.files import scratch_folder
from ferry.native import read_info
from ferry.sizes import MIB
from ferry_lab.results import results
from ferry_lab.run import mpi_native
from ferry_lab.run.measuring import run_plan
from ferry_lab.run.plan import Cell, Plan, RuntimeSettings
from ferry_lab.stats import judge
from ferry_lab.tune import profile, tune_ranks
from ferry_lab.tune.tune_outcome import Outcome, Tuned
from ferry_lab.tune.tune_report import print_report
from ferry_lab.tune.tuning_choice import View, judge_point, pick
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

SCHEMA = "ferry.tune/1"
_EXPLORE_SHARE = 0.35  # of the time that is left
_PAIRS_MAX = 100  # where time is left: the more pairs, the more can be shown
_EXPLORE_REPEATS, _EXPLORE_REPEATS_MIN = 8, 2
_SLACK = 1.15
_CELL_S = 0.02  # how long a cell takes, until it is known
_MEMORY_FILE_SYSTEMS = ("tmpfs", "ramfs")  # their pages cannot be dropped

Json = dict[str, Any]


@dataclass(frozen=True)
class TuneOptions:
    """What was asked for."""

    folder: str  # whose storage is tuned; scratch files go there
    budget_s: int
    out: str | None  # None: where the library looks
    json: str | None
    overwrite: bool
    ranks: int | None = None  # of MPI, whose collective transfers are tuned; None: they are not


def run(options: TuneOptions) -> None:
    """Measures, prints what it recommends, and writes the profile. Raises FerryError."""
    started = results.now()
    path = options.out if options.out is not None else profile.default_path()
    profile.check_target(path, options.overwrite)
    output_files.check_output(options.json, options.overwrite)
    if options.ranks is not None:
        mpi_native.mpiexec()  # raises before anything is measured
    with scratch_folder(options.folder, 2 * FILE_BYTES) as scratch:
        facts = read_info(str(scratch))
        with _clock(options) as clock:
            outcome = measure(str(scratch), facts, clock)
    choice = None if options.ranks is None else tune_ranks.measure(options.folder, options.ranks)
    outcome.spent_s = clock.elapsed_s()
    machine, entry = make_entry(facts, outcome, started.isoformat(timespec="seconds"))
    before = None
    if os.path.exists(path) and not options.overwrite:
        before = profile.read(path)
    if choice is not None:
        entry["settings"].append(choice.facts())
    collective = profile.collective_of(before, entry) if choice is None else choice.entry()
    if collective:
        entry["collective"] = collective
    profile.write(path, profile.merge(before, machine, entry))
    if options.json != "-":
        folder = os.path.abspath(options.folder)
        print_report(terminal.output_console(), folder, entry, outcome, path)
        if choice is not None:
            tune_ranks.print_choice(terminal.output_console(), choice)
    if options.json is not None:
        document = {"schema": SCHEMA, "machine": machine, "profile": path, **entry}
        output_files.write_json(options.json, document, options.overwrite)


class Clock:
    """The time budget, the bar that shows how much of it is spent, and how long a cell takes."""

    def __init__(self, budget_s: float, advance: Callable[[], None]) -> None:
        """Starts it; ``advance`` moves the bar by a second."""
        self.budget_s = budget_s
        self._advance = advance
        self._begin = time.monotonic()
        self._shown_s = 0
        self._measured_s = _CELL_S
        self._cells = 1

    def elapsed_s(self) -> float:
        """Returns the time since it began."""
        return time.monotonic() - self._begin

    def left_s(self) -> float:
        """Returns how much of the budget is not spent."""
        return self.budget_s - self.elapsed_s()

    def show(self, _cell: str = "") -> None:
        """Brings the bar up to date, after a sample of any cell."""
        while self._shown_s < min(self.elapsed_s(), self.budget_s) - 1:
            self._shown_s += 1
            self._advance()

    def expected_s(self, cells: int, repeats: int) -> float:
        """Returns how long so many cells will take; looking at their contents is one repeat."""
        return self._measured_s / self._cells * cells * (repeats + 1)

    def learn(self, time_s: float, cells: int, samples: int) -> None:
        """Notes how long cells took just now."""
        self._measured_s += time_s
        self._cells += cells + samples


@contextmanager
def _clock(options: TuneOptions) -> Iterator[Clock]:
    label = f"tuning {os.path.abspath(options.folder)}, s"
    with terminal.progress(label, options.budget_s) as bar:
        yield Clock(options.budget_s, bar.advance)


# Which runtimes and cells a plan has: for each workload and point one cell, for some two.
Key = tuple[Workload, Point, bool]  # the last: a second series of the same


_TIMES: dict[str, Callable[[Json], int]] = {
    CALL: results.call_ns,
    FLUSHED: results.call_and_flush_ns,
    DURABLE: results.call_and_sync_ns,
}


class Samples:
    """Times by view and point, of one plan."""

    def __init__(self) -> None:
        """Holds nothing yet."""
        self.times: dict[tuple[View, Point], list[float]] = {}
        self.again: dict[View, list[float]] = {}
        self.notes: list[str] = []

    def add(self, key: Key, samples: Sequence[Json]) -> None:
        """Takes the samples of one cell; leaves out a cold read that was not proven cold."""
        workload, point, second = key
        if workload.cold and any(s["cache_state"] != "cold" for s in samples):
            self.notes.append(f"{workload.name}: left out, because cold could not be proven")
            return
        for view in workload.views:
            series = [float(_TIMES[view](s)) for s in samples]
            if second:
                self.again[workload.name, view] = series
            else:
                self.times[(workload.name, view), point] = series


def run_keys(
    folder: str, keys: Sequence[Key], repeats: int, time_limit_s: float, clock: Clock
) -> Samples:
    """Measures every key, interleaved, ``repeats`` times or until the time is over."""
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
    """Explores and confirms while there is time, and looks at the whole. Raises FerryError."""
    make_file(folder)
    system = facts["path"]["file_system"]["type"]
    settings = make_settings(facts["machine"]["cpus_usable"], system not in _MEMORY_FILE_SYSTEMS)
    outcome = Outcome([Tuned(setting) for setting in settings])
    waiting = outcome.tuned
    while explored := _explore(folder, waiting, outcome, clock):
        waiting = _without(waiting, explored)
        _confirm(folder, explored, outcome, clock, bool(waiting))
    for tuned in waiting:
        tuned.reason = "not tried, for want of time; raise --budget"
    _confirm_whole(folder, outcome, clock)
    outcome.notes = list(dict.fromkeys(outcome.notes))
    return outcome


def _without(tuned: Sequence[Tuned], others: Sequence[Tuned]) -> list[Tuned]:
    return [one for one in tuned if not any(one is other for other in others)]


def _explore(
    folder: str, waiting: Sequence[Tuned], outcome: Outcome, clock: Clock
) -> list[Tuned]:
    """Looks for candidates of as many settings as the round has time for; at least of one."""
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
    cell = Cell(
        id="data",
        interface="posix",
        operation="write",
        path=f"{folder}/data",
        transfer_bytes=MIB,
        total_bytes=FILE_BYTES,
        sync="fsync",
        keep=True,
        seed=FILE_SEED,
    )
    run_plan(Plan([cell], 1))


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


def _views(workloads: Sequence[Workload], samples: Samples, point: Point) -> list[View]:
    """Returns those that all three series are there of."""
    views = [(workload.name, view) for workload in workloads for view in workload.views]
    times, again = samples.times, samples.again
    return [v for v in views if (v, DEFAULTS) in times and (v, point) in times and v in again]


def _wanted(tuned: Sequence[Tuned], point: Point | None = None) -> dict[Workload, list[Point]]:
    """Returns the points to measure of each workload: the candidates', or the one given."""
    wanted: dict[Workload, list[Point]] = {}
    for one in tuned:
        for workload in one.workloads():
            points = wanted.setdefault(workload, [])
            if point is None or point not in points:
                points.append(one.point() if point is None else point)
    return wanted


def _confirm(
    folder: str, explored: Sequence[Tuned], outcome: Outcome, clock: Clock, more: bool
) -> None:
    """Judges candidates against the defaults, the most promising ones first, as time allows.

    ``more``: other settings are still to be tried, so that time is precious.
    """
    found = [tuned for tuned in explored if tuned.candidate is not None]
    waiting = sorted(found, key=_promise, reverse=True)
    while chosen := _fitting(waiting, outcome, clock):
        waiting = _without(waiting, chosen)
        left_s = clock.left_s() - _whole_s(outcome, chosen, clock)
        pairs = judge.PAIRS_MIN if waiting or more else _PAIRS_MAX
        # The estimate may be a little short, and too few pairs are worth nothing.
        enough_s = clock.expected_s(len(_pair_keys(_wanted(chosen))), judge.PAIRS_MIN) * _SLACK
        _judge(folder, chosen, outcome, clock, pairs, max(left_s, enough_s))
    for tuned in waiting:
        tuned.reason = "not measured again, for want of time; raise --budget"


def _fitting(waiting: Sequence[Tuned], outcome: Outcome, clock: Clock) -> list[Tuned]:
    """Returns those that there is time for, and for a look at all that may be taken together."""
    chosen: list[Tuned] = []
    for tuned in waiting:
        wider = [*chosen, tuned]
        cells = len(_pair_keys(_wanted(wider)))
        needed_s = clock.expected_s(cells, judge.PAIRS_MIN) + _whole_s(outcome, wider, clock)
        if needed_s <= clock.left_s():
            chosen = wider
    return chosen


def _whole_s(outcome: Outcome, chosen: Sequence[Tuned], clock: Clock) -> float:
    """Returns how long it takes to judge together what is taken and what may be."""
    together = [*(one for one in outcome.tuned if one.in_force), *chosen]
    if len(together) < 2:
        return 0.0
    return clock.expected_s(len(_pair_keys(_wanted(together, DEFAULTS))), judge.PAIRS_MIN)


def _judge(
    folder: str,
    chosen: Sequence[Tuned],
    outcome: Outcome,
    clock: Clock,
    pairs: int,
    time_limit_s: float,
) -> None:
    samples = run_keys(folder, _pair_keys(_wanted(chosen)), pairs, time_limit_s, clock)
    outcome.notes += samples.notes
    for tuned in chosen:
        views = _views(tuned.workloads(), samples, tuned.point())
        if not views:
            tuned.reason = "not judged: no state of the caches could be proven"
            continue
        tuned.verdict = judge_point(views, samples.times, samples.again, tuned.point())
        tuned.in_force = tuned.verdict.taken
        tuned.reason = tuned.verdict.reason


def _promise(tuned: Tuned) -> float:
    return tuned.candidate.gain if tuned.candidate is not None else 0.0


def _confirm_whole(folder: str, outcome: Outcome, clock: Clock) -> None:
    """Judges all settings taken, together; where they do not pass, the best one alone remains."""
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
        views = _views(list(wanted), samples, point)
        verdict = judge_point(views, samples.times, samples.again, point)
        why = verdict.reason
    if verdict is not None and verdict.taken:
        outcome.whole = verdict
        return
    best = max(taken, key=lambda one: one.verdict.gain.median if one.verdict is not None else 0.0)
    outcome.whole = best.verdict
    outcome.notes.append(f"together the settings did not pass: {why}")
    for tuned in taken:
        if tuned is not best:
            tuned.in_force = False
            tuned.reason = f"given up: passes alone, but not together with {best.setting.title}"


def make_entry(facts: Json, outcome: Outcome, measured: str) -> tuple[Json, Json]:
    """Returns the profile's machine, and its entry for the storage that was tuned."""
    system, machine = facts["path"]["file_system"], facts["machine"]
    entry: Json = {"device": "cpu", "file_system": system["type"]}
    if system["block_device"] is not None:
        entry["block_device"] = system["block_device"]["name"]
        if system["block_device"]["size_bytes"]:
            entry["block_device_bytes"] = system["block_device"]["size_bytes"]
    entry["mount_point"] = system["mount_point"]
    entry["measured"] = measured
    entry["kernel"] = machine["kernel"]
    entry["ferry_version"] = __version__
    point = outcome.point()
    entry |= point.variant()
    if point.queue_depth != 1:
        entry["queue_depth"] = point.queue_depth
    entry["settings"] = [_setting_facts(tuned) for tuned in outcome.tuned]
    entry["workloads"] = [
        {
            "workload": comparison.view[0],
            "time": comparison.view[1],
            "speed_ratio_median": comparison.ratio.median,
            "speed_ratio_low_95": comparison.ratio.low,
            "speed_ratio_high_95": comparison.ratio.high,
            "noise": comparison.noise,
            "finding": comparison.finding,
        }
        for comparison in (outcome.whole.comparisons if outcome.whole is not None else [])
    ]
    named = {"cpu_model": machine["cpu_model"] or "", "cpus_usable": machine["cpus_usable"]}
    return named, entry


def _setting_facts(tuned: Tuned) -> Json:
    setting, candidate, verdict = tuned.setting, tuned.candidate, tuned.verdict
    facts: Json = {"name": setting.key, "default": setting.default, "taken": tuned.in_force}
    facts["reason"] = tuned.reason
    if candidate is not None:
        facts["candidate"] = candidate.value
        facts["predicted_gain"] = candidate.gain
    if verdict is not None:
        facts["gain_median"] = verdict.gain.median
        facts["gain_low_95"] = verdict.gain.low
        facts["gain_high_95"] = verdict.gain.high
        facts["noise"] = verdict.noise
    return facts

