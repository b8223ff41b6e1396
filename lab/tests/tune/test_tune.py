"""``ferry tune`` from end to end, and its errors."""

from __future__ import annotations

import json
import shutil
import signal
import tomllib
from pathlib import Path

import msgspec
import pytest
from ferry import files
from ferry.errors import FerryError
from ferry_lab.tune.entry import TuneDocument
from processes import on_terminal
from support import Command

SECONDS = "10"  # too short to judge much; omissions are reported


def test_it_writes_a_profile_that_applies(command: Command, scratch: Path) -> None:
    path, facts = scratch / "profile.toml", scratch / "tune.json"
    done = command.run("tune", "--budget", SECONDS, "--out", path, "--json", facts)
    assert done.returncode == 0, done.stderr
    assert done.stderr == "", "no bar where there is no terminal"
    assert sorted(scratch.iterdir()) == [path, facts], "scratch files are gone"
    profile = tomllib.loads(path.read_text())
    (entry,) = profile["storages"]
    document = json.loads(facts.read_text())
    assert msgspec.convert(document, TuneDocument).schema == "ferry.tune/1"
    assert document["machine"] == profile["machine"]
    assert document["settings"] == entry["settings"]
    assert {setting["name"] for setting in entry["settings"]} >= {
        *("page_bytes", "readahead_bytes", "queue_depth"),
        *("host_read_bytes_min", "host_stream_read_bytes_min", "host_write_bytes_min"),
    }
    for setting in entry["settings"]:
        assert setting["reason"]
        assert setting["taken"] or setting["name"] not in {**entry, **entry.get("crossovers", {})}
    for word in ("built in", "best found", "recommended:", f"written to {path}"):
        assert word in done.stdout
    command.environment["FERRY_PROFILE"] = str(path)
    info = command.json("info", scratch)
    assert info["profile"]["applies"], info["profile"]["why"]
    command.json("tune", "--budget", SECONDS, "--out", path)
    assert len(tomllib.loads(path.read_text())["storages"]) == 1, "replaced, not added"


def test_a_terminal_sees_a_bar(command: Command, scratch: Path) -> None:
    tune = ["tune", "--budget", SECONDS, "--out", "p.toml"]
    seen = b""
    with on_terminal(command, 80, *tune, stream="stderr", kind="xterm") as (process, pieces):
        for piece in pieces:
            if b"tuning" not in seen and b"tuning" in (seen := seen + piece):
                process.terminate()  # it would use its whole budget
        process.communicate()
    assert process.returncode == 128 + signal.SIGTERM
    assert b"tuning" in seen
    assert list(scratch.iterdir()) == []


CASES = [
    (["--dir", "missing", "--out", "p.toml"], 1, "missing does not exist"),
    (["--dir", "FILE", "--out", "p.toml"], 1, "is no folder"),
    (["--out", "DIR"], 1, "is a directory"),
    (["--out", "FILE"], 1, "is no profile"),
    (["--out", "/dev/null"], 1, "is not a regular file"),
    (["--out", "FILE/p.toml"], 1, "is no folder"),
    (["--out", "p.toml", "--json", "FILE"], 1, "--overwrite replaces it"),
    ([], 1, "FERRY_PROFILE is empty"),
    (["--budget", "1"], 2, "from 10 to"),
    (["--budget", "soon"], 2, "no whole number"),
    (["somewhere"], 2, "unexpected"),
]


@pytest.mark.parametrize(("arguments", "status", "message"), CASES, ids=lambda case: str(case))
def test_what_cannot_be_is_one_line(
    command: Command, scratch: Path, arguments: list[str], status: int, message: str
) -> None:
    (scratch / "FILE").write_text("no profile")
    (scratch / "DIR").mkdir()
    command.fails("tune", *arguments, says=message, status=status)
    assert sorted(file.name for file in scratch.iterdir()) == ["DIR", "FILE"]


def test_a_full_disk_is_told_beforehand(scratch: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    usage = shutil.disk_usage(scratch)._replace(free=1 << 20)
    monkeypatch.setattr(files.shutil, "disk_usage", lambda _: usage)
    with pytest.raises(FerryError, match="free some space"), files.scratch_folder(str(scratch), 1 << 25):
        pass
