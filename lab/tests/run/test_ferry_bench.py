"""The measured process: order, contents, cache states, files, and refusals."""

from __future__ import annotations

import errno
import os
import resource
import subprocess
from pathlib import Path
from typing import Any

import pytest
from ferry import programs
from ferry_lab.run.plan import INTERFACES
from measured import Lines, corrupt, failure, measure, of_type
from support import cell, run_bench

WRITE = {"operation": "write", "total_bytes": 65536, "seed": 3}


def every_way(path: Path) -> Lines:
    """Cells that read a file by every interface and program."""
    return [
        cell(path, id=f"{interface}/{program}", interface=interface, program=program)
        for interface in INTERFACES
        for program in ("stream", "iterative", "once")
    ]


def test_lines_begin_with_the_environment_and_end_with_done(data: Path) -> None:
    status, lines = run_bench({"cells": [cell(data)]})
    assert status == 0
    assert [line["type"] for line in lines] == ["environment", "verified", "sample", "done"]
    environment = lines[0]
    (runtime,) = environment["runtimes"]
    assert runtime["device_threads"] == 1
    assert runtime["page_cache"] is None
    assert environment["file_systems"][0]["type"]
    assert environment["machine"]["kernel"].startswith("Linux")


def test_neighbours_are_abba(data: Path) -> None:
    cells = [cell(data, id=name) for name in "abc"]
    order = [(line["repeat"], line["cell"]) for line in measure(cells, repeats=3)]
    assert order == [(0, c) for c in "abc"] + [(1, c) for c in "cba"] + [(2, c) for c in "abc"]


@pytest.mark.parametrize("interface", INTERFACES)
@pytest.mark.parametrize("program", ["stream", "iterative", "once"])
@pytest.mark.parametrize("threads", [1, 2])
def test_every_way_reads_and_writes_the_right_bytes(
    tmp_path: Path, data: Path, interface: str, program: str, threads: int
) -> None:
    way = {"interface": interface, "program": program, "threads": threads}
    new = tmp_path / "new"
    cells = [
        cell(data, id="r", expect_pattern_seed=5, **way),
        cell(new, **{**way, **WRITE, "id": "w", "sync": "fsync"}),
    ]
    for line in measure(cells, repeats=2):
        assert line["verified"]
        assert line["bytes"] == 65536
        assert line["operations"] == (threads if program == "once" else 16)
        assert line["elapsed_ns"] >= line["io_ns"] > 0
        assert (line["compute_ns"] is None) == (program == "stream")
        assert (line["sync_ns"] > 0) == (line["cell"] == "w")
        assert line["first_done_ns"] <= line["last_done_ns"]
        calls = line["counters"]["calls"]
        assert calls >= line["operations"] if interface == "ferry" else calls == 0
        assert line["counters"]["staged_calls"] == 0
    assert not new.exists()


@pytest.mark.parametrize("interface", ["ferry", "uring"])
@pytest.mark.parametrize("direct", [False, True])
@pytest.mark.parametrize("depth", [2, 7, 63])
def test_deep_queues_in_random_order(tmp_path: Path, data: Path, interface: str, depth: int, direct: bool) -> None:
    way = {"interface": interface, "queue_depth": depth, "pattern": "random", "direct": direct}
    cells = [cell(data, id="r", expect_pattern_seed=5, **way), cell(tmp_path / "new", **{**way, **WRITE, "id": "w"})]
    assert [line["operations"] for line in measure(cells)] == [16, 16]


def test_what_is_written_differs_from_repeat_to_repeat(tmp_path: Path) -> None:
    new = tmp_path / "new"
    samples = measure([cell(new, **WRITE, keep=True, overwrite=True)], repeats=2)
    assert [line["pattern_seed"] for line in samples] == [3, 4]
    assert new.stat().st_size == 65536
    blocks = {new.read_bytes()[at : at + 4096] for at in range(0, 65536, 4096)}
    assert len(blocks) == 16  # every block is unique


