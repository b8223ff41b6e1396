"""Compares collective I/O with the MPI library's MPI-IO.

--dir is a folder or its URI: ceph:/?conf=FILE, as printed by `./ferry rig up ceph`. For a URI the
MPI library has no driver, every sample is a new client (except writes by one rank and by calls),
`independent:unsieved` is compared with independent reads with data sieving (up to 32 requests in
flight; `calls` run one after another), and the servers' CPU time is not counted.

Each measure is one plan of ferry-bench-mpi: ways take turns (A B C C B A), samples are verified,
and write times include the sync. MPI-IO is measured twice for the noise. Sizes are the file's.
With --seconds a measure ends after the repeat in which that time ends.
--build build/openmpi uses Open MPI, if built. Prints a table per measure: median time, its 95 %
bootstrap bounds, time as a multiple of `automatic`'s, and medians of counters.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import tempfile
from collections.abc import Iterator
from pathlib import Path

from common import BUILD, MIB, Json, console, mpiexec_of, output, parser, write_json
from rich.table import Table

from ferry.uris import is_uri
from ferry_lab.stats import judge

# Open MPI refuses root, and more ranks than cores, unless it is told otherwise.
ENVIRONMENT = {
    "OMPI_ALLOW_RUN_AS_ROOT": "1",
    "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    "OMPI_MCA_rmaps_base_oversubscribe": "1",  # Open MPI 4
    "PRTE_MCA_rmaps_default_mapping_policy": ":oversubscribe",  # 5
}
BASELINE = "automatic"
WAYS = ("automatic", "mpi", "one-rank", "independent", "mpi:again")
URI_WAYS = ("automatic", "one-rank", "independent:unsieved", "independent", "calls", "automatic:again")
AGAIN = f"{BASELINE}:again"
SWEEP_TARGET = 1.05  # times the best number of writers
# Pattern and operation; cold: the file is not in the page cache.
MEASURES = (
    ("interleaved", "write", False),
    ("interleaved", "read", False),
    ("interleaved", "read", True),
    ("subarray", "write", False),
    ("subarray", "read", False),
    ("blocks", "write", False),
    ("blocks", "read", False),
    ("blocks", "read", True),
)


def measures(arguments: argparse.Namespace) -> Iterator[tuple[str, str, str, bool]]:
    """Gives the name, pattern, operation and coldness of what was asked for."""
    for pattern, operation, cold in MEASURES:
        name = f"{pattern} {'cold ' if cold else ''}{operation}"
        if arguments.only in name and not (cold and is_uri(arguments.dir)):
            yield name, pattern, operation, cold


def cell_of(way: str, pattern: str, operation: str, cold: bool, arguments: argparse.Namespace) -> Json:
    """Returns the plan's cell for a way: METHOD[/WRITERS[/BUFFER_KIB]][:unsieved], mpi, calls or one-rank."""
    base, mark, settings = arguments.dir.partition("?") if is_uri(arguments.dir) else (arguments.dir, "", "")
    total_bytes = arguments.mib * MIB
    cell: Json = {
        "id": way, "path": f"{base.rstrip('/')}/ferry-micro.tmp{mark}{settings}", "operation": operation,
        "pattern": pattern, "ranks": arguments.ranks, "total_bytes": total_bytes,
        "transfer_bytes": total_bytes // arguments.ranks, "sync": "fsync" if operation == "write" else "none",
        "cold": cold,
    }  # fmt: skip
    name, _, special = way.partition(":")
    method, *numbers = name.split("/")
    if method == "one-rank":
        return cell | {"interface": "native", "pattern": "blocks", "ranks": 1, "transfer_bytes": 4 * MIB}
    if method == "calls":
        return cell | {"interface": "native"}
    if method == "mpi":
        return cell | {"interface": "mpiio", "collective": True}
    writers, buffer_kib = (*map(int, numbers), 0, 0)[:2]
    return cell | {
        "interface": "ferry", "method": method, "writers": writers, "buffer_bytes": buffer_kib << 10,
        "sieving": special != "unsieved",
    }  # fmt: skip


def sample_of(line: Json) -> Json:
    """Returns what is shown and kept of a sample that ferry-bench-mpi printed."""
    usage = line["ranks_usage"]
    return {
        "repeat": line["repeat"],
        "method": line["method"],
        "seconds": line["elapsed_ns"] / 1e9,
        "cpu_seconds": (usage["user_cpu_ns"] + usage["system_cpu_ns"]) / 1e9,
        "context_switches": usage["voluntary_switches"] + usage["involuntary_switches"],
        "time_split": line["time_split"],
        **(line["counts"] or {}),
    }


def samples_of(pattern: str, operation: str, cold: bool, arguments: argparse.Namespace) -> dict[str, list[Json]]:
    """Runs one measure and returns the samples of each way."""
    ways = arguments.ways.split(",")
    if is_uri(arguments.dir):
        cold = operation == "read"  # each sample is a new client
        if operation == "write":
            ways = [way for way in ways if not way.endswith(":unsieved")]  # writes there never are
    plan = {
        "schema": "ferry.plan/3", "repeats": arguments.repeats, "time_limit_ms": arguments.seconds * 1000,
        "runtime": {"device": "ranks"},
        "cells": [cell_of(way, pattern, operation, cold, arguments) for way in ways],
    }  # fmt: skip
    program = arguments.build / "ferry-bench-mpi"
    launch = [mpiexec_of(arguments.build), "-n", arguments.ranks, program]
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        json.dump(plan, file)
        file.flush()
        printed = output(*launch, "--plan", file.name, environment={**ENVIRONMENT, **os.environ})
    samples: dict[str, list[Json]] = {way: [] for way in ways}
    for line in map(json.loads, printed.splitlines()):
        if line["type"] == "sample":
            samples[line["cell"]].append(sample_of(line))
    return samples


