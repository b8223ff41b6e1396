"""The measured process and the device's page cache: every placement, with proven states."""

from __future__ import annotations

from pathlib import Path

import pytest
from measured import corrupt, failure, measure
from support import cell, run_bench

CACHED = ("compute", "service", "automatic")
PAGE = 64 * 1024
TOTAL = 1 << 20


@pytest.mark.parametrize("placement", ["host", *CACHED])
@pytest.mark.parametrize("program", ["stream", "iterative", "once"])
@pytest.mark.parametrize("threads", [1, 2])
def test_every_placement_reads_and_writes_the_right_bytes(
    tmp_path: Path, data: Path, placement: str, program: str, threads: int
) -> None:
    way = {"placement": placement, "program": program, "threads": threads, "total_bytes": TOTAL}
    cells = [
        cell(data, id="r", expect_pattern_seed=5, **way),
        cell(tmp_path / "new", id="w", operation="write", sync="flush+fsync", **way),
    ]
    for sample in measure(cells, repeats=2):
        assert sample["verified"]
        assert (sample["cache"] is None) == (placement == "host")
        assert (sample["sync_ns"] > 0) == (sample["cell"] == "w")
        assert (sample["flush_ns"] > 0) == (sample["cell"] == "w")
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize("placement", CACHED)
def test_a_corrupted_byte_is_caught(data: Path, placement: str) -> None:
    corrupt(data, 33333)
    error = failure([cell(data, placement=placement, expect_pattern_seed=5)])
    assert "wrong at byte 33333," in error["message"]


@pytest.mark.parametrize("placement", CACHED)
@pytest.mark.parametrize("transfer_bytes", [4096, PAGE, TOTAL])
def test_a_file_opened_anew_is_cold(data: Path, placement: str, transfer_bytes: int) -> None:
    way = {"placement": placement, "transfer_bytes": transfer_bytes, "total_bytes": TOTAL}
    for sample in measure([cell(data, **way)], repeats=3):
        assert sample["cache_state"] == "hot"
        assert sample["device_cache_state"] == "cold"
        assert sample["counters"]["bytes_read"] >= TOTAL


@pytest.mark.parametrize("placement", CACHED)
@pytest.mark.parametrize("threads", [1, 2])
def test_a_cache_that_was_filled_is_warm(data: Path, placement: str, threads: int) -> None:
    way = {"placement": placement, "threads": threads, "total_bytes": TOTAL}
    for sample in measure([cell(data, warm=True, **way)], repeats=3):
        assert sample["device_cache_state"] == "warm"
        assert sample["cache"]["misses"] == 0
        assert sample["cache"]["fill_bytes"] == 0


def test_cold_and_warm_do_not_touch_each_other(data: Path) -> None:
    way = {"placement": "compute", "total_bytes": TOTAL}
    cells = [cell(data, id="cold", **way), cell(data, id="warm", warm=True, **way)]
    for sample in measure(cells, repeats=3):
        assert sample["device_cache_state"] == sample["cell"]


def test_what_does_not_fit_is_not_called_warm(data: Path) -> None:
    warm = cell(data, placement="compute", total_bytes=TOTAL, warm=True)
    (sample,) = measure([warm], runtime={"cache_bytes": TOTAL // 2})
    assert sample["device_cache_state"] == "unverified"


def test_placements_without_such_a_cache_have_no_state(data: Path) -> None:
    cells = [cell(data, id=name, interface=name) for name in ("ferry", "posix", "mmap")]
    for sample in measure(cells):
        assert sample["device_cache_state"] is None
        assert sample["cache"] is None


def test_writes_reach_the_host_with_the_flush(tmp_path: Path) -> None:
    way = {"operation": "write", "placement": "compute", "total_bytes": TOTAL}
    cells = [cell(tmp_path / sync, id=sync, sync=sync, **way) for sync in ("none", "flush", "fsync", "flush+fsync")]
    for sample in measure(cells):
        sync = sample["cell"]
        assert (sample["flush_ns"] > 0) == ("flush" in sync)
        assert (sample["sync_ns"] > 0) == ("fsync" in sync)
        # Without either, closing writes back.
        assert sample["cache"]["write_back_bytes"] == TOTAL


def test_host_is_measured_without_a_cache_beside_it(data: Path) -> None:
    cells = [cell(data, id="host"), cell(data, id="compute", placement="compute")]
    status, lines = run_bench({"cells": cells, "runtime": {"cache_bytes": 4 << 20}})
    assert status == 0
    without, with_cache = lines[0]["runtimes"]
    assert without["page_cache"] is None
    assert with_cache["page_cache"] == {"cache_bytes": 4 << 20, "page_bytes": PAGE}


def test_a_cache_that_nobody_sized_is_small_for_a_small_file(data: Path) -> None:
    """plan_test.cpp has the sizes for large ones, whose memory would take long to clear."""
    status, lines = run_bench({"cells": [cell(data, placement="compute")]})
    assert status == 0
    (runtime,) = lines[0]["runtimes"]
    assert runtime["page_cache"]["cache_bytes"] == 64 << 20
