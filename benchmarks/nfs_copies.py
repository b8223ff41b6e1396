"""Measures `nfs://` beside `nfs-cp` of libnfs-utils, against the same server: write and cold read.

Usage: sudo benchmarks/nfs_copies.py [--pairs N] [--bytes N] [--memory]; needs the packages nfs-ganesha,
nfs-ganesha-vfs, rpcbind and libnfs-utils. The server is the rig's, and is stopped again. Pairs go in
the order A B B A. Of `ferry cp` the time to write and make durable counts, or to read and write; its
verification, which nfs-cp has none of, does not. Of nfs-cp the whole time counts; it too ends a write
with a sync. Before a cold read the server's file is dropped from the page cache.
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

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "python"))

from ferry import judge  # noqa: E402

RIG = ROOT / "rigs" / "rig"
FERRY_COPY = ROOT / "build" / "release" / "ferry-copy"
STATE = ROOT / ".ferry" / "rig" / "nfs"
TARGET = 1.5


def served() -> Path:
    """Returns the served folder as the server sees it, in its mount namespace."""
    number = (STATE / "ganesha.process").read_text().split()[0]
    return Path(f"/proc/{number}/root{STATE}/export")


def drop(path: Path) -> None:
    """Drops a file from the page cache of this machine, which is the server's, too."""
    with path.open("rb") as file:
        os.fsync(file.fileno())
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def ferry_s(source: str, target: str) -> float:
    """Copies by Ferry; seconds until it was written and durable."""
    done = subprocess.run(
        [FERRY_COPY, source, target], capture_output=True, text=True, check=True
    )
    line = json.loads(done.stdout.splitlines()[-1])
    return float(line["copy_s"] + line["sync_s"])


def peer_s(source: str, target: str) -> float:
    """Copies by nfs-cp; seconds of the whole process."""
    begin = time.monotonic()
    subprocess.run(["nfs-cp", source, target], capture_output=True, check=True)
    return time.monotonic() - begin


def measure(name: str, pairs: int, ours: Callable[[], float], peers: Callable[[], float]) -> None:
    """Prints medians, the ratio of speeds and its bounds, and the same of the peer beside itself."""
    samples: dict[str, list[float]] = {"ours": [], "peers": [], "again": []}
    ways = [("ours", ours), ("peers", peers), ("again", peers)]
    for pair in range(pairs):
        for key, way in ways if pair % 2 == 0 else reversed(ways):
            samples[key].append(way())
    ratios = judge.pair_ratios(samples["peers"], samples["ours"])
    same = judge.pair_ratios(samples["peers"], samples["again"])
    verdict = judge.judge(ratios, same, TARGET, "at least", 0.1)
    medians = {key: judge.median_bounds(values).median for key, values in samples.items()}
    print(f"{name}: Ferry {medians['ours']:.3f} s, nfs-cp {medians['peers']:.3f} s; ", end="")
    print(verdict.sentence(), f"(A/A {verdict.aa.low:.2f} to {verdict.aa.high:.2f})", flush=True)


def main() -> None:
    """Starts the server, measures, and stops it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pairs", type=int, default=judge.PAIRS_MIN)
    parser.add_argument("--bytes", type=int, default=256 << 20)
    parser.add_argument("--memory", action="store_true", help="the server stores in memory")
    arguments = parser.parse_args()
    memory = ["--memory"] if arguments.memory else []
    up = subprocess.run([RIG, "up", "nfs", *memory], capture_output=True, text=True, check=True)
    base, _, settings = up.stdout.strip().partition("?")

    def uri(name: str) -> str:
        return f"{base}/{name}?{settings}"

    try:
        with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
            source, target = f"{folder}/source", f"{folder}/target"
            Path(source).write_bytes(os.urandom(arguments.bytes))
            peer_s(source, uri("source"))

            def write(copy: Callable[[str, str], float]) -> float:
                (served() / "target").unlink(missing_ok=True)
                return copy(source, uri("target"))

            def read(copy: Callable[[str, str], float]) -> float:
                Path(target).unlink(missing_ok=True)
                if not arguments.memory:
                    drop(served() / "source")
                return copy(uri("source"), target)

            label = "in memory" if arguments.memory else "on the disk"
            measure(f"write, {label}", arguments.pairs, lambda: write(ferry_s), lambda: write(peer_s))
            state = "read" if arguments.memory else "cold read"
            measure(f"{state}, {label}", arguments.pairs, lambda: read(ferry_s), lambda: read(peer_s))
    finally:
        subprocess.run([RIG, "down", "nfs"], check=True)


if __name__ == "__main__":
    main()