@pytest.mark.parametrize("interface", INTERFACES)
@pytest.mark.parametrize("program", ["stream", "once"])
@pytest.mark.parametrize("at", [0, 4095, 33333, 65535])
def test_a_corrupted_byte_is_caught(data: Path, interface: str, program: str, at: int) -> None:
    corrupt(data, at)
    changes = {"interface": interface, "program": program, "expect_pattern_seed": 5}
    status, lines = run_bench({"cells": [cell(data, **changes)]})
    assert status == 1
    assert of_type(lines, "sample") == []
    (error,) = of_type(lines, "error")
    assert error["cell"] == "a"
    assert error["errno"] == 0
    assert f"wrong at byte {at}," in error["message"]


def test_blocks_that_changed_places_are_caught(data: Path) -> None:
    content = bytearray(data.read_bytes())
    content[4096:8192], content[8192:12288] = content[8192:12288], content[4096:8192]
    data.write_bytes(content)
    assert "wrong at byte 4096" in failure([cell(data, expect_pattern_seed=5)])["message"]


def test_another_pattern_is_caught(data: Path) -> None:
    assert "wrong at byte 0" in failure([cell(data, expect_pattern_seed=6)])["message"]


def test_a_file_without_a_pattern_is_compared_with_pread(tmp_path: Path) -> None:
    path = tmp_path / "any"
    path.write_bytes(os.urandom(65536 + 77))
    assert all(line["verified"] for line in measure(every_way(path)))


def test_hot_is_hot_and_cold_is_proven_or_called_unverified(data: Path) -> None:
    cells = [cell(data, id="hot"), cell(data, id="cold", cold=True)]
    states = {name: set() for name in ("hot", "cold")}
    for line in measure(cells, repeats=3):
        states[line["cell"]].add(line["cache_state"])
    assert states["hot"] == {"hot"}
    assert states["cold"] <= {"cold", "unverified"}


def test_pages_that_cannot_be_dropped_are_not_called_cold() -> None:
    memory = Path("/dev/shm")
    if not os.access(memory, os.W_OK):
        pytest.skip("no memory file system")
    path = memory / f"ferry-test-{os.getpid()}"
    try:
        path.write_bytes(os.urandom(65536))
        (sample,) = measure([cell(path, cold=True)])
    finally:
        path.unlink()
    assert sample["cache_state"] == "unverified"


def test_an_existing_file_is_not_overwritten(tmp_path: Path) -> None:
    path = tmp_path / "mine"
    path.write_text("precious")
    assert failure([cell(path, **WRITE)])["errno"] == errno.EEXIST
    assert path.read_text() == "precious"


def test_overwriting_keeps_the_file(tmp_path: Path) -> None:
    path = tmp_path / "mine"
    path.write_text("worthless")
    measure([cell(path, **WRITE, overwrite=True)], repeats=2)
    assert path.stat().st_size == 65536


def limited(file_bytes: int) -> dict[str, Any]:
    """Options of a process whose files have no more than that."""
    return {"preexec_fn": lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (file_bytes, file_bytes))}


@pytest.mark.parametrize(
    "way",
    [
        {"interface": "ferry"},
        {"interface": "ferry", "queue_depth": 4},
        {"interface": "ferry", "program": "once"},
        {"interface": "uring"},
        {"interface": "uring", "queue_depth": 4},
        {"interface": "posix"},
    ],
    ids=str,
)
def test_a_short_write_says_why_it_is_one(tmp_path: Path, way: dict[str, Any]) -> None:
    """The write across the limit is short; the next one reports the limit."""
    new = tmp_path / "new"
    error = failure([cell(new, **{**WRITE, "transfer_bytes": 16384, **way})], options=limited(30000))
    assert error["errno"] == errno.EFBIG
    assert "moved only" not in error["message"]
    assert not new.exists()


@pytest.mark.parametrize("interface", INTERFACES)
def test_a_write_that_fails_leaves_no_file(tmp_path: Path, interface: str) -> None:
    new = tmp_path / "new"
    error = failure([cell(new, **WRITE, interface=interface, threads=2)], options=limited(20000))
    assert error["errno"] == errno.EFBIG
    assert not new.exists()


