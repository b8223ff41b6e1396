"""``./ferry`` in a read-only checkout."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from support import ROOT, run_program

NOBODY = 65534


@pytest.fixture
def checkout() -> Iterator[Path]:
    """A copy of what ./ferry needs, readable by all."""
    root = Path(tempfile.mkdtemp(prefix="ferry-checkout-"))
    try:
        root.chmod(0o755)
        shutil.copy(ROOT / "ferry", root)
        shutil.copytree(ROOT / "scripts", root / "scripts")
        yield root
    finally:
        subprocess.run(["chmod", "-R", "u+w", root], check=True)
        shutil.rmtree(root)


def build(root: Path) -> None:
    """Makes the results of a set-up; its Python prints its arguments."""
    python = root / ".ferry" / "venv" / "bin" / "python"
    program = root / "build" / "release" / "ferry-bench"
    for path in (python, program):
        path.parent.mkdir(parents=True)
        path.write_text('#!/bin/sh\necho "$PYTHONPATH $FERRY_BUILD_DIR: $*"\n')
        path.chmod(0o755)
    (root / ".ferry" / "lock").touch()


def run(root: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Runs it as a user without write permission there."""
    subprocess.run(["chmod", "-R", "a-w", root], check=True)
    user: dict[str, Any] = {}
    if os.geteuid() == 0:
        user = {"user": NOBODY, "group": NOBODY, "extra_groups": []}
    return run_program(root / "ferry", *arguments, cwd="/", env={"PATH": "/usr/bin:/bin"}, **user)


@pytest.mark.parametrize("arguments", [["info"], ["info", "--json", "-"], ["layout", "get", "x"]])
def test_others_can_use_what_is_built(checkout: Path, arguments: list[str]) -> None:
    build(checkout)
    done = run(checkout, *arguments)
    assert (done.returncode, done.stderr) == (0, "")
    place = f"{checkout}/python:{checkout}/lab {checkout}/build/release"
    assert done.stdout == f"{place}: -P -m ferry {' '.join(arguments)}\n"


def test_help_needs_no_build(checkout: Path) -> None:
    done = run(checkout, "help", "layout", "set")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("Usage: ferry layout set ")


@pytest.mark.parametrize("begun", [False, True])
def test_what_is_not_built_is_said(checkout: Path, begun: bool) -> None:
    if begun:
        build(checkout)
        (checkout / "build" / "release" / "ferry-bench").unlink()
    done = run(checkout, "info")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == (
        f"ferry: cannot write in {checkout}, and it is not built yet; its owner can run ./ferry "
        "info there once, then others can use it; or make a checkout of your own\n"
    )
