"""What a loss of power may leave of the files that whole programs write keeps what they promise.

A line for each program, with what it found, is in docs/results/reliability.md.
"""

from __future__ import annotations

import io
import sys
from pathlib import Path

import numpy
import pytest

from recorded import Writer, recorded
from support import Command

OLD = bytes(range(1, 251)) * 17
NEW = bytes(range(250, 0, -1)) * 19


LARGE = b"".join(bytes([1 + piece]) * 70_000 + bytes(900_000) for piece in range(5))


def copied(old: bytes | None = None, new: bytes = NEW, *flags: str, points: int = 40) -> Writer:
    words = ["cp", *flags, "{}/from", "{}/to"]
    return Writer(words, new, old, scratch=r"\.ferry-cp-\d+", first={"from": new}, points=points)


COPIES = {
    "new": copied(),
    "over": copied(OLD, NEW, "--overwrite"),
    "large": copied(None, LARGE, points=12),
    "large-over": copied(OLD, LARGE, "--overwrite", points=12),
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
def test_copies(command: Command, scratch: Path, name: str) -> None:
    writer = COPIES[name]
    words = command.arguments(*writer.words)
    with recorded(scratch, words, writer.fill, environment=command.environment) as run:
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
    "large-over": saved(1_000_000, npy(2500), points=12),
}


@pytest.mark.parametrize("name", SAVES)
def test_saves(command: Command, scratch: Path, name: str) -> None:
    writer = SAVES[name]
    with recorded(scratch, writer.words, writer.fill, environment=command.environment) as run:
        writer.check(run)


# ---- what the test is for ------------------------------------------------------------------------


@pytest.mark.parametrize("syncs", ["files", "folders"])
@pytest.mark.parametrize("name", ["copy", "copy-over", "save", "save-over"])
def test_a_writer_without_its_syncs_is_found(command: Command, scratch: Path, name: str, syncs: str) -> None:
    what, _, over = name.partition("-")
    writer = (COPIES if what == "copy" else SAVES)[over or "new"]
    words = command.arguments(*writer.words) if what == "copy" else writer.words
    with (
        recorded(scratch, words, writer.fill, environment=command.environment, syncs=syncs) as run,
        pytest.raises(AssertionError, match="lost|neither"),
    ):
        run.check(writer.look)
