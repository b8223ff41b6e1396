"""IOR's flags: the data that threads read and write, verification, and ends of repeats."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from documents import SCHEMA, measured
from ferry.sizes import KIB
from ferry_lab.commands import bench
from ferry_lab.run.plan import INTERFACES
from measured import corrupt, measure, of_type
from support import Command, cell, run_bench


# ---- which bytes belong to whom ------------------------------------------------------------------


@pytest.mark.parametrize("interface", INTERFACES)
@pytest.mark.parametrize("own", [False, True])
@pytest.mark.parametrize("pattern", ["sequential", "random"])
def test_segments_and_files_are_written_and_read(tmp_path: Path, interface: str, own: bool, pattern: str) -> None:
    way = {
        **{"interface": interface, "threads": 3, "segments": 4, "file_per_thread": own},
        **{"pattern": pattern, "total_bytes": 3 * 4 * 16 * KIB},
    }
    new = tmp_path / "new"
    (written,) = measure([cell(new, operation="write", keep=True, check=True, **way)])
    names = [f"new.{i:08d}" for i in range(3)] if own else ["new"]
    assert sorted(p.name for p in tmp_path.iterdir()) == names
    assert {p.stat().st_size for p in tmp_path.iterdir()} == {3 * 64 * KIB // len(names)}
    seed = written["pattern_seed"]
    (read,) = measure([cell(new, expect_pattern_seed=seed, check=True, **way)])
    assert (read["operations"], read["bytes"]) == (48, 3 * 64 * KIB)


def test_every_block_of_every_file_differs(tmp_path: Path) -> None:
    way = {"threads": 2, "file_per_thread": True, "total_bytes": 64 * KIB}
    measure([cell(tmp_path / "new", operation="write", keep=True, **way)])
    blocks = {path.read_bytes()[at : at + 8] for path in tmp_path.iterdir() for at in range(0, 32768, 4096)}
    assert len(blocks) == 16


@pytest.mark.parametrize("reorder", ["neighbour", "random"])
@pytest.mark.parametrize("interface", INTERFACES)
@pytest.mark.parametrize("own", [False, True])
def test_parts_of_others_are_read(tmp_path: Path, interface: str, reorder: str, own: bool) -> None:
    way = {"interface": interface, "threads": 3, "file_per_thread": own, "total_bytes": 192 * KIB}
    measure([cell(tmp_path / "new", operation="write", keep=True, **way)])
    back = cell(tmp_path / "new", reorder=reorder, check=True, **way)
    for sample in measure([back], repeats=4):
        assert sample["bytes"] == 192 * KIB


@pytest.mark.parametrize("barriers", [False, True])
@pytest.mark.parametrize("own", [False, True])
def test_with_and_without_barriers(tmp_path: Path, barriers: bool, own: bool) -> None:
    way = {"threads": 4, "barriers": barriers, "file_per_thread": own, "total_bytes": 256 * KIB}
    new = cell(tmp_path / "new", operation="write", sync="flush+fsync", interface="posix", **way)
    for sample in measure([new], repeats=5):
        assert sample["first_done_ns"] <= sample["last_done_ns"] <= sample["elapsed_ns"]
        together = sum(sample[f"{phase}_ns"] for phase in ("open", "io", "flush", "sync", "close"))
        assert not barriers or together <= sample["elapsed_ns"]
    assert list(tmp_path.iterdir()) == []


# ---- places that are drawn -----------------------------------------------------------------------

DRAWN = ["zipf:1.1", "hotspot:20/80"]


@pytest.mark.parametrize("pattern", DRAWN)
@pytest.mark.parametrize("own", [False, True])
@pytest.mark.parametrize(
    "way",
    [
        *({"interface": interface} for interface in INTERFACES),
        {"interface": "uring", "queue_depth": 8, "direct": True},
        {"queue_depth": 8},
        {"placement": "compute"},
    ],
    ids=str,
)
def test_drawn_places_are_verified_and_what_is_kept_is_whole(
    tmp_path: Path, way: dict[str, Any], own: bool, pattern: str
) -> None:
    way = {**way, "threads": 2, "segments": 3, "file_per_thread": own, "pattern": pattern, "total_bytes": 24 * 64 * KIB}
    new = tmp_path / "new"
    (written,) = measure([cell(new, operation="write", keep=True, check=True, **way)])
    assert sum(p.stat().st_size for p in tmp_path.iterdir()) == 24 * 64 * KIB
    seed = written["pattern_seed"]
    # Sequentially, each place once: those that were never drawn, too.
    measure([cell(new, expect_pattern_seed=seed, check=True, **{**way, "pattern": "sequential"})])
    (read,) = measure([cell(new, expect_pattern_seed=seed, check=True, **way)])
    assert (read["operations"], read["bytes"]) == (written["operations"], 24 * 64 * KIB)


@pytest.mark.parametrize("pattern", DRAWN)
def test_a_byte_is_caught_wherever_it_is_corrupted(data: Path, pattern: str) -> None:
    """Drawn or not: the first pass goes to each place."""
    content = data.read_bytes()
    for at in range(5, 65536, 4096):
        corrupt(data, at)
        status, lines = run_bench({"cells": [cell(data, pattern=pattern, expect_pattern_seed=5)]})
        assert (status, f"wrong at byte {at}," in lines[-1]["message"]) == (1, True)
        data.write_bytes(content)


def test_cold_reads_of_drawn_places_are_proven(data: Path) -> None:
    """The storage gives less than the calls read, and no less than the places have."""
    for sample in measure(
        [cell(data, pattern="hotspot:20/80", total_bytes=2 << 20, cold=True, direct=True)], repeats=2
    ):
        if sample["storage"]["process_read_bytes"] is not None:
            assert sample["cache_state"] in ("cold", "unverified")
    device = cell(data, pattern="hotspot:20/80", total_bytes=2 << 20, placement="compute")
    assert {sample["device_cache_state"] for sample in measure([device], repeats=3)} == {"cold"}


def test_a_distribution_is_in_the_results(command: Command) -> None:
    document, _ = measured(command, "bench", "--distribution", "zipf:1.1", "-b", "64k", "-t", "4k", "-i", "1", "file")
    assert document["settings"]["pattern"] == "zipf:1.1"
    assert {row["pattern"] for row in document["rows"]} == {"zipf:1.1"}


# ---- deadlines -----------------------------------------------------------------------------------


@pytest.mark.parametrize("interface", INTERFACES)
@pytest.mark.parametrize("pattern", ["sequential", "random"])
def test_a_deadline_ends_a_write_and_what_is_kept_is_whole(tmp_path: Path, interface: str, pattern: str) -> None:
    new = tmp_path / "new"
    total = 64 << 20
    way = {"interface": interface, "pattern": pattern, "total_bytes": total, "threads": 2}
    # 2^17 calls: no machine makes them in a millisecond.
    short = {"operation": "write", "transfer_bytes": 512, "deadline_ms": 1, "keep": True}
    (sample,) = measure([cell(new, **way, **short)])
    assert sample["deadline_reached"]
    assert 0 < sample["bytes"] == 512 * sample["operations"] < total
    assert new.stat().st_size == total
    back = cell(new, **{**way, "transfer_bytes": 1 << 20}, check=True)
    (sample,) = measure([back])
    assert not sample["deadline_reached"]
    assert sample["bytes"] == total


@pytest.mark.parametrize(
    "way", [{"interface": "posix"}, {"interface": "uring", "queue_depth": 8}, {"placement": "compute"}], ids=str
)
def test_a_deadline_ends_a_read(tmp_path: Path, way: dict[str, Any]) -> None:
    path = tmp_path / "data"
    path.write_bytes(bytes(64 << 20))
    short = {"total_bytes": 64 << 20, "transfer_bytes": 512, "deadline_ms": 1}
    for sample in measure([cell(path, **way, **short)], repeats=2):
        assert sample["deadline_reached"]
        assert 0 < sample["bytes"] == 512 * sample["operations"] < 64 << 20


# ---- reads and writes mixed ----------------------------------------------------------------------


@pytest.mark.parametrize("pattern", ["sequential", "random", "zipf:1.1"])
@pytest.mark.parametrize("own", [False, True])
@pytest.mark.parametrize(
    "way",
    [
        *({"interface": interface} for interface in INTERFACES),
        *(
            {"queue_depth": 7},
            {"interface": "uring", "queue_depth": 7, "direct": True},
            {"interface": "posix", "direct": True},
        ),
        *({"placement": "compute"}, {"placement": "compute", "warm": True}, {"placement": "automatic"}),
        {"interface": "posix", "time_ms": 20, "ramp_ms": 10},
        {"interface": "posix", "deadline_ms": 1000},
    ],
    ids=str,
)
def test_reads_and_writes_are_mixed(tmp_path: Path, way: dict[str, Any], own: bool, pattern: str) -> None:
    overlaps = pattern == "zipf:1.1" and "queue_depth" in way
    mixed = {**way, "operation": "mixed", "read_percent": 60, "check": not overlaps, "sync": "fsync"}
    layout = {"threads": 2, "segments": 3, "file_per_thread": own, "pattern": pattern, "total_bytes": 24 * 64 * KIB}
    samples = measure([cell(tmp_path / "new", latency=True, **layout, **mixed)], repeats=2)
    for sample in samples:
        apart = sample["mixed"]
        assert 0.4 < apart["read_operations"] / sample["operations"] < 0.8
        assert apart["read_latency_ns"]["samples"] == apart["read_operations"]
        assert apart["write_latency_ns"]["samples"] == sample["operations"] - apart["read_operations"]
        assert sample["latency_ns"]["samples"] == sample["operations"]
    assert list(tmp_path.iterdir()) == []


def test_mixed_calls_are_shown_together_and_apart(command: Command, scratch: Path) -> None:
    flags = "--mix 70 -a posix -e -R -z -b 1m -t 4k -i 2 --threads 2 --latency".split()
    document, text = measured(command, "bench", *flags, "file")
    (row,) = document["rows"]
    assert (row["id"], row["operation"], row["read_percent"], row["rewrite"]) == ("mixed", "mixed", 70, True)
    assert document["settings"]["mix"] == 70
    reads = sum(sample["mixed"]["read_operations"] for sample in row["repeats"])
    heads = {line.partition(": 50 %")[0]: line for line in text.splitlines() if ": 50 %" in line}
    assert set(heads) == {"mixed: single calls", "mixed: reads", "mixed: writes"}
    assert heads["mixed: reads"].endswith(f"({reads} of {reads} calls timed)")
    assert heads["mixed: writes"].endswith(f"({1024 - reads} of {1024 - reads} calls timed)")
    assert list(scratch.iterdir()) == []


# ---- for a fixed time, at a fixed rate -----------------------------------------------------------


@pytest.mark.parametrize("pattern", ["sequential", "random", "hotspot:20/80"])
@pytest.mark.parametrize("ramp_ms", [0, 20])
@pytest.mark.parametrize(
    "way",
    [
        *({"interface": interface} for interface in INTERFACES),
        *({"queue_depth": 7}, {"interface": "uring", "queue_depth": 7}, {"placement": "compute"}),
    ],
    ids=str,
)
def test_a_timed_run_goes_over_the_data_again_and_again(
    tmp_path: Path, way: dict[str, Any], ramp_ms: int, pattern: str
) -> None:
    new = tmp_path / "new"
    way = {**way, "pattern": pattern, "threads": 2, "total_bytes": 64 * KIB, "time_ms": 30, "ramp_ms": ramp_ms}
    (written,) = measure([cell(new, operation="write", keep=True, check=True, **way)])
    assert new.stat().st_size == 64 * KIB
    (read,) = measure([cell(new, check=True, expect_pattern_seed=written["pattern_seed"], **way)])
    for sample in (written, read):
        assert not sample["deadline_reached"]
        assert sample["bytes"] == 4 * KIB * sample["operations"] > 64 * KIB  # more than once
        assert sample["io_ns"] <= sample["elapsed_ns"]
        assert ramp_ms or sample["io_ns"] >= 30_000_000


def test_a_call_that_takes_longer_than_ramp_and_time_counts(tmp_path: Path) -> None:
    path = tmp_path / "data"
    path.write_bytes(bytes(64 << 20))
    (sample,) = measure([cell(path, total_bytes=64 << 20, transfer_bytes=64 << 20, time_ms=1, ramp_ms=1)])
    assert sample["operations"] >= 1
    assert sample["latency_ns"]["samples"] == sample["operations"]


@pytest.mark.parametrize("interface", INTERFACES)
def test_no_call_begins_before_it_is_due(data: Path, interface: str) -> None:
    (sample,) = measure([cell(data, interface=interface, rate_bytes_per_s=2 << 20)])
    # 16 calls, of which the last is due after the bytes of the others.
    assert sample["io_ns"] >= 15 * 4096 / (2 << 20) * 1e9
    assert sample["latency_ns"]["one_call_in"] == 1


@pytest.mark.parametrize(("ramp_ms", "time_ms", "calls"), [(0, 900, 3), (300, 450, 1)])
def test_no_call_begins_after_the_time(data: Path, ramp_ms: int, time_ms: int, calls: int) -> None:
    """A call is due every 400 ms, from the ramp's begin on; a busy machine makes some of them late."""
    pace = {"rate_bytes_per_s": 10 * KIB, "time_ms": time_ms, "ramp_ms": ramp_ms}
    (sample,) = measure([cell(data, interface="posix", **pace)])
    assert 0 < sample["latency_ns"]["samples"] == sample["operations"] <= calls
    assert sample["io_ns"] >= 0.99e6 * time_ms


