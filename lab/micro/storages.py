"""Compares Ferry on network storages with other clients of the same servers.

The servers are the rigs' (`./ferry rig`), stopped again unless they ran before; needs root. Ways
take turns (A B C C B A), and each sample is a new client, so reads come from the servers. Ferry
moves files in pieces of 4 MiB, 4 at once (ferry-micro streams). Writes end with a sync.

ceph-streams   fio on ceph-fuse, one file per stream. fio makes one call after another (psync) on its
               own ceph-fuse with default settings, helped by page cache and readahead. Bare calls of
               libcephfs are the minimum for a write.
ceph-mapped    a program that reads a file in calls of 1 MiB, in a folder of ferry-mount (which ferry run
               --map makes) and on a new ceph-fuse with default settings.
ceph-striping  one large file on one OSD of CephFS, and striped over four. Each OSD has a rate limit,
               because they share one machine; the rig must not run before.
nfs-copies     nfs-cp of libnfs-utils, from and to a file in /dev/shm; its whole time counts. `ferry
               cp` uses the same file, without its verification; the bare calls of libnfs are the
               minimum for a stream.
remote-reads   re-reads of 4 KiB: by the device's page cache, and by placement `host`.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from common import AGAIN, BUILD, MIB, ROOT, Results, drop, figure, in_turn, median, micro, output, parser, seconds

from ferry_lab.stats import judge

RIG = ROOT / "rigs" / "rig"
STATE = ROOT / ".ferry" / "rig"
CEPH_CONFIGURATION = STATE / "ceph" / "ceph.conf"
KINDS = ("write", "read")
STREAM_TARGETS = {1: 1.0, 4: 1.2}
MAPPED_TARGET = 1.0
READER = """import os, sys, time
begin = time.perf_counter()
file = os.open(sys.argv[1], os.O_RDONLY)
while os.read(file, 1 << 20):
    pass
print(time.perf_counter() - begin)"""
STRIPING_TARGET, OSDS, STRIPE_BYTES, FILES_MAX = 3.0, 4, MIB, 200
COPY_TARGET = 1.5
BARE_CONNECTIONS, BARE_DEPTH = 4, 2  # the fastest of those tried
REREAD_TARGET, REREAD_BYTES = 20.0, 16 * MIB

Uri = Callable[[str], str]


def report(
    options: argparse.Namespace, name: str, times: dict[str, list[float]], baseline: str, same: Sequence[float],
    target: float, margin: float = 0.1, unit: str = "s",
) -> None:  # fmt: skip
    """Judges how many times as fast as the baseline each of the others is."""
    options.results.lines.append({"measure": name, "unit": unit, "times": times})
    for way, samples in times.items():
        if way not in (baseline, AGAIN):
            note = f" ({median(samples):.3f} {unit}, {baseline} {median(times[baseline]):.3f})"
            ratios = judge.pair_ratios(times[baseline], samples)
            options.results.add_ratio(f"{name}: {way}", ratios, same, ("at least", target), margin, note)


def compare(
    name: str, ways: dict[str, Callable[[], float]], baseline: str, target: float, options: argparse.Namespace,
    before: Callable[[], None] | None = None,
) -> None:  # fmt: skip
    """Measures ways in turn beside one of them, which is measured twice."""
    if options.only in name:
        times = in_turn({**ways, AGAIN: ways[baseline]}, options.pairs, before)
        report(options, name, times, baseline, judge.pair_ratios(times[baseline], times[AGAIN]), target)


def is_up(name: str) -> bool:
    """Whether a rig runs already."""
    return any(line.split()[:2] == [name, "up"] for line in output(RIG, "status").splitlines())


@contextlib.contextmanager
def rig(name: str, *options: str) -> Iterator[Uri]:
    """Starts a rig, unless it is up; gives what makes a URI of a file's name."""
    was_up = is_up(name)
    try:
        base, _, settings = output(RIG, "up", name, *options).strip().partition("?")
        yield lambda file: f"{base.rstrip('/')}/{file}?{settings}"
    finally:
        if not was_up:
            subprocess.run([RIG, "down", name], check=True)


def stream(kind: str, uri: str, size: int, streams: int = 1) -> float:
    """Moves files by Ferry, from or to memory; seconds."""
    return figure("streams", uri, kind, "--threads", streams, "--bytes", size)


# ---- CephFS --------------------------------------------------------------------------------------


@contextlib.contextmanager
def fuse() -> Iterator[Path]:
    """Mounts the file system by a new ceph-fuse, with the kernel's page cache."""
    with tempfile.TemporaryDirectory() as folder:
        output("ceph-fuse", "-c", CEPH_CONFIGURATION, "--fuse_disable_pagecache=false", folder)
        try:
            yield Path(folder)
        finally:
            subprocess.run(["umount", folder], check=True)


