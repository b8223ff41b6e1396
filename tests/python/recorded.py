"""Runs whole programs on a file system that records them, and gives the states that a crash may leave.

``tests/crash/crash_recorder.cpp`` does the work; ``tests/crash/crash_states.hpp`` says which states a
crash may leave.
"""

from __future__ import annotations

import os
import random
import re
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import pytest

from support import BUILD, TIMEOUT_S

_ABSENT = 77
DEEP = os.environ.get("FERRY_TEST_DEPTH") == "deep"
# A program looks up such a name in its folder to say how far it is. It is never there.
MARK = ".crash-mark-"


@dataclass(frozen=True)
class Moment:
    """What is left of the folder after a crash."""

    folder: Path
    marks: frozenset[str]  # that the program had looked up
    is_over: bool  # the program had ended
    where: str  # for messages

    def files(self) -> dict[str, bytes]:
        """All files, by their paths in the folder."""
        paths = (path for path in self.folder.rglob("*") if path.is_file())
        return {str(path.relative_to(self.folder)): path.read_bytes() for path in paths}


class Recorded:
    """A program that has ended."""

    def __init__(self, process: subprocess.Popen[str], state: Path, output: Path) -> None:
        self._process = process
        self._state = state
        self._output = output
        self.marks: list[tuple[str, int]] = []
        self.log: list[str] = []
        self.status = 0
        self.begin = 0
        self.length = 0
        self.states = 0
        self.seed = int(os.environ.get("FERRY_TEST_SEED", random.SystemRandom().randrange(1 << 30)))
        while (line := self._line()) != "ready":
            kind, _, rest = line.partition(" ")
            if kind == "absent:":
                pytest.skip(line)
            if kind == "status":
                self.status = int(rest)
            elif kind == "begin":
                self.begin = int(rest)
            elif kind == "length":
                self.length = int(rest)
            elif kind == "mark":
                name, length = rest.rsplit(" ", 1)
                self.marks.append((name, int(length)))
            else:
                self.log.append(rest)

    def _line(self) -> str:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line, f"the recorder ended: {self.output()}"
        return line.rstrip("\n")

    def _tell(self, line: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(f"{line}\n")
        self._process.stdin.flush()

    def output(self) -> str:
        """What the program printed, on standard error, too."""
        return self._output.read_text(errors="replace")

    def final(self) -> dict[str, bytes]:
        """The files as the program left them."""
        self._tell(f"{self.length} 0 0 posix")
        assert self._line() == "state"
        files = Moment(self._state, frozenset(), True, "").files()
        self._tell("next")
        assert self._line() == "end 0"
        return files

    def check(
        self, look: Callable[[Moment], object], *, points: int = 40, most: int = 64, keeps_names: bool = False
    ) -> None:
        """Calls ``look`` for states at ``points`` of the program's changes, up to ``most`` at each.

        Always at the first and the last one. ``keeps_names``: the sync of a new file keeps its name, as
        ext4, XFS and Btrfs do; else only that of its folder does.
        """
        print(f"FERRY_TEST_SEED={self.seed}")
        choice = random.Random(self.seed)
        points, most = (points * 4, most * 2) if DEEP else (points, most)
        all_points = range(self.begin, self.length + 1)
        chosen = set(choice.sample(all_points, min(points, len(all_points)))) | {self.begin, self.length}
        for point in sorted(chosen):
            marks = frozenset(name for name, length in self.marks if length <= point)
            where = f"after {point} of {self.length} changes, seed {self.seed}"
            self._tell(f"{point} {most} {choice.randrange(1 << 30)} {'kept' if keeps_names else 'posix'}")
            while not (line := self._line()).startswith("end"):
                look(Moment(self._state, marks, point == self.length, where))
                self._tell("next")
            self.states += int(line.split()[1])
        print(f"{self.states} states of {self.length} changes")


@contextmanager
def recorded(
    scratch: Path,
    command: Sequence[object],
    prepare: Callable[[Path], object] = lambda folder: None,
    *,
    environment: Mapping[str, str] | None = None,
    syncs: Literal["all", "files", "folders"] = "all",
    renames: Literal["new", "old"] = "new",
) -> Iterator[Recorded]:
    """Runs a command whose files lie in ``scratch/recorded``, which ``prepare`` fills.

    Of its syncs count all, or all but those of ``files`` or of ``folders``. With ``old`` renames none of
    them refuses to replace, as on a mounted NFS. Every call uses a folder of its
    own in ``scratch``, whose path replaces ``{}`` in the command.
    """
    number = len(list(scratch.glob("recorded-*")))
    folder, state, output = (scratch / f"{name}-{number}" for name in ("recorded", "state", "output"))
    folder.mkdir()
    state.mkdir()
    prepare(folder)
    words = [str(word).replace("{}", str(folder)) for word in command]
    recorder = BUILD / "crash_recorder"
    assert recorder.exists(), f"{recorder} is missing: build the target crash_recorder"
    with (
        open(output, "w") as errors,
        subprocess.Popen(
            [str(recorder), str(folder), str(state), syncs, renames, *words],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            env=None if environment is None else dict(environment),
            cwd=scratch,
        ) as process,
    ):
        try:
            yield Recorded(process, state, output)
            assert process.stdin is not None
            process.stdin.close()
            assert process.wait(TIMEOUT_S) == 0
        finally:
            process.kill()


@dataclass
class Writer:
    """A command that makes or replaces one file."""

    words: Sequence[object]
    new: bytes | None = None  # as the command makes it
    old: bytes | None = None
    target: str = "to"
    scratch: str = r"\.ferry-save-[0-9a-f]+"  # its other files
    prepare: Callable[[Path], object] = lambda folder: None
    first: dict[str, bytes] = field(default_factory=dict)  # stays as it is
    reserves: bool = False  # an empty file may have the new name for a while
    points: int = 40

    def fill(self, folder: Path) -> None:
        for name, contents in self.first.items():
            (folder / name).write_bytes(contents)
        if self.old is not None:
            (folder / self.target).write_bytes(self.old)
        self.prepare(folder)

    def check(self, run: Recorded) -> None:
        assert run.status == 0, run.output()
        if self.new is None:
            self.new = run.final()[self.target]
        run.check(self.look, points=self.points)

    def look(self, moment: Moment) -> None:
        files = moment.files()
        found = files.pop(self.target, None)
        for name, contents in self.first.items():
            assert files.pop(name) == contents, f"{name} {moment.where}"
        assert all(re.fullmatch(self.scratch, name) for name in files), f"{sorted(files)} {moment.where}"
        if moment.is_over:
            assert found == self.new, f"lost {moment.where}"
        else:
            allowed = (self.old, self.new, *([b""] if self.reserves else []))
            assert found in allowed, f"neither old nor new, {moment.where}"
