"""Commands on mocks of Lustre and PVFS2 (tests/mocks); no real Lustre was used."""

from __future__ import annotations

import os
import struct
import sys
from pathlib import Path

import pytest

from support import BUILD, Command, copy_there_and_back, mock_of_pvfs2, run_program
from file_system_checks import CHECKS

MOCKS = BUILD / "mocks"
LUSTRE = MOCKS / "liblustreapi.so.1"
pytestmark = pytest.mark.skipif(
    not (LUSTRE.exists() and (MOCKS / "libpvfs2.so.2").exists()),
    reason="absent: the mocks of liblustreapi and libpvfs2; ./test --stage storages builds and uses them",
)


@pytest.fixture
def lustre(command: Command, scratch: Path) -> Command:
    """The command, with the scratch folder as Lustre and the mock as its library."""
    probe = scratch / "probe"
    probe.touch()
    try:
        os.setxattr(probe, "user.ferry.probe", b"")
    except OSError as error:
        pytest.skip(f"the mock needs extended attributes: {error}")
    probe.unlink()
    preloaded = os.environ.get("LD_PRELOAD", "")
    command.environment["LD_PRELOAD"] = f"{LUSTRE} {preloaded}".strip()
    command.environment["LD_LIBRARY_PATH"] = str(MOCKS)
    command.environment["FERRY_MOCK_LUSTRE"] = str(scratch)
    return command


ATTRIBUTE = "user.ferry.mock.lov"
TO_THE_END = (1 << 64) - 1
HAS_SERVERS = 0x10


def stripes(pattern: int, size: int, count: int, servers: list[int], pool: str = "") -> bytes:
    """Lustre's facts about a file or a component."""
    magic = 0x0BD30BD0 if pool else 0x0BD10BD0
    words = struct.pack("=IIQQIHH", magic, pattern, 0, 0, size, count, 1)
    words += pool.encode().ljust(16, b"\0") if pool else b""
    return words + b"".join(struct.pack("=QQII", 7, 0, 0, server) for server in servers)


def composite(*parts: tuple[int, int, int, bytes]) -> bytes:
    """Begin, end, flags and stripes of each."""
    head = struct.pack("=IIIHHQQ", 0x0BD60BD0, 0, 1, 0, len(parts), 0, 0)
    entries, blobs = b"", b""
    for begin, end, flags, blob in parts:
        at = 32 + 48 * len(parts) + len(blobs)
        entries += struct.pack("=IIQQIIQQ", 1, flags, begin, end, at, len(blob), 0, 0)
        blobs += blob
    return head + entries + blobs


def options(*parts: str) -> list[str]:
    return [word for part in parts for word in ("--part", part)]


def layout_of(command: Command, path: Path) -> dict[str, object]:
    return command.json("layout", "get", path)["layout"]


def test_layouts(lustre: Command, scratch: Path) -> None:
    wanted = ["--stripe-size", "2m", "--stripe-count", "3", "--pool", "fast", "--first-server", "1"]
    lustre.succeeds("layout", "set", scratch / "f", *wanted)
    assert layout_of(lustre, scratch / "f") == {
        "stripe_bytes": 2 << 20,
        "stripe_count": 3,
        "object_bytes": None,
        "first_server": 1,
        "pool": "fast",
    }
    (scratch / "d").mkdir()
    lustre.succeeds("layout", "set", scratch / "d", "--stripe-count", "2")
    lustre.succeeds("layout", "set", scratch / "d" / "g", "--stripe-size", "1m")
    assert layout_of(lustre, scratch / "d" / "g")["stripe_count"] == 2
    shown = lustre.run("info", scratch / "f").stdout
    assert "stripe size 2 MiB, stripe count 3, first server 1, pool fast" in shown


def test_what_lustre_does_not_grant_is_refused_or_reduced(lustre: Command, scratch: Path) -> None:
    nine = ("--stripe-count", "9")
    lustre.fails("layout", "set", scratch / "f", *nine, says="at most the number of OSTs")
    assert not (scratch / "f").exists()
    less = lustre.succeeds("layout", "set", scratch / "f", *nine, "--at-most")
    assert less.splitlines()[-1].split() == ["reduced", "stripe", "count"]
    over = lustre.succeeds("layout", "set", scratch / "g", *nine, "--overstripe")
    assert layout_of(lustre, scratch / "g")["overstriping"] == 1
    assert "overstriping  yes" in over


