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


def test_a_copy_in_place(command: Command, scratch: Path) -> None:
    """A file with two names stays the same file: after a crash it may hold bytes of both."""

    def fill(folder: Path) -> None:
        (folder / "from").write_bytes(NEW)
        (folder / "to").write_bytes(OLD)
        os.link(folder / "to", folder / "other")

    def look(moment: Moment) -> None:
        files = moment.files()
        assert sorted(files) == ["from", "other", "to"], moment.where
        assert files["other"] == files["to"], moment.where
        if moment.is_over:
            assert files["to"] == NEW, f"lost {moment.where}"
        assert len(OLD) <= len(files["to"]) <= len(NEW), moment.where
        versions = list(itertools.zip_longest(OLD, NEW, fillvalue=0))
        assert all(byte in versions[at] for at, byte in enumerate(files["to"])), moment.where

    words = command.arguments("cp", "--overwrite", "{}/from", "{}/to")
    with recorded(scratch, words, fill, environment=command.environment) as run:
        assert run.status == 0, run.output()
        run.check(look)


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
