"""``ferry metadata``: files made, looked at, read and removed, as mdtest does."""

from __future__ import annotations

import errno
import signal
import time
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from ferry_lab.results.schema import make_schema
from measured import failure, measure
from support import Command, cell, mock_of_pvfs2

VALIDATOR = jsonschema.Draft202012Validator(make_schema("metadata"))
PHASES = ["create", "stat", "read", "remove"]
SMALL = ("-n", "20", "-i", "2")


@pytest.mark.parametrize(
    "way",
    [
        ("-a", "posix"),
        ("-a", "posix", "-w", "5"),
        (),
        ("-w", "9000"),
        ("--placement", "compute"),
        *(("--placement", placement, "-w", "9000") for placement in ("compute", "service", "automatic")),
    ],
)
def test_every_way_makes_and_removes_files(command: Command, tmp_path: Path, way: tuple[str, ...]) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    result = command.json("metadata", *SMALL, *way, "--threads", "2", folder)
    VALIDATOR.validate(result)
    assert [rate["phase"] for rate in result["rates"]] == PHASES
    assert len(result["repeats"]) == 8
    for one in result["repeats"]:
        assert one["files"] == 40
        assert one["latency_ns"]["samples"] == 40
        assert one["latency_ns"]["max"] <= one["elapsed_ns"]
    assert list(folder.iterdir()) == []


def test_the_table_says_what_was_done(command: Command, tmp_path: Path) -> None:
    lines = command.succeeds("metadata", *SMALL, "-w", "4k", tmp_path).splitlines()
    assert lines[0].startswith(f"20 files of 4 KiB in {tmp_path} on ")
    assert lines[0].endswith(" by 1 thread, interface ferry, placement host")
    shown = "\n".join(lines)
    for what in ("create, write, close", "stat", "open, read, close", "remove", "files/s", "µs, 99 %"):
        assert what in shown


def test_rates_are_files_over_time(command: Command, tmp_path: Path) -> None:
    result = command.json("metadata", *SMALL, "-a", "posix", tmp_path)
    for rate in result["rates"]:
        rates = [20e9 / one["elapsed_ns"] for one in result["repeats"] if one["phase"] == rate["phase"]]
        assert rate["files_per_s_min"] == pytest.approx(min(rates))
        assert rate["files_per_s_max"] == pytest.approx(max(rates))


def test_files_of_a_uri(command: Command, tmp_path: Path) -> None:
    command.environment |= mock_of_pvfs2(tmp_path)
    result = command.json("metadata", *SMALL, "-w", "100", "pvfs2:/mock/")
    assert [rate["phase"] for rate in result["rates"]] == PHASES
    assert result["environment"]["storages"][0]["storage"] == "pvfs2"
    assert list((tmp_path / "served").iterdir()) == []
    command.fails("metadata", "pvfs2:/mock/missing", says="is no directory; name one that is there")


def test_an_interruption_removes_the_files(command: Command, tmp_path: Path) -> None:
    with command.start("metadata", "-n", "30000", "-i", "50", "-w", "100", tmp_path) as process:
        while not list(tmp_path.glob("*/file.00000100")):
            assert process.poll() is None
            time.sleep(0.01)
        process.send_signal(signal.SIGINT)
        process.communicate()
    assert process.returncode == 130
    assert [path for path in tmp_path.iterdir() if path != command.scratch] == []


@pytest.mark.parametrize(
    ("given", "says"),
    [
        (("-n", "40000", "--threads", "2"), "make 80000 files; at most 65536 are allowed"),
        (("-w", "2g"), "-w is at most 1 GiB; ferry bench measures large files"),
        (("-a", "posix", "--placement", "compute"), "--placement is for interface ferry, not posix"),
    ],
)
def test_wrong_use(command: Command, tmp_path: Path, given: tuple[str, ...], says: str) -> None:
    command.fails("metadata", *given, tmp_path, says=says, status=2)


def test_folders_that_are_none(command: Command, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    command.fails("metadata", tmp_path / "missing", says="missing does not exist; make it or name another")
    command.fails("metadata", tmp_path / "file", says="file is no folder; name one")
    command.fails("metadata", "-a", "posix", "ceph:/", says="a URI is reached by -a ferry")


def a_cell(path: Path, **changes: Any) -> dict[str, Any]:
    way = {"program": "metadata", "operation": "write", "transfer_bytes": 10, "total_bytes": 30}
    return cell(path, **{**way, **changes})


def test_files_that_are_there_stay(tmp_path: Path) -> None:
    there = tmp_path / "name.00000001"
    there.write_text("mine")
    assert failure([a_cell(tmp_path / "name")])["errno"] == errno.EEXIST
    assert [path.name for path in tmp_path.iterdir()] == [there.name]
    assert there.read_text() == "mine"


def test_only_what_another_makes_meanwhile_stays(tmp_path: Path) -> None:
    there = tmp_path / "name.00000001"
    there.symlink_to(tmp_path / "nothing")  # found only when the file is made
    assert failure([a_cell(tmp_path / "name")])["errno"] == errno.EEXIST
    assert there.is_symlink()
    assert list(tmp_path.iterdir()) == [there]


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"operation": "read"}, "must be write with program metadata"),
        ({"interface": "mmap"}, "must be ferry or posix with program metadata"),
        ({"keep": True}, "keep: not with program metadata"),
        ({"direct": True}, "direct: not with program metadata"),
        ({"program": "files", "empty_files": True}, "empty_files: is for program metadata"),
    ],
)
def test_plans_that_make_no_sense(tmp_path: Path, changes: dict[str, Any], says: str) -> None:
    assert says in failure([a_cell(tmp_path / "name", **changes)], status=2)["message"]


def test_two_ways_take_turns(tmp_path: Path) -> None:
    cells = [a_cell(tmp_path / name, id=name, interface=name) for name in ("ferry", "posix")]
    order = [(line["repeat"], line["cell"]) for line in measure(cells, repeats=2)][:: len(PHASES)]
    assert order == [(0, "ferry"), (0, "posix"), (1, "posix"), (1, "ferry")]
