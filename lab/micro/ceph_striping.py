"""Measures what striping is worth: one large file on one OSD of CephFS, and striped over four.

Usage: sudo lab/micro/ceph_striping.py [write|read] [--mbps N] [--pairs N] [--bytes N]; needs the
packages of scripts/packages-rigs.txt. The cluster is the rig's, with a rate limit for each OSD
(`./ferry rig up ceph --osd-mbps N`), as else four OSDs of one machine share what one could have. It
must not be up before, and is stopped again. Pairs go in the order A B B A.

Both files have objects large enough for their whole share, so the one is one object and the other
four. Ceph places objects by a hash, so four of them lie on four OSDs in about one of eleven cases:
files are made until one is like that. Each sample is a new client that moves the file in pieces of
4 MiB, 4 at once (lab/micro/storage_streams.cpp); writes end with a sync.
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
STATE = ROOT / ".ferry" / "rig" / "ceph"
MOUNT = STATE / "mount"
TARGET = 3.0
OSDS = 4
STRIPE_BYTES = 1 << 20
FILES_MAX = 200


def uri(name: str) -> str:
    """Returns the library's name for a file of the rig."""
    return f"ceph:/{name}?conf={STATE / 'ceph.conf'}"


def servers_of(name: str, objects: int) -> set[int]:
    """The OSDs on which the first objects of a file lie."""
    inode = (MOUNT / name).stat().st_ino
    found = set()
    for number in range(objects):
        done = subprocess.run(
            ["ceph", "-c", STATE / "ceph.conf", "osd", "map", "data", f"{inode:x}.{number:08x}",
             "-f", "json"],
            capture_output=True, text=True, check=True,
        )
        found.add(int(json.loads(done.stdout)["acting_primary"]))
    return found


def make(name: str, stripes: int, size: int) -> None:
    """Makes the empty file `name`0, in `stripes` objects on as many OSDs."""
    for _ in range(FILES_MAX):
        subprocess.run(
            [BUILD / "ferry-layout", "set", uri(f"{name}0"), "--stripe-bytes", str(STRIPE_BYTES),
             "--stripe-count", str(stripes), "--object-bytes", str(size // stripes)],
            capture_output=True, check=True,
        )
        if len(servers_of(f"{name}0", stripes)) == stripes:
            return
        # Kept until the end, so that no other gets its number.
        (MOUNT / f"{name}0").rename(MOUNT / f"spare-{name}-{(MOUNT / f'{name}0').stat().st_ino}")
    sys.exit(f"none of {FILES_MAX} files had its {stripes} objects on as many OSDs")


def seconds(kind: str, name: str, size: int) -> float:
    """Moves the whole file by a new client."""
    command = [BUILD / "bench_storage_streams", kind, "1", str(size), uri(name)]
    return float(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


def measure(kind: str, pairs: int, size: int, mbps: int) -> None:
    """Prints medians, the ratio of speeds and its bounds, and that of one OSD beside itself."""
    samples: dict[str, list[float]] = {"four": [], "one": [], "again": []}
    files = {"four": "four", "one": "one", "again": "one"}
    for pair in range(pairs):
        for way in files if pair % 2 == 0 else reversed(files):
            samples[way].append(seconds(kind, files[way], size))
    verdict = judge.judge(
        judge.pair_ratios(samples["one"], samples["four"]),
        judge.pair_ratios(samples["one"], samples["again"]), TARGET, "at least", 0.1,
    )
    medians = [judge.median_bounds(samples[way]).median for way in ("one", "four")]
    print(f"{kind} of {size >> 20} MiB, OSDs of {mbps} Mbit/s: on one {medians[0]:.3f} s, "
          f"on four {medians[1]:.3f} s; {verdict.sentence()} "
          f"(A/A {verdict.aa.low:.2f} to {verdict.aa.high:.2f})", flush=True)


def main() -> None:
    """Starts the cluster, measures, and stops it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("kind", nargs="?", choices=["write", "read"])
    parser.add_argument("--mbps", type=int, default=400)
    parser.add_argument("--pairs", type=int, default=judge.PAIRS_MIN)
    parser.add_argument("--bytes", type=int, default=64 << 20, help="a multiple of 4 MiB")
    arguments = parser.parse_args()
    status = subprocess.run([RIG, "status"], capture_output=True, text=True, check=True).stdout
    if any(line.split()[:2] == ["ceph", "up"] for line in status.splitlines()):
        sys.exit("the rig ceph is up; stop it first: sudo ./ferry rig down ceph")
    try:
        subprocess.run(
            [RIG, "up", "ceph", "--mount", "--osd-mbps", str(arguments.mbps)], check=True,
            capture_output=True,
        )
        make("one", 1, arguments.bytes)
        make("four", OSDS, arguments.bytes)
        for name in ("one", "four"):
            seconds("write", name, arguments.bytes)  # what is read or written over
        for kind in [arguments.kind] if arguments.kind else ["write", "read"]:
            measure(kind, arguments.pairs, arguments.bytes, arguments.mbps)
    finally:
        subprocess.run([RIG, "down", "ceph"], check=True)


if __name__ == "__main__":
    main()