def fio_on_fuse(kind: str, size: int, streams: int) -> float:
    """Moves the same files by fio on ceph-fuse; seconds of its slowest job."""
    with fuse() as folder:
        names = [f"stream{number}" for number in range(streams)]
        jobs = [word for name in names for word in (f"--name={name}", f"--filename={folder}/{name}")]
        done = output(
            "fio", f"--rw={kind}", "--ioengine=psync", "--bs=4m", f"--size={size}", "--end_fsync=1",
            "--fallocate=none", "--invalidate=0", "--output-format=json", *jobs,
        )  # fmt: skip
        return max(job["job_runtime"] for job in json.loads(done)["jobs"]) / 1000


def bare_ceph(size: int, streams: int) -> float:
    """Writes the same files by bare calls of libcephfs; seconds."""
    numbers = ("--threads", streams, "--depth", 4, "--bytes", size)
    return figure("bare-ceph", CEPH_CONFIGURATION, "stream", *numbers)


def ceph_streams(options: argparse.Namespace) -> None:
    """See the module."""
    size = options.bytes or 256 * MIB
    with rig("ceph") as uri:
        for streams, target in STREAM_TARGETS.items():
            stream("write", uri("stream"), size, streams)  # what is read or written over
            for kind in KINDS:
                ways = {
                    "Ferry": lambda kind=kind, streams=streams: stream(kind, uri("stream"), size, streams),
                    "fio": lambda kind=kind, streams=streams: fio_on_fuse(kind, size, streams),
                }
                if kind == "write":
                    ways["bare libcephfs"] = lambda streams=streams: bare_ceph(size, streams)
                compare(f"ceph {kind}, {streams} of {size // MIB} MiB", ways, "fio", target, options)


def read_on_fuse(name: str) -> float:
    """Reads a file by the program on ceph-fuse; its seconds."""
    with fuse() as folder:
        return float(output(sys.executable, "-c", READER, folder / name))


def read_mapped(root: str, name: str) -> float:
    """Reads it in a mapped folder."""
    with tempfile.TemporaryDirectory() as folder:
        maps = json.dumps([{"folder": folder, "target": root}])
        program = (sys.executable, sys.executable, "-c", READER, f"{folder}/{name}")
        return float(output(BUILD / "ferry-mount", maps, *program))


def ceph_mapped(options: argparse.Namespace) -> None:
    """See the module."""
    size = options.bytes or 64 * MIB
    with rig("ceph") as uri:
        stream("write", uri("mapped"), size)
        ways = {"Ferry": lambda: read_mapped(uri(""), "mapped0"), "ceph-fuse": lambda: read_on_fuse("mapped0")}
        compare(f"ceph mapped read of {size // MIB} MiB", ways, "ceph-fuse", MAPPED_TARGET, options)


def servers_of(path: Path, objects: int) -> set[int]:
    """The OSDs on which the first objects of a file lie."""
    inode = path.stat().st_ino
    ceph = ("ceph", "-c", CEPH_CONFIGURATION, "osd", "map", "data")
    answers = [output(*ceph, f"{inode:x}.{number:08x}", "-f", "json") for number in range(objects)]
    return {int(json.loads(answer)["acting_primary"]) for answer in answers}


