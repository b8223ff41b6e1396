"""Summaries of repeats, and the rules for writing results."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from ferry import output_files
from ferry.errors import FerryError
from ferry_lab.results import results
from made_up import sample


def test_summaries() -> None:
    summary = results.summarize([1.0, 2.0, 3.0, 10.0])
    assert summary.count == 4
    assert summary.mean == 4.0
    assert summary.median == 2.5
    assert summary.standard_deviation == pytest.approx(4.0825, abs=1e-4)
    assert summary.minimum <= summary.median_low_95 <= summary.median
    assert summary.median <= summary.median_high_95 <= summary.maximum


def test_one_repeat_has_no_deviation() -> None:
    assert results.summarize([5]).standard_deviation is None


def test_bandwidth() -> None:
    assert results.bandwidth_mib_per_s(16 << 20, 1_000_000_000) == 16.0


@pytest.mark.parametrize(
    ("states", "state"), [(["hot", "hot"], "hot"), (["cold", "hot"], "unverified"), ([None, None], None)]
)
def test_a_row_is_in_one_state_or_unverified(states: list[str | None], state: str | None) -> None:
    assert results.cache_state([sample(cache_state=s) for s in states]) == state


def test_a_dangling_link_is_refused_before_anything_is_measured(tmp_path: Path) -> None:
    path = tmp_path / "r.json"
    path.symlink_to("missing")
    with pytest.raises(FerryError, match="exists"):
        output_files.check_output(str(path), False)
    output_files.check_output(str(path), True)
    output_files.write_json(str(path), {"a": 1}, True)
    assert json.loads((tmp_path / "missing").read_text()) == {"a": 1}


def test_results_are_not_overwritten(tmp_path: Path) -> None:
    path = tmp_path / "r.json"
    output_files.write_json(str(path), {"a": 1}, False)
    assert json.loads(path.read_text()) == {"a": 1}
    with pytest.raises(FerryError, match="exists"):
        output_files.write_json(str(path), {"a": 2}, False)
    with pytest.raises(FerryError, match="exists"):
        output_files.check_output(str(path), False)
    output_files.write_json(str(path), {"a": 2}, True)
    assert json.loads(path.read_text()) == {"a": 2}


def test_numbers_that_json_has_not_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="JSON"):
        output_files.write_json(str(tmp_path / "r.json"), {"a": float("inf")}, False)


def test_the_device_cache_has_a_state_of_its_own() -> None:
    samples = [sample(device_cache_state=s) for s in ("warm", "warm", "unverified")]
    assert results.cache_state(samples, "device_cache_state") == "unverified"
    assert results.cache_state(samples[:2], "device_cache_state") == "warm"


def test_times_of_what_follows_the_calls() -> None:
    repeat = sample(io_ns=1000, compute_ns=200, flush_ns=30, sync_ns=4)
    assert results.call_ns(repeat) == 1000
    assert results.call_and_flush_ns(repeat) == 1030
    assert results.durable_ns(repeat) == 1034
    assert results.loop_ns(repeat) == 1200
    assert results.loop_and_sync_ns(repeat) == 1234
