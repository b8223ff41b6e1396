"""``ferry-bench-mpi``: measurements, counters, refusals, and leftovers."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from ferry.sizes import KIB, MIB
from ferry_lab.results.records import TransferCounts
from ferry_lab.run import measuring, remote_files
from ferry_lab.run.measuring import Measurement
from ferry_lab.run.measuring import run_plan as measure
from ferry_lab.run.plan import Plan, RanksCell
from ferry_lab.run.unfinished import fingerprint
from mpi import cell, needs_mpi, run_plan, samples_of
from processes import wait_until
from support import TIMEOUT_S, Command

pytestmark = needs_mpi

WAYS = {
    "posix": {"interface": "posix"},
    "mpiio": {"interface": "mpiio"},
    "mpiio-all": {"interface": "mpiio", "collective": True},
    "native": {"interface": "native"},
    "automatic": {},
    "aggregate": {"method": "aggregate", "writers": 2},
    "serial": {"method": "serial", "writers": 2},
    "independent": {"method": "independent"},
    "library": {"method": "mpiio"},
    "own": {"method": "aggregate", "writers": 2, "file_per_writer": True},
    "swapped": {"byte_order": "big", "element_bytes": 4},
}


def test_every_interface_writes_and_reads_the_same_bytes(tmp_path: Path) -> None:
    """Verifies everything itself: writes in the file, reads in memory."""
    cells = [
        cell(
            tmp_path / f"{operation} {name}",
            id=f"{operation} {pattern} {name}",
            operation=operation,
            pattern=pattern,
            sync=sync,
            **{"total_bytes": 256 * KIB, **way},
        )
        for operation, sync in (("write", "fsync"), ("read", "none"))
        for pattern in ("blocks", "interleaved")
        for name, way in WAYS.items()
    ]
    samples = samples_of({"repeats": 2, "cells": cells}, 3)
    assert set(samples) == {one["id"] for one in cells}
    for name, repeats in samples.items():
        assert [one["repeat"] for one in repeats] == [0, 1], name
        assert all(one["bytes"] == 256 * KIB and one["verified"] for one in repeats)
        assert all((one["sync_ns"] > 0) == name.startswith("write") for one in repeats)
        for one in repeats:
            parts = ("open_ns", "io_ns", "sync_ns", "close_ns")
            assert one["elapsed_ns"] == sum(one[part] for part in parts)
    assert list(tmp_path.iterdir()) == []


def test_counts_what_it_moves(tmp_path: Path) -> None:
    shared = {"ranks": 4, "total_bytes": 4 * MIB, "transfer_bytes": MIB}
    samples = samples_of(
        {
            "cells": [
                cell(tmp_path / "f", id="posix", interface="posix", **shared),
                cell(tmp_path / "f", id="mpiio", interface="mpiio", **shared),
                cell(tmp_path / "f", id="one", method="aggregate", writers=1, **shared),
                cell(tmp_path / "f", id="turns", method="serial", writers=1, **shared),
            ]
        },
        4,
    )
    posix, mpiio, one, turns = (samples[name][0] for name in ("posix", "mpiio", "one", "turns"))
    wanted = {"storage_requests": 4, "storage_bytes": 4 * MIB, "storage_opens": 4}
    assert posix["counts"] == {**dict.fromkeys(TransferCounts.__struct_fields__, 0), **wanted}
    assert posix["ranks_usage"]["write_calls"] == 4
    assert (mpiio["counts"], mpiio["time_split"]) == (None, None)
    assert mpiio["ranks_usage"]["write_calls"] >= 4
    assert (one["writers"], one["method"]) == (1, "aggregate")
    assert one["counts"].keys() == posix["counts"].keys()
    assert one["stripes"]["reason"] == "the storage tells no stripes" and posix["stripes"] is None
    assert one["counts"]["shared_bytes"] + one["counts"]["message_bytes"] == 3 * MIB
    assert turns["counts"]["message_bytes"] + turns["counts"]["shared_bytes"] == 3 * MIB
    assert one["time_split"]["maximum"]["file_io_ns"] >= one["time_split"]["mean"]["file_io_ns"] > 0
    cpus = len(os.sched_getaffinity(0))
    assert posix["oversubscribed"] == (cpus < 4)
    machine = posix["machine_usage"]
    ranks = posix["ranks_usage"]
    switches = ranks["voluntary_switches"] + ranks["involuntary_switches"]
    assert machine["context_switches"] >= switches > 0


def test_counts_what_crosses_between_nodes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FERRY_RANKS_PER_NODE", "2")
    shared = {"ranks": 4, "total_bytes": 4 * MIB, "transfer_bytes": MIB, "method": "aggregate"}
    counts = samples_of({"cells": [cell(tmp_path / "f", writers=1, **shared)]}, 4)["a"][0]["counts"]
    assert counts["remote_bytes"] >= 2 * MIB and counts["remote_messages"] > 0
    assert counts["remote_bytes"] <= counts["message_bytes"]


def test_a_file_for_each_group_is_the_librarys(tmp_path: Path) -> None:
    """All ranks call it together; counters are those of all files."""
    shared = {"ranks": 5, "total_bytes": 5 * MIB, "transfer_bytes": MIB, "method": "aggregate"}
    own = cell(tmp_path / "f", writers=2, file_per_writer=True, **shared)
    sample = samples_of({"cells": [own]}, 5)["a"][0]
    assert sample["writers"] == 2
    assert sample["counts"]["storage_bytes"] == 5 * MIB
    assert sample["counts"]["storage_opens"] == 2
    assert list(tmp_path.iterdir()) == []


def test_cold_reads_are_proven(tmp_path: Path) -> None:
    read = {"operation": "read", "ranks": 2, "total_bytes": MIB}
    cells = [cell(tmp_path / "f", id="hot", **read), cell(tmp_path / "f", id="cold", cold=True, **read)]
    samples = samples_of({"repeats": 2, "cells": cells}, 2)
    assert {one["cache_state"] for one in samples["hot"]} == {"hot"}
    # Without a cache to drop, the file system reports that.
    assert {one["cache_state"] for one in samples["cold"]} <= {"cold", "unverified"}


@pytest.mark.parametrize(
    "fields",
    [{}, {"operation": "read"}, {"operation": "read", "stripe_count": 2}, {"stripe_count": 2}],
    ids=lambda fields: "-".join(map(str, fields.values())) or "write",
)
def test_files_that_are_there_stay(tmp_path: Path, fields: dict[str, object]) -> None:
    (tmp_path / "f").write_text("mine")
    status, lines = run_plan({"cells": [cell(tmp_path / "f", **fields)]}, 2)
    assert status == 1
    assert (lines[-1]["type"], lines[-1]["cell"], lines[-1]["errno"]) == ("error", "a", 17)
    assert (tmp_path / "f").read_text() == "mine"


@pytest.mark.parametrize("interface", ["posix", "mpiio", "ferry", "native"])
def test_an_error_of_one_rank_ends_all(tmp_path: Path, interface: str) -> None:
    """A limit of file sizes acts like a full disk. The MPI library's own files are smaller."""
    big = {"transfer_bytes": MIB, "total_bytes": 96 * MIB, "ranks": 2, "interface": interface}
    limited = ["prlimit", f"--fsize={64 * MIB}", *measuring.mpiexec(), "-n", "3"]
    plan = Plan([RanksCell(**cell(tmp_path / "f", **big))], 1)
    command = measuring.command_of(plan)
    done = subprocess.run(
        [*limited, *command[command.index("-n") + 2 :]],
        input=json.dumps(plan.to_json()),
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
    )
    assert done.returncode == 1
    # EFBIG; MPI-IO has no class for it.
    assert f'"errno":{5 if interface == "mpiio" else 27}' in done.stdout, done.stdout
    assert list(tmp_path.iterdir()) == []


