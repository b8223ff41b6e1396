"""Jobs of a group: the measured process runs them together."""

from __future__ import annotations

import errno
import resource
from pathlib import Path
from typing import Any

import pytest
from ferry.sizes import KIB
from ferry_lab.run.plan import INTERFACES
from measured import Lines, corrupt, failure, measure, of_type
from support import cell, run_bench


def job(path: Path, name: str, **changes: Any) -> dict[str, Any]:
    return cell(path, id=name, group="g", **changes)


def write(path: Path, name: str, **changes: Any) -> dict[str, Any]:
    return job(path, name, operation="write", **changes)


def by_cell(lines: Lines) -> dict[str, Lines]:
    return {name: [line for line in lines if line["cell"] == name] for name in dict.fromkeys(x["cell"] for x in lines)}


@pytest.mark.parametrize("interface", INTERFACES)
def test_bytes_of_each_job_and_of_all(tmp_path: Path, data: Path, interface: str) -> None:
    cells = [
        job(data, "r", interface=interface, threads=2, total_bytes=40 * KIB, expect_pattern_seed=5, check=True),
        write(tmp_path / "new", "w", interface=interface, transfer_bytes=16 * KIB, total_bytes=80 * KIB, sync="fsync"),
    ]
    found = by_cell(measure(cells, repeats=2))
    assert list(found) == ["r", "w", "g"]
    for repeat in range(2):
        reader, writer, both = (lines[repeat] for lines in found.values())
        assert (reader["bytes"], reader["operations"]) == (40 * KIB, 10)
        assert (writer["bytes"], writer["operations"]) == (80 * KIB, 5)
        assert (both["bytes"], both["operations"]) == (120 * KIB, 15)
        counted = both["counters"]
        expected = (40 * KIB, 80 * KIB) if interface == "ferry" else (0, 0)
        assert (counted["bytes_read"], counted["bytes_written"]) == expected
        assert both["begin_ns"] == min(reader["begin_ns"], writer["begin_ns"])
        ends = [x["begin_ns"] + x["elapsed_ns"] for x in (reader, writer, both)]
        assert ends[2] == max(ends[:2])
        assert (writer["sync_ns"] > 0, reader["sync_ns"]) == (True, 0)
    assert sorted(tmp_path.iterdir()) == [data]


def test_placements_share_one_runtime_with_its_cache(tmp_path: Path, data: Path) -> None:
    ways = [("host", "a"), ("compute", "b"), ("service", "c"), ("automatic", "d")]
    cells = [
        *(job(data, name, placement=placement, check=True, expect_pattern_seed=5) for placement, name in ways),
        *(write(tmp_path / f"w{name}", f"w{name}", placement=placement) for placement, name in ways),
        job(data, "plain", interface="posix", check=True, expect_pattern_seed=5),
    ]
    status, lines = run_bench({"cells": cells})
    assert status == 0, lines
    (runtime,) = lines[0]["runtimes"]
    assert runtime["page_cache"]["cache_bytes"] > 0
    assert runtime["device_threads"] == 9
    assert by_cell(of_type(lines, "sample"))["g"][0]["cache"]["misses"] > 0


def test_readers_of_one_file(data: Path) -> None:
    cells = [
        job(data, "a", threads=3, same_part=True, total_bytes=3 * 64 * KIB, check=True, expect_pattern_seed=5),
        job(data, "b", pattern="random", transfer_bytes=8 * KIB, check=True, expect_pattern_seed=5),
    ]
    a, b, both = measure(cells)
    assert (a["operations"], b["operations"], both["bytes"]) == (48, 8, 256 * KIB)
    corrupt(data, 60 * KIB)
    assert failure(cells)["message"].startswith(f"[a] the contents of {data} are wrong at byte {60 * KIB}")


@pytest.mark.parametrize("interface", INTERFACES)
@pytest.mark.parametrize("operation", ["write", "mixed"])
def test_readers_beside_the_writer_of_their_file(tmp_path: Path, interface: str, operation: str) -> None:
    shared = {"interface": interface, "time_ms": 100, "check": True}
    way = {"operation": operation, "read_percent": 50} if operation == "mixed" else {"operation": operation}
    cells = [
        job(tmp_path / "new", "r", pattern="random", total_bytes=32 * KIB, **shared),
        job(tmp_path / "new", "w", **way, rewrite=True, total_bytes=128 * KIB, **shared),
        job(tmp_path / "new", "s", threads=2, same_part=True, total_bytes=128 * KIB, **shared),
    ]
    found = by_cell(measure(cells, repeats=2))
    assert all(line["bytes"] > 0 for lines in found.values() for line in lines)
    assert [line["cache_state"] for line in found["s"]] == ["hot", "hot"]
    assert list(tmp_path.iterdir()) == []


def test_readers_of_more_than_is_written(tmp_path: Path) -> None:
    cells = [
        job(tmp_path / "new", "r", total_bytes=68 * KIB),
        write(tmp_path / "new", "w", rewrite=True, total_bytes=64 * KIB),
    ]
    assert "r of group g reads what w writes, which needs" in failure(cells, status=2)["message"]


