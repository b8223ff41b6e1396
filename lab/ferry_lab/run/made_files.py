"""Makes files with ferry-bench's verifiable pattern before measuring."""

from __future__ import annotations

from ferry.sizes import MIB
from ferry.uris import is_uri
from ferry_lab.run.measuring import run_plan
from ferry_lab.run.plan import Cell, Plan


def make_pattern_file(path: str, size_bytes: int, seed: int, piece_bytes: int | None = None) -> int:
    """Makes a durable file at ``path``; returns the seed of its pattern. Raises FerryError.

    ``piece_bytes`` splits it into files of that size, as program ``files`` needs, without sync.
    """
    whole = piece_bytes is None
    cell = Cell(
        id="make",
        **_way(path),
        operation="write",
        path=path,
        program="stream" if whole else "files",
        transfer_bytes=piece_bytes or min(size_bytes, MIB),
        total_bytes=size_bytes,
        sync="fsync" if whole else "none",
        keep=True,
        seed=seed,
    )
    return int(run_plan(Plan([cell], 1)).samples["make"][0].pattern_seed)


def _way(path: str) -> dict[str, str]:
    """Returns the plainest interface to a file."""
    if is_uri(path):
        return {"interface": "ferry", "placement": "host"}
    return {"interface": "posix"}


def make_pattern_files(path: str, size_bytes: int, count: int, seed: int) -> None:
    """Makes durable files ``path``.00000000 and so on, one per thread."""
    cell = Cell(
        id="make",
        **_way(path),
        operation="write",
        path=path,
        transfer_bytes=min(size_bytes, MIB),
        total_bytes=count * size_bytes,
        threads=count,
        file_per_thread=True,
        sync="fsync",
        keep=True,
        seed=seed,
    )
    run_plan(Plan([cell], 1))
