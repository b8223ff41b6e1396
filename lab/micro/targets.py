"""What is promised of each measure."""

from __future__ import annotations

from dataclasses import dataclass

from ferry_lab.stats import judge


@dataclass(frozen=True)
class Target:
    """What is promised of one measure."""

    direction: judge.Direction
    value: float
    margin: float | None = None  # how much noise the question bears; None: the distance from 1


# None: stated only.
TARGETS: dict[str, Target | None] = {
    "round trip / cache line ping-pong": Target("at most", 2.5),
    "futex ping-pong / round trip": Target("at least", 25),
    "eventfd ping-pong / round trip": Target("at least", 100),
    "one CPU: round trip / futex ping-pong": Target("at most", 1.5),
    "4 KiB, depth 1: host / pread": Target("at most", 1.4),
    # The same without a ring, validation or file calls: what the machine allows.
    "4 KiB, depth 1: bare hand-over / pread": Target("at most", 1.4),
    "4 KiB, depth 16: host / pread": Target("at most", 1.15),
    "1 MiB, bandwidth: host / pread": Target("at least", 0.9),
    "cold sequential 1 MiB, depth 8: host / fio": Target("at least", 0.95),
    "cold random 4 KiB, depth 32: host / fio": Target("at least", 0.95),
    # Likewise.
    "cold random 4 KiB, depth 32: bare threads / fio": Target("at least", 0.95),
    # The page cache, 256 MiB resident, 64 KiB pages.
    "cached random read, 64 B: pread / compute": Target("at least", 5),
    "cached random read, 512 B: pread / compute": Target("at least", 5),
    "cached random read, 4 KiB: pread / compute": Target("at least", 2.2),
    "cached random read, 4 KiB: pread / bare memcpy": Target("at least", 2.2),
    "cached random read, 4 KiB: memcpy / compute": Target("at least", 0.85),
    "cached sequential read, 64 KiB: pread / compute": Target("at least", 1.25),
    "cached sequential read, 64 KiB: pread / bare memcpy": Target("at least", 1.25),
    "cached sequential read, 64 KiB: memcpy / compute": Target("at least", 0.9),
    "held view: mmap / hold": Target("at least", 0.9),
    "overwrite, 4 KiB: pwrite / compute": Target("at least", 4),
    "overwrite, 4 KiB: pwrite / bare memcpy": Target("at least", 4),
    "overwrite, 64 KiB: best copy / compute": Target("at least", 0.85),
    "overwrite, 1 MiB: best copy / compute": Target("at least", 0.85),
    "new file, 4 KiB: tmpfs / compute": Target("at least", 1.5),
    "new file, 4 KiB, with close: tmpfs / compute": None,
    "new file, 4 MiB: tmpfs / compute": Target("at least", 2),
    "new file, 4 MiB, with close: tmpfs / compute": None,
    "write + fsync: pwrite + fsync / compute": Target("at least", 0.95),
    "4 MiB records, read: memcpy / all on": Target("at least", 0.9),
    "4 MiB records, write: memcpy / all on": Target("at least", 0.9),
    "4 MiB records, read: all off / all on": None,
    "4 MiB records, write: all off / all on": None,
    "two threads / one, files of their own, 4 KiB: compute / memcpy": Target("at least", 0.95),
    "two threads / one, files of their own, 64 KiB: compute / memcpy": Target("at least", 0.95),
    "two threads / one, one file, 4 KiB: compute / memcpy": Target("at least", 0.95),
    "two threads / one, one file, 64 KiB: compute / memcpy": Target("at least", 0.95),
    "cold sequential 64 KiB: compute / fio 1 MiB, depth 8": Target("at least", 0.95),
}
# What measuring costs: ferry-bench's own loop, as a share of the call that it measures.
TARGETS |= {
    f"4 KiB hot {operation}: {ours} / bare call": target
    for operation in ("read", "write")
    for ours, target in (
        ("ferry-bench without the call", Target("at most", 0.01)),
        ("ferry-bench", None),
    )
}
TARGETS |= {
    f"automatic / best: {pattern} {operation}, {512 << step} B": Target("at least", 0.95)
    for operation in ("read", "write")
    for pattern in ("sequential", "random")
    for step in range(16)
}
# Figures without a counterpart: the largest median allowed, in their unit.
LIMITS = {
    "idle server": 1.0,
    "first request after idling": 100.0,
    "bytes written to storage per byte dirtied": 1.05,
}
