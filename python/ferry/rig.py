"""``ferry rig``: starts and stops real storage servers on this machine with ``rigs/rig``."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from ferry.errors import FerryError

# The rigs, and the options of `up` for each.
OPTIONS = {"nfs": ("memory",), "ceph": ("disk", "mount", "osd_mbps")}
NAMES = tuple(OPTIONS)


def run(arguments: list[str]) -> None:
    """Replaces this process with ``rigs/rig`` of the checkout. Raises FerryError."""
    program = _program()
    sys.stdout.flush()
    os.execv(program, [str(program), *arguments])


def _program() -> Path:
    program = Path(__file__).resolve().parents[2] / "rigs" / "rig"
    if not program.is_file():
        raise FerryError("the rigs are part of the source tree; run ./ferry rig in a checkout")
    return program


def folder() -> Path:
    """Returns the folder of the rigs' files."""
    return Path(__file__).resolve().parents[2] / ".ferry" / "rig"


def uris_up() -> list[str]:
    """Returns the URIs of running rigs; none outside a checkout."""
    try:
        answer = subprocess.run([str(_program()), "status"], capture_output=True, text=True, check=False).stdout
    except (FerryError, OSError):
        return []
    lines = (line.split() for line in answer.splitlines())
    return [words[2] for words in lines if len(words) > 2 and words[1] == "up"]
