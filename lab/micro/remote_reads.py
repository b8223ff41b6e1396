"""Measures re-reads of 4 KiB over NFS and CephFS: by the device's page cache, and by placement `host`.

Usage: sudo lab/micro/remote_reads.py [nfs|ceph]; needs the packages of scripts/packages-rigs.txt. The
servers are the rigs', and are stopped again unless they were up. Pairs go in the order A B B A. What
is measured stands in lab/micro/remote_reads.cpp.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "python"), str(ROOT / "lab")]

from ferry_lab.stats import judge  # noqa: E402

RIG = ROOT / "rigs" / "rig"
BUILD = ROOT / "build" / "release"
FILE_BYTES = 16 << 20
TARGET = 20.0


def is_up(name: str) -> bool:
    """Whether this rig runs already."""
    status = subprocess.run([RIG, "status"], capture_output=True, text=True, check=True).stdout
    return any(line.split()[:2] == [name, "up"] for line in status.splitlines())


def report(name: str, line: dict[str, list[dict[str, float]]]) -> None:
    """Judges and prints one comparison."""
    def sides(pairs: list[dict[str, float]]) -> tuple[list[float], list[float]]:
        return [pair["ours"] for pair in pairs], [pair["baseline"] for pair in pairs]

    cached, uncached = sides(line["pairs"])
    first, second = sides(line["same"])
    verdict = judge.judge(
        judge.pair_ratios(uncached, cached), judge.pair_ratios(first, second), TARGET, "at least",
        1.0,
    )
    medians = [judge.median_bounds(values).median for values in (cached, uncached)]
    print(f"{name}, {line['measure']}: cached {medians[0]:.0f} ns, uncached {medians[1]:.0f} ns; "
          f"{verdict.sentence()}", flush=True)


def measure(name: str) -> None:
    """Writes the file and measures it on one rig."""
    up = subprocess.run([RIG, "up", name], capture_output=True, text=True, check=True)
    base, _, settings = up.stdout.strip().partition("?")
    path = f"{base.rstrip('/')}/small"
    subprocess.run(
        [BUILD / "bench_storage_streams", "write", "1", str(FILE_BYTES), f"{path}?{settings}"],
        check=True, capture_output=True,
    )
    done = subprocess.run(
        [BUILD / "bench_remote_reads", f"{path}0?{settings}"], check=True, capture_output=True,
        text=True,
    )
    for text in done.stdout.splitlines():
        line = json.loads(text)
        # Nothing proves that a file of an NFS server is the same at another open: it is read again.
        if name == "nfs" and "after another open" in line["measure"]:
            continue
        report(name, line)


def main() -> None:
    """Starts the servers, measures, and stops them."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("rig", nargs="?", choices=["nfs", "ceph"])
    arguments = parser.parse_args()
    for name in [arguments.rig] if arguments.rig else ["nfs", "ceph"]:
        was_up = is_up(name)
        try:
            measure(name)
        finally:
            if not was_up:
                subprocess.run([RIG, "down", name], check=True)


if __name__ == "__main__":
    main()
