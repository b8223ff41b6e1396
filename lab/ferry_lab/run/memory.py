"""How much memory is free."""

from __future__ import annotations

from pathlib import Path

from ferry.errors import FerryError
from ferry.sizes import format_size


def available_bytes() -> int:
    """Returns what programs can have without swapping. Raises FerryError."""
    for line in Path("/proc/meminfo").read_text(encoding="ascii").splitlines():
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) << 10
    raise FerryError("/proc/meminfo does not say how much memory is free; is this Linux?")


def lack_of_memory(free_bytes: int, needed_bytes: int) -> FerryError:
    """Returns the error of a study for whose smallest part there is too little memory."""
    return FerryError(
        f"{format_size(free_bytes)} of memory are free and the study needs "
        f"{format_size(needed_bytes)}; end other programs"
    )
