"""Makes files with ferry-bench's verifiable pattern before measuring."""

from __future__ import annotations

from typing import Any

from ferry.sizes import MIB
from ferry.uris import is_uri
from ferry_lab.run.measuring import run_plan
from ferry_lab.run.plan import Cell, Plan


def make_pattern_file(path: str, size_bytes: int, seed: int, piece_bytes: int | None = None) -> int:
    """Makes a durable file at ``path``; returns the seed of its pattern. Raises FerryError.

    ``piece_bytes`` splits it into files of that size, as program ``files`` needs, without sync.
    """
    if piece_bytes is not None:
        return _make(path, size_bytes, seed, piece_bytes, program="files", sync="none")
    return _make(path, size_bytes, seed, min(size_bytes, MIB))


def make_pattern_files(path: str, size_bytes: int, count: int, seed: int) -> None:
    """Makes durable files ``path``.00000000 and so on, one per thread."""
    _make(path, count * size_bytes, seed, min(size_bytes, MIB), threads=count, file_per_thread=True)


def _make(path: str, total_bytes: int, seed: int, transfer_bytes: int, sync: str = "fsync", **changes: Any) -> int:
    cell = Cell(
        id="make",
        interface="ferry" if is_uri(path) else "posix",  # the plainest one
        placement="host" if is_uri(path) else None,
        operation="write",
        path=path,
        transfer_bytes=transfer_bytes,
        total_bytes=total_bytes,
        sync=sync,
        keep=True,
        seed=seed,
        **changes,
    )
    return int(run_plan(Plan([cell], 1)).samples["make"][0].pattern_seed)
