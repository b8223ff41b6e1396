"""Layouts on a mock of Lustre (tests/mocks): no real one has been asked."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from conftest import Command
from ferry import programs

MOCKS = Path(programs.find_program("ferry-layout")).parent / "mocks"
MOCK = MOCKS / "liblustreapi.so.1"
pytestmark = pytest.mark.skipif(
    not MOCK.exists(),
    reason="absent: the mock of liblustreapi; ./test --stage storages builds and uses it",
)


@pytest.fixture
def mock(command: Command, scratch: Path) -> Command:
    """The command, for which the scratch folder is Lustre and the mock its library."""
    probe = scratch / "probe"
    probe.touch()
    try:
        os.setxattr(probe, "user.ferry.probe", b"")
    except OSError as error:
        pytest.skip(f"the mock needs extended attributes: {error}")
    probe.unlink()
    preloaded = os.environ.get("LD_PRELOAD", "")
    command.environment["LD_PRELOAD"] = f"{MOCK} {preloaded}".strip()
    command.environment["LD_LIBRARY_PATH"] = str(MOCKS)
    command.environment["FERRY_MOCK_LUSTRE"] = str(scratch)
    return command


def layout_of(command: Command, path: Path) -> dict[str, object]:
    done = command.run("layout", "get", path, "--json", "-")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)["layout"]


def test_layouts(mock: Command, scratch: Path) -> None:
    wanted = ["--stripe-size", "2m", "--stripe-count", "3", "--pool", "fast", "--first-server", "1"]
    done = mock.run("layout", "set", scratch / "f", *wanted)
    assert done.returncode == 0, done.stderr
    assert layout_of(mock, scratch / "f") == {
        "stripe_bytes": 2 << 20,
        "stripe_count": 3,
        "object_bytes": None,
        "first_server": 1,
        "pool": "fast",
    }
    (scratch / "d").mkdir()
    assert mock.run("layout", "set", scratch / "d", "--stripe-count", "2").returncode == 0
    assert mock.run("layout", "set", scratch / "d" / "g", "--stripe-size", "1m").returncode == 0
    assert layout_of(mock, scratch / "d" / "g")["stripe_count"] == 2
    shown = mock.run("info", scratch / "f").stdout
    assert "stripe size 2 MiB, stripe count 3, first server 1, pool fast" in shown


def test_what_lustre_does_not_grant_is_refused_or_reduced(mock: Command, scratch: Path) -> None:
    done = mock.run("layout", "set", scratch / "f", "--stripe-count", "9")
    assert done.returncode == 1
    assert "at most the number of OSTs" in done.stderr
    assert done.stderr.count("\n") == 1
    assert not (scratch / "f").exists()
    less = mock.run("layout", "set", scratch / "f", "--stripe-count", "9", "--at-most")
    assert less.stdout.splitlines()[-1].split() == ["reduced", "stripe", "count"]
    over = mock.run("layout", "set", scratch / "g", "--stripe-count", "9", "--overstripe")
    assert over.returncode == 0, over.stderr
    assert layout_of(mock, scratch / "g")["overstriping"] == 1
    assert "overstriping  yes" in over.stdout


def test_composite_layouts_are_shown_part_by_part(mock: Command, scratch: Path) -> None:
    (scratch / "f").touch()
    two = b"0 4194304 1048576 1 0 0 -\n4194304 18446744073709551615 4194304 3 0 1 fast\n"
    os.setxattr(scratch / "f", "user.ferry.mock.lustre", two)
    lines = mock.run("layout", "get", scratch / "f").stdout.splitlines()
    assert lines[1:] == [
        "part          0 bytes to 4 MiB: stripe size 1 MiB, stripe count 1, first server 0",
        "part          from 4 MiB on: stripe size 4 MiB, stripe count 3, first server 1, pool fast",
    ]


def test_composite_layouts_are_made(mock: Command, scratch: Path) -> None:
    parts = ["4m,size=1m,count=1", "64m,count=6,overstripe", "end,size=4m,count=all,pool=fast"]
    asked = [word for part in parts for word in ("--part", part)]
    done = mock.run("layout", "set", scratch / "f", *asked)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[1:] == [
        "part          0 bytes to 4 MiB: stripe size 1 MiB, stripe count 1, first server 0",
        "part          4 MiB to 64 MiB: stripe size 1 MiB, stripe count 6, overstriping yes",
        "part          from 64 MiB on: stripe size 4 MiB, pool fast, all servers yes",
    ]
    assert layout_of(mock, scratch / "f")["parts"][2] == {
        "begin_bytes": 64 << 20,
        "end_bytes": None,
        "stripe_bytes": 4 << 20,
        "stripe_count": None,
        "first_server": None,
        "pool": "fast",
        "all_servers": 1,
    }
    less = mock.run(
        "layout", "set", scratch / "g", "--part", "5m,size=2m,count=9", "--part", "end", "--at-most"
    )
    assert less.stdout.splitlines()[-1].split(maxsplit=1) == [
        "reduced",
        "end of part 1, stripe count of part 1",
    ]
    whole = mock.run("layout", "set", scratch / "h", "--part", "end,size=2m,count=2")
    assert whole.returncode == 0, whole.stderr
    assert "reduced" not in whole.stdout


@pytest.mark.parametrize(
    "parts", [["8m", "4m", "end"], ["4m", "8m"], ["100k", "end"], ["3m,size=2m", "end"]]
)
def test_parts_that_cannot_be_are_refused(mock: Command, scratch: Path, parts: list[str]) -> None:
    asked = [word for part in parts for word in ("--part", part)]
    done = mock.run("layout", "set", scratch / "f", *asked)
    assert done.returncode == 1
    assert "parts follow each other to the end of the file" in done.stderr
    assert done.stderr.count("\n") == 1
    assert list(scratch.iterdir()) == []


@pytest.mark.parametrize("part", ["", "4x", "4m,count=many", "4m,count=0", "4m,size", "end,colour=red"])
def test_parts_that_say_nothing_are_wrong_arguments(
    mock: Command, scratch: Path, part: str
) -> None:
    done = mock.run("layout", "set", scratch / "f", "--part", part)
    assert done.returncode == 2
    assert "--part" in done.stderr
    assert list(scratch.iterdir()) == []


def test_parts_have_settings_of_their_own(mock: Command, scratch: Path) -> None:
    done = mock.run("layout", "set", scratch / "f", "--part", "end", "--stripe-count", "2")
    assert done.returncode == 2
    assert "with --part, settings are given in each part" in done.stderr


def test_without_the_library_the_line_for_lfs_is_told(mock: Command, scratch: Path) -> None:
    """The disk below refuses the calls of Lustre's kernel client."""
    mock.environment["LD_LIBRARY_PATH"] = str(scratch)
    done = mock.run("layout", "set", scratch / "f", "--stripe-count", "4", "--overstripe")
    assert done.returncode == 1
    assert f"do it by: lfs setstripe -C 4 '{scratch}/f'" in done.stderr
    assert done.stderr.count("\n") == 1
    assert list(scratch.iterdir()) == []
    parts = ["--part", "4m,size=1m,count=1", "--part", "end,count=4"]
    done = mock.run("layout", "set", scratch / "f", *parts)
    command = f"lfs setstripe -E 4194304 -S 1048576 -c 1 -E -1 -S 0 -c 4 '{scratch}/f'"
    assert f"take composite layouts by its kernel's client alone; do it by: {command}" in done.stderr
    assert list(scratch.iterdir()) == []
