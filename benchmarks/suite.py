"""Runs the benchmark programs, and fio beside them, and judges every ratio against its target.

The rule is the one of ferry.judge: at least 20 pairs in the order A B B A, the 95 % bootstrap bound
of the median ratio must reach the target, and an A/A run as long tells what noise alone does.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table

from ferry import judge

BUILD = Path(os.environ["FERRY_BUILD_DIR"])
FILE_BYTES = 1 << 30
COLD_PAIRS = 20
COLD_SECONDS = 0.5


@dataclass(frozen=True)
class Target:
    """What is promised of one measure."""

    direction: judge.Direction
    value: float
    margin: float | None = None  # how much noise the question bears; None: the distance from 1


TARGETS = {
    "round trip / cache line ping-pong": Target("at most", 2.5),
    "futex ping-pong / round trip": Target("at least", 25),
    "eventfd ping-pong / round trip": Target("at least", 100),
    "one CPU: round trip / futex ping-pong": Target("at most", 1.5),
    "4 KiB, depth 1: host / pread": Target("at most", 1.4),
    # The same without a ring, validation or file calls: what the machine allows.
    "4 KiB, depth 1: bare hand-over / pread": Target("at most", 1.4),
    "4 KiB, depth 16: host / pread": Target("at most", 1.15),
    "1 MiB, bandwidth: host / pread": Target("at least", 0.9),
    "cold sequential 1 MiB, depth 8: host / fio": Target("at least", 0.95),
    "cold random 4 KiB, depth 32: host / fio": Target("at least", 0.95),
    # Likewise.
    "cold random 4 KiB, depth 32: bare threads / fio": Target("at least", 0.95),
}
# Figures without a counterpart: the largest median allowed, in their unit.
LIMITS = {"idle server": 1.0, "first request after idling": 100.0}


def run_program(name: str, *arguments: str) -> str:
    """Returns what a benchmark program prints; ends this one when it fails."""
    done = subprocess.run([BUILD / name, *arguments], stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"benchmarks: {name} ended with status {done.returncode}")
    return done.stdout


def lines_of(name: str, *arguments: str) -> Iterator[dict]:
    """Yields the measures that a program prints as JSON lines."""
    for line in run_program(name, *arguments).splitlines():
        yield json.loads(line)


def ferry_cold(path: Path, pattern: str, transfer_bytes: int, depth: int) -> float:
    """Returns bytes per second of Ferry's direct reads."""
    return float(
        run_program(
            "bench_cold_reads", str(path), pattern, str(transfer_bytes), str(depth), str(COLD_SECONDS)
        )
    )


def bare_cold(path: Path, pattern: str, transfer_bytes: int, depth: int) -> float:
    """Returns bytes per second of the irreducible program; it reads at random."""
    assert pattern == "random"
    return float(
        run_program("bench_bare_reads", str(path), str(transfer_bytes), str(depth), str(COLD_SECONDS))
    )


def fio_cold(path: Path, pattern: str, transfer_bytes: int, depth: int) -> float:
    """Returns bytes per second of fio's direct reads through io_uring, set up for speed."""
    command = [
        "fio", "--name=cold", f"--filename={path}", "--readonly", "--direct=1",
        "--ioengine=io_uring", "--registerfiles=1", "--fixedbufs=1",
        f"--rw={'randread' if pattern == 'random' else 'read'}", f"--bs={transfer_bytes}",
        f"--iodepth={depth}", f"--runtime={int(COLD_SECONDS * 1000)}ms", "--time_based", "--output-format=json",
    ]  # fmt: skip
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    return float(json.loads(done.stdout)["jobs"][0]["read"]["bw_bytes"])


