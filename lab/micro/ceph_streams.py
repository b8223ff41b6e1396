"""Measures `ceph:` beside fio on ceph-fuse, against the same cluster.

Usage: sudo lab/micro/ceph_streams.py [write|read] [--streams N] [--pairs N] [--bytes N]; needs
the packages of scripts/packages-rigs.txt and fio. The cluster is the rig's, in memory, and is stopped
again unless it was up. Pairs go in the order A B B A.

Both sides move each file in pieces of 4 MiB, each stream its own file. Ferry has 4 pieces of a file
under way; fio makes one call after the other (psync) on a ceph-fuse of its own with ceph-fuse's
default settings, whose kernel page cache and readahead do the rest. Writes end with a sync. Each
sample is a new client on both sides, so what is read comes from the cluster.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "python"), str(ROOT / "lab")]

from ferry_lab.stats import judge  # noqa: E402

RIG = ROOT / "rigs" / "rig"
BUILD = ROOT / "build" / "release"
CONFIGURATION = ROOT / ".ferry" / "rig" / "ceph" / "ceph.conf"
TARGETS = {1: 1.0, 4: 1.2}


def uri(name: str) -> str:
    """Returns the library's name for a file of the rig."""
    return f"ceph:/{name}?conf={CONFIGURATION}"


@contextmanager
def fuse() -> Iterator[Path]:
    """Mounts the file system by a new ceph-fuse, with the kernel's page cache."""
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(
            ["ceph-fuse", "-c", CONFIGURATION, "--fuse_disable_pagecache=false", folder],
            check=True, capture_output=True,
        )
        try:
            yield Path(folder)
        finally:
            subprocess.run(["umount", folder], check=True)


def ferry_s(kind: str, streams: int, size: int) -> float:
    """Moves the files by Ferry; seconds."""
    command = [BUILD / "bench_storage_streams", kind, str(streams), str(size), uri("stream")]
    return float(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


def fio_s(kind: str, streams: int, size: int) -> float:
    """Moves the same files by fio on ceph-fuse; seconds of its slowest job."""
    with fuse() as folder:
        names = [f"stream{number}" for number in range(streams)]
        jobs = [word for name in names for word in (f"--name={name}", f"--filename={folder}/{name}")]
        done = subprocess.run(
            ["fio", f"--rw={kind}", "--ioengine=psync", "--bs=4m", f"--size={size}", "--end_fsync=1",
             "--fallocate=none", "--invalidate=0", "--output-format=json", *jobs],
            capture_output=True, text=True, check=True,
        )
        times = [job["job_runtime"] for job in json.loads(done.stdout)["jobs"]]
        return max(times) / 1000


def measure(name: str, pairs: int, target: float, ours: Callable[[], float],
            peers: Callable[[], float]) -> None:
    """Prints medians, the ratio of speeds and its bounds, and the same of the peer beside itself."""
    samples: dict[str, list[float]] = {"ours": [], "peers": [], "again": []}
    ways = [("ours", ours), ("peers", peers), ("again", peers)]
    for pair in range(pairs):
        for key, way in ways if pair % 2 == 0 else reversed(ways):
            samples[key].append(way())
    report(name, target, samples["ours"], samples["peers"], samples["again"], "s")


def report(name: str, target: float, ours: list[float], peers: list[float], again: list[float],
           unit: str) -> None:
    """Judges and prints one comparison of times."""
    verdict = judge.judge(
        judge.pair_ratios(peers, ours), judge.pair_ratios(peers, again), target, "at least", 0.1
    )
    medians = [judge.median_bounds(values).median for values in (ours, peers)]
    print(f"{name}: Ferry {medians[0]:.3f} {unit}, peer {medians[1]:.3f} {unit}; ", end="")
    print(verdict.sentence(), f"(A/A {verdict.aa.low:.2f} to {verdict.aa.high:.2f})", flush=True)


def main() -> None:
    """Starts the cluster, measures, and stops it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("kind", nargs="?", choices=["write", "read"])
    parser.add_argument("--streams", type=int, choices=sorted(TARGETS))
    parser.add_argument("--pairs", type=int, default=judge.PAIRS_MIN)
    parser.add_argument("--bytes", type=int, default=256 << 20)
    arguments = parser.parse_args()
    status = subprocess.run([RIG, "status"], capture_output=True, text=True, check=True).stdout
    was_up = any(line.split()[:2] == ["ceph", "up"] for line in status.splitlines())
    subprocess.run([RIG, "up", "ceph"], capture_output=True, check=True)
    try:
        for streams in [arguments.streams] if arguments.streams else sorted(TARGETS):
            for kind in [arguments.kind] if arguments.kind else ["write", "read"]:
                ferry_s("write", streams, arguments.bytes)  # what is read or written over
                measure(
                    f"{kind}, {streams} of {arguments.bytes >> 20} MiB", arguments.pairs,
                    TARGETS[streams],
                    lambda: ferry_s(kind, streams, arguments.bytes),  # noqa: B023
                    lambda: fio_s(kind, streams, arguments.bytes),  # noqa: B023
                )
    finally:
        if not was_up:
            subprocess.run([RIG, "down", "ceph"], check=True)


if __name__ == "__main__":
    main()
