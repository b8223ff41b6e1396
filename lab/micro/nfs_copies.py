"""Measures `nfs://` beside `nfs-cp` of libnfs-utils, against the same server: write and cold read.

Usage: sudo lab/micro/nfs_copies.py [write|read] [--pairs N] [--bytes N] [--memory]; needs the packages
of scripts/packages-rigs.txt and libnfs-utils. The server is the rig's, and is stopped again unless it
was up. Pairs go in the order A B B A.

`nfs-cp` copies from and to a file in /dev/shm; its whole time counts, and it too ends a write with a
commit. Beside it:

- Ferry's stream (lab/micro/storage_streams.cpp) from and to memory, as a program makes it;
- the bare calls (lab/micro/bare_nfs.cpp) that such a stream needs at least: what they miss, the
  machine does not allow;
- `ferry cp` from and to the same file as nfs-cp. Its verification, which nfs-cp has none of, does not
  count.

Before a write, untimed, a file without a name takes as much memory on the server as it will need: a
virtual machine may have given free memory back to its host. Before a cold read the server's file is
dropped from the page cache.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "python"), str(ROOT / "lab")]

from ferry_lab.stats import judge  # noqa: E402

RIG = ROOT / "rigs" / "rig"
BUILD = ROOT / "build" / "release"
STATE = ROOT / ".ferry" / "rig" / "nfs"
TARGET = 1.5
BARE_CONNECTIONS, BARE_DEPTH = 4, 2  # the fastest of those tried


def is_up() -> bool:
    """Whether the rig runs already."""
    status = subprocess.run([RIG, "status"], capture_output=True, text=True, check=True).stdout
    return any(line.split()[:2] == ["nfs", "up"] for line in status.splitlines())


def served() -> Path:
    """Returns the served folder as the server sees it, in its mount namespace."""
    number = (STATE / "ganesha.process").read_text().split()[0]
    return Path(f"/proc/{number}/root{STATE}/export")


def drop(path: Path) -> None:
    """Drops a file from the page cache of this machine, which is the server's, too."""
    with path.open("rb") as file:
        os.fsync(file.fileno())
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def fetch_memory(folder: Path, size: int) -> None:
    """Has the machine hold `size` bytes and a quarter of free memory."""
    with tempfile.TemporaryFile(dir=folder) as file:
        for _ in range(size * 5 // 4 >> 20):
            file.write(bytes(1 << 20))


def output(*command: str | Path) -> str:
    """Runs a command; what it printed."""
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


class Sides:
    """The ways to move one file of `size` bytes; each gives its seconds."""

    def __init__(self, uri: Callable[[str], str], size: int, local: Path) -> None:
        self.uri, self.size, self.local = uri, str(size), local

    def stream(self, kind: str) -> float:
        """Moves it by Ferry, from or to memory."""
        return float(output(BUILD / "bench_storage_streams", kind, "1", self.size, self.uri("file")))

    def bare(self, kind: str) -> float:
        """Moves it by asynchronous calls of libnfs and nothing else."""
        return float(output(BUILD / "bench_bare_nfs", kind, str(BARE_CONNECTIONS), str(BARE_DEPTH),
                            self.size, self.uri("file0")))

    def between(self, kind: str) -> tuple[str, str]:
        """Source and target of a copy."""
        here, there = str(self.local / kind), self.uri("file0")
        if kind == "read":
            Path(here).unlink(missing_ok=True)
            return there, here
        return here, there

    def copy(self, kind: str) -> float:
        """Copies it by Ferry; seconds until it was written and durable."""
        line = json.loads(output(BUILD / "ferry-copy", *self.between(kind)).splitlines()[-1])
        return float(line["copy_s"] + line["sync_s"])

    def peer(self, kind: str) -> float:
        """Copies it by nfs-cp; seconds of the whole process."""
        source, target = self.between(kind)
        begin = time.monotonic()
        output("nfs-cp", source, target)
        return time.monotonic() - begin


def measure(name: str, kind: str, pairs: int, sides: Sides, before: Callable[[], None]) -> None:
    """Prints for each way its median, its ratio of speeds to nfs-cp, and nfs-cp's to itself."""
    ways = {
        "Ferry": sides.stream, "nfs-cp": sides.peer, "nfs-cp again": sides.peer,
        "bare libnfs": sides.bare, "ferry cp": sides.copy,
    }
    samples: dict[str, list[float]] = {name: [] for name in ways}
    for pair in range(pairs):
        for way in ways if pair % 2 == 0 else reversed(ways):
            before()
            samples[way].append(ways[way](kind))
    peers = samples["nfs-cp"]
    same = judge.pair_ratios(peers, samples["nfs-cp again"])
    print(f"{name}: nfs-cp {judge.median_bounds(peers).median:.3f} s")
    for way in ("Ferry", "bare libnfs", "ferry cp"):
        verdict = judge.judge(
            judge.pair_ratios(peers, samples[way]), same, TARGET, "at least", 0.1
        )
        print(f"  {way} {judge.median_bounds(samples[way]).median:.3f} s; {verdict.sentence()} "
              f"(A/A {verdict.aa.low:.2f} to {verdict.aa.high:.2f})", flush=True)


def main() -> None:
    """Starts the server, measures, and stops it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("kind", nargs="?", choices=["write", "read"])
    parser.add_argument("--pairs", type=int, default=judge.PAIRS_MIN)
    parser.add_argument("--bytes", type=int, default=256 << 20)
    parser.add_argument("--memory", action="store_true", help="the server stores in memory")
    arguments = parser.parse_args()
    was_up = is_up()
    base, _, settings = output(
        RIG, "up", "nfs", *(["--memory"] if arguments.memory else [])
    ).strip().partition("?")
    label = "in memory" if arguments.memory else "on the disk"

    try:
        with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
            sides = Sides(lambda name: f"{base}/{name}?{settings}", arguments.bytes, Path(folder))
            (Path(folder) / "write").write_bytes(os.urandom(arguments.bytes))
            sides.peer("write")
            file = served() / "file0"

            def before_write() -> None:
                file.unlink(missing_ok=True)
                fetch_memory(served(), arguments.bytes)

            def before_read() -> None:
                if not arguments.memory:
                    drop(file)

            if arguments.kind != "read":
                measure(f"write, {label}", "write", arguments.pairs, sides, before_write)
            if arguments.kind != "write":
                name = "read" if arguments.memory else "cold read"
                measure(f"{name}, {label}", "read", arguments.pairs, sides, before_read)
            file.unlink(missing_ok=True)
    finally:
        if not was_up:
            subprocess.run([RIG, "down", "nfs"], check=True)


if __name__ == "__main__":
    main()