@pytest.mark.parametrize("threads", [1, 2])
def test_a_deadline_holds_between_calls_at_a_rate(data: Path, threads: int) -> None:
    pace = {"rate_bytes_per_s": 10 * KIB, "deadline_ms": 600, "threads": threads}
    (sample,) = measure([cell(data, interface="posix", **pace)])
    assert 0 < sample["operations"] <= 2 * threads
    assert sample["deadline_reached"]


def test_times_and_rates_are_in_the_results(command: Command) -> None:
    flags = "-a posix -b 64k -t 4k -i 1 --time 1 --ramp 1 --rate 64k".split()
    document, _ = measured(command, "bench", *flags, "-w", "file")
    (row,) = document["rows"]
    assert (row["time_ms"], row["ramp_ms"], row["rate_bytes_per_s"]) == (1000, 1000, 64 * KIB)
    # Of 32 that are due, half in the ramp; a busy machine makes some of them late.
    assert row["repeats"][0]["operations"] <= 24


# ---- checks --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("interface", "at"), [("ferry", 0), ("posix", 4095), ("mmap", 70000), ("uring", (1 << 20) - 1)]
)
def test_a_corrupted_file_is_caught_by_name_and_byte(command: Command, scratch: Path, interface: str, at: int) -> None:
    flags = ["-a", interface, "-b", "1m", "-t", "64k", "-i", "1"]
    command.succeeds("bench", "-w", "-k", *flags, "file")
    command.succeeds("bench", "-r", "-R", *flags, "file")
    corrupt(scratch / "file", at)
    command.fails("bench", "-r", "-R", *flags, "file", says=f"wrong at byte {at}, by way of {interface}")
    # Unknowable without -R: the file is what pread returns.
    command.succeeds("bench", "-r", *flags, "file")


