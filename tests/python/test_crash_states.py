"""What a loss of power may leave of the files that whole programs write keeps what they promise.

A line for each program, with what it found, is in docs/results/reliability.md.
"""

from __future__ import annotations

import re
from collections.abc import Callable
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

    words: list[str]
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
ARRAY = numpy.arange(3000, dtype="<i4")


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


@pytest.mark.parametrize("syncs", ["files", "folders"])
@pytest.mark.parametrize("name", ["new", "over"])
def test_a_copy_without_its_syncs_is_found(command: Command, scratch: Path, name: str, syncs: str) -> None:
    writer = COPIES[name]
    words = command.arguments(*writer.words)
    with (
        recorded(scratch, words, writer.fill, environment=command.environment, syncs=syncs) as run,
        pytest.raises(AssertionError, match="lost|neither"),
    ):
        run.check(writer.look)
