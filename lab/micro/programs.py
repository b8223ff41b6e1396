"""Compares unmodified programs with the same programs under ferry run.

Each pair is one run of the program plain and one under ferry run, in the order A B B A, on one file
that both the kernel and ferryd have in memory. The programs are fio (psync: one pread for each
transfer), a loop in C of nothing but pread, which is compiled here, and true, for the start of a
process. ferry_lab.stats.judge judges the ratios.
"""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from common import AGAIN, BUILD, MIB, Results, Target, environment_of_run, in_turn, make_file, output, parser, seconds

from ferry_lab.stats import judge

LOOP = """
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>
static double now(void) {
  struct timespec at;
  clock_gettime(CLOCK_MONOTONIC, &at);
  return (double)at.tv_sec + (double)at.tv_nsec * 1e-9;
}
int main(int count, char** words) { /* FILE BYTES RANGE CALLS: mean ns of a call; RANGE 0: a device */
  int file = open(words[1], O_RDONLY);
  size_t bytes = (size_t)atol(words[2]);
  long range = atol(words[3]), calls = atol(words[4]), pieces = range / (long)bytes;
  char* to = malloc(bytes);
  unsigned long random = 88172645463325252UL;
  for (long at = 0; at < range; at += 65536)
    for (int i = 0; i < 4; ++i)
      if (pread(file, to, 1, at) != 1) return 1;
  usleep(range > 0 ? 200000 : 0);
  double begin = 0;
  for (int turn = 0; turn < 2; ++turn) { /* the first brings all in */
    begin = now();
    for (long i = 0; i < calls; ++i) {
      random ^= random << 13, random ^= random >> 7, random ^= random << 17;
      ssize_t got = range > 0 ? pread(file, to, bytes, (long)(random % (unsigned long)pieces) * (long)bytes)
                              : read(file, to, bytes);
      if (got != (ssize_t)bytes) return 1;
    }
  }
  printf("%.3f\\n", (now() - begin) / (double)calls * 1e9);
  return count != 5;
}
"""
FILE_BYTES = 64 * MIB


@dataclass(frozen=True)
class Programs:
    """The file, the compiled loop, and the environment that ferry run gives."""

    file: Path
    loop: Path
    served: dict[str, str]

    def environment(self, is_served: bool) -> dict[str, str]:
        """Returns the environment of a program, plain or under ferry run."""
        return self.served if is_served else dict(os.environ)

    def call_ns(self, is_served: bool, path: Path | str, size: int, span: int, calls: int) -> float:
        """Returns the mean nanoseconds of a call of the loop."""
        return float(output(self.loop, path, size, span, calls, environment=self.environment(is_served)))

    def fio(self, is_served: bool, size: int, jobs: int) -> float:
        """Returns fio's bytes per second."""
        done = output(
            "fio", "--name=read", f"--filename={self.file}", "--readonly", "--ioengine=psync", "--rw=randread",
            f"--bs={size}", f"--numjobs={jobs}", "--group_reporting", "--time_based", "--runtime=1",
            "--ramp_time=500ms", "--norandommap", "--gtod_reduce=1", "--invalidate=0", "--output-format=json",
            environment=self.environment(is_served),
        )  # fmt: skip
        return float(json.loads(done)["jobs"][0]["read"]["bw_bytes"])

    def start(self, is_served: bool) -> float:
        """Returns the milliseconds that a process takes which does nothing."""
        count = 50
        environment = self.environment(is_served)

        def all_of_them() -> None:
            for _ in range(count):
                subprocess.run(["/bin/true"], check=True, env=environment)

        return seconds(all_of_them) / count * 1e3


@dataclass(frozen=True)
class Pairing:
    """One measure: a run, plain or served, and how its pairs become ratios or differences."""

    name: str
    run: Callable[[bool], float]
    target: Target
    ratio: Callable[[float, float], float]  # of a plain and a served result


def pairings(programs: Programs) -> Iterator[Pairing]:
    """Returns what is measured."""

    def loop(size: int, span: int, calls: int) -> Callable[[bool], float]:
        return lambda is_served: programs.call_ns(is_served, programs.file, size, span, calls)

    small = 2 * MIB
    for size, wanted, calls in (512, 5, 400_000), (4096, 2, 200_000), (65536, 1, 20_000):
        for span, where in (small, "2 MiB"), (FILE_BYTES, "64 MiB"):
            name = f"pread of {size} B, random in {where}: plain / run"
            yield Pairing(name, loop(size, span, calls), ("at least", wanted), lambda plain, ours: plain / ours)
    for size, wanted in (512, 5), (4096, 2), (65536, 1):
        yield Pairing(
            f"fio psync, {size} B: run / plain", lambda is_served, size=size: programs.fio(is_served, size, 1),
            ("at least", wanted), lambda plain, ours: ours / plain,
        )  # fmt: skip
    yield Pairing(
        "fio psync, 4096 B, 8 processes: run / plain", lambda is_served: programs.fio(is_served, 4096, 8),
        None, lambda plain, ours: ours / plain,
    )  # fmt: skip
    yield Pairing(
        "read of 1 B of /dev/zero: ns above plain",
        lambda is_served: programs.call_ns(is_served, "/dev/zero", 1, 0, 1_000_000),
        ("at most", 20), lambda plain, ours: ours - plain,
    )  # fmt: skip
    yield Pairing(
        "start of a process: ms above plain", programs.start, ("at most", 5), lambda plain, ours: ours - plain
    )


def main() -> None:
    """Measures what is asked for."""
    made = parser("programs", __doc__)
    made.add_argument("--pairs", type=int, default=judge.PAIRS_MIN)
    arguments = made.parse_args()
    with tempfile.TemporaryDirectory(dir=arguments.dir, prefix="ferry-programs-") as scratch:
        folder = Path(scratch)
        file, source, compiled = folder / "files" / "data", folder / "loop.c", folder / "loop"
        file.parent.mkdir()
        make_file(file, FILE_BYTES)
        source.write_text(LOOP)
        output("cc", "-O2", "-o", compiled, source)
        socket = os.fspath(folder / "run" / "ferryd.sock")
        served = environment_of_run("--map", os.fspath(file.parent), FERRY_RUN_SOCKET=socket)
        programs = Programs(file, compiled, served)
        try:
            with Results(arguments.json) as results:
                for one in pairings(programs):
                    if arguments.only not in one.name:
                        continue
                    ways = {
                        "plain": lambda one=one: one.run(False),
                        "run": lambda one=one: one.run(True),
                        AGAIN: lambda one=one: one.run(False),
                    }
                    samples = in_turn(ways, arguments.pairs)
                    ratios = [one.ratio(a, b) for a, b in zip(samples["plain"], samples["run"], strict=True)]
                    same = [one.ratio(a, b) for a, b in zip(samples["plain"], samples[AGAIN], strict=True)]
                    results.lines.append({"name": one.name, "samples": samples})
                    results.add_ratio(one.name, ratios, same, one.target)
        finally:
            subprocess.run(
                [BUILD / "ferryd", json.dumps({"action": "stop", "socket": served["FERRY_RUN_SOCKET"]})],
                check=False, capture_output=True,
            )  # fmt: skip


if __name__ == "__main__":
    main()