def test_a_file_that_ferry_did_not_write_cannot_be_checked(command: Command, scratch: Path) -> None:
    (scratch / "file").write_bytes(bytes(1 << 20))
    why = (
        " does not hold the pattern that ferry bench writes; make one with ferry bench -w -k, or "
        "read this one without -R\n"
    )
    command.fails("bench", "-r", "-R", "-b", "1m", "-i", "1", "file", says=why)


@pytest.mark.parametrize("way", [{}, {"queue_depth": 8}, {"placement": "compute"}], ids=str)
def test_a_byte_that_changes_between_repeats_is_caught(data: Path, way: dict[str, Any]) -> None:
    """The first pass over the file finds nothing; only verification while timed does."""
    first = cell(data, id="a", total_bytes=2 << 20, check=True, expect_pattern_seed=5, **way)
    # A write in between, to the same file: the cells take turns.
    other = cell(data, id="b", operation="write", total_bytes=2 << 20, overwrite=True, seed=9, keep=True)
    status, lines = run_bench({"cells": [first, other], "repeats": 2})
    assert status == 1
    assert [line["cell"] for line in of_type(lines, "sample")] == ["a", "b", "b"]
    assert lines[-1]["cell"] == "a"
    assert "wrong at byte 0" in lines[-1]["message"]


