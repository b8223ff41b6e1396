"""Shared by the measuring scripts: the program, pairs, files with a known cache state, verdicts."""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from ferry_lab.stats import judge

ROOT = Path(__file__).resolve().parents[2]
BUILD = Path(os.environ.get("FERRY_BUILD_DIR", ROOT / "build" / "release"))
MIB = 1 << 20
AGAIN = "again"  # the baseline measured a second time, for the noise
Block = Callable[[], float]
Json = dict[str, Any]
Target = tuple[judge.Direction, float] | None  # None: stated only


def parser(name: str, description: str) -> argparse.ArgumentParser:
    """Returns a parser with the options that all scripts take."""
    made = argparse.ArgumentParser(
        prog=f"lab/micro/run {name}".strip(),
        description=description,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    made.add_argument("--dir", default=tempfile.gettempdir(), help="where files are made")
    made.add_argument("--only", default="", help="measures whose name contains this")
    made.add_argument("--json", type=Path, help="write all numbers here")
    return made


def write_json(path: Path | None, document: object) -> None:
    """Writes what was measured, where a file was named for it."""
    if path is not None:
        path.write_text(json.dumps(document, indent=1) + "\n")


def console() -> Console:
    """Returns a console that is wide enough for the tables where there is no terminal."""
    return Console(width=None if sys.stdout.isatty() else 150)


class Results:
    """The measures: a table with a verdict for each, and a JSON file, both made at the end, also after an error."""

    def __init__(self, path: Path | None) -> None:
        self.path = path
        self.lines: list[Json] = []
        self.table = Table("measure", "median", "95 % bounds", "wanted", "A/A bounds", "verdict")

    def __enter__(self) -> Results:
        return self

    def __exit__(self, *_: object) -> None:
        console().print(self.table)
        write_json(self.path, self.lines)

    def add_ratio(
        self, name: str, ratios: Sequence[float], same: Sequence[float], target: Target,
        margin: float | None = None, note: str = "",
    ) -> None:  # fmt: skip
        """Judges the ratios of pairs, beside those of an A/A run."""
        bounds, aa = judge.median_bounds(ratios), judge.median_bounds(same)
        if target is None:
            verdict = ""
        elif len(ratios) < judge.PAIRS_MIN:
            verdict = f"not judged: fewer than {judge.PAIRS_MIN} pairs"
        else:
            verdict = judge.judge(ratios, same, target[1], target[0], margin).verdict
        self.add_row(name, f"{bounds.median:.3f}{note}", bounds, target, f"{aa.low:.3f} to {aa.high:.3f}", verdict)

    def add_row(self, name: str, text: str, bounds: judge.Bounds, target: Target, aa: str, verdict: str) -> None:
        """Adds a row, and says so on a terminal."""
        form = ".3f" if aa else ".3g"
        wanted = "" if target is None else f"{target[0]} {target[1]:g}"
        self.table.add_row(name, text, f"{bounds.low:{form}} to {bounds.high:{form}}", wanted, aa, verdict)
        if sys.stderr.isatty():
            print(f"measured: {name}", file=sys.stderr)


def output(*command: object, environment: Mapping[str, str] | None = None) -> str:
    """Runs a command and returns what it prints; ends this program when it fails."""
    words = [str(word) for word in command]
    done = subprocess.run(words, capture_output=True, text=True, check=False, env=environment)
    if done.returncode != 0:
        sys.stderr.write(done.stderr)
        sys.exit(f"{' '.join(words)} ended with status {done.returncode}")
    return done.stdout


def mpiexec_of(build: Path) -> str:
    """Returns the mpiexec of the MPI library that a build has."""
    return str(json.loads(output(build / "ferry-bench-mpi", "--info"))["mpiexec"])


def environment_of_run(*options: str, **variables: str) -> dict[str, str]:
    """Returns the environment that ferry run with these options gives to a program."""
    words = [sys.executable, "-P", "-m", "ferry", "run", *options, "--", "env", "-0"]
    printed = output(*words, environment={**os.environ, **variables})
    return dict(line.split("=", 1) for line in printed.split("\0") if "=" in line)


def micro(*arguments: object) -> list[Json]:
    """Returns the measures that a subcommand of ferry-micro prints."""
    return [json.loads(line) for line in output(BUILD / "ferry-micro", *arguments).splitlines()]


def figure(*arguments: object) -> float:
    """Returns the last sample of the only figure that a subcommand of ferry-micro prints."""
    [line] = micro(*arguments)
    return float(line["samples"][-1])


def seconds(work: Callable[[], Any]) -> float:
    """Returns how long ``work`` takes."""
    begin = time.perf_counter()
    work()
    return time.perf_counter() - begin


def timed(work: Callable[[], Any]) -> Block:
    """Returns what measures ``work``."""
    return lambda: seconds(work)


def in_turn(ways: Mapping[str, Block], pairs: int, before: Callable[[], None] | None = None) -> dict[str, list[float]]:
    """Measures ways in the order A B C C B A and so on, each after ``before``."""
    samples: dict[str, list[float]] = {name: [] for name in ways}
    for pair in range(pairs):
        for name in ways if pair % 2 == 0 else reversed(ways):
            if before is not None:
                before()
            samples[name].append(ways[name]())
    return samples


def median(values: Sequence[float]) -> float:
    """Returns the median."""
    return judge.median_bounds(values).median


def make_file(path: Path, size: int) -> None:
    """Writes a file that no layer can compress away."""
    block = os.urandom(MIB)
    with path.open("wb") as file:
        for number in range(size // MIB):
            file.write(number.to_bytes(8, "little") + block[8:])
        os.fsync(file.fileno())


def drop(path: Path) -> None:
    """Writes a file back and asks the kernel to take it out of its page cache."""
    with path.open("rb") as file:
        os.fsync(file.fileno())
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def fio(path: Path, pattern: str, transfer_bytes: int, depth: int, *others: str) -> float:
    """Returns bytes per second of fio's direct reads through io_uring, set up for speed."""
    done = output(
        "fio", "--name=cold", f"--filename={path}", "--readonly", "--direct=1", "--ioengine=io_uring",
        "--registerfiles=1", "--fixedbufs=1", f"--rw={'randread' if pattern == 'random' else 'read'}",
        f"--bs={transfer_bytes}", f"--iodepth={depth}", "--output-format=json", *others,
    )  # fmt: skip
    return float(json.loads(done)["jobs"][0]["read"]["bw_bytes"])