def test_composite_layouts_are_shown_part_by_part(lustre: Command, scratch: Path) -> None:
    (scratch / "f").touch()
    first = stripes(1, 1 << 20, 1, [0])
    second = stripes(1, 4 << 20, 3, [1, 2, 3], "fast")
    two = composite((0, 4 << 20, HAS_SERVERS, first), (4 << 20, TO_THE_END, HAS_SERVERS, second))
    os.setxattr(scratch / "f", ATTRIBUTE, two)
    lines = lustre.run("layout", "get", scratch / "f").stdout.splitlines()
    assert lines[1:] == [
        "part          0 bytes to 4 MiB: stripe size 1 MiB, stripe count 1, first server 0",
        "part          from 4 MiB on: stripe size 4 MiB, stripe count 3, first server 1, pool fast",
    ]


def test_mirrors_and_what_has_no_stripes_are_named(lustre: Command, scratch: Path) -> None:
    (scratch / "f").touch()
    beside = stripes(0x100, 1 << 20, 0, [])
    one, room = stripes(1, 1 << 20, 1, [2]), stripes(1, 64 << 10, 0, [])
    other = struct.pack("=IIIII", 0x0BD70BD0, 4, 1, 0, 0)
    parts = composite(
        (0, 1 << 20, HAS_SERVERS, beside),
        (1 << 20, 64 << 20, HAS_SERVERS, one),
        (64 << 20, TO_THE_END, 0x40, room),
        (0, TO_THE_END, 0, other),
    )
    os.setxattr(scratch / "f", ATTRIBUTE, parts)
    assert lustre.run("layout", "get", scratch / "f").stdout.splitlines()[1:] == [
        "part          mirror 1, 0 bytes to 1 MiB: on the metadata server yes",
        "part          mirror 1, 1 MiB to 64 MiB: stripe size 1 MiB, stripe count 1, first server 2",
        "part          mirror 1, from 64 MiB on: room for the part before it, in steps of 64 MiB",
        "part          mirror 2, from 0 bytes on: outside Lustre yes",
    ]
    assert layout_of(lustre, scratch / "f")["mirrors"] == 2


def test_a_pool_that_is_not_there_is_one_line(lustre: Command, scratch: Path) -> None:
    (scratch / "d").mkdir()
    for name in ("d", "f"):
        # One line: the library's own are silenced.
        why = "the pool and the first server are ones of the file system"
        lustre.fails("layout", "set", scratch / name, "--pool", "absent", says=why)
    assert [path.name for path in scratch.iterdir()] == ["d"]


@pytest.mark.parametrize("read", [1, 2, 3])
def test_a_file_whose_layout_cannot_be_read_is_removed(lustre: Command, scratch: Path, read: int) -> None:
    lustre.environment["FERRY_MOCK_LUSTRE_FAILS"] = str(read)
    lustre.fails("layout", "set", scratch / "f", "--stripe-count", "2", says="Input/output error")
    assert list(scratch.iterdir()) == []


def test_overstriping_that_is_not_needed_is_granted(lustre: Command, scratch: Path) -> None:
    shown = lustre.succeeds("layout", "set", scratch / "f", "--stripe-count", "3", "--overstripe")
    assert layout_of(lustre, scratch / "f")["stripe_count"] == 3
    assert "reduced" not in shown


def test_info_names_what_is_not_used_on_lustre(lustre: Command, scratch: Path) -> None:
    shown = " ".join(lustre.run("info", scratch).stdout.split())
    if "I/O server" in shown and "io_uring" in shown:
        assert "without registered buffers: the client of Lustre moves wrong bytes" in shown
    assert "liblustreapi" not in shown
    lustre.environment["LD_LIBRARY_PATH"] = str(scratch)
    shown = " ".join(lustre.run("info", scratch).stdout.split())
    assert "layouts by the kernel's client: liblustreapi.so.1 cannot be loaded" in shown
    assert "lustre-client-utils" in shown


def test_composite_layouts_are_made(lustre: Command, scratch: Path) -> None:
    parts = ["4m,size=1m,count=1", "64m,count=6,overstripe", "end,size=4m,count=all,pool=fast"]
    shown = lustre.succeeds("layout", "set", scratch / "f", *options(*parts))
    assert shown.splitlines()[1:] == [
        "part          0 bytes to 4 MiB: stripe size 1 MiB, stripe count 1, first server 0",
        "part          4 MiB to 64 MiB: stripe size 1 MiB, stripe count 6, overstriping yes",
        "part          from 64 MiB on: stripe size 4 MiB, pool fast, all servers yes",
    ]
    assert layout_of(lustre, scratch / "f")["parts"][2] == {
        "begin_bytes": 64 << 20,
        "end_bytes": None,
        "stripe_bytes": 4 << 20,
        "stripe_count": None,
        "first_server": None,
        "pool": "fast",
        "all_servers": 1,
    }
    less = lustre.succeeds("layout", "set", scratch / "g", *options("5m,size=2m,count=9", "end"), "--at-most")
    assert less.splitlines()[-1] == "reduced       end of part 1, stripe count of part 1"
    whole = lustre.succeeds("layout", "set", scratch / "h", *options("end,size=2m,count=2"))
    assert "reduced" not in whole