def cold_pairs(name: str, ours: Callable[..., float], *work: object) -> dict:
    """Measures `ours` and fio in the order A B B A, then fio against itself."""
    line: dict = {"measure": name, "unit": "bytes/s", "pairs": [], "same": []}
    ours(*work)
    fio_cold(*work)
    for _ in range(COLD_PAIRS // 2):
        first, second = ours(*work), fio_cold(*work)
        third, fourth = fio_cold(*work), ours(*work)
        line["pairs"] += [
            {"ours": first, "baseline": second},
            {"ours": fourth, "baseline": third},
        ]
    for _ in range(COLD_PAIRS):
        line["same"].append({"ours": fio_cold(*work), "baseline": fio_cold(*work)})
    return line


def make_file(path: Path) -> None:
    """Writes the file that is read, with contents that no layer can compress away."""
    block = os.urandom(1 << 20)
    with path.open("wb") as file:
        for number in range(FILE_BYTES >> 20):
            file.write(number.to_bytes(8, "little") + block[8:])
        os.fsync(file.fileno())


def measures(directory: Path, only: str) -> Iterator[dict]:
    """Yields every measure whose name contains `only`."""
    if any(only in name for name in list(TARGETS)[:4] + list(LIMITS)):
        yield from lines_of("bench_round_trip")
    with tempfile.TemporaryDirectory(dir=directory, prefix="ferry-benchmarks-") as scratch:
        path = Path(scratch) / "file"
        if any(only in name for name in list(TARGETS)[4:]):
            make_file(path)
        if any(only in name for name in list(TARGETS)[4:8]):
            yield from lines_of("bench_hot_reads", str(path))
        sequential, random, bare = list(TARGETS)[8:]
        if only in sequential:
            yield cold_pairs(sequential, ferry_cold, path, "sequential", 1 << 20, 8)
        if only in random:
            yield cold_pairs(random, ferry_cold, path, "random", 4096, 32)
        if only in bare:
            yield cold_pairs(bare, bare_cold, path, "random", 4096, 32)


def row_of(line: dict) -> tuple[str, ...]:
    """Returns the table row for one measure, with its verdict."""
    name = line["measure"]
    if "samples" in line:
        bounds = judge.median_bounds(line["samples"])
        limit = LIMITS.get(name)
        verdict = "" if limit is None else "reached" if bounds.high <= limit else "missed"
        wanted = "" if limit is None else f"at most {limit:g}"
        figure = f"{bounds.median:.3g} {line['unit']}"
        return name, figure, f"{bounds.low:.3g} to {bounds.high:.3g}", wanted, "", verdict
    ratios, same = (
        judge.pair_ratios([p["ours"] for p in line[key]], [p["baseline"] for p in line[key]])
        for key in ("pairs", "same")
    )
    target = TARGETS[name]
    result = judge.judge(ratios, same, target.value, target.direction, target.margin)
    return (
        name,
        f"{result.ratio.median:.3f}",
        f"{result.ratio.low:.3f} to {result.ratio.high:.3f}",
        f"{target.direction} {target.value:g}",
        f"{result.aa.low:.3f} to {result.aa.high:.3f}",
        result.verdict,
    )


def main() -> None:
    """Measures, prints the table, and writes the raw pairs where asked."""
    parser = argparse.ArgumentParser(prog="benchmarks/run", description=__doc__.splitlines()[0])
    parser.add_argument("--dir", type=Path, default=Path(tempfile.gettempdir()), help="where the file is made")
    parser.add_argument("--only", default="", help="measures whose name contains this")
    parser.add_argument("--json", type=Path, help="write all raw numbers here")
    arguments = parser.parse_args()
    console = Console(width=None if sys.stdout.isatty() else 140)
    table = Table("measure", "median", "95 % bounds", "wanted", "A/A bounds", "verdict")
    lines = []
    for line in measures(arguments.dir, arguments.only):
        if arguments.only not in line["measure"]:
            continue
        lines.append(line)
        table.add_row(*row_of(line))
        if sys.stderr.isatty():
            print(f"measured: {line['measure']}", file=sys.stderr)
    console.print(table)
    if arguments.json:
        arguments.json.write_text(json.dumps(lines, indent=1) + "\n")


if __name__ == "__main__":
    main()
