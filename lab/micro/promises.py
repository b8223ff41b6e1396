"""Measures the promises of docs/results/performance.md and judges every ratio against its target.

The rule is ferry_lab.stats.judge's: at least 20 pairs in the order A B B A; the 95 % bootstrap
bound of the median ratio must reach the target; an A/A run of the same length shows the noise.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from common import AGAIN, MIB, Json, Results, Target, figure, fio, in_turn, make_file, micro, parser

from ferry_lab.stats import judge

TMPFS = "/dev/shm"
FILE_BYTES = 1024 * MIB
COLD_PAIRS = 20
COLD_SECONDS = 0.5

FILL_KIB = (64, 256, 1024, 4096, 16384)

# What is promised of each measure of a subcommand of ferry-micro.
TARGETS: dict[str, dict[str, Target]] = {
    "round-trip": {
        "round trip / cache line ping-pong": ("at most", 2.5),
        "futex ping-pong / round trip": ("at least", 25),
        "eventfd ping-pong / round trip": ("at least", 100),
        "requests per second per server thread, batches of 16": None,
        "one CPU: round trip / futex ping-pong": ("at most", 1.5),
        "idle server": ("at most", 1.0),
        "first request after idling": ("at most", 100.0),
    },
    "cold-reads": {
        "cold sequential 1 MiB, depth 8: host / fio": ("at least", 0.95),
        "cold random 4 KiB, depth 32: host / fio": ("at least", 0.95),
        # What the machine allows without a ring, validation or file calls.
        "cold random 4 KiB, depth 32: bare threads / fio": ("at least", 0.95),
        "cold sequential 64 KiB: compute / fio 1 MiB, depth 8": ("at least", 0.95),
    },
    "cold-fills": {f"cold fills, {size} KiB: pread / compute": ("at least", 0.8) for size in FILL_KIB},
    # What two threads on this machine reach without a ring and a table of pages.
    "bare-fills": {f"cold fills, {size} KiB: pread / bare threads": None for size in FILL_KIB},
    "hot-reads": {
        "4 KiB, depth 1: host / pread": ("at most", 1.4),
        # Likewise.
        "4 KiB, depth 1: bare hand-over / pread": ("at most", 1.4),
        "4 KiB, depth 16: host / pread": ("at most", 1.15),
        "1 MiB, bandwidth: host / pread": ("at least", 0.9),
    },
    "cached-calls": {
        "cached random read, 64 B: pread / compute": ("at least", 5),
        "cached random read, 512 B: pread / compute": ("at least", 5),
        "cached random read, 4 KiB: pread / compute": ("at least", 2.2),
        "cached random read, 4 KiB: pread / bare memcpy": ("at least", 2.2),
        "cached random read, 4 KiB: memcpy / compute": ("at least", 0.85),
        "cached sequential read, 64 KiB: pread / compute": ("at least", 1.25),
        "cached sequential read, 64 KiB: pread / bare memcpy": ("at least", 1.25),
        "cached sequential read, 64 KiB: memcpy / compute": ("at least", 0.9),
        "overwrite, 4 KiB: pwrite / compute": ("at least", 4),
        "overwrite, 4 KiB: pwrite / bare memcpy": ("at least", 4),
        "overwrite, 64 KiB: best copy / compute": ("at least", 0.85),
        "overwrite, 1 MiB: best copy / compute": ("at least", 0.85),
    },
    "held-views": {"pinned page view: mmap / hold": ("at least", 0.9), "pinned page view: mmap / bare memory": None},
    "new-files": {
        "new file, 4 KiB: tmpfs / compute": ("at least", 1.5),
        "new file, 4 KiB, with close: tmpfs / compute": None,
        "new file, 4 MiB: tmpfs / compute": ("at least", 2),
        "new file, 4 MiB, with close: tmpfs / compute": None,
        "write + fsync: pwrite + fsync / compute": ("at least", 0.95),
        "bytes written to storage per byte dirtied": ("at most", 1.05),
    },
    "small-files": {
        "open + read + close, 8 KiB: host / plain calls": ("at most", 2.35),
        "open + read + close, 8 KiB: compute / plain calls": ("at most", 3.5),
    },
    "file-names": {
        # What another core costs, beside what placement host makes of it.
        f"{calls}: {way} / plain calls": None
        for calls in ("stat", "create + close + remove")
        for way in ("host", "bare hand-over")
    },
    "tail": {
        "99.9 % / median of 4 KiB, alone: compute": None,
        "99.9 % / median of 4 KiB, beside the cache's work: compute": ("at most", 50),
        # What the kernel's cache does to the same calls, and the machine to none.
        "99.9 % / median of 4 KiB, beside the cache's work: pread": None,
        "99.9 % / median of 4 KiB, beside the cache's work: bare memcpy": None,
    },
    "optimizations": {
        "4 MiB records, read: memcpy / all on": ("at least", 0.9),
        "4 MiB records, write: memcpy / all on": ("at least", 0.9),
        "4 MiB records, read: all off / all on": None,
        "4 MiB records, write: all off / all on": None,
    },
    "scaling": {
        f"two threads / one, {files}, {size}: compute / memcpy": ("at least", 0.95)
        for files in ("files of their own", "one file")
        for size in ("4 KiB", "64 KiB")
    },
    "placements": {
        f"automatic / best: {pattern} {operation}, {512 << step} B": ("at least", 0.95)
        for operation in ("read", "write")
        for pattern in ("sequential", "random")
        for step in range(16)
    },
    # What measuring costs: ferry-bench's own loop, as a share of the call that it measures.
    "tool-overhead": {
        f"4 KiB hot {operation}: {ours} / bare call": target
        for operation in ("read", "write")
        for ours, target in (("ferry-bench without the call", ("at most", 0.01)), ("ferry-bench", None))
    },
}
# What fio does, and the subcommand beside it with its own transfer size and depth.
RANDOM, SEQUENTIAL = ("random", 4096, 32), ("sequential", MIB, 8)
COLD = {
    "cold sequential 1 MiB, depth 8: host / fio": (SEQUENTIAL, ("cold-reads", "sequential"), (MIB, 8)),
    "cold random 4 KiB, depth 32: host / fio": (RANDOM, ("cold-reads", "random"), (4096, 32)),
    "cold random 4 KiB, depth 32: bare threads / fio": (RANDOM, ("bare-reads",), (4096, 32)),
    "cold sequential 64 KiB: compute / fio 1 MiB, depth 8": (SEQUENTIAL, ("cold-reads", "cached"), (64 << 10, 1)),
}


def cold_line(name: str, path: Path) -> Json:
    """Measures cold reads and fio beside them."""
    fio_work, (subcommand, *kind), (transfer_bytes, depth) = COLD[name]
    limits = (f"--runtime={int(COLD_SECONDS * 1000)}ms", "--time_based")

    def ours() -> float:
        numbers = ("--bytes", transfer_bytes, "--depth", depth, "--seconds", COLD_SECONDS)
        return figure(subcommand, path, *kind, *numbers)

    def theirs() -> float:
        return fio(path, *fio_work, *limits)

    ours()
    theirs()
    times = in_turn({"ours": ours, "baseline": theirs, AGAIN: theirs}, COLD_PAIRS)

    def pairs(first: str) -> list[Json]:
        return [{"ours": a, "baseline": b} for a, b in zip(times[first], times["baseline"], strict=True)]

    return {"measure": name, "unit": "bytes/s", "pairs": pairs("ours"), "same": pairs(AGAIN)}


def measures(directory: str, only: str) -> Iterator[Json]:
    """Yields every measure whose name contains ``only``."""
    with tempfile.TemporaryDirectory(dir=directory, prefix="ferry-micro-") as scratch:
        path, other = Path(scratch) / "file", Path(scratch) / "other"
        arguments: dict[str, tuple[object, ...]] = {
            "round-trip": (),
            "new-files": (scratch, TMPFS),
            "small-files": (scratch,),
            "file-names": (scratch,),
            "scaling": (path, other),
            "tail": (path, other),
        }
        for subcommand, targets in TARGETS.items():
            names = [name for name in targets if only in name]
            files = arguments.get(subcommand, (path,)) if names else ()
            for file in (path, other):
                if file in files and not file.exists():
                    make_file(file, FILE_BYTES if file == path else FILE_BYTES // 8)
            if subcommand == "cold-reads":
                yield from (cold_line(name, path) for name in names)
            elif names:
                yield from micro(subcommand, *files, "--only", only)


def pairs_of(line: Json, key: str) -> Sequence[float]:
    """Returns the ratios of a measure's pairs."""
    return judge.pair_ratios([p["ours"] for p in line[key]], [p["baseline"] for p in line[key]])


