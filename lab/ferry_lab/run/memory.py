"""How much memory is free."""

from __future__ import annotations

from pathlib import Path

from ferry.errors import FerryError


def available_bytes() -> int:
    """Returns what programs can have without swapping. Raises FerryError."""
    for line in Path("/proc/meminfo").read_text(encoding="ascii").splitlines():
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) << 10
    raise FerryError("/proc/meminfo does not say how much memory is free; is this Linux?")
