"""What the parts of bulk_transfers.py share: measures, and files whose page cache is known."""

from __future__ import annotations

import importlib
import os
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import ferry

MIB = 1 << 20
Block = Callable[[], float]


@dataclass
class Measure:
    """A comparison: our seconds and theirs, and the ratio theirs / ours that is wanted."""

    name: str
    ours: Block
    theirs: Block
    wanted: float | None


def seconds(work: Callable[[], Any]) -> float:
    """Returns how long ``work`` takes."""
    begin = time.perf_counter()
    work()
    return time.perf_counter() - begin


def drop(paths: list[Path]) -> None:
    """Writes files back and takes them out of the page cache; ends the program if they stay."""
    for path in paths:
        with path.open("rb") as file:
            os.fsync(file.fileno())
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        there = ferry.explain(path)["resident_bytes"]
        if there is None or there > path.stat().st_size // 100:
            sys.exit(f"bulk_transfers: {path} stays in the page cache ({there} bytes)")


def make_file(path: Path, size: int) -> None:
    """Writes a file that no layer can compress away."""
    block = os.urandom(MIB)
    with path.open("wb") as file:
        for number in range(size // MIB):
            file.write(number.to_bytes(8, "little") + block[8:])


def peer(module: str) -> Any:
    """Imports a peer's package, or says why it cannot be measured and returns None."""
    try:
        return importlib.import_module(module)
    except Exception as error:  # noqa: BLE001  a peer may fail in any way
        print(f"absent: {module} cannot be imported: {error}", flush=True)
        return None
