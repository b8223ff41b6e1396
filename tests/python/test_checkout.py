"""``./test`` fails when a stage writes into the checkout; ``./ferry`` runs in a read-only one."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from support import BUILD, ROOT, run_program

NOBODY = 65534


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A checkout with ./test, a set-up that does nothing and a stage that a test fills in."""
    (tmp_path / "scripts").mkdir()
    shutil.copy(ROOT / "test", tmp_path)
    shutil.copy(ROOT / "scripts" / "cpu_time.sh", tmp_path / "scripts")
    (tmp_path / ".gitignore").write_text("/build/\n/dist/\n/.ferry/\n__pycache__/\n*.pyc\n")
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


def run_stage(checkout: Path) -> subprocess.CompletedProcess[str]:
    return run_program("./test", "--stage", "unit", cwd=checkout)


def test_unstable_tests_are_named_at_the_end(checkout: Path) -> None:
    write_stage(checkout, 'echo room.Test >>"${FERRY_TEST_UNSTABLE:?only of --ci}"')
    done = run_program("./test", "--ci", "--stage", "unit", cwd=checkout)
    assert done.returncode == 0, done.stdout
    assert "unstable, failed once and passed again; to be mended: room.Test\n" in done.stdout
    assert run_stage(checkout).returncode == 1


@pytest.mark.parametrize(
    "command",
    [
        ":",
        "mkdir -p build dist .ferry && touch build/object dist/wheel .ferry/log",
        "mkdir -p tests/__pycache__ && touch tests/__pycache__/a.pyc",
        "touch left && rm left",
    ],
)
def test_a_clean_checkout_passes(checkout: Path, command: str) -> None:
    write_stage(checkout, command)  # itself a change, made before the tests
    done = run_stage(checkout)
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
    done = run_stage(checkout)
    assert done.returncode == 1
    assert line in done.stdout.splitlines()
    assert "checkout FAILED" in done.stdout
    assert "test: FAILED after" in done.stdout.splitlines()[-1]
    assert "--stage" not in done.stdout.splitlines()[-1]  # the stage itself passed


def test_a_failed_stage_is_still_named(checkout: Path) -> None:
    write_stage(checkout, "false")
    done = run_stage(checkout)
    assert done.returncode == 1
    assert done.stdout.splitlines()[-1].endswith(": unit (again only these: ./test --stage unit)")


@pytest.fixture
def shared() -> Iterator[Path]:
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


def run_ferry(root: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Runs it as a user without write permission there."""
    subprocess.run(["chmod", "-R", "a-w", root], check=True)
    user: dict[str, Any] = {}
    if os.geteuid() == 0:
        user = {"user": NOBODY, "group": NOBODY, "extra_groups": []}
    return run_program(root / "ferry", *arguments, cwd="/", env={"PATH": "/usr/bin:/bin"}, **user)


@pytest.mark.parametrize("arguments", [["info"], ["info", "--json", "-"], ["layout", "get", "x"]])
def test_others_can_use_what_is_built(shared: Path, arguments: list[str]) -> None:
    build(shared)
    done = run_ferry(shared, *arguments)
    assert (done.returncode, done.stderr) == (0, "")
    place = f"{shared}/python:{shared}/lab {shared}/build/release"
    assert done.stdout == f"{place}: -P -m ferry {' '.join(arguments)}\n"


def test_a_build_that_is_up_to_date_has_no_work_to_do() -> None:
    """``./ferry`` asks Ninja; a glob that is checked at each build is work for ever."""
    assert "VerifyGlobs" not in (BUILD / "build.ninja").read_text()


def test_help_needs_no_build(shared: Path) -> None:
    done = run_ferry(shared, "help", "layout", "set")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("Usage: ferry layout set ")


@pytest.mark.parametrize("begun", [False, True])
def test_what_is_not_built_is_said(shared: Path, begun: bool) -> None:
    if begun:
        build(shared)
        (shared / "build" / "release" / "ferry-bench").unlink()
    done = run_ferry(shared, "info")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == (
        f"ferry: cannot write in {shared}, and it is not built yet; its owner can run ./ferry "
        "info there once, then others can use it; or make a checkout of your own\n"
    )
