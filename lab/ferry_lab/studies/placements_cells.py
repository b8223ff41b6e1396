"""What the study ``placements`` measures: the cells of its groups, side by side."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ferry.sizes import KIB
from ferry_lab.run.plan import Cell

PIECE_BYTES = 64 * KIB
SEED = 1


@dataclass(frozen=True)
class Series:
    """One way of moving the bytes; its name is the middle of the cells' ids."""

    name: str
    interface: str
    placement: str | None = None
    warm: bool = False  # the device's cache is filled first


HOST = Series("host", "ferry", "host")
CACHED = tuple(Series(name, "ferry", name) for name in ("compute", "service", "automatic"))
WARM = tuple(Series(f"{s.name}-warm", "ferry", s.placement, warm=True) for s in CACHED)
# The second plain series is there for the noise: it equals the first.
PLAIN = (Series("plain", "posix"), Series("again", "posix"))
MMAP = Series("mmap", "mmap")

READS = (HOST, *CACHED, *WARM, *PLAIN, MMAP)
WRITES = (HOST, *CACHED, *PLAIN, MMAP)


def _cell(series: Series, head: str, size: int, **fields: object) -> Cell:
    return Cell(
        id=f"{head}/{series.name}/{size}",
        interface=series.interface,
        placement=series.placement,
        transfer_bytes=size,
        warm=series.warm,
        **fields,  # type: ignore[arg-type]
    )


def read_cells(
    path: str, total_bytes: int, sizes: Sequence[int], seed: int | None, head: str = "read"
) -> list[Cell]:
    """Returns the cells of the reads; ``seed`` is that of the file's pattern, None: unknown."""
    return [
        _cell(
            series,
            head,
            size,
            operation="read",
            path=path,
            total_bytes=total_bytes,
            expect_pattern_seed=seed,
        )
        for size in sizes
        if size <= total_bytes
        for series in READS
    ]


def write_cells(
    path: str, total_bytes: int, sizes: Sequence[int], head: str = "write"
) -> list[Cell]:
    """Returns the cells of the writes; each repeat makes the file anew."""
    return [
        _cell(
            series,
            head,
            size,
            operation="write",
            path=path,
            total_bytes=total_bytes,
            sync="flush+fsync",
            seed=SEED,
        )
        for size in sizes
        for series in WRITES
    ]


def program_cells(
    read_path: str, write_path: str | None, total_bytes: int, seed: int | None
) -> list[Cell]:
    """Returns the cells of the paper's programs; no write twins without a ``write_path``."""
    cells = []
    for program in ("iterative", "once"):
        cells += [
            _cell(
                series,
                f"{program}-read",
                PIECE_BYTES,
                operation="read",
                path=read_path,
                total_bytes=total_bytes,
                program=program,
                expect_pattern_seed=seed,
            )
            for series in READS
        ]
    for program in ("iterative", "once") if write_path is not None else ():
        cells += [
            _cell(
                series,
                f"{program}-write",
                PIECE_BYTES,
                operation="write",
                path=write_path,
                total_bytes=total_bytes,
                program=program,
                sync="flush+fsync",
                seed=SEED,
            )
            for series in WRITES
        ]
    return cells
