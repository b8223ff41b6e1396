"""Compares the engine's choices with the best point of a sweep; a part of bulk.py."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy
from bulk_measures import Measure, dropped, file_of
from common import MIB, seconds

import ferry

TASKS_MIB = (0.125, 0.25, 1, 4)
WORKERS = (1, 2, 4)
DEPTHS = (2, 8, 32)


def points(state: str) -> list[tuple[str, ferry.Engine]]:
    """Every combination of settings that is tried, with its name.

    Copies from the page cache have no depth. The route that is not the usual one for this state has a few
    points, one for each number of workers.
    """
    found = []

    def add(route: str, task_mib: float, workers: int, depth: int) -> None:
        engine = ferry.Engine(task_bytes=int(task_mib * MIB), workers=workers, depth=depth, route=route)
        of_depth = f", depth {depth}" if depth else ""
        found.append((f"{route}, tasks of {task_mib:g} MiB, {workers} workers{of_depth}", engine))

    for workers in WORKERS:
        if state == "hot":
            for task in TASKS_MIB:
                add("buffered", task, workers, 0)
            add("direct", 0.25, workers, 8)
        else:
            for task in TASKS_MIB[1:]:
                for depth in DEPTHS:
                    add("direct", task, workers, depth)
            add("buffered", 1, workers, 8)
    return found


def sweeps(folder: Path, size: int) -> Iterator[Measure]:
    """What the engine chooses beside the best point of a sweep, which is found first and then measured anew.

    The file is in the page cache or not; the memory is a NumPy array's, so direct reads have to be staged.
    """
    path = file_of(folder, size)
    target = numpy.ones(size, numpy.uint8)
    chosen = ferry.Engine()

    def read(engine: ferry.Engine, state: str, size_bytes: int) -> float:
        if state == "cold":
            dropped([path])
        with ferry.open(path, engine=engine) as file:
            return seconds(lambda: file.read_at(target[:size_bytes], 0))

    for state, rounds in (("hot", 5), ("cold", 3)):
        for size_bytes in (1 * MIB, 64 * MIB, size):
            if state == "hot":
                read(ferry.Engine(route="buffered"), state, size)
            tried = points(state)
            times: dict[str, list[float]] = {name: [] for name, _ in tried}
            for _ in range(rounds):
                for name, engine in tried:
                    times[name].append(read(engine, state, size_bytes))
            best, engine = min(tried, key=lambda point: numpy.median(times[point[0]]))
            yield Measure(
                f"sweep, {state} {size_bytes // MIB} MiB: best ({best}) / chosen",
                lambda state=state, size_bytes=size_bytes: read(chosen, state, size_bytes),
                lambda state=state, size_bytes=size_bytes, engine=engine: read(engine, state, size_bytes), 0.9,
            )  # fmt: skip
