"""``ferry-bench`` on plans that it must make, and on those that must fail."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from support import run_bench

Lines = list[dict[str, Any]]


def of_type(lines: Lines, name: str) -> Lines:
    """The lines of that type: environment, sample, error and so on."""
    return [line for line in lines if line["type"] == name]


def measure(cells: Lines, **plan: Any) -> Lines:
    """The samples of cells that must succeed."""
    status, lines = run_bench({"cells": cells, **plan})
    assert of_type(lines, "error") == []
    assert status == 0
    return of_type(lines, "sample")


def failure(cells: Lines, status: int = 1, options: dict[str, Any] | None = None, **plan: Any) -> dict[str, Any]:
    """The only error of a plan that must fail with this status; ``options`` are of the process."""
    found, lines = run_bench({"cells": cells, **plan}, **(options or {}))
    assert found == status, lines
    assert status != 2 or len(lines) == 1  # refused before anything is done
    (error,) = of_type(lines, "error")
    return error


def corrupt(path: Path, at: int) -> None:
    """Changes one bit of the byte there."""
    content = bytearray(path.read_bytes())
    content[at] ^= 1
    path.write_bytes(content)
