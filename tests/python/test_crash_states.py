"""What a loss of power may leave of the files that whole programs write keeps what they promise.

A line for each program, with what it found, is in docs/results/reliability.md.
"""

from __future__ import annotations

import io
import re
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy
import pytest

from recorded import Moment, recorded
from support import Command

OLD = bytes(range(1, 251)) * 17
NEW = bytes(range(250, 0, -1)) * 19


@dataclass
class Writer:
    """A command that makes or replaces one file."""

    words: Sequence[object]
    new: bytes
    old: bytes | None = None
    target: str = "to"
    scratch: str = r"\.ferry-cp-\d+"  # its other files
    prepare: Callable[[Path], object] = lambda folder: None
    first: dict[str, bytes] = field(default_factory=dict)  # stays as it is
    points: int = 40

    def fill(self, folder: Path) -> None:
        for name, contents in self.first.items():
            (folder / name).write_bytes(contents)
        if self.old is not None:
            (folder / self.target).write_bytes(self.old)
        self.prepare(folder)

    def look(self, moment: Moment) -> None:
        files = moment.files()
        found = files.pop(self.target, None)
        for name, contents in self.first.items():
            assert files.pop(name) == contents, f"{name} {moment.where}"
        assert all(re.fullmatch(self.scratch, name) for name in files), f"{sorted(files)} {moment.where}"
        if moment.is_over:
            assert found == self.new, f"lost {moment.where}"
        else:
            assert found in (self.old, self.new), f"neither old nor new, {moment.where}"


LARGE = b"".join(bytes([1 + piece]) * 70_000 + bytes(900_000) for piece in range(5))


def copied(old: bytes | None = None, new: bytes = NEW, *flags: str, points: int = 40) -> Writer:
    return Writer(["cp", *flags, "{}/from", "{}/to"], new, old, first={"from": new}, points=points)


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
        assert run.status == 0, run.output()
        run.check(writer.look, points=writer.points)


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
    return Writer(words, new, old, scratch=r"\.ferry-save-[0-9a-f]+", points=points)


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
        assert run.status == 0, run.output()
        run.check(writer.look, points=writer.points)


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
