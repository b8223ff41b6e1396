"""Commands on a mock of PVFS2 (tests/mocks)."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from support import Command, copy_there_and_back, run_program
from ferry import programs
from file_system_checks import CHECKS

MOCKS = Path(programs.find_program("ferry-layout")).parent / "mocks"
pytestmark = pytest.mark.skipif(
    not (MOCKS / "libpvfs2.so.2").exists(),
    reason="absent: the mock of libpvfs2; ./test --stage storages builds and uses it",
)


@pytest.fixture
def mock(command: Command, scratch: Path) -> Command:
    """The command, for which pvfs2:/mock is the folder ``served``."""
    (scratch / "served").mkdir()
    table = scratch / "pvfs2tab"
    table.write_text(f"mock:{scratch}/served /mock pvfs2 defaults 0 0\n")
    command.environment["LD_LIBRARY_PATH"] = str(MOCKS)
    command.environment["PVFS2TAB_FILE"] = str(table)
    return command


def test_copy_there_and_back(mock: Command, scratch: Path) -> None:
    copy_there_and_back(mock, lambda name: f"pvfs2:/mock/{name}", scratch / "served")


def test_a_copy_that_fails_leaves_nothing(mock: Command, scratch: Path) -> None:
    (scratch / "from").write_bytes(b"x" * 100_000)
    mock.environment["FERRY_MOCK_PVFS2_FAIL"] = "PVFS_sys_io:28"
    mock.fails("cp", scratch / "from", "pvfs2:/mock/to", says="No space left on device")
    assert list((scratch / "served").iterdir()) == []


def test_info_and_layouts(mock: Command, scratch: Path) -> None:
    mock.succeeds("layout", "set", "pvfs2:/mock/f", "--stripe-size", "1m", "--stripe-count", "3")
    facts = mock.json("info", "pvfs2:/mock/f")["storage"]
    assert (facts["storage"], facts["engine"], facts["problem"]) == ("pvfs2", "libpvfs2", None)
    assert (facts["layout"]["stripe_bytes"], facts["layout"]["stripe_count"]) == (1 << 20, 3)
    mock.fails("layout", "set", "pvfs2:/mock/g", "--pool", "fast", says="there are no pools")


def test_info_says_why_it_cannot_be_used(mock: Command, scratch: Path) -> None:
    mock.fails("info", "pvfs2:/elsewhere/f", says="is under no folder that is listed in")
    mock.environment["LD_LIBRARY_PATH"] = str(scratch)
    mock.fails("info", "pvfs2:/mock/f", says="install the client of your OrangeFS or PVFS2")


def test_programs_through_fsspec(mock: Command) -> None:
    # The library is searched where the process's environment named it at the start.
    checks = Path(__file__).parent / "file_system_checks.py"
    done = run_program(sys.executable, checks, "pvfs2:///mock", env=mock.environment)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == [check.__name__ for check in CHECKS]
