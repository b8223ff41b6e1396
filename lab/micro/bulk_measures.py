"""Shared by the parts of bulk.py: measures, peers, and files with a known cache state."""

from __future__ import annotations

import importlib
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from common import Block, drop, make_file

import ferry


@dataclass
class Measure:
    """A comparison: our seconds and theirs, and the ratio theirs / ours that is wanted."""

    name: str
    ours: Block
    theirs: Block
    wanted: float | None


def file_of(folder: Path, size: int) -> Path:
    """Returns the large file, which is made when it is first needed."""
    path = folder / "large"
    if not path.exists():
        make_file(path, size)
    return path


def dropped(paths: list[Path]) -> None:
    """Takes files out of the page cache; ends the program if they stay."""
    for path in paths:
        drop(path)
        there = ferry.explain(path)["resident_bytes"]
        if there is None or there > path.stat().st_size // 100:
            sys.exit(f"bulk: {path} stays in the page cache ({there} bytes)")


def peer(module: str) -> Any:
    """Imports a peer's package, or says why it cannot be measured and returns None."""
    try:
        return importlib.import_module(module)
    except Exception as error:  # noqa: BLE001  a peer may fail in any way
        print(f"absent: {module} cannot be imported: {error}", flush=True)
        return None