# ---- the command ---------------------------------------------------------------------------------


def test_all_flags_together(command: Command, scratch: Path) -> None:
    flags = "-a posix -b 64k -t 4k -s 2 -i 2 -F -Z -z -e -g -k -W -R -D 100 --threads 2".split()
    document, shown = measured(command, "bench", *flags, "-o", "file")
    assert sorted(p.name for p in scratch.iterdir()) == ["file.00000000", "file.00000001"]
    lines = [line.split() for line in shown.splitlines()]
    table = [line for line in lines if line and line[0] in ("write", "read")]
    assert len(table) == 4
    assert all(row[4:6] == ["64", "4.00"] for row in table)
    write, read = document["rows"]
    assert (write["reorder"], read["reorder"]) == ("none", "random")
    for row in (write, read):
        assert (row["segments"], row["file_per_thread"], row["barriers"]) == (2, True, True)
        assert (row["deadline_ms"], row["check"], row["total_bytes"]) == (100_000, True, 256 * KIB)
    command.fails("bench", *flags, "-o", "file", says="file.00000000 exists; --overwrite")


@pytest.mark.parametrize("flags", [["-F"], ["-F", "-s", "3"], ["-Z"], ["-C", "-g"]], ids=" ".join)
def test_nothing_is_left_behind(command: Command, scratch: Path, flags: list[str]) -> None:
    command.succeeds("bench", *flags, "--threads", "3", "-b", "64k", "-t", "16k", "-i", "2", "f")
    assert list(scratch.iterdir()) == []


