"""Whether `ferry tune` finds what an exhaustive sweep finds.

Tunes a folder's storage, or takes an existing profile. Then measures, interleaved, a small grid of
settings, the built-in ones and the tuned ones. The best point has the smallest geometric mean of
times over all cases, reads and writes; the odd rounds select it and the even ones judge it. Target:
95 % of its speed in 9 of 10 cases, and never slower than the built-in settings beyond the noise.

A profile is one choice for all cases. The best choice for each single case is shown for comparison;
no profile can reach it, because a write that is flushed immediately and one that is not need
opposite settings.

    lab/micro/run tuned --dir DIRECTORY
"""

from __future__ import annotations

import itertools
import json
import sys

import msgspec
import numpy as np
from common import console, parser, write_json
from rich.table import Table

from ferry.files import scratch_folder
from ferry.native import read_info
from ferry.sizes import KIB, MIB
from ferry_lab.stats import judge
from ferry_lab.tune import profile
from ferry_lab.tune.tune import Clock, Key, make_entry, make_file, measure, run_keys
from ferry_lab.tune.tuning_choice import View, compare
from ferry_lab.tune.tuning_workloads import DEFAULTS, FILE_BYTES, NEVER, Point, Workload

CLOSE = 0.95  # of the best point
SHARE = 0.9  # of the cases
READS = [
    *(Workload("read", "stream", size) for size in (4 * KIB, 64 * KIB, MIB)),
    *(Workload("read", "stream", size, cold=True) for size in (64 * KIB, MIB)),
    Workload("read", "random", 4 * KIB),
    Workload("read", "scattered", 64 * KIB),
]
WRITES = [Workload("write", "stream", size) for size in (64 * KIB, MIB, 16 * MIB)]


def grid(axes: dict[str, list[int | str]]) -> list[Point]:
    """Returns every combination."""
    points = []
    for values in itertools.product(*axes.values()):
        point = DEFAULTS
        for key, value in zip(axes, values, strict=True):
            point = point.with_setting(key, value)
        points.append(point)
    return points


READ_POINTS = grid(
    {
        "host_stream_read_bytes_min": [64 * KIB, MIB, NEVER],
        "page_bytes": [16 * KIB, 64 * KIB, 256 * KIB],
        "readahead_bytes": [MIB, 8 * MIB],
    }
)
WRITE_POINTS = grid({"host_write_bytes_min": [64 * KIB, 4 * MIB, NEVER], "page_bytes": [64 * KIB, 256 * KIB]})


def point_of(entry: dict) -> Point:
    """Returns the settings of a profile's entry."""
    point = DEFAULTS
    keys = ("page_bytes", "readahead_bytes", "server_threads", "queue_depth")
    for key, value in {k: entry[k] for k in keys if k in entry}.items():
        point = point.with_setting(key, value)
    for key, value in entry.get("crossovers", {}).items():
        point = point.with_setting(key, value)
    return point


def sweep(folder: str, tuned: Point, rounds: int, limit_s: float, only: str) -> list[dict]:
    """Measures the grid; returns one line for each case."""
    groups = [
        ([workload for workload in workloads if only in workload.name], points)
        for workloads, points in ((READS, READ_POINTS), (WRITES, WRITE_POINTS))
    ]
    keys: dict[Key, None] = {}
    for workloads, points in groups:
        for workload in workloads:
            keys |= {(workload, point, False): None for point in (DEFAULTS, tuned, *points)}
            keys[workload, DEFAULTS, True] = None
    samples = run_keys(folder, list(keys), rounds, limit_s, Clock(limit_s, lambda: None))
    for note in samples.notes:
        print(f"note: {note}", file=sys.stderr)
    lines = []
    for workloads, points in groups:
        measured = [DEFAULTS, tuned, *points]
        views = [(workload.name, view) for workload in workloads for view in workload.views]
        times_of = {
            view: {point: samples.times[view, point] for point in measured}
            for view in views
            if view in samples.again and all((view, point) in samples.times for point in measured)
        }
        if times_of:
            best = best_of_all(list(times_of.values()))
            lines += [case(view, times, samples.again[view], tuned, best) for view, times in times_of.items()]
    return lines


