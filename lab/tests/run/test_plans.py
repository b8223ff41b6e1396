"""Plans of ``ferry-bench``: what the study optimizations and ``ferry tune`` need, and refusals."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from measured import Lines, corrupt, failure, measure, of_type
from support import cell, run_bench

TOTAL = 1 << 20
CACHED = {"placement": "compute", "total_bytes": TOTAL, "transfer_bytes": TOTAL}
AUTOMATIC = {"placement": "automatic", "total_bytes": 2 << 20, "transfer_bytes": 65536}
RUNTIME = {"profile": False, "page_bytes": 65536}


def samples(cells: Lines, repeats: int = 3, **runtime: Any) -> dict[str, dict[str, Any]]:
    """The last sample of each cell, all of which must succeed."""
    return {line["cell"]: line for line in measure(cells, runtime={**RUNTIME, **runtime}, repeats=repeats)}


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


# ---- variants of a runtime, gaps between reads, a time limit --------------------------------------


def counters(lines: Lines, name: str) -> dict[str, Any]:
    return next(sample["cache"] for sample in of_type(lines, "sample") if sample["cell"] == name)


def test_each_variant_is_a_runtime_of_its_own(data: Path) -> None:
    cells = [
        cell(data, id="base", **AUTOMATIC),
        cell(data, id="cache", variant=0, **AUTOMATIC),
        cell(data, id="pages", variant=1, **AUTOMATIC),
        cell(data, id="none", variant=2, **AUTOMATIC),
    ]
    never = {"host_stream_read_bytes_min": "never"}
    variants = [
        {"crossovers": never},
        {"crossovers": never, "page_bytes": 4096, "readahead_bytes": 0, "server_threads": 2},
        {"crossovers": never, "readahead_bytes": 0},
    ]
    status, lines = run_bench({"cells": cells, "variants": variants, "runtime": {"profile": False}})
    assert status == 0, lines
    runtimes = lines[0]["runtimes"]
    assert [r["page_cache"]["page_bytes"] for r in runtimes] == [65536, 65536, 4096, 65536]
    assert [r["server_threads"] for r in runtimes] == [1, 1, 2, 1]
    assert counters(lines, "base")["fill_bytes"] == 0, "64 KiB calls of a stream are the host's"
    assert counters(lines, "cache")["fill_bytes"] == 2 << 20
    assert counters(lines, "cache")["readahead_issued"] > 0
    assert counters(lines, "pages")["misses"] == 512
    assert counters(lines, "none")["readahead_issued"] == 0


def test_reads_with_gaps_read_each_place_once(data: Path) -> None:
    gaps = {"total_bytes": 16 * 4096, "stride_bytes": 131072, "expect_pattern_seed": 5}
    cells = [
        cell(data, id="host", placement="host", pattern="random", **gaps),
        cell(data, id="cached", placement="compute", **gaps),
        cell(data, id="two", placement="host", threads=2, cold=True, **gaps),
        cell(data, id="posix", interface="posix", **gaps),
    ]
    runtime = {"readahead_bytes": 0}  # which would see a strided stream
    status, lines = run_bench({"cells": cells, "repeats": 2, "runtime": runtime})
    assert status == 0, lines
    assert counters(lines, "cached")["misses"] == 16
    assert all(sample["operations"] == 16 for sample in of_type(lines, "sample"))


def test_a_warm_cache_holds_the_places_of_a_file_with_gaps(tmp_path: Path) -> None:
    path = tmp_path / "sparse"
    with path.open("wb") as file:
        file.truncate(1 << 40)
    gaps = {"total_bytes": 64 * 4096, "stride_bytes": (1 << 40) // 64, "pattern": "random"}
    way = {"interface": "ferry", "placement": "compute", "warm": True}
    # Without a size the cache would have one for the whole file: a quarter of the memory.
    sample = samples([cell(path, **{**way, **gaps})], repeats=2, cache_bytes=8 << 20)["a"]
    assert sample["device_cache_state"] == "warm"
    assert sample["cache_state"] is None, "nobody looked at a TiB"
    assert (sample["cache"]["hits"], sample["cache"]["misses"]) == (64, 0)
    assert path.stat().st_blocks == 0


def test_a_variant_has_a_cache_of_its_own_size(data: Path) -> None:
    small, large = ({"cache_bytes": size} for size in (1 << 20, 8 << 20))
    cells = [cell(data, id=name, variant=index, **CACHED) for index, name in enumerate("ab")]
    status, lines = run_bench({"cells": cells, "variants": [small, large]})
    assert status == 0, lines
    assert [r["page_cache"]["cache_bytes"] for r in lines[0]["runtimes"]] == [1 << 20, 8 << 20]


# ---- many open files, and what each thread does ---------------------------------------------------


@pytest.mark.parametrize(("threads", "warm"), [(1, False), (1, True), (2, True)])
def test_reads_at_random_of_many_open_files(tmp_path: Path, threads: int, warm: bool) -> None:
    made = {"operation": "write", "program": "files", "keep": True, "transfer_bytes": 8192, "seed": 7}
    path = tmp_path / "part"
    samples([cell(path, interface="posix", **made, total_bytes=32 * 8192)], repeats=1)
    read = {"total_bytes": 32 * 8192, "transfer_bytes": 4096, "open_files": 32, "pattern": "random"}
    way = {**read, "expect_pattern_seed": 7, "threads": threads}
    cells = [
        cell(path, id="ferry", interface="ferry", placement="compute", warm=warm, **way),
        cell(path, id="posix", interface="posix", **way),
    ]
    found = samples(cells)
    assert found["ferry"]["operations"] == found["posix"]["operations"] == 64
    assert found["ferry"]["device_cache_state"] == ("warm" if warm else "cold")
    # A file in the place of another one is found out, and a block in the place of another.
    first, second = (tmp_path / f"part.{number:08}" for number in (3, 4))
    contents = first.read_bytes()
    for wrong in (second.read_bytes(), contents[4096:] + contents[:4096]):
        first.write_bytes(wrong)
        assert "wrong at byte 0" in failure([cells[0]])["message"]


def test_each_thread_has_a_rate(data: Path) -> None:
    rates = samples([cell(data, threads=2, total_bytes=TOTAL)])["a"]["thread_operations_per_s"]
    assert 0 < rates["min"] < rates["max"]
    assert rates["median"] == pytest.approx((rates["min"] + rates["max"]) / 2)


def test_a_thread_that_is_slower_shows(data: Path) -> None:
    """One has read everything when the other has hardly begun: a rate bounds the second's calls."""
    way = {"threads": 2, "time_ms": 100, "total_bytes": TOTAL}
    assert samples([cell(data, **way)])["a"]["thread_operations_per_s"]["max"] > 1000
    slow = samples([cell(data, rate_bytes_per_s=4096 * 100, transfer_bytes=4096, **way)])["a"]
    assert slow["thread_operations_per_s"]["max"] < 1000