@pytest.mark.parametrize(
    ("path", "total_bytes", "number"),
    [("data", 4 << 20, 22), ("missing", 65536, 2), (".", 65536, 21), ("/dev/zero", 65536, 22)],
)
def test_files_that_cannot_be_read(data: Path, path: str, total_bytes: int, number: int) -> None:
    assert failure([cell(data.parent / path, total_bytes=total_bytes)])["errno"] == number


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"nonsense": 1}, "nonsense: is not known"),
        ({"interface": "nfs"}, "'nfs' is none of"),
        ({"transfer_bytes": 0}, "transfer_bytes: must be from 1"),
        ({"transfer_bytes": -4}, "transfer_bytes: must be a whole number"),
        ({"transfer_bytes": 3000}, "multiple of transfer_bytes"),
        ({"interface": "posix", "queue_depth": 2}, "queue_depth: more than 1 needs"),
        ({"queue_depth": 64}, "queue_depth: must be from 1 to 63"),
        ({"interface": "uring", "queue_depth": 1025}, "queue_depth: must be from 1 to 1024"),
        ({"interface": "uring", "queue_depth": 2, "program": "once"}, "queue_depth: more than 1"),
        ({"segments": 3}, "multiple of transfer_bytes times threads and segments"),
        ({"segments": 2, "program": "once"}, "segments: needs program stream"),
        ({"deadline_ms": 5, "program": "iterative"}, "deadline_ms: needs program stream"),
        ({"check": True, "program": "iterative"}, "check: needs program stream"),
        ({"reorder": "backwards"}, "'backwards' is none of none, neighbour, random"),
        ({"operation": "write", "reorder": "random"}, "operation: cold, reorder"),
        ({"interface": "mmap", "direct": True}, "direct: "),
        ({"placement": "device"}, "'device' is none of host, compute, service, automatic"),
        ({"sync": "close"}, "'close' is none of none, flush, fsync, flush+fsync"),
        ({"warm": True}, "warm: needs a placement with a cache"),
        ({"interface": "posix", "placement": "compute", "warm": True}, "warm: needs a placement"),
        ({"placement": "compute", "warm": True, "cold": True}, "warm: and cold exclude"),
        ({"placement": "compute", "operation": "write", "warm": True}, "warm: of writes needs"),
        ({"operation": "write", "cold": True}, "operation: cold"),
        ({"cold": "yes"}, "cold: must be true or false"),
    ],
)
def test_plans_that_are_refused(data: Path, changes: dict[str, Any], message: str) -> None:
    assert message in failure([cell(data, **changes)], status=2)["message"]


@pytest.mark.parametrize(
    "changes",
    [
        {"schema": "ferry.plan/1"},
        {"cells": []},
        {"repeats": 0},
        {"runtime": {"page_bytes": 12288}},
        {"runtime": {"page_bytes": 2048}},
        {"runtime": {"page_bytes": 4 << 20}},
        {"runtime": {"cache_bytes": 4096}},
        {"runtime": {"service_threads": -1}},
    ],
)
def test_other_plans_that_are_refused(data: Path, changes: dict[str, Any]) -> None:
    failure(status=2, **{"cells": [cell(data)], **changes})


def test_cpus_that_are_not_allowed(data: Path) -> None:
    assert "1023" in failure([cell(data)], runtime={"device_cpus": "1023"})["message"]


def test_reading_needs_no_more_than_read_permission(data: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("needs root, to become somebody else")
    program = str(programs.find_program())
    nobody = {"user": 65534, "group": 65534, "extra_groups": []}
    try:
        subprocess.run([program, "--help"], check=True, stdout=subprocess.DEVNULL, **nobody)
    except (OSError, subprocess.SubprocessError):
        pytest.skip("the build is not visible to others")
    for folder in data.parents:
        if folder.stat().st_mode & 0o005 != 0o005 and folder != Path("/"):
            folder.chmod(folder.stat().st_mode | 0o055)
    data.chmod(0o444)
    status, lines = run_bench({"cells": every_way(data)}, **nobody)
    assert of_type(lines, "error") == []
    assert status == 0


def test_wrong_arguments() -> None:
    for arguments in ([], ["--plan"], ["--nonsense"], ["--info"]):
        done = subprocess.run([str(programs.find_program()), *arguments], capture_output=True, text=True)
        assert done.returncode == 2
        assert done.stderr.startswith("Usage: ferry-bench")