def best_of_all(cases: list[dict[Point, list[float]]]) -> Point:
    """Returns the point with the least geometric mean of the cases' times, on the odd rounds."""

    def mean_log_ns(point: Point) -> float:
        return float(np.mean([np.log(odd_median(times[point])) for times in cases]))

    return min(cases[0], key=mean_log_ns)


def odd_median(series: list[float]) -> float:
    """Returns the median of the odd rounds."""
    return float(np.median(judge.odd_and_even(series)[0]))


def case(view: View, times: dict[Point, list[float]], again: list[float], tuned: Point, best: Point) -> dict:
    """Returns how the tuned settings did in one case."""
    best_here = min(times, key=lambda point: odd_median(times[point]))
    even = {point: judge.odd_and_even(series)[1] for point, series in times.items()}
    of_best = judge.median_bounds(judge.pair_ratios(even[best], even[tuned]))
    of_best_here = judge.median_bounds(judge.pair_ratios(even[best_here], even[tuned]))
    beside = compare(view, times[DEFAULTS], again, times[tuned])
    return {
        "case": " ".join(view) if view[1] != "call" else view[0],
        "rounds": len(again),
        "best_point": best.variant(),
        "of_best_median": of_best.median,
        "of_best_low_95": of_best.low,
        "of_best_high_95": of_best.high,
        "best_point_here": best_here.variant(),
        "of_best_here_median": of_best_here.median,
        "within_5_percent": best == tuned or of_best.median >= CLOSE,
        "of_default_median": beside.ratio.median,
        "of_default_low_95": beside.ratio.low,
        "of_default_high_95": beside.ratio.high,
        "noise": beside.noise,
        "finding": beside.finding if tuned != DEFAULTS else "the same settings",
    }


def show(lines: list[dict], tuned: Point) -> bool:
    """Prints the table; returns whether what is wanted was reached."""
    screen = console()
    table = Table(
        *("case", "of the best point", "95 % bounds", "of the best for this case"),
        *("of the built-in", "noise", "finding"),
    )
    for line in lines:
        table.add_row(
            line["case"],
            f"{line['of_best_median']:.2f}",
            f"{line['of_best_low_95']:.2f} to {line['of_best_high_95']:.2f}",
            f"{line['of_best_here_median']:.2f}",
            f"{line['of_default_median']:.2f}",
            f"{line['noise'] * 100:.0f} %",
            line["finding"].replace("_", " "),
        )  # fmt: skip
    screen.print(table)
    for point in dict.fromkeys(json.dumps(line["best_point"]) for line in lines):
        screen.print(f"best point: {point}")
    close = sum(line["within_5_percent"] for line in lines)
    slower = sum(line["finding"] == "slower" for line in lines)
    rounds = min(line["rounds"] for line in lines)
    screen.print(f"tuned settings: {json.dumps(tuned.variant())}, {rounds} rounds")
    screen.print(f"within 5 % of the best point: {close} of {len(lines)} cases; slower than the built-in: {slower}")
    if rounds < judge.PAIRS_MIN:
        screen.print(f"no verdict: {judge.PAIRS_MIN} rounds are needed; raise --limit")
        return False
    reached = close >= SHARE * len(lines) and slower == 0
    screen.print("reached" if reached else "missed")
    return reached


def main() -> None:
    """Tunes, sweeps, prints."""
    made = parser("tuned", __doc__)
    made.add_argument("--profile", help="take the last entry of this profile instead of tuning")
    made.add_argument("--budget", type=int, default=90, help="seconds for tuning")
    made.add_argument("--limit", type=int, default=180, help="seconds for the sweep")
    made.add_argument("--rounds", type=int, default=judge.PAIRS_MIN)
    arguments = made.parse_args()
    with scratch_folder(arguments.dir, 2 * FILE_BYTES) as scratch:
        folder = str(scratch)
        if arguments.profile:
            entry = profile.read(arguments.profile)["storages"][-1]
            make_file(folder)
        else:
            facts = read_info(folder)
            outcome = measure(folder, facts, Clock(arguments.budget, lambda: None))
            entry = msgspec.to_builtins(make_entry(facts, outcome, "now")[1])
        tuned = point_of(entry)
        lines = sweep(folder, tuned, arguments.rounds, arguments.limit, arguments.only)
    reached = show(lines, tuned)
    write_json(arguments.json, {"entry": entry, "cases": lines})
    sys.exit(0 if reached else 1)


if __name__ == "__main__":
    main()
