"""A command in a copy of the prepared interpreter does what it does in one of its own."""

from __future__ import annotations

import ast
import re
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from ferry_lab.studies import STUDIES

from support import ROOT, SOURCES, TIMEOUT_S, Command, run_program, run_python

# Runs each import in a copy of this interpreter, which has loaded nothing.
EACH_ALONE = """
import os, sys
for statement in sys.argv[1:]:
    pid = os.fork()
    if pid == 0:
        exec(statement)
        os._exit(0)
    if os.waitpid(pid, 0)[1] != 0:
        print(statement)
"""


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


def imports_of_commands() -> Iterator[str]:
    """What commands import as they are called: the imports in functions."""
    for path in (ROOT / "python/ferry/cli.py", *(ROOT / "lab/ferry_lab/commands").glob("*.py")):
        for function in ast.walk(ast.parse(path.read_text())):
            if isinstance(function, ast.FunctionDef):
                yield from (ast.unparse(part) for part in ast.walk(function) if isinstance(part, ast.ImportFrom))


def test_commands_import_what_they_use_themselves() -> None:
    """And rely on nothing that the prepared interpreter has loaded for all."""
    of_studies = {f"from ferry_lab.studies import {module}" for module, _ in STUDIES.values()}
    imports = sorted(of_studies.union(imports_of_commands()))
    assert "from ferry import copy" in imports
    done = run_python(EACH_ALONE, *imports, PYTHONPATH=SOURCES)
    assert (done.stdout, done.stderr) == ("", "")
