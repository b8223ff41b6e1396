"""./test fails when a stage writes into the checkout."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from support import ROOT, run_program


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A checkout with ./test, a set-up that does nothing and a stage that a test fills in."""
    (tmp_path / "scripts").mkdir()
    shutil.copy(ROOT / "test", tmp_path)
    (tmp_path / ".gitignore").write_text("/build/\n/.ferry/\n__pycache__/\n*.pyc\n")
    (tmp_path / "scripts" / "setup.sh").write_text(
        'for name in begin all unlock say; do eval "setup_$name() { :; }"; done\n'
    )
    write_stage(tmp_path, ":")
    for words in (["init", "-q"], ["add", "."]):
        subprocess.run(["git", *words], cwd=tmp_path, check=True)
    commit = ["-c", "user.name=a", "-c", "user.email=b", "commit", "-qm", "all"]
    subprocess.run(["git", *commit], cwd=tmp_path, check=True)
    return tmp_path


def write_stage(checkout: Path, command: str) -> None:
    script = checkout / "scripts" / "stage.sh"
    script.write_text(f'#!/bin/sh\ncd "$(dirname "$0")/.." && {command}\n')
    script.chmod(0o755)


def run(checkout: Path) -> subprocess.CompletedProcess[str]:
    return run_program("./test", "--stage", "unit", cwd=checkout)


@pytest.mark.parametrize(
    "command",
    [
        ":",
        "mkdir -p build .ferry && touch build/object .ferry/log",
        "mkdir -p tests/__pycache__ && touch tests/__pycache__/a.pyc",
        "touch left && rm left",
    ],
)
def test_a_clean_checkout_passes(checkout: Path, command: str) -> None:
    write_stage(checkout, command)  # itself a change, made before the tests
    done = run(checkout)
    assert done.returncode == 0, done.stdout
    assert "FAILED" not in done.stdout


@pytest.mark.parametrize(
    ("command", "line"),
    [
        ("mkdir ferry-test-a && touch ferry-test-a/file", "?? ferry-test-a/file"),
        ("echo '*' >> .gitignore", "M .gitignore"),
        ("touch compiled.pyc", "!! compiled.pyc"),
        ("rm .gitignore", "D .gitignore"),
    ],
)
def test_what_a_stage_leaves_is_named(checkout: Path, command: str, line: str) -> None:
    write_stage(checkout, command)
    done = run(checkout)
    assert done.returncode == 1
    assert line in done.stdout.splitlines()
    assert "checkout FAILED" in done.stdout
    assert "test: FAILED after" in done.stdout.splitlines()[-1]
    assert "--stage" not in done.stdout.splitlines()[-1]  # the stage itself passed


def test_a_failed_stage_is_still_named(checkout: Path) -> None:
    write_stage(checkout, "false")
    done = run(checkout)
    assert done.returncode == 1
    assert done.stdout.splitlines()[-1].endswith(": unit (again only these: ./test --stage unit)")
