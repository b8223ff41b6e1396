"""What a loss of power may leave of results, reports and profiles: nothing, the older file or the whole new
one, from which the next run of the command goes on.
"""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Literal

import pytest
from ferry_lab.tune import profile

from recorded import DEEP, Moment, Writer, recorded
from support import TIMEOUT_S, Command

OLD_RESULTS = b'{"older": true}\n'


@pytest.mark.parametrize("old", [None, OLD_RESULTS], ids=["new", "over"])
@pytest.mark.parametrize("renames", ["new", "old"])
def test_results(command: Command, scratch: Path, old: bytes | None, renames: Literal["new", "old"]) -> None:
    flags = [] if old is None else ["--overwrite"]
    bench = ["bench", "-w", "-b", "64k", "-t", "64k", "-i", "2", *flags, "--json", "{}/to", scratch / "file"]
    writer = Writer(command.arguments(*bench), old=old)
    with recorded(scratch, writer.words, writer.fill, environment=command.environment, renames=renames) as run:
        writer.check(run)
        assert writer.new is not None
        assert json.loads(writer.new)["kind"] == "bench"


def test_a_profile(command: Command, scratch: Path) -> None:
    """It keeps the entry of another storage."""
    made = scratch / "made.toml"
    profile.write(str(made), {"schema": profile.SCHEMA, "machine": {}, "storages": []})
    old = made.read_bytes()
    tune = command.arguments("tune", "--budget", "10", "--out", "{}/to")
    writer = Writer(tune, old=old)
    with recorded(scratch, writer.words, writer.fill, environment=command.environment) as run:
        writer.check(run)
        assert writer.new != old


class StudyStates:
    """A study's folder after a crash, and the study once more in some of them."""

    def __init__(self, command: Command, study: list[object], first: dict[str, bytes], final: dict[str, bytes]) -> None:
        self._command = command
        self._study = study
        self._first = first
        self._final = final
        self._again = 40  # with FERRY_TEST_DEPTH=deep
        self.seen: set[str] = set()

    def look(self, moment: Moment) -> None:
        found = moment.files()
        names = {name.removeprefix("out/") for name in found}
        is_older = "results.json" in names and found["out/results.json"] == self._first.get("out/results.json")
        whole = self._first if is_older else self._final
        for name, contents in found.items():
            if name == "out/unfinished.json":
                assert json.loads(contents)["groups"], moment.where
            elif not re.fullmatch(r"out/(plots/)?\.ferry-save-[0-9a-f]+", name):
                assert contents == whole[name], f"{name} {moment.where}"
        if moment.is_over:
            assert whole is self._final
            assert self._final.keys() <= found.keys(), f"lost {moment.where}"
        kind = ("unfinished" if "unfinished.json" in names else "fresh") + (
            ", with results" if "results.json" in names else ""
        )
        is_seen = kind in self.seen
        self.seen.add(kind)
        if (DEEP and self._again > 0) or not (is_seen or self._first):
            self._again -= 1
            self._run_again(moment, names)

    def _run_again(self, moment: Moment, names: set[str]) -> None:
        """It goes on, or says in one line what to do, and goes on then."""
        left_over = any(
            contents and re.fullmatch(r"out/\.ferry-save-[0-9a-f]+", name) for name, contents in moment.files().items()
        )
        words = [*self._study, "--out", moment.folder / "out"]
        done = self._command.run(*words, timeout=4 * TIMEOUT_S)
        told = done.stderr.splitlines()
        if left_over:
            assert "from a command that was cut off" in told.pop(0), done.stderr
        if self._final.keys() & {f"out/{name}" for name in names}:
            assert done.returncode == 1
            assert "--overwrite replaces it" in told.pop(0), done.stderr
            assert told == [], moment.where
            done = self._command.run(*words, "--overwrite", timeout=4 * TIMEOUT_S)
            told = [line for line in done.stderr.splitlines() if "cut off" not in line]
        assert done.returncode == 0, done.stderr
        if "unfinished.json" in names:
            assert "continuing from" in told.pop(0), done.stderr
        assert told == []
        assert json.loads((moment.folder / "out" / "results.json").read_bytes())["study"] == "placements"


@pytest.mark.parametrize("case", ["new", "over"])
def test_a_study(command: Command, scratch: Path, data: Path, case: str) -> None:
    study: list[object] = ["study", "placements", "--quick", "--repeats", "2", "--file", data]
    older = scratch / "older"
    older.mkdir()
    flags = []
    if case == "over":
        command.succeeds(*study, "--out", older / "out")
        flags = ["--overwrite"]
    first = {str(path.relative_to(older)): path.read_bytes() for path in older.rglob("*") if path.is_file()}

    def fill(folder: Path) -> None:
        if first:
            shutil.copytree(older, folder, dirs_exist_ok=True)

    words = command.arguments(*study, "--out", "{}/out", *flags)
    with recorded(scratch, words, fill, environment=command.environment) as run:
        assert run.status == 0, run.output()
        states = StudyStates(command, study, first, run.final())
        run.check(states.look, points=1000, most=12)  # all: each kind of state comes up
        expected = {"unfinished, with results", "fresh, with results"}
        assert states.seen >= (expected if first else {"fresh", "unfinished", *expected})