def test_threads_that_all_write_one_file(tmp_path: Path) -> None:
    new = tmp_path / "new"
    (written, _) = measure([write(new, "w", threads=4, same_part=True, total_bytes=4 * 64 * KIB, keep=True)])
    assert (written["bytes"], new.stat().st_size) == (256 * KIB, 64 * KIB)
    measure([cell(new, expect_pattern_seed=written["pattern_seed"], check=True)])


def test_a_job_that_starts_later_and_one_at_a_rate(tmp_path: Path, data: Path) -> None:
    cells = [
        job(data, "slow", rate_bytes_per_s=64 * KIB, total_bytes=16 * KIB),
        job(data, "late", start_delay_ms=150, threads=2),
    ]
    slow, late, both = measure(cells)
    assert both["begin_ns"] == min(slow["begin_ns"], late["begin_ns"])
    assert late["begin_ns"] >= 150_000_000
    assert slow["elapsed_ns"] >= 3 * 62_500_000  # its fourth call is due then


def test_mixed_calls_beside_timed_ones(tmp_path: Path, data: Path) -> None:
    cells = [
        job(tmp_path / "m", "m", operation="mixed", read_percent=50, check=True),
        job(data, "t", time_ms=50, ramp_ms=20, pattern="zipf:1.1", latency=True),
    ]
    mixed, timed, both = measure(cells)
    assert mixed["operations"] == 16
    assert 0 < mixed["mixed"]["read_operations"] < 16
    assert timed["latency_ns"]["histogram"]
    assert both["operations"] == 16 + timed["operations"]


def test_a_file_that_is_made_is_removed(tmp_path: Path) -> None:
    made = tmp_path / "made"
    cells = [job(made, "a", make=True), job(made, "b", make=True, threads=2, check=True)]
    assert [line["bytes"] for line in measure(cells, repeats=2)][:2] == [65536, 65536]
    assert list(tmp_path.iterdir()) == []
    made.write_bytes(b"mine")
    error = failure(cells)
    assert (error["errno"], error["cell"], made.read_bytes()) == (errno.EEXIST, "a", b"mine")


def limit_files() -> None:
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, 1 << 20))


@pytest.mark.parametrize("interface", ["ferry", "posix"])
def test_a_job_that_fails_ends_the_others(tmp_path: Path, data: Path, interface: str) -> None:
    hour = {"time_ms": 3_600_000, "interface": interface}
    cells = [
        job(data, "reader", **hour),
        job(data, "waits", start_delay_ms=3_600_000, interface=interface),
        write(tmp_path / "other", "other", **hour),
        write(tmp_path / "large", "large", interface=interface, total_bytes=2 << 20),
    ]
    error = failure(cells, options={"preexec_fn": limit_files})
    assert (error["cell"], error["errno"]) == ("large", errno.EFBIG)
    assert error["message"].startswith("[large] writing 4096 bytes at 1048576 of ")
    assert sorted(tmp_path.iterdir()) == [data]


def test_what_another_process_has_just_made_stays(tmp_path: Path, data: Path) -> None:
    (tmp_path / "there").write_bytes(b"mine")
    cells = [job(data, "r"), write(tmp_path / "new", "w"), write(tmp_path / "there", "x")]
    error = failure(cells)
    assert (error["cell"], error["errno"]) == ("x", errno.EEXIST)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["data", "there"]


def test_groups_take_turns_and_single_cells_with_them(tmp_path: Path, data: Path) -> None:
    cells = [job(data, "a"), job(data, "b"), cell(data, id="alone"), cell(data, id="c", group="h")]
    order = [line["cell"] for line in measure(cells, repeats=2)]
    assert order == ["a", "b", "g", "alone", "c", "h", "c", "h", "alone", "a", "b", "g"]
    order = [line["cell"] for line in measure(cells, repeats=2, in_order=True)]
    assert order == ["a", "b", "g"] * 2 + ["alone"] * 2 + ["c", "h"] * 2


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ([{}, {"operation": "write"}], "a0 of group g reads what a1 writes, which needs rewrite there"),
        ([{"operation": "write"}, {"operation": "write"}], "a0 and a1 of group g write one file"),
        ([{}, {"group": "h"}, {}], "the jobs of group g must stand side by side"),
        ([{"warm": True, "placement": "compute"}], "cells[0].warm: not for a job of a group"),
        ([{"program": "once"}], "cells[0].program: not for a job of a group"),
        ([{"same_part": True, "file_per_thread": True}], "cells[0].same_part: needs reads or writes"),
        ([{"make": True, "operation": "write"}], "cells[0].make: is for reads"),
        ([{"threads": 4096, "total_bytes": 4096 * 4096}, {}], "group g has more than 4096 threads"),
    ],
)
def test_refused(data: Path, changes: list[dict[str, Any]], says: str) -> None:
    cells = [{**job(data, f"a{i}"), **change} for i, change in enumerate(changes)]
    assert says in failure(cells, status=2)["message"]