# ---- what is counted -----------------------------------------------------------------------------


def test_cpu_time_of_callers_and_server_are_apart(data: Path) -> None:
    way = {"total_bytes": 2 << 20, "transfer_bytes": 512}
    cells = [cell(data, id="ferry", **way), cell(data, id="posix", interface="posix", **way)]
    used: dict[str, float] = {"ferry": 0, "posix": 0}
    for sample in measure(cells, repeats=10):
        for whose in ("callers", "server"):
            assert set(sample[whose]) == {
                *("user_cpu_ns", "system_cpu_ns", "voluntary_switches", "involuntary_switches")
            }
        assert sample["callers"]["user_cpu_ns"] + sample["callers"]["system_cpu_ns"] > 0
        used[sample["cell"]] += sample["server"]["user_cpu_ns"] + sample["server"]["system_cpu_ns"]
    # 4096 requests of 512 bytes each; beside plain calls the server sleeps.
    assert used["ferry"] > 5 * used["posix"]


def test_cold_reads_come_from_the_storage(data: Path) -> None:
    cells = [
        cell(data, id=f"{interface}/{state}", interface=interface, cold=state == "cold")
        for interface in INTERFACES
        for state in ("cold", "hot")
    ]
    for sample in measure(cells, repeats=2):
        counted = sample["storage"]["process_read_bytes"]
        if counted is None:
            pytest.skip("the kernel does not count what processes read")
        if sample["cache_state"] == "cold":
            assert counted >= sample["bytes"]
        if sample["cache_state"] == "hot":
            assert counted == 0


def test_a_sparse_file_is_not_called_cold(tmp_path: Path) -> None:
    """No page of it is in the cache, and yet the storage gives nothing: holes are zeros."""
    path = tmp_path / "holes"
    with path.open("wb") as file:
        file.truncate(1 << 20)
    (sample,) = measure([cell(path, total_bytes=1 << 20, cold=True)])
    if sample["storage"]["process_read_bytes"] is None:
        pytest.skip("the kernel does not count what processes read")
    assert sample["cache_state"] == "unverified"


def test_the_schema_refuses_rows_without_counters(command: Command) -> None:
    document, _ = measured(command, "bench", "-b", "64k", "-t", "64k", "-i", "1", "file")
    for name in ("storage", "server", "deadline_reached"):
        sample = dict(document["rows"][0]["repeats"][0])
        del sample[name]
        wrong = {**document, "rows": [{**document["rows"][0], "repeats": [sample]}]}
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate(wrong, SCHEMA)


# ---- what people who know IOR type, and what they are shown --------------------------------------


@pytest.mark.parametrize(
    ("flags", "answer"),
    [
        (["-N", "4"], "IOR's -N is not here: --threads says how many threads there are"),
        (["-O", "summaryFormat=JSON"], "IOR's -O is not here: --json FILE writes the results"),
        (["-v"], "IOR's -v is not here: --json FILE has every number"),
        (["-wpv"], "IOR's -p is not here: ferry study interfaces and ferry study writers measure"),
        (["--posix.odirect"], "IOR's --posix.odirect is not here: --direct does that"),
        (["-a", "HDF5"], "mpiexec -n 8 ferry bench -a mpiio measures what it stands on"),
        (["-a", "MPIIO"], "-a mpiio is for MPI ranks, as mpiexec -n 8 ferry bench starts them"),
        (["-c"], "-c is for MPI ranks, as mpiexec -n 8 ferry bench starts them"),
        (["-a", "aio"], "-a uring keeps several calls in flight"),
    ],
)
def test_options_of_ior_are_answered_by_what_takes_their_place(command: Command, flags: list[str], answer: str) -> None:
    command.fails("bench", *flags, "file", says=answer, status=2)


