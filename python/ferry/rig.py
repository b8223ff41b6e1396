"""``ferry rig``: real storage servers on this machine, started and stopped by ``rigs/rig``."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from ferry.errors import FerryError

# What can be started, and what `up` can be given for it.
OPTIONS = {"nfs": ("memory",), "ceph": ("disk", "mount", "osd_mbps")}
NAMES = tuple(OPTIONS)


def run(arguments: list[str]) -> None:
    """Becomes ``rigs/rig`` of the checkout, with these arguments. Raises FerryError."""
    program = _program()
    sys.stdout.flush()
    os.execv(program, [str(program), *arguments])


def _program() -> Path:
    program = Path(__file__).resolve().parents[2] / "rigs" / "rig"
    if not program.is_file():
        raise FerryError("the rigs are part of the source tree; run ./ferry rig in a checkout")
    return program


def folder() -> Path:
    """Returns where the rigs of the checkout have what they make."""
    return Path(__file__).resolve().parents[2] / ".ferry" / "rig"


def uris_up() -> list[str]:
    """Returns the URIs of the rigs that are up; none outside of a checkout."""
    try:
        answer = subprocess.run(
            [str(_program()), "status"], capture_output=True, text=True, check=False
        ).stdout
    except (FerryError, OSError):
        return []
    lines = (line.split() for line in answer.splitlines())
    return [words[2] for words in lines if len(words) > 2 and words[1] == "up"]
