"""Runs the benchmark programs, and fio beside them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

BUILD = Path(os.environ["FERRY_BUILD_DIR"])
TMPFS = "/dev/shm"
FILE_BYTES = 1 << 30
COLD_PAIRS = 20
COLD_SECONDS = 0.5


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


def cached_cold(path: Path, _pattern: str, _transfer_bytes: int, _depth: int) -> float:
    """Returns bytes per second of reads in 64 KiB calls through the page cache, whatever fio does."""
    return float(run_program("bench_cold_cached", str(path), str(64 << 10), str(COLD_SECONDS)))


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


def make_file(path: Path, file_bytes: int) -> None:
    """Writes the file that is read, with contents that no layer can compress away."""
    block = os.urandom(1 << 20)
    with path.open("wb") as file:
        for number in range(file_bytes >> 20):
            file.write(number.to_bytes(8, "little") + block[8:])
        os.fsync(file.fileno())


# How the names of a program's measures begin.
PROGRAMS = {
    "bench_round_trip": (
        "round trip", "futex ping-pong", "eventfd ping-pong", "one CPU", "idle server", "first request",
        "requests per second",
    ),
    "bench_hot_reads": ("4 KiB, depth", "1 MiB, bandwidth"),
    "bench_cached_calls": ("cached ", "overwrite"),
    "bench_held_views": ("held view",),
    "bench_new_files": ("new file", "write + fsync", "bytes written"),
    "bench_optimizations": ("4 MiB records",),
    "bench_scaling": ("two threads",),
    "bench_placements": ("automatic",),
    "bench_tool_overhead": ("4 KiB hot",),
}  # fmt: skip
# Name, who is measured beside fio, and what fio does.
COLD = (
    ("cold sequential 1 MiB, depth 8: host / fio", ferry_cold, ("sequential", 1 << 20, 8)),
    ("cold random 4 KiB, depth 32: host / fio", ferry_cold, ("random", 4096, 32)),
    ("cold random 4 KiB, depth 32: bare threads / fio", bare_cold, ("random", 4096, 32)),
    ("cold sequential 64 KiB: compute / fio 1 MiB, depth 8", cached_cold, ("sequential", 1 << 20, 8)),
)


def is_wanted(program: str, names: list[str], only: str) -> bool:
    """Tells whether a program has a measure among `names` whose name contains `only`."""
    return any(only in name for name in names if name.startswith(PROGRAMS[program]))


def measures(directory: Path, names: list[str], only: str) -> Iterator[dict]:
    """Yields every measure of `names` whose name contains `only`, and others of the same programs."""
    wanted = [name for name in PROGRAMS if is_wanted(name, names, only) and (BUILD / name).exists()]
    cold = [entry for entry in COLD if only in entry[0]]
    if "bench_round_trip" in wanted:
        yield from lines_of("bench_round_trip")
    with tempfile.TemporaryDirectory(dir=directory, prefix="ferry-benchmarks-") as scratch:
        path, other = Path(scratch) / "file", Path(scratch) / "other"
        arguments = {
            "bench_hot_reads": (path,),
            "bench_cached_calls": (path, only),
            "bench_held_views": (path, only),
            "bench_new_files": (scratch, TMPFS, only),
            "bench_optimizations": (path, only),
            "bench_scaling": (path, other, only),
            "bench_placements": (path, only),
            "bench_tool_overhead": (path, only),
        }
        if cold or set(wanted) - {"bench_round_trip", "bench_new_files"}:
            make_file(path, FILE_BYTES)
        if "bench_scaling" in wanted:
            make_file(other, FILE_BYTES // 8)
        for name, program, work in cold:
            yield cold_pairs(name, program, path, *work)
        for name, values in arguments.items():
            if name in wanted:
                yield from lines_of(name, *map(str, values))