def ratios_of(line: Json) -> Sequence[float]:
    """Returns the ratios to judge: of the pairs, or of speeds, the best placement's time over `automatic`'s."""
    if "times" not in line:
        return pairs_of(line, "pairs")
    times = dict(line["times"])
    automatic = times.pop("automatic")
    best = times[judge.pick_best(times)]
    return judge.pair_ratios(judge.odd_and_even(best)[1], judge.odd_and_even(automatic)[1])


def add(results: Results, line: Json, target: Target) -> None:
    """Judges one measure."""
    results.lines.append(line)
    if "samples" not in line:
        return results.add_ratio(line["measure"], ratios_of(line), pairs_of(line, "same"), target)
    bounds = judge.median_bounds(line["samples"])
    verdict = "" if target is None else "reached" if bounds.high <= target[1] else "missed"
    return results.add_row(line["measure"], f"{bounds.median:.3g} {line['unit']}", bounds, target, "", verdict)


def main() -> None:
    """Measures, prints the table, and writes the raw pairs where asked."""
    arguments = parser("", __doc__).parse_args()
    all_targets = {name: target for targets in TARGETS.values() for name, target in targets.items()}
    with Results(arguments.json) as results:
        for line in measures(arguments.dir, arguments.only):
            add(results, line, all_targets.get(line["measure"]))


if __name__ == "__main__":
    main()
