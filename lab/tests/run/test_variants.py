"""Plans of ``ferry tune``: variants of a runtime, gaps between reads, a time limit."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from measured import Lines, failure, measure, of_type
from support import cell, run_bench

AUTOMATIC = {"placement": "automatic", "total_bytes": 2 << 20, "transfer_bytes": 65536}


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


def test_gaps_beyond_the_end_are_refused(data: Path) -> None:
    beyond = {"total_bytes": 17 * 4096, "stride_bytes": 131072}
    assert "needs 2228224" in failure([cell(data, **beyond)])["message"]


def test_no_round_begins_after_the_time_limit(data: Path) -> None:
    cells = [cell(data, id=name) for name in "ab"]
    samples = [line["cell"] for line in measure(cells, repeats=1_000_000, time_limit_ms=300)]
    assert samples.count("a") == samples.count("b") < 1_000_000, "whole rounds"
    assert len(measure(cells, repeats=3, time_limit_ms=1)) == 2, "one round is always made"


WRONG: list[tuple[dict[str, Any], dict[str, Any], str]] = [
    ({"variant": 0}, {}, "variants: has none for cell a"),
    ({"variant": 1}, {"variants": [{}]}, "variants: has none for cell a"),
    ({}, {"variants": {}}, "must be an array"),
    ({}, {"variants": [{"page_bytes": 3000}]}, "variants[0].page_bytes"),
    ({}, {"variants": [{"page_bytes": 12288}]}, "variants[0].page_bytes: must be a power of two"),
    ({}, {"variants": [{"cache_bytes": 1}]}, "variants[0].cache_bytes: is not known"),
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
]


@pytest.mark.parametrize(("of_cell", "of_plan", "message"), WRONG, ids=str)
def test_wrong_plans_are_refused(
    tmp_path: Path, of_cell: dict[str, Any], of_plan: dict[str, Any], message: str
) -> None:
    assert message in failure([cell(tmp_path / "f", **of_cell)], status=2, **of_plan)["message"]