@pytest.mark.parametrize("parts", [["8m", "4m", "end"], ["4m", "8m"], ["100k", "end"], ["3m,size=2m", "end"]])
def test_parts_that_cannot_be_are_refused(lustre: Command, scratch: Path, parts: list[str]) -> None:
    why = "parts follow each other to the end of the file"
    lustre.fails("layout", "set", scratch / "f", *options(*parts), says=why)
    assert list(scratch.iterdir()) == []


@pytest.mark.parametrize("part", ["", "4x", "4m,count=many", "4m,count=0", "4m,size", "end,colour=red"])
def test_parts_that_say_nothing_are_wrong_arguments(lustre: Command, scratch: Path, part: str) -> None:
    lustre.fails("layout", "set", scratch / "f", *options(part), says="--part", status=2)
    assert list(scratch.iterdir()) == []


def test_parts_have_settings_of_their_own(lustre: Command, scratch: Path) -> None:
    why = "with --part, settings are given in each part"
    settings = [*options("end"), "--stripe-count", "2"]
    lustre.fails("layout", "set", scratch / "f", *settings, says=why, status=2)


def test_without_the_library_the_line_for_lfs_is_told(lustre: Command, scratch: Path) -> None:
    """The disk below refuses the calls of Lustre's kernel client."""
    lustre.environment["LD_LIBRARY_PATH"] = str(scratch)
    settings = ["--stripe-count", "4", "--overstripe"]
    by = f"run: lfs setstripe -C 4 '{scratch}/f'"
    lustre.fails("layout", "set", scratch / "f", *settings, says=by)
    assert list(scratch.iterdir()) == []
    by = f"lfs setstripe -E 4194304 -S 1048576 -c 1 -E -1 -c 4 '{scratch}/f'"
    by = f"cannot set composite layouts here; run: {by}"
    parts = options("4m,size=1m,count=1", "end,count=4")
    said = lustre.fails("layout", "set", scratch / "f", *parts, says=by)
    assert "what is left to Lustre here: the stripe size of part 2" in said
    assert list(scratch.iterdir()) == []


@pytest.fixture
def pvfs2(command: Command, scratch: Path) -> Command:
    """The command, for which pvfs2:/mock is the folder ``served``."""
    command.environment.update(mock_of_pvfs2(scratch))
    return command


def test_copy_there_and_back(pvfs2: Command, scratch: Path) -> None:
    copy_there_and_back(pvfs2, lambda name: f"pvfs2:/mock/{name}", scratch / "served")


def test_a_copy_that_fails_leaves_nothing(pvfs2: Command, scratch: Path) -> None:
    (scratch / "from").write_bytes(b"x" * 100_000)
    pvfs2.environment["FERRY_MOCK_PVFS2_FAIL"] = "PVFS_sys_io:28"
    pvfs2.fails("cp", scratch / "from", "pvfs2:/mock/to", says="No space left on device")
    assert list((scratch / "served").iterdir()) == []


def test_info_and_layouts_of_pvfs2(pvfs2: Command, scratch: Path) -> None:
    pvfs2.succeeds("layout", "set", "pvfs2:/mock/f", "--stripe-size", "1m", "--stripe-count", "3")
    facts = pvfs2.json("info", "pvfs2:/mock/f")["storage"]
    assert (facts["storage"], facts["engine"], facts["problem"]) == ("pvfs2", "libpvfs2", None)
    assert (facts["layout"]["stripe_bytes"], facts["layout"]["stripe_count"]) == (1 << 20, 3)
    pvfs2.fails("layout", "set", "pvfs2:/mock/g", "--pool", "fast", says="there are no pools")


def test_info_says_why_it_cannot_be_used(pvfs2: Command, scratch: Path) -> None:
    pvfs2.fails("info", "pvfs2:/elsewhere/f", says="is under no folder that is listed in")
    pvfs2.environment["LD_LIBRARY_PATH"] = str(scratch)
    pvfs2.fails("info", "pvfs2:/mock/f", says="install the client of your OrangeFS or PVFS2")


def test_programs_through_fsspec(pvfs2: Command) -> None:
    # The library is searched where the process's environment named it at the start.
    checks = Path(__file__).parent / "file_system_checks.py"
    done = run_program(sys.executable, checks, "pvfs2:///mock", env=pvfs2.environment)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == [check.__name__ for check in CHECKS]