def make_striped(uri: Uri, name: str, stripes: int, size: int) -> None:
    """Makes an empty file in so many objects on as many OSDs, each object large enough for its share.

    Ceph places objects by a hash, so four of them lie on four OSDs in about one of eleven cases.
    """
    path = STATE / "ceph" / "mount" / name
    for _ in range(FILES_MAX):
        layout = {"stripe_bytes": STRIPE_BYTES, "stripe_count": stripes, "object_bytes": size // stripes}
        output(BUILD / "ferry-layout", "set", uri(name), json.dumps(layout))
        if len(servers_of(path, stripes)) == stripes:
            return
        # Kept until the end, so that no other gets its number.
        path.rename(path.with_name(f"spare-{name}-{path.stat().st_ino}"))
    sys.exit(f"none of {FILES_MAX} files had its {stripes} objects on as many OSDs")


def ceph_striping(options: argparse.Namespace) -> None:
    """See the module."""
    size = options.bytes or 64 * MIB
    if is_up("ceph"):
        sys.exit("the rig ceph is up; stop it first: sudo ./ferry rig down ceph")
    with rig("ceph", "--mount", "--osd-mbps", str(options.mbps)) as uri:
        for name, stripes in (("one", 1), ("four", OSDS)):
            make_striped(uri, f"{name}0", stripes, size)
            stream("write", uri(name), size)  # what is read or written over
        for kind in KINDS:
            ways = {name: lambda kind=kind, name=name: stream(kind, uri(name), size) for name in ("four", "one")}
            name = f"striped {kind} of {size // MIB} MiB, OSDs of {options.mbps} Mbit/s"
            compare(name, ways, "one", STRIPING_TARGET, options)


# ---- NFS -----------------------------------------------------------------------------------------


def served() -> Path:
    """Returns the served folder as the server sees it, in its mount namespace."""
    number = (STATE / "nfs" / "ganesha.process").read_text().split()[0]
    return Path(f"/proc/{number}/root{STATE}/nfs/export")


def fetch_memory(folder: Path, size: int) -> None:
    """Has the machine hold as much free memory as a file takes: a virtual one may have given it back."""
    with tempfile.TemporaryFile(dir=folder) as file:
        for _ in range(size * 5 // 4 // MIB):
            file.write(bytes(MIB))


def nfs_copies(options: argparse.Namespace) -> None:
    """See the module."""
    size = options.bytes or 256 * MIB
    memory = ["--memory"] if options.memory else []
    with rig("nfs", *memory) as uri, tempfile.TemporaryDirectory(dir="/dev/shm") as local:
        there, file = uri("file0"), served() / "file0"
        (Path(local) / "write").write_bytes(os.urandom(size))

        def between(kind: str) -> tuple[str, str]:
            here = Path(local) / kind
            if kind == "write":
                return str(here), there
            here.unlink(missing_ok=True)
            return there, str(here)

        def copy(kind: str) -> float:
            line = json.loads(output(BUILD / "ferry-copy", *between(kind)).splitlines()[-1])
            return float(line["copy_s"] + line["sync_s"])

        def bare(kind: str) -> float:
            numbers = ("--threads", BARE_CONNECTIONS, "--depth", BARE_DEPTH, "--bytes", size)
            return figure("bare-nfs", there, kind, *numbers)

        def prepare(kind: str) -> None:
            if kind == "write":
                file.unlink(missing_ok=True)
                fetch_memory(served(), size)
            elif not options.memory:
                drop(file)

        def peer(kind: str) -> float:
            source, target = between(kind)
            return seconds(lambda: output("nfs-cp", source, target))

        peer("write")  # what is read
        for kind in KINDS:
            ways = {
                "Ferry": lambda kind=kind: stream(kind, uri("file"), size),
                "nfs-cp": lambda kind=kind: peer(kind),
                "bare libnfs": lambda kind=kind: bare(kind),
                "ferry cp": lambda kind=kind: copy(kind),
            }
            label = "in memory" if options.memory else "on the disk" if kind == "write" else "on the disk, cold"
            compare(f"nfs {kind}, {label}", ways, "nfs-cp", COPY_TARGET, options, lambda kind=kind: prepare(kind))
        file.unlink(missing_ok=True)


# ---- both ----------------------------------------------------------------------------------------


def remote_reads(options: argparse.Namespace) -> None:
    """See the module."""
    for name in ("nfs", "ceph"):
        with rig(name) as uri:
            stream("write", uri("small"), REREAD_BYTES)
            for line in micro("remote-reads", uri("small0"), "--only", options.only, "--pairs", options.pairs):
                # Nothing proves that a file of an NFS server is the same at another open: it is read again.
                if name == "nfs" and "after another open" in line["measure"]:
                    continue
                cached, uncached = ([pair[side] for pair in line["pairs"]] for side in ("ours", "baseline"))
                first, second = ([pair[side] for pair in line["same"]] for side in ("ours", "baseline"))
                report(
                    options, f"{name}, {line['measure']}", {"cached": cached, "uncached": uncached}, "uncached",
                    judge.pair_ratios(first, second), REREAD_TARGET, 1.0, "ns",
                )  # fmt: skip


GROUPS = {
    "ceph-streams": ceph_streams, "ceph-mapped": ceph_mapped, "ceph-striping": ceph_striping,
    "nfs-copies": nfs_copies, "remote-reads": remote_reads,
}  # fmt: skip


def main() -> None:
    """Starts the servers, measures, and stops them."""
    made = parser("storages", __doc__)
    made.add_argument("group", choices=GROUPS)
    made.add_argument("--pairs", type=int, default=judge.PAIRS_MIN)
    made.add_argument("--bytes", type=int, help="of a file; 256 MiB, mapped and striped 64 MiB; a multiple of 4 MiB")
    made.add_argument("--mbps", type=int, default=400, help="of each OSD of ceph-striping")
    made.add_argument("--memory", action="store_true", help="the NFS server stores in memory")
    options = made.parse_args()
    with Results(options.json) as options.results:
        GROUPS[options.group](options)


if __name__ == "__main__":
    main()
