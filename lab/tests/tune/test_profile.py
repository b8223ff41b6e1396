"""The profile as a file: its path, what is kept in it, how it is replaced."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest
from ferry import native
from ferry.errors import FerryError
from ferry_lab.tune import profile
from ferry_lab.tune.tune import make_entry
from ferry_lab.tune.tuning_choice import Candidate, Outcome, Tuned
from ferry_lab.tune.tuning_workloads import NEVER, make_settings
from support import Command

MACHINE = {"cpu_model": 'A "processor"', "cpus_usable": 2}


def entry(**changes: Any) -> dict[str, Any]:
    disk = {"device": "cpu", "file_system": "ext4", "block_device": "vda", "measured": "today"}
    return {**disk, **changes}


def test_it_is_where_the_environment_says(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FERRY_PROFILE", "given.toml")
    assert profile.default_path() == "given.toml"
    monkeypatch.setenv("FERRY_PROFILE", "")
    with pytest.raises(FerryError, match="give --out"):
        profile.default_path()
    monkeypatch.delenv("FERRY_PROFILE")
    monkeypatch.setenv("HOME", "/home/somebody")
    monkeypatch.setenv("XDG_CONFIG_HOME", "relative")
    assert profile.default_path() == "/home/somebody/.config/ferry/profile.toml"
    monkeypatch.setenv("XDG_CONFIG_HOME", "/configuration")
    assert profile.default_path() == "/configuration/ferry/profile.toml"
    monkeypatch.delenv("HOME")
    monkeypatch.delenv("XDG_CONFIG_HOME")
    with pytest.raises(FerryError, match="no home folder"):
        profile.default_path()


def test_what_is_written_is_read(tmp_path: Path) -> None:
    path = tmp_path / "new" / "folder" / "profile.toml"
    document = profile.merge(None, MACHINE, entry(page_bytes=4096, crossovers={"a": "never"}))
    profile.write(str(path), document)
    assert profile.read(str(path)) == document
    assert [file.name for file in path.parent.iterdir()] == ["profile.toml"]
    assert path.stat().st_mode & 0o777 == 0o644


def test_other_storages_of_this_machine_are_kept() -> None:
    memory = entry(file_system="tmpfs", block_device=None, mount_point="/dev/shm")
    before = profile.merge(None, MACHINE, entry(page_bytes=4096))
    both = profile.merge(before, MACHINE, memory)
    assert both["storages"] == [entry(page_bytes=4096), memory]
    again = profile.merge(both, MACHINE, entry(page_bytes=8192))
    assert again["storages"] == [memory, entry(page_bytes=8192)]
    assert profile.merge(both, {**MACHINE, "cpus_usable": 3}, memory)["storages"] == [memory]


def test_a_failed_write_leaves_the_old_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "profile.toml"
    profile.write(str(path), profile.merge(None, MACHINE, entry()))
    before = path.read_bytes()

    def fail(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(profile.os, "fsync", fail)
    with pytest.raises(FerryError, match="No space left"):
        profile.write(str(path), profile.merge(None, MACHINE, entry(page_bytes=4096)))
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("text", ["no toml", 'schema = "ferry.profile/7"', "", "x = 1", "\0"])
def test_what_is_no_profile_is_not_touched(tmp_path: Path, text: str) -> None:
    path = tmp_path / "profile.toml"
    path.write_text(text)
    with pytest.raises(FerryError, match="--overwrite replaces it"):
        profile.check_target(str(path), False)
    profile.check_target(str(path), True)
    assert path.read_text() == text


def settled() -> Outcome:
    """Every setting with a distinct value."""
    outcome = Outcome([])
    for setting in make_settings(2, True):
        value = NEVER if setting.is_crossover else setting.candidates[0]
        outcome.tuned.append(Tuned(setting, Candidate(value, 1.5), in_force=True))
    return outcome


def test_the_library_takes_all_that_tune_writes(scratch: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    facts = native.read_info(str(scratch))
    machine, made = make_entry(facts, settled(), "today")
    path = scratch / "profile.toml"
    made = msgspec.to_builtins(made)
    profile.write(str(path), profile.merge(None, msgspec.to_builtins(machine), made))
    monkeypatch.setenv("FERRY_PROFILE", str(path))
    answer = native.read_info(str(scratch))
    assert answer["profile"]["applies"], answer["profile"]["why"]
    assert not any("profile" in note for note in answer["runtime"]["notes"])
    tuning = answer["tuning"]
    for key in ("page_bytes", "readahead_bytes", "server_threads", "queue_depth"):
        assert tuning[key] == made[key]
    assert {tuning["crossovers"][key] for key in made["crossovers"]} == {NEVER}
    assert tuning["source"] == "profile"


def test_info_says_that_a_profile_is_broken_or_of_another_machine(command: Command, scratch: Path) -> None:
    path = scratch / "profile.toml"
    command.environment["FERRY_PROFILE"] = str(path)

    def info() -> str:
        return " ".join(command.succeeds("info", scratch).split())

    path.write_text('schema = "ferry.profile/1"\nsettings = 1\n')
    assert "degraded the profile " in info()
    assert "line 2: settings is not known" in info()
    profile.write(str(path), profile.merge(None, MACHINE, entry()))
    assert "measured on another machine" in info()
    path.unlink()
    assert "there is none; ferry tune measures one" in info()
