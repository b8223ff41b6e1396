"""``ferry tune --ranks``: accepted and rejected choices, and reading the profile."""

from __future__ import annotations

import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest
from ferry_lab.run.measuring import Measurement
from ferry_lab.run.plan import Plan
from ferry_lab.tune import profile, tune_ranks
from mpi import needs_mpi, sample
from support import Command


def measured(time_ns: Callable[[str, int], float]) -> Callable[[Plan], Measurement]:
    """Replaces ferry-bench-mpi: takes ``time_ns`` for a cell and a repeat."""

    def run(plan: Plan) -> Measurement:
        samples = {
            cell.id: [sample(cell, n, time_ns(cell.id, n) * 1e6) for n in range(plan.repeats)] for cell in plan.cells
        }
        return Measurement(samples=samples)

    return run


def choice_of(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, time_ns: Callable[[str, int], float]
) -> tune_ranks.RanksChoice:
    monkeypatch.setattr(tune_ranks, "run_plan", measured(time_ns))
    return tune_ranks.measure(str(tmp_path), 4)


FASTER = f"4/{16 << 20}"


def test_what_is_faster_is_taken(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    choice = choice_of(monkeypatch, tmp_path, lambda name, i: (50 if name == FASTER else 100) + i % 2)
    assert choice.default == (2, 4 << 20)
    assert choice.taken and choice.entry() == {"writers_per_node": 4, "buffer_bytes": 16 << 20}
    assert choice.ratio is not None and choice.ratio.median == pytest.approx(2, rel=0.05)
    assert list(tmp_path.iterdir()) == []


def test_what_is_within_the_noise_is_not(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def noisy(name: str, repeat: int) -> float:
        return (98 if name == FASTER else 100) * (1 + 0.3 * ((repeat * 7 + len(name)) % 5))

    choice = choice_of(monkeypatch, tmp_path, noisy)
    assert not choice.taken and choice.entry() == {}
    assert "not faster beyond the noise" in choice.reason() or choice.ratio is None


def test_the_same_everywhere_stays(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    default = "2/4194304"
    choice = choice_of(monkeypatch, tmp_path, lambda name, i: 100 if name == default else 120)
    assert choice.ratio is None and not choice.taken
    assert choice.facts().reason == "no other choice looked better"


def test_the_rule_is_the_librarys() -> None:
    assert [tune_ranks.default_choice(n)[0] for n in (1, 2, 8, 16, 17, 64)] == [1, 2, 2, 2, 3, 8]


def test_an_entry_without_ranks_keeps_what_they_found() -> None:
    name = {"device": "cpu", "file_system": "ext4", "block_device": "vda", "mount_point": "/"}
    before = {"storages": [{**name, "collective": {"writers_per_node": 4}}]}
    assert profile.collective_of(before, name) == {"writers_per_node": 4}
    assert profile.collective_of(before, {**name, "block_device": "vdb"}) == {}
    assert profile.collective_of(None, name) == {}


@needs_mpi
def test_from_end_to_end(command: Command, scratch: Path) -> None:
    path, facts = scratch / "profile.toml", scratch / "tune.json"
    shown = command.succeeds("tune", "--budget", "10", "--ranks", "2", "--out", path, "--json", facts)
    assert sorted(scratch.iterdir()) == [path, facts], "scratch files are gone"
    assert "MPI_Info: cb_nodes = " in shown
    (entry,) = tomllib.loads(path.read_text())["storages"]
    (found,) = (one for one in entry["settings"] if one["name"] == "collective")
    assert found["taken"] == ("collective" in entry)
    command.environment["FERRY_PROFILE"] = str(path)
    info = command.json("info", scratch)
    assert info["profile"]["applies"], info["profile"]["why"]
