"""``scripts/again.sh``: what fails under ``./test --ci`` runs again."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

# A test that fails the first `n` times, and prints the seed that it has.
FAILS_AT_FIRST = """#!/bin/sh
count=$(cat "$1" 2>/dev/null || echo 0)
echo $((count + 1)) >"$1"
echo "[   SEED   ] FERRY_TEST_SEED=${FERRY_TEST_SEED:-$((700 + count))}"
[ "$count" -ge "$2" ]
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    program = tmp_path / "fails_at_first"
    program.write_text(FAILS_AT_FIRST)
    program.chmod(0o755)
    return tmp_path


def steadily(folder: Path, line: str, *, may_be_unstable: bool = True) -> tuple[int, str, list[str]]:
    """Runs a line of the shell there: exit status, output and what was noted as unstable."""
    noted = folder / "unstable"
    noted.write_text("")
    environment = dict(os.environ, FERRY_TEST_UNSTABLE=str(noted) if may_be_unstable else "")
    for name in ("PYTEST_ADDOPTS", "PYTEST_XDIST_WORKER", "FERRY_TEST_SEED"):
        environment.pop(name, None)
    script = f"set -euo pipefail; setup_python={sys.executable}; source {ROOT}/scripts/again.sh; {line}"
    ran = subprocess.run(
        ["bash", "-c", script], cwd=folder, env=environment, capture_output=True, text=True, timeout=60
    )
    return ran.returncode, ran.stdout + ran.stderr, noted.read_text().splitlines()


def make_ctest(folder: Path, failures: list[int]) -> None:
    """Tests of ctest, each of which fails that many times."""
    build = folder / "build/toy"
    build.mkdir(parents=True)
    lines = [
        f'add_test("room.Test/{i}  # of {i}" "{folder}/fails_at_first" "{folder}/count{i}" "{times}")\n'
        for i, times in enumerate(failures)
    ]
    (build / "CTestTestfile.cmake").write_text("".join(lines))
    (folder / "CMakeLists.txt").write_text("")
    (folder / "CMakePresets.json").write_text(
        '{"version": 4, "configurePresets": [{"name": "toy", "binaryDir": "${sourceDir}/build/toy",'
        ' "generator": "Ninja"}], "testPresets": [{"name": "toy", "configurePreset": "toy"}]}'
    )


def test_a_test_of_ctest_that_passes_then_is_noted_and_keeps_its_seed(folder: Path) -> None:
    make_ctest(folder, [0, 1, 0])
    status, output, noted = steadily(folder, "ctest_steadily toy --output-on-failure")
    assert status == 0, output
    assert noted == ["room.Test/1  # of 1"]
    assert "again, three times, FERRY_TEST_SEED=700: room.Test/1" in output
    assert (folder / "count1").read_text() == "4\n"
    assert (folder / "count0").read_text() == "1\n"


@pytest.mark.parametrize("times", [2, 3, 9])
def test_a_test_of_ctest_that_fails_again_is_a_failure(folder: Path, times: int) -> None:
    make_ctest(folder, [0, times])
    status, output, noted = steadily(folder, "ctest_steadily toy --output-on-failure")
    assert status != 0, output
    assert noted == []


def test_a_run_of_ctest_that_does_not_end_is_a_failure(folder: Path) -> None:
    make_ctest(folder, [1, 0])
    temporary = folder / "build/toy/Testing/Temporary"
    temporary.mkdir(parents=True)
    (temporary / "LastTestsFailed.log").write_text("1:room.Test/0  # of 0\n")
    status, output, noted = steadily(folder, "ctest_steadily toy -R nothing --no-tests=error")
    assert status != 0, output
    assert noted == []


def test_many_that_fail_are_failures(folder: Path) -> None:
    make_ctest(folder, [1, 1, 1, 1])
    status, output, noted = steadily(folder, "ctest_steadily toy --output-on-failure")
    assert status != 0, output
    assert noted == []
    assert (folder / "count0").read_text() == "1\n"


def test_many_over_a_run_are_a_failure(folder: Path) -> None:
    line = "; ".join(f"steadily ./fails_at_first count{i} 1" for i in range(4))
    status, _, noted = steadily(folder, line)
    assert status != 0
    assert len(noted) == 4


def test_without_leave_a_failure_is_a_failure(folder: Path) -> None:
    make_ctest(folder, [1])
    (folder / "test_toy.py").write_text("def test_it():\n    assert False\n")
    for line in ("ctest_steadily toy", "steadily ./fails_at_first count 1", "pytest_steadily test_toy.py"):
        status, output, noted = steadily(folder, line, may_be_unstable=False)
        assert status != 0, output
        assert noted == []
        assert "again" not in output


@pytest.mark.parametrize(("times", "passes"), [(0, True), (1, True), (2, False)])
def test_commands(folder: Path, times: int, passes: bool) -> None:
    status, output, noted = steadily(folder, f"steadily ./fails_at_first count {times} || exit 7")
    assert status == (0 if passes else 7), output
    assert noted == ([f"./fails_at_first count {times}"] if times == 1 else [])


@pytest.mark.parametrize(("times", "passes"), [(0, True), (1, True), (2, False)])
def test_tests_of_pytest(folder: Path, times: int, passes: bool) -> None:
    (folder / "test_toy.py").write_text(
        "import subprocess\n\n"
        "def test_steady():\n    pass\n\n"
        f"def test_toy():\n    assert subprocess.run(['./fails_at_first', 'count', '{times}']).returncode == 0\n"
    )
    status, output, noted = steadily(folder, "pytest_steadily test_toy.py")
    assert (status == 0) == passes, output
    assert noted == (["test_toy.py::test_toy"] if times == 1 else [])


def test_a_session_of_pytest_that_stops_is_a_failure(folder: Path) -> None:
    (folder / "test_toy.py").write_text(
        "import pytest, subprocess\n\n"
        "def test_toy():\n    assert subprocess.run(['./fails_at_first', 'count', '1']).returncode == 0\n\n"
        "def test_end():\n    pytest.exit('stops', 3)\n"
    )
    status, output, noted = steadily(folder, "pytest_steadily test_toy.py")
    assert status != 0, output
    assert noted == []


def test_a_file_that_pytest_cannot_read_is_a_failure(folder: Path) -> None:
    (folder / "test_toy.py").write_text("import no_such_module\n")
    status, output, noted = steadily(folder, "pytest_steadily test_toy.py")
    assert status != 0, output
    assert noted == []
