"""``ferry rig``: real storage servers on this machine, started and stopped by ``rigs/rig``."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from ferry.errors import FerryError

# What can be started, and what `up` can be given for it.
OPTIONS = {"nfs": ("memory",), "ceph": ("disk", "mount")}
NAMES = tuple(OPTIONS)


def run(arguments: list[str]) -> None:
    """Becomes ``rigs/rig`` of the checkout, with these arguments. Raises FerryError."""
    program = Path(__file__).resolve().parents[2] / "rigs" / "rig"
    if not program.is_file():
        raise FerryError("the rigs are part of the source tree; run ./ferry rig in a checkout")
    sys.stdout.flush()
    os.execv(program, [str(program), *arguments])