def test_what_is_wrong_with_a_plan_is_said_once(tmp_path: Path) -> None:
    status, lines = run_plan({"cells": [cell(tmp_path / "f", ranks=4)]}, 2)
    assert status == 2
    (line,) = lines
    assert line["message"].startswith("cells[0].total_bytes: must be a multiple") or (
        line["message"] == "needs 4 ranks and has 2"
    )


@contextmanager
def started(plan: Plan) -> Iterator[subprocess.Popen[str]]:
    """A running measurement, killed at the end if it is still running."""
    process = subprocess.Popen(
        measuring.command_of(plan), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=True
    )
    try:
        assert process.stdin is not None
        process.stdin.write(json.dumps(plan.to_json()))
        process.stdin.close()
        process.stdin = None  # or communicate() would flush it
        yield process
    finally:
        process.kill()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_interrupted(tmp_path: Path, number: signal.Signals) -> None:
    cells = [RanksCell(**cell(tmp_path / "w")), RanksCell(**cell(tmp_path / "r", id="b", operation="read"))]
    plan = Plan(cells, 100_000)
    with started(plan) as process:
        assert process.stdout is not None
        while '"type":"sample"' not in process.stdout.readline():
            assert process.poll() is None
        process.send_signal(number)
        output, _ = process.communicate(timeout=TIMEOUT_S)
    # The exit status is mpiexec's, which is sometimes 0.
    assert '"errno":4,"message":"interrupted"' in output
    wait_until(lambda: not list(tmp_path.iterdir()))


