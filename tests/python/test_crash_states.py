"""What a loss of power may leave of the files that whole programs write keeps what they promise.

A line for each program, with what it found, is in docs/results/reliability.md.
"""

from __future__ import annotations

import io
import itertools
import os
import sys
from pathlib import Path
from typing import Literal

import numpy
import pytest

from recorded import Moment, Writer, recorded
from support import BUILD, Command

OLD = bytes(range(1, 251)) * 17
NEW = bytes(range(250, 0, -1)) * 19


LARGE = b"".join(bytes([1 + piece]) * 70_000 + bytes(900_000) for piece in range(5))


def copied(old: bytes | None = None, new: bytes = NEW, *flags: str, points: int = 40) -> Writer:
    words = ["cp", *flags, "{}/from", "{}/to"]
    return Writer(words, new, old, scratch=r"\.ferry-cp-\d+", first={"from": new}, points=points)


COPIES = {
    "new": copied(),
    "over": copied(OLD, NEW, "--overwrite"),
    "large": copied(None, LARGE, points=5),
    "large-over": copied(OLD, LARGE, "--overwrite", points=5),
    "empty": copied(None, b""),
    "into-a-folder": Writer(
        ["cp", "{}/from", "{}/folder"],
        NEW,
        target="folder/from",
        scratch=r"folder/\.ferry-cp-\d+",
        prepare=lambda folder: (folder / "folder").mkdir(),
        first={"from": NEW},
    ),
}


@pytest.mark.parametrize("name", COPIES)
@pytest.mark.parametrize("renames", ["new", "old"])
def test_copies(command: Command, scratch: Path, name: str, renames: Literal["new", "old"]) -> None:
    writer = COPIES[name]
    words = command.arguments(*writer.words)
    with recorded(scratch, words, writer.fill, environment=command.environment, renames=renames) as run:
        writer.check(run)


# ---- ferry.save ----------------------------------------------------------------------------------

SAVE = """
import sys, numpy, ferry
path, count, raw = sys.argv[1], int(sys.argv[2]), len(sys.argv) > 3
ferry.save(path, numpy.arange(count, dtype="<i4"), raw=raw)
"""


def npy(count: int) -> bytes:
    stream = io.BytesIO()
    numpy.lib.format.write_array_header_1_0(stream, {"descr": "<i4", "fortran_order": False, "shape": (count,)})
    return stream.getvalue() + numpy.arange(count, dtype="<i4").tobytes()


def saved(count: int, old: bytes | None, *flags: str, points: int = 40) -> Writer:
    new = npy(count) if not flags else npy(count)[128:]
    words = [sys.executable, "-c", SAVE, "{}/to", count, *flags]
    return Writer(words, new, old, points=points)


SAVES = {
    "new": saved(3000, None),
    "over": saved(3000, npy(2500)),
    "raw": saved(3000, None, "raw"),
    "empty-over": saved(0, npy(2500)),
    "large-over": saved(1_000_000, npy(2500), points=5),
}


@pytest.mark.parametrize("name", SAVES)
def test_saves(command: Command, scratch: Path, name: str) -> None:
    writer = SAVES[name]
    with recorded(scratch, writer.words, writer.fill, environment=command.environment) as run:
        writer.check(run)


# ---- files that cannot be replaced ---------------------------------------------------------------


@pytest.mark.parametrize("what", ["copy", "save"])
def test_in_place(command: Command, scratch: Path, what: str) -> None:
    """A file with two names stays the same file: after a crash it may hold bytes of both."""
    new = NEW if what == "copy" else npy(3000)

    def fill(folder: Path) -> None:
        (folder / "from").write_bytes(NEW)
        (folder / "to").write_bytes(OLD)
        os.link(folder / "to", folder / "other")

    def look(moment: Moment) -> None:
        files = moment.files()
        assert sorted(files) == ["from", "other", "to"], moment.where
        assert files["other"] == files["to"], moment.where
        if moment.is_over:
            assert files["to"] == new, f"lost {moment.where}"
        assert len(files["to"]) <= len(new), moment.where
        versions = [(*both, 0) for both in itertools.zip_longest(OLD, new, fillvalue=0)]
        assert all(byte in versions[at] for at, byte in enumerate(files["to"])), moment.where

    words = command.arguments("cp", "--overwrite", "{}/from", "{}/to") if what == "copy" else SAVES["new"].words
    with recorded(scratch, words, fill, environment=command.environment) as run:
        assert run.status == 0, run.output()
        run.check(look)


# ---- to a server ---------------------------------------------------------------------------------


