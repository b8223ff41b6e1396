"""Folders with the packages of other systems, for wheels and for aarch64: made again when what they hold changes."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from support import ROOT, run_program

# Writes down what it unpacks, and makes the folder.
MMDEBSTRAP = """#!/bin/sh
for word; do case $word in --include=*) echo "$word" >>"$UNPACKED" ;; esac; folder=$word; done
mkdir -p "$folder/usr" && [ ! -e "$UNPACKED.fails" ]
"""
SETUP = """
setup_begin() { setup_dir=$2/.ferry; setup_log=$setup_dir/log; setup_python=python3; mkdir -p "$setup_dir"; }
setup_packages() { :; }
setup_lock() { :; }
setup_build() { :; }
setup_say() { :; }
setup_base_python() { echo true; }
setup_die() { echo "$*" >&2; exit 1; }
setup_words() { sed 's/#.*//' "$@" | xargs -n1; }
"""


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A checkout with these scripts, whose tools are made up."""
    checkout = tmp_path / "checkout"
    for folder in ("scripts", "python", "bin", "temporary"):
        (checkout / folder).mkdir(parents=True)
    for name in ("scripts/stage.sh", "scripts/again.sh", "scripts/wheels.sh", "python/requirements-wheels.txt"):
        shutil.copy(ROOT / name, checkout / name)
    (checkout / "scripts" / "setup.sh").write_text(SETUP)
    for name, text in (("mmdebstrap", MMDEBSTRAP), ("qemu-aarch64-static", "#!/bin/sh\n")):
        (checkout / "bin" / name).write_text(text)
        (checkout / "bin" / name).chmod(0o755)
    return checkout


def run(checkout: Path, *words: str) -> subprocess.CompletedProcess[str]:
    variables = {
        "PATH": f"{checkout / 'bin'}:{os.environ['PATH']}",
        "TMPDIR": str(checkout / "temporary"),
        "UNPACKED": str(checkout / "unpacked"),
    }
    return run_program(checkout / words[0], *words[1:], env={**os.environ, **variables})


def unpacked(checkout: Path) -> list[str]:
    return (checkout / "unpacked").read_text().splitlines()


def test_the_packages_of_aarch64_are_unpacked_again_when_their_list_changes(checkout: Path) -> None:
    packages = checkout / "scripts" / "packages-aarch64-target.txt"
    packages.write_text("# Comment.\nlibone-dev\nlibtwo-dev # why\n")
    for _ in range(2):
        done = run(checkout, "scripts/stage.sh", "aarch64")
        assert done.returncode == 0, done.stderr
    assert unpacked(checkout) == ["--include=libone-dev,libtwo-dev"]
    packages.write_text("libone-dev\n")
    for _ in range(2):
        assert run(checkout, "scripts/stage.sh", "aarch64").returncode == 0
    assert unpacked(checkout)[1:] == ["--include=libone-dev"]


@pytest.mark.parametrize("what", ["packages", "wheel"])
def test_wheels_that_cannot_be_built_leave_nothing_in_the_temporary_folder(checkout: Path, what: str) -> None:
    environment = checkout / ".ferry" / "wheels" / "venv"
    (environment / "bin").mkdir(parents=True)
    shutil.copy(checkout / "python" / "requirements-wheels.txt", environment / "stamp")
    python = environment / "bin" / "python"
    python.write_text("#!/bin/sh\nexit 1\n")
    python.chmod(0o755)
    if what == "packages":
        (checkout / "unpacked.fails").touch()
        done = run(checkout, "scripts/wheels.sh", "x86_64")
    else:  # the packages are there, as far as the script sees
        script = checkout / "scripts" / "wheels.sh"
        script.write_text(script.read_text().replace("cp -rL", ": cp -rL"))
        done = run(checkout, "scripts/wheels.sh", "x86_64")
        assert "could not be built" in done.stderr
    assert done.returncode != 0
    assert unpacked(checkout)
    assert list((checkout / "temporary").iterdir()) == []
