"""Collective I/O beside the MPI library's own MPI-IO: benchmarks/collective_io.py [--dir DIR] [--ranks N] [--only WORD]

Each measure is one run of bench_collective_io under mpiexec: the ways take turns (A B C C B A), every
sample is verified, and a write's time has the sync in it. MPI-IO is measured twice for the noise.
Sizes are those of the file. Prints a table for each measure: the median time, its 95 % bootstrap
bounds, how many times as long as `automatic` a way takes, and what was counted, as medians.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from rich.console import Console
from rich.table import Table

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "python"))

from ferry import judge  # noqa: E402

PROGRAM = ROOT / "build" / "release" / "bench_collective_io"
BASELINE = "automatic"
WAYS = ("automatic", "mpi", "one-rank", "independent", "mpi:again")
# Pattern and operation; cold: the file is not in the page cache.
MEASURES = (
    ("interleaved", "write", False),
    ("interleaved", "read", False),
    ("interleaved", "read", True),
    ("subarray", "write", False),
    ("subarray", "read", False),
    ("blocks", "write", False),
    ("blocks", "read", False),
)


def samples_of(
    pattern: str, operation: str, cold: bool, arguments: argparse.Namespace
) -> dict[str, list[dict]]:
    """Runs one measure and returns the samples of each way."""
    ways = [f"{way}:cold" if cold else way for way in arguments.ways.split(",")]
    command = [
        "mpiexec", "-n", str(arguments.ranks), str(PROGRAM), str(arguments.dir), pattern, operation,
        str(arguments.mib), str(arguments.repeats), *ways,
    ]  # fmt: skip
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"collective_io: {' '.join(command)} ended with status {done.returncode}")
    samples: dict[str, list[dict]] = {way: [] for way in ways}
    for line in done.stdout.splitlines():
        sample = json.loads(line)
        samples[sample["way"]].append(sample)
    return samples


def counted(samples: list[dict], key: str) -> str:
    """Returns the median of a counted quantity, or nothing where a way does not tell it."""
    if key not in samples[0]:
        return ""
    return f"{statistics.median(sample[key] for sample in samples):,.0f}"


def table_of(title: str, samples: dict[str, list[dict]]) -> Table:
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
            f"{ones[0][key] / 2**20:.0f}" if key in ones[0] else ""
            for key in ("message_bytes", "shared_bytes")
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


def main() -> None:
    """Measures and prints; with --json all samples are kept."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--dir", type=Path, default=Path(tempfile.gettempdir()), help="where the file is made")
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--mib", type=int, default=256, help="size of the file")
    parser.add_argument("--repeats", type=int, default=10)
    parser.add_argument("--ways", default=",".join(WAYS), help="a method[/writers[/buffer KiB]], mpi, one-rank")
    parser.add_argument("--only", default="", help="measures whose name contains this")
    parser.add_argument("--json", type=Path, help="write all samples here")
    arguments = parser.parse_args()
    if not PROGRAM.exists():
        sys.exit(f"collective_io: there is no {PROGRAM}; build it with `make`, with an MPI library installed")
    console = Console(width=None if sys.stdout.isatty() else 150)
    kept = {}
    for pattern, operation, cold in MEASURES:
        name = f"{pattern} {'cold ' if cold else ''}{operation}"
        if arguments.only not in name:
            continue
        samples = kept[name] = samples_of(pattern, operation, cold, arguments)
        title = f"{name}, {arguments.ranks} ranks, {arguments.mib} MiB, {arguments.repeats} repeats"
        console.print(table_of(title, samples))
    if arguments.json:
        environment = {"ranks": arguments.ranks, "mib": arguments.mib, "cpus": os.cpu_count()}
        arguments.json.write_text(json.dumps({"environment": environment, "measures": kept}, indent=1) + "\n")


if __name__ == "__main__":
    main()