@pytest.mark.skipif(not (BUILD / "mocks" / "libpvfs2.so.2").exists(), reason="absent: the mock of libpvfs2")
@pytest.mark.parametrize("old", [None, OLD], ids=["new", "over"])
@pytest.mark.parametrize("what", ["copy", "save"])
def test_to_a_server(command: Command, scratch: Path, what: str, old: bytes | None) -> None:
    """The mock of PVFS2 keeps its files in the recorded folder, and stores names before it answers."""
    table = scratch / "table"
    table.write_text(f"mock:{scratch}/recorded-0 /mock pvfs2 defaults 0 0\n")
    command.environment |= {"LD_LIBRARY_PATH": str(BUILD / "mocks"), "PVFS2TAB_FILE": str(table)}
    if what == "copy":
        flags = [] if old is None else ["--overwrite"]
        words = command.arguments("cp", *flags, "{}/from", "pvfs2:/mock/to")
        # PVFS2 has neither renames that refuse to replace nor second names, so an empty file reserves the name.
        writer = Writer(words, NEW, old, scratch=r"\.ferry-cp-\d+", first={"from": NEW}, reserves=True)
    else:
        writer = Writer([sys.executable, "-c", SAVE, "pvfs2:/mock/to", 3000], npy(3000), old)
    with recorded(scratch, writer.words, writer.fill, environment=command.environment) as run:
        writer.check(run)


# ---- what the recorder sees ----------------------------------------------------------------------

WAYS = """
import mmap, os, sys
folder = sys.argv[1]
def path(name): return f"{folder}/{name}"
def new(name, flags=0): return os.open(path(name), os.O_RDWR | os.O_CREAT | flags, 0o644)
page = mmap.mmap(-1, 4096)
page.write(b"p" * 4096)
source = new("write")
os.write(source, b"w" * 5000)
os.pwrite(source, b"w" * 10, 5000)
os.writev(source, [b"v" * 3, b"v" * 4])
os.fsync(source)
direct = new("direct", os.O_DIRECT)
os.pwrite(direct, page, 0)
os.fdatasync(direct)
mapped = new("mapped")
os.ftruncate(mapped, 9000)
with mmap.mmap(mapped, 9000) as memory:
    memory[4000:4200] = b"m" * 200
    memory.flush()
copied, sent = new("copied"), new("sent")
assert os.copy_file_range(source, copied, 3000, 0, 0) == 3000
assert os.sendfile(sent, source, 100, 2000) == 2000
allocated = new("allocated")
os.posix_fallocate(allocated, 0, 7000)
synced = new("synced", os.O_SYNC)
os.pwrite(synced, b"s" * 9, 0)
cut = new("write", os.O_TRUNC)
os.mkdir(path("folder"))
os.link(path("sent"), path("folder/linked"))
os.rename(path("folder"), path("renamed"))
os.unlink(path("renamed/linked"))
names = os.open(folder, os.O_RDONLY)
os.fsync(names)
"""


def test_the_recorder_sees_what_reaches_a_file(command: Command, scratch: Path) -> None:
    with recorded(scratch, [sys.executable, "-c", WAYS, "{}"], environment=command.environment) as run:
        assert run.status == 0, run.output()
        lines = [line.split() for line in run.log]
        numbers = {line[4]: line[1] for line in lines if line[0] == "create"}
        names = {number: name for name, number in numbers.items()} | {"0": "."}
        # Without their offsets; a file's own writes in order.
        made = [(names[line[1]], line[0], int(line[3] if line[0] == "write" else line[2])) for line in lines]
    by_file = {
        name: [(what, size) for of, what, size in made if of == name and what != "create"] for name in names.values()
    }
    assert by_file["write"] == [("write", 5000), ("write", 10), ("write", 7), ("sync", 0), ("truncate", 0)]
    assert by_file["direct"] == [("write", 4096), ("sync", 0)]
    assert by_file["mapped"][0] == ("truncate", 9000)
    assert sorted(by_file["mapped"][1:]) == [("sync", 0), ("write", 4096), ("write", 4096)] or (
        sorted(by_file["mapped"][1:]) == [("sync", 0), ("write", 8192)]
    )
    assert sum(size for _, size in by_file["copied"]) == 3000
    assert sum(size for what, size in by_file["sent"] if what == "write") == 2000
    assert by_file["allocated"] == [("truncate", 7000)]
    assert by_file["synced"] == [("write", 9), ("sync", 0)]
    assert [what for what, _ in by_file["sent"]][-2:] == ["link", "unlink"]
    assert by_file["folder"] == [("rename", 0)]
    assert by_file["."] == [("sync", 0)]


# ---- what the test is for ------------------------------------------------------------------------


@pytest.mark.parametrize("syncs", ["files", "folders"])
@pytest.mark.parametrize("name", ["copy", "copy-over", "save", "save-over"])
def test_a_writer_without_its_syncs_is_found(
    command: Command, scratch: Path, name: str, syncs: Literal["files", "folders"]
) -> None:
    what, _, over = name.partition("-")
    writer = (COPIES if what == "copy" else SAVES)[over or "new"]
    words = command.arguments(*writer.words) if what == "copy" else writer.words
    with (
        recorded(scratch, words, writer.fill, environment=command.environment, syncs=syncs) as run,
        pytest.raises(AssertionError, match="lost|neither"),
    ):
        run.check(writer.look)