def counted(samples: list[Json], key: str) -> str:
    """Returns the median of a counted quantity, or nothing where a way does not tell it."""
    if key not in samples[0]:
        return ""
    return f"{statistics.median(sample[key] for sample in samples):,.0f}"


def table_of(title: str, samples: dict[str, list[Json]]) -> Table:
    """Returns one measure as a table."""
    table = Table(
        "way", "ms", "95 % bounds", "times automatic", "CPU ms", "requests", "messages", "message MiB",
        "shared MiB", "switches", title=title, title_justify="left",
    )  # fmt: skip
    seconds = {way: [sample["seconds"] for sample in ones] for way, ones in samples.items()}
    baseline = next(times for way, times in seconds.items() if way.startswith(BASELINE))
    for way, ones in samples.items():
        bounds = judge.median_bounds(seconds[way])
        ratio = judge.median_bounds(judge.pair_ratios(seconds[way], baseline))
        cpu_s = statistics.median(one["cpu_seconds"] for one in ones)
        megabytes = [
            f"{ones[0][key] / 2**20:.0f}" if key in ones[0] else "" for key in ("message_bytes", "shared_bytes")
        ]
        table.add_row(
            way,
            f"{bounds.median * 1e3:.0f}",
            f"{bounds.low * 1e3:.0f} to {bounds.high * 1e3:.0f}",
            f"{ratio.median:.2f} ({ratio.low:.2f} to {ratio.high:.2f})",
            f"{cpu_s * 1e3:.0f}",
            counted(ones, "storage_requests"),
            counted(ones, "messages"),
            *megabytes,
            counted(ones, "context_switches"),
        )
    return table


def both_orders(samples: list[Json]) -> list[Json]:
    """Returns the samples in the order 0 2 1 3 4 6 5 7 and so on.

    Every second repeat measures the ways backwards. So there are as many of these among the odd ones,
    which pick the best way, as among the even ones, which judge.
    """
    whole = len(samples) // 4 * 4
    return [samples[start + i] for start in range(0, whole, 4) for i in (0, 2, 1, 3)]


def sweep(arguments: argparse.Namespace) -> dict[str, dict[str, list[Json]]]:
    """Holds `automatic` against the best number of writers: picked on the odd repeats, judged on the even ones."""
    counts = sorted({count for count in (1, 2, 3, 4, 6, 8, 12, 16) if count < arguments.ranks} | {arguments.ranks})
    points = [f"aggregate/{count}" for count in counts] + ["independent"]
    arguments.ways = ",".join([BASELINE, *points, AGAIN])
    kept = {}
    for name, pattern, operation, cold in measures(arguments):
        samples = kept[name] = samples_of(pattern, operation, cold, arguments)
        seconds = {way: [sample["seconds"] for sample in both_orders(ones)] for way, ones in samples.items()}
        repeats = len(seconds[BASELINE])
        if repeats < 2 * judge.PAIRS_MIN:
            print(f"{name}: {repeats} repeats in {arguments.seconds} s, too few to judge; take a smaller --mib")
            continue
        best = judge.pick_best({point: seconds[point] for point in points})
        even = {way: judge.odd_and_even(times)[1] for way, times in seconds.items()}
        judgement = judge.judge(
            judge.pair_ratios(even[BASELINE], even[best]),
            judge.pair_ratios(even[AGAIN], even[BASELINE]),
            SWEEP_TARGET,
            "at most",
        )
        medians = ", ".join(f"{way} {statistics.median(times) * 1e3:.0f}" for way, times in seconds.items())
        print(f"{name}, {arguments.ranks} ranks, {arguments.mib} MiB: best {best}; {judgement.sentence()}")
        print(f"  ms, medians: {medians}")
    return kept


def main() -> None:
    """Measures and prints; with --json all samples are kept."""
    made = parser("collective", __doc__)
    made.add_argument("--ranks", type=int, default=2)
    made.add_argument("--mib", type=int, default=256, help="size of the file")
    made.add_argument("--repeats", type=int, default=10)
    made.add_argument("--seconds", type=int, default=0, help="of a measure, then no repeat begins; 0: no limit")
    made.add_argument(
        "--ways", help="a method[/writers[/buffer KiB]][:unsieved], mpi, calls, one-rank; with commas between them"
    )
    made.add_argument("--build", type=Path, default=BUILD, help="a build directory; of the checkout: build/release")
    made.add_argument(
        "--sweep", action="store_true", help="hold automatic against every number of writers; 40 repeats or more"
    )
    arguments = made.parse_args()
    if arguments.ways is None:
        arguments.ways = ",".join(URI_WAYS if is_uri(arguments.dir) else WAYS)
    if arguments.sweep and arguments.repeats < 2 * judge.PAIRS_MIN:
        made.error(f"--sweep needs --repeats of {2 * judge.PAIRS_MIN} or more")
    kept = sweep(arguments) if arguments.sweep else {}
    for name, pattern, operation, cold in () if arguments.sweep else measures(arguments):
        samples = kept[name] = samples_of(pattern, operation, cold, arguments)
        repeats = len(next(iter(samples.values())))
        title = f"{name}, {arguments.ranks} ranks, {arguments.mib} MiB, {repeats} repeats"
        console().print(table_of(title, samples))
    environment = {"ranks": arguments.ranks, "mib": arguments.mib, "cpus": os.cpu_count()}
    write_json(arguments.json, {"environment": environment, "measures": kept})


if __name__ == "__main__":
    main()
