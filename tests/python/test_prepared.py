"""A command in a copy of the prepared interpreter does what it does in one of its own."""

from __future__ import annotations

import re
import subprocess
import time
from pathlib import Path

import pytest

from support import TIMEOUT_S, Command, run_program


@pytest.mark.parametrize("words", [["--version"], ["cp", "from", "to"], ["cp", "from", "missing/to"], ["cp", "--flag"]])
def test_both_end_alike(command: Command, scratch: Path, words: list[str]) -> None:
    found = []
    for run in (command.run, lambda *a: run_program(*command.arguments(*a), env=command.environment, cwd=scratch)):
        (scratch / "from").write_bytes(b"bytes")
        done = run(*words)
        files = {path.name: path.read_bytes() for path in scratch.iterdir()}
        shown = re.sub(r"[0-9.]+ [KMGT]iB/s|[0-9.]+ \w?s\b", "RATE", done.stdout)
        found.append((done.returncode, shown, done.stderr, files))
        (scratch / "to").unlink(missing_ok=True)
    assert found[0] == found[1]


def test_each_run_has_its_variables(command: Command, tmp_path: Path) -> None:
    assert command.run("info").returncode == 0
    command.environment["FERRY_BUILD_DIR"] = str(tmp_path)
    command.fails("info", says=str(tmp_path))
    del command.environment["FERRY_BUILD_DIR"]
    command.environment["LC_ALL"] = "POSIX"  # read when an interpreter starts
    command.environment["PYTHONPATH"] = str(tmp_path)
    assert "No module named ferry" in command.run("info").stderr


def test_a_run_that_takes_too_long_is_killed(command: Command) -> None:
    with pytest.raises(subprocess.TimeoutExpired):
        command.run("bench", "-b", "4m", "-i", "100000", "-w", "file", timeout=1)
    deadline = time.monotonic() + TIMEOUT_S
    while command.processes():
        assert time.monotonic() < deadline
        time.sleep(0.01)
    assert command.run("--version").returncode == 0