def test_gaps_beyond_the_end_are_refused(data: Path) -> None:
    beyond = {"total_bytes": 17 * 4096, "stride_bytes": 131072}
    assert "needs 2228224" in failure([cell(data, **beyond)])["message"]


def test_no_round_begins_after_the_time_limit(data: Path) -> None:
    cells = [cell(data, id=name) for name in "ab"]
    samples = [line["cell"] for line in measure(cells, repeats=1_000_000, time_limit_ms=300)]
    assert samples.count("a") == samples.count("b") < 1_000_000, "whole rounds"
    assert len(measure(cells, repeats=3, time_limit_ms=1)) == 2, "one round is always made"


# Changes of the cell, and of the plan.
WRONG: list[tuple[dict[str, Any], dict[str, Any], str]] = [
    ({"rewrite": True}, {}, "sync, overwrite, keep and rewrite are for writes"),
    ({"operation": "write", "warm": True, **CACHED}, {}, "warm: of writes needs rewrite"),
    ({"operation": "write", "rewrite": True, "keep": True}, {}, "not with overwrite or keep"),
    ({"operation": "write", "rewrite": True, "overwrite": True}, {}, "not with overwrite or keep"),
    ({"buffer_offset_bytes": 4096}, {}, "buffer_offset_bytes: must be from 0 to 4095"),
    ({"buffer_offset_bytes": 1, "direct": True}, {}, "direct I/O wants buffers that are aligned"),
    ({"cache_switches": []}, {}, "cache_switches: needs a placement with a cache"),
    ({"cache_switches": ["speed"], **CACHED}, {}, 'cache_switches: has "speed", unknown'),
    ({"cache_switches": "all", **CACHED}, {}, "cache_switches: must be an array"),
    ({"program": "files", "operation": "write", "sync": "fsync"}, {}, "sync: not with program files"),
    ({"program": "files", "file_per_thread": True}, {}, "file_per_thread: not with program files"),
    ({"program": "files", "transfer_bytes": 1, "total_bytes": 65537}, {}, "the limit is 2^16"),
    ({"program": "files", "check": True}, {}, "check: needs program stream"),
    ({"variant": 0}, {}, "variants: has none for cell a"),
    ({"variant": 1}, {"variants": [{}]}, "variants: has none for cell a"),
    ({}, {"variants": {}}, "must be an array"),
    ({}, {"variants": [{"page_bytes": 3000}]}, "variants[0].page_bytes"),
    ({}, {"variants": [{"page_bytes": 12288}]}, "variants[0].page_bytes: must be a power of two"),
    ({}, {"variants": [{"cache_bytes": 1}]}, "variants[0].cache_bytes: must be from 65536"),
    ({"open_files": 4, "total_bytes": 4096}, {}, "open_files: must be a multiple of threads, and each hold"),
    ({"open_files": 3, "threads": 2, "total_bytes": 24576}, {}, "open_files: must be a multiple of threads"),
    ({"open_files": 4, "file_per_thread": True}, {}, "open_files: needs reads of program stream"),
    ({"open_files": 65537}, {}, "open_files: must be from 0 to 65536"),
    ({}, {"variants": [{"crossovers": {"x": 1}}]}, "variants[0].crossovers.x: is not known"),
    (
        {},
        {"variants": [{"crossovers": {"host_read_bytes_min": "often"}}]},
        "host_read_bytes_min: must be a whole number",
    ),
    ({"stride_bytes": 512}, {}, "stride_bytes: must be at least transfer_bytes"),
    ({"stride_bytes": 8192, "operation": "write"}, {}, "stride_bytes: needs reads"),
    ({"operation": "write", "keep": True}, {"time_limit_ms": 5}, "leaves open which repeat"),
    ({}, {"time_limit_ms": -1}, "time_limit_ms: must be a whole number"),
    ({}, {"time_limit_ms": 5, "in_order": True}, "time_limit_ms: is for cells that take turns"),
]


@pytest.mark.parametrize(("of_cell", "of_plan", "message"), WRONG, ids=str)
def test_wrong_plans_are_refused(
    tmp_path: Path, of_cell: dict[str, Any], of_plan: dict[str, Any], message: str
) -> None:
    assert message in failure([cell(tmp_path / "f", **of_cell)], status=2, **of_plan)["message"]