@pytest.mark.parametrize("way", [{"interface": "mpiio", "collective": True}, {"interface": "posix"}], ids=str)
def test_interrupted_while_calls_at_a_rate_are_not_due(tmp_path: Path, way: dict[str, Any]) -> None:
    """Their second one is due after 18 hours."""
    path = tmp_path / "f"
    plan = Plan([RanksCell(**cell(path, total_bytes=256 * KIB, streams=True, rate_bytes_per_s=1, **way))], 1)
    with started(plan) as process:
        wait_until(lambda: path.exists() and path.stat().st_size > 0)
        process.send_signal(signal.SIGINT)
        output, _ = process.communicate(timeout=TIMEOUT_S)
    assert '"errno":4,"message":"interrupted"' in output
    wait_until(lambda: not list(tmp_path.iterdir()))


def test_one_interrupted_rank_ends_all_whose_calls_are_collective(tmp_path: Path) -> None:
    way: dict[str, Any] = {"interface": "mpiio", "collective": True, "streams": True, "rate_bytes_per_s": 1}
    path = tmp_path / "f"
    with started(Plan([RanksCell(**cell(path, total_bytes=256 * KIB, **way))], 1)) as process:
        wait_until(lambda: path.exists() and path.stat().st_size > 0 and len(_users_of(path)) == 2)
        os.kill(min(_users_of(path)), signal.SIGINT)
        output, _ = process.communicate(timeout=TIMEOUT_S)
    assert '"errno":4,"message":"interrupted"' in output
    wait_until(lambda: not list(tmp_path.iterdir()))


def _users_of(path: Path) -> set[int]:
    """The processes that have the file open."""
    found = set()
    for opened in Path("/proc").glob("[0-9]*/fd/*"):
        with contextlib.suppress(OSError):
            if os.readlink(opened) == str(path):
                found.add(int(opened.parts[2]))
    return found


def test_is_measured_like_any_plan(tmp_path: Path) -> None:
    plan = Plan([RanksCell(**cell(tmp_path / "f"))], 2)
    seen: list[str] = []
    measurement = measure(plan, seen.append, Measurement())
    assert seen == ["a", "a"]
    assert [sample.repeat for sample in measurement.samples["a"]] == [0, 1]
    assert "mpi" in measurement.environment.versions
    assert measurement.environment.file_systems


@pytest.mark.parametrize("folders", [("/tmp/ferry-a/", "/tmp/ferry-b/"), ("ceph:/a.", "ceph:/b.")])
def test_what_a_scratch_place_is_called_is_no_difference(folders: tuple[str, str]) -> None:
    """Lets an interrupted study continue."""
    marks = []
    for beginning in folders:
        place = remote_files.Place("", beginning, query="?conf=/c" if "ceph" in beginning else "")
        one = RanksCell("a", "ferry", "write", place.path("f"), 2, 64 * KIB, 128 * KIB)
        scratch = [place.beginning.rstrip("/")]
        marks.append(fingerprint("writers", {"g": Plan([one], 2)}, scratch))
    assert marks[0] == marks[1]
    assert marks[0]["the machine"] is not None


def test_removes_files_of_its_own(tmp_path: Path) -> None:
    (tmp_path / "f").write_text("scratch")
    measuring.remove([str(tmp_path / "f"), str(tmp_path / "none")])
    assert list(tmp_path.iterdir()) == []


def test_without_an_mpi_build_the_study_says_what_is_missing(
    command: Command, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setitem(command.environment, "FERRY_BUILD_DIR", str(tmp_path))
    monkeypatch.setitem(command.environment, "PATH", str(tmp_path))  # no mpicxx
    message = command.fails("study", "writers", "--quick", says="ferry-bench-mpi is not in")
    assert "libmpich-dev" in message