def test_every_letter_of_ior_is_an_option_or_answered() -> None:
    letters = "aAbBcCdDeEfFgGHiIjJkKlmMnNoOpPqQrRsStTuUvVwWxXyYzZ"
    known = {name for option in bench.command.params for name in option.opts}
    assert {f"-{letter}" for letter in letters} <= known | bench._IOR_OPTIONS.keys()
    assert not known & bench._IOR_OPTIONS.keys()


def test_interfaces_may_be_spelt_as_in_ior(command: Command) -> None:
    document, shown = measured(command, "bench", "-a", "POSIX", "-b", "64k", "-t", "64k", "-i", "1", "file")
    assert ", interface posix\n" in shown
    assert document["settings"]["interface"] == "posix"


@pytest.mark.parametrize("interface", ["ferry", "posix", "uring"])
def test_direct_is_shown(command: Command, data: Path, interface: str) -> None:
    flags = ["-r", "-a", interface, "-b", "1m", "-t", "64k", "-i", "1"]
    direct = command.succeeds("bench", *flags, "--direct", data)
    assert f", interface {interface}, direct I/O (O_DIRECT)\n" in direct
    assert "O_DIRECT" not in command.succeeds("bench", *flags, data)


# Up to 64 KiB one call in 64 is timed, so these are 2, 16 and 256 timed calls.
@pytest.mark.parametrize(
    ("block", "transfer", "timed", "shown"),
    [("512k", "4k", 2, [50]), ("2m", "128k", 16, [50, 90]), ("16m", "1k", 256, [50, 90, 99])],
)
def test_percentiles_of_single_calls_are_shown_as_far_as_enough_are_timed(
    command: Command, block: str, transfer: str, timed: int, shown: list[int]
) -> None:
    document, text = measured(command, "bench", "-b", block, "-t", transfer, "-i", "3", "file")
    for row in document["rows"]:
        latencies = [sample["latency_ns"] for sample in row["repeats"]]
        assert [latency["samples"] for latency in latencies] == [timed] * 3
        longest = max(latency["max"] for latency in latencies) * 1e-3
        of_all = sum(sample["operations"] for sample in row["repeats"])
        percentiles = [
            f"{percent} % within {sorted(one[f'p{percent}'] for one in latencies)[1] * 1e-3:.2f} µs, "
            for percent in shown
        ]
        line = (
            f"{row['operation']}: single calls: {''.join(percentiles)}longest {longest:.2f} µs "
            f"({3 * timed} of {of_all} calls timed)"
        )
        assert line in text.splitlines()


@pytest.mark.parametrize("way", [["-a", "posix"], ["-a", "uring", "--queue-depth", "4"], ["--placement", "compute"]])
def test_every_call_is_timed_if_asked_and_its_histogram_is_shown(command: Command, way: list[str]) -> None:
    flags = [*way, "--latency", "--threads", "2", "-b", "1m", "-t", "1k", "-i", "2"]
    document, text = measured(command, "bench", *flags, "file")
    for row in document["rows"]:
        merged = row["latency_ns"]
        assert (merged["samples"], merged["one_call_in"]) == (2 * 2048, 1)
        together: Counter[int] = Counter()
        for sample in row["repeats"]:
            of_repeat = sample["latency_ns"]
            assert sum(calls for _, _, calls in of_repeat["histogram"]) == of_repeat["samples"] == 2048
            for low, _, calls in of_repeat["histogram"]:
                together[low] += calls
        assert together == {low: calls for low, _, calls in merged["histogram"]}
        assert merged["max"] == max(sample["latency_ns"]["max"] for sample in row["repeats"])
        assert merged["p50"] <= merged["p90"] <= merged["p99"] <= merged["p99_9"] <= merged["max"]
        percentiles = [f"{merged[name] * 1e-3:.2f} µs" for name in ("p50", "p90", "p99", "p99_9", "max")]
        line = "50 % within {}, 90 % within {}, 99 % within {}, 99.9 % within {}, longest {} (4096 of 4096 calls timed)"
        assert f"{row['operation']}: single calls: {line.format(*percentiles)}" in text.splitlines()
        assert f"{row['operation']}: latency of single calls (µs, calls, share)" in text.splitlines()


def test_no_histogram_is_kept_unless_asked_for(command: Command) -> None:
    document, text = measured(command, "bench", "-b", "64k", "-t", "4k", "-i", "1", "file")
    assert all("latency_ns" not in row for row in document["rows"])
    assert all("histogram" not in row["repeats"][0]["latency_ns"] for row in document["rows"])
    assert "latency of single calls" not in text
