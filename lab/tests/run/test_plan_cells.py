"""Plans of the study optimizations: re-writes, switches, buffers, many files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from measured import Lines, corrupt, failure, measure
from support import cell

TOTAL = 1 << 20
CACHED = {"placement": "compute", "total_bytes": TOTAL, "transfer_bytes": TOTAL}
RUNTIME = {"profile": False, "page_bytes": 65536}


def samples(cells: Lines, repeats: int = 3) -> dict[str, dict[str, Any]]:
    """The last sample of each cell, all of which must succeed."""
    return {line["cell"]: line for line in measure(cells, runtime=RUNTIME, repeats=repeats)}


@pytest.mark.parametrize("interface", ["posix", "mmap", "uring", "ferry"])
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("own", [False, True])
def test_a_file_is_written_over(tmp_path: Path, interface: str, threads: int, own: bool) -> None:
    way = {"interface": interface, "threads": threads, "file_per_thread": own, "total_bytes": TOTAL}
    made = cell(tmp_path / "f", operation="write", rewrite=True, **way)
    assert samples([made])["a"]["verified"]
    assert list(tmp_path.iterdir()) == []


def test_pages_that_are_written_again_are_in_the_cache(tmp_path: Path) -> None:
    way = {"operation": "write", "rewrite": True, **CACHED}
    cells = [cell(tmp_path / "cold", id="cold", **way), cell(tmp_path / "warm", id="warm", warm=True, **way)]
    found = samples(cells)
    assert found["warm"]["device_cache_state"] == "warm"
    assert (found["warm"]["cache"]["hits"], found["warm"]["cache"]["misses"]) == (16, 0)
    assert found["cold"]["device_cache_state"] is None
    assert (found["cold"]["cache"]["hits"], found["cold"]["cache"]["misses"]) == (0, 16)


def test_each_cell_has_its_own_switches(data: Path) -> None:
    way = {**CACHED, "transfer_bytes": 65536}
    cells = [
        cell(data, id="all", **way),
        cell(data, id="none", cache_switches=[], **way),
        cell(data, id="ahead", cache_switches=["readahead"], **way),
    ]
    found = {name: sample["cache"] for name, sample in samples(cells).items()}
    assert found["none"]["readahead_issued"] == 0
    assert found["none"]["fills"] == 16, "one request for each page"
    assert found["all"]["readahead_issued"] > 0
    assert found["ahead"]["readahead_issued"] > 0


@pytest.mark.parametrize("interface", ["posix", "ferry"])
@pytest.mark.parametrize("operation", ["read", "write"])
def test_buffers_need_not_be_aligned(tmp_path: Path, data: Path, interface: str, operation: str) -> None:
    path = data if operation == "read" else tmp_path / "new"
    way = {"operation": operation, "buffer_offset_bytes": 1, "total_bytes": TOTAL}
    if operation == "read":
        way["expect_pattern_seed"] = 5
    assert samples([cell(path, interface=interface, **way)])["a"]["verified"]


@pytest.mark.parametrize("way", [{"interface": "posix"}, {"interface": "mmap"}, CACHED, {}])
@pytest.mark.parametrize("threads", [1, 2])
def test_a_file_for_each_transfer(tmp_path: Path, way: dict[str, Any], threads: int) -> None:
    many = {**way, "transfer_bytes": 8192, "total_bytes": 32 * 8192, "program": "files"}
    path = tmp_path / "small"
    made = cell(path, operation="write", keep=True, seed=7, **{**many, "threads": threads})
    assert samples([made], repeats=1)["a"]["operations"] == 32
    files = sorted(tmp_path.iterdir())
    assert [file.stat().st_size for file in files] == [8192] * 32
    # Concatenated, the files are one file with the pattern.
    whole = tmp_path / "whole"
    whole.write_bytes(b"".join(file.read_bytes() for file in files))
    read = {"threads": threads, "expect_pattern_seed": 7}
    found = samples([cell(path, id="many", **many, **read), cell(whole, id="one", **read)])
    assert found["many"]["bytes"] == 32 * 8192
    assert found["many"]["io_ns"] <= found["many"]["elapsed_ns"]


@pytest.mark.parametrize("interface", ["posix", "ferry"])
def test_a_wrong_byte_in_one_of_many_files_is_caught(tmp_path: Path, interface: str) -> None:
    many = {"transfer_bytes": 8192, "total_bytes": 8 * 8192, "program": "files"}
    path = tmp_path / "small"
    samples([cell(path, operation="write", keep=True, **many)], repeats=1)
    corrupt(tmp_path / "small.00000005", 4321)
    error = failure([cell(path, interface=interface, expect_pattern_seed=1, **many)])
    assert "small.00000005" in error["message"]
    assert "wrong at byte 4321," in error["message"]


WRONG: list[tuple[dict[str, Any], str]] = [
    ({"rewrite": True}, "sync, overwrite, keep and rewrite are for writes"),
    ({"operation": "write", "warm": True, **CACHED}, "warm: of writes needs rewrite"),
    ({"operation": "write", "rewrite": True, "keep": True}, "not with overwrite or keep"),
    ({"operation": "write", "rewrite": True, "overwrite": True}, "not with overwrite or keep"),
    ({"buffer_offset_bytes": 4096}, "buffer_offset_bytes: must be from 0 to 4095"),
    ({"buffer_offset_bytes": 1, "direct": True}, "direct I/O wants buffers that are aligned"),
    ({"cache_switches": []}, "cache_switches: needs a placement with a cache"),
    ({"cache_switches": ["speed"], **CACHED}, 'cache_switches: has "speed", unknown'),
    ({"cache_switches": "all", **CACHED}, "cache_switches: must be an array"),
    ({"program": "files", "operation": "write", "sync": "fsync"}, "sync: not with program files"),
    ({"program": "files", "file_per_thread": True}, "file_per_thread: not with program files"),
    ({"program": "files", "transfer_bytes": 1, "total_bytes": 65537}, "the limit is 2^16"),
    ({"program": "files", "check": True}, "check: needs program stream"),
]


@pytest.mark.parametrize(("changes", "message"), WRONG, ids=str)
def test_wrong_cells_are_refused(tmp_path: Path, changes: dict[str, Any], message: str) -> None:
    assert message in failure([cell(tmp_path / "f", **changes)], status=2)["message"]
