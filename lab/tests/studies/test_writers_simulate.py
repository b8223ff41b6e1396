"""The model of many writers: what can be computed by hand, and the command around it."""

from __future__ import annotations

import dataclasses
import json
import re
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from ferry.errors import FerryError
from ferry_lab.results.schema import make_schema
from ferry_lab.studies import cluster_model
from ferry_lab.studies.cluster_model import BUILT_IN_FILE, Cluster, built_in_cluster, read_cluster
from ferry_lab.studies.discrete_events import SimulatedClock, CrowdedStation, Station
from ferry_lab.studies.writers_model import calibrate, points
from ferry_lab.studies.writers_simulation import Gather, Operation, SimulatedTransfer, simulate
from support import Command

MB = 10**6
SCHEMA = make_schema("simulation")
_FAST = 1e12
# Everything but what a test slows down takes next to no time.
IDEAL = Cluster(
    name="ideal",
    client=cluster_model.Client(1, _FAST, 8, _FAST),
    network=cluster_model.Network(_FAST, 0),
    servers=cluster_model.Servers(4, _FAST, _FAST, MB, 0),
    metadata=cluster_model.Metadata(0, 0, 1e9, 1e9),
    job=cluster_model.Job(16, 10 * MB, "per-writer", MB, 1),
)
# The built-in cluster in small, for a run of the command that takes no time.
SMALL = BUILT_IN_FILE.read_text().replace("= 8640 ", "= 64 ").replace("= 96 ", "= 8 ")


def changed(cluster: Cluster, **parts: dict[str, Any]) -> Cluster:
    """Returns the cluster with other values in some sections."""
    replaced = {name: dataclasses.replace(getattr(cluster, name), **values) for name, values in parts.items()}
    return dataclasses.replace(cluster, **replaced)


def time_s(cluster: Cluster, operation: Operation, writers: int, gather: Gather) -> float:
    return simulate(cluster, SimulatedTransfer(operation, writers, gather)).time_s


# ---- clock and stations --------------------------------------------------------------------------


def test_events_of_one_time_happen_in_the_order_asked_for() -> None:
    clock, seen = SimulatedClock(), []
    for name in "abc":
        clock.at(1.0, lambda name=name: seen.append((clock.now_s, name)))
    clock.at(0.5, lambda: seen.append((clock.now_s, "first")))
    clock.run()
    assert seen == [(0.5, "first"), (1.0, "a"), (1.0, "b"), (1.0, "c")]


def test_a_station_serves_one_after_the_other() -> None:
    clock, ends = SimulatedClock(), []
    station = Station(clock)
    for service_s in (2.0, 3.0):
        station.serve(service_s, lambda: ends.append(clock.now_s), 0.5)
    clock.at(10.0, lambda: station.serve(1.0, lambda: ends.append(clock.now_s)))
    clock.run()
    assert ends == [2.5, 5.5, 11.0]
    assert station.busy_s == 6.0


def test_a_crowded_station_gets_slower() -> None:
    clock, ends = SimulatedClock(), []
    station = CrowdedStation(clock, 2)
    for _ in range(3):
        station.serve(1.0, lambda: ends.append(clock.now_s))
    clock.run()
    # With two, one and none behind: twice, one and a half times, once.
    assert ends == [2.0, 3.5, 4.5]


# ---- limits that can be computed by hand ---------------------------------------------------------


@pytest.mark.parametrize("operation", ["write", "read"])
@pytest.mark.parametrize("gather", ["aggregate", "serial"])
def test_one_limit_at_a_time(operation: Operation, gather: Gather) -> None:
    total_mb = 160
    link = changed(IDEAL, client={"link_mb_per_s": 20})
    assert time_s(link, operation, 1, gather) == pytest.approx(total_mb / 20)
    assert time_s(link, operation, 4, gather) == pytest.approx(total_mb / 4 / 20)
    network = changed(IDEAL, network={"total_mb_per_s": 20})
    assert time_s(network, operation, 8, gather) == pytest.approx(total_mb / 20)
    servers = changed(IDEAL, servers={"write_mb_per_s": 10, "read_mb_per_s": 10})
    assert time_s(servers, operation, 4, gather) == pytest.approx(total_mb / 4 / 10)
    # Four writers whose data comes to them through a link of 5 MB/s: three ranks each.
    exchange = changed(IDEAL, client={"exchange_mb_per_s": 5})
    assert time_s(exchange, operation, 4, gather) == pytest.approx(3 * 10 / 5)


NODES_OF = {ranks: {"client": {"link_mb_per_s": 20, "ranks_per_node": ranks}} for ranks in (8, 16)}
SLOW = {"write_mb_per_s": 10}
SEEK = {"servers": {"switch_ms": 10, "count": 1}, "job": {"ranks": 2}}
OPENS = {"create_ms": 10, "open_ms": 1}
# What is slowed down, the operation, by how many writers, and the seconds that it takes.
LIMITS = {
    "ranks of a node share its link": (NODES_OF[16], "write", 16, 160 / 20),
    "writers are spread over the nodes": (NODES_OF[8], "write", 2, 160 / 2 / 20),
    "six files on four servers wait for two of them": ({"servers": SLOW, "job": {"ranks": 6}}, "write", 6, 2 * 10 / 10),
    "one file lies on one server": ({"servers": SLOW}, "write", 1, 160 / 10),
    # Eight requests in flight go to all four, ten times the data of one.
    "stripes make it use all": ({"servers": SLOW, "job": {"stripe_count": 4, "file": "shared"}}, "write", 1, 160 / 40),
    # 160 requests, two at a time.
    "latency": ({"network": {"latency_ms": 100}, "client": {"requests_in_flight": 2}}, "write", 1, 80 * 0.1),
    "one stream switches once": (SEEK, "write", 1, 0.01),
    "all files are created": ({"metadata": OPENS}, "write", 16, 0.160),
    "all files are opened": ({"metadata": OPENS}, "read", 16, 0.016),
    "a shared file is created once": ({"metadata": OPENS, "job": {"file": "shared"}}, "write", 16, 0.010 + 15 * 0.001),
    # 16 of 10 ms and, while n wait, n / 5 times as much again: 15 + 14 + ... + 1 = 120.
    "opens wait": ({"metadata": {**OPENS, "create_backlog": 5}}, "write", 16, 0.16 + 0.010 * 120 / 5),
}


@pytest.mark.parametrize(("slower", "operation", "writers", "expected_s"), LIMITS.values(), ids=LIMITS)
def test_limits(slower: dict[str, Any], operation: Operation, writers: int, expected_s: float) -> None:
    assert time_s(changed(IDEAL, **slower), operation, writers, "aggregate") == pytest.approx(expected_s)


def test_two_streams_switch_in_turn() -> None:
    seek = changed(IDEAL, **SEEK)
    # At every one of 20 requests.
    assert time_s(seek, "write", 2, "aggregate") == pytest.approx(20 * 0.01, rel=0.5)


def test_serial_gathering_does_not_overlap() -> None:
    both = changed(IDEAL, client={"exchange_mb_per_s": 10}, servers={"write_mb_per_s": 10, "count": 1})
    # 160 MB written at 10 MB/s, 150 of it sent at 10 MB/s.
    assert time_s(both, "write", 1, "serial") == pytest.approx(16 + 15)
    assert 16 <= time_s(both, "write", 1, "aggregate") < 17.1


# ---- the whole -----------------------------------------------------------------------------------


@pytest.mark.parametrize("operation", ["write", "read"])
@pytest.mark.parametrize("gather", ["aggregate", "serial"])
@pytest.mark.parametrize("file", ["per-writer", "shared"])
def test_all_bytes_arrive_and_twice_the_same(operation: Operation, gather: Gather, file: str) -> None:
    cluster = changed(
        built_in_cluster(),
        job={"ranks": 37, "bytes_per_rank": 1_234_567, "file": file, "stripe_bytes": 300_000, "stripe_count": 5},
    )
    for writers in (1, 2, 7, 36, 37):
        transfer = SimulatedTransfer(operation, writers, gather)
        once, again = (simulate(cluster, transfer) for _ in range(2))
        assert once == again
        assert once.bytes_moved == 37 * 1_234_567
        assert 0 < once.servers_busy_share <= 1


def test_many_requests_are_joined() -> None:
    huge = changed(IDEAL, job={"ranks": 2, "bytes_per_rank": 10**12})
    outcome = simulate(huge, SimulatedTransfer("write", 2))
    assert outcome.bytes_moved == 2 * 10**12
    assert outcome.requests <= 100_001
    assert outcome.request_bytes == 20 * MB


@pytest.mark.parametrize("writers", [0, 17])
def test_no_writers_or_more_than_ranks(writers: int) -> None:
    with pytest.raises(ValueError, match="of 16 ranks"):
        simulate(IDEAL, SimulatedTransfer("write", writers))


def test_calibration_gives_the_built_in_parameters() -> None:
    built_in = built_in_cluster()
    off = changed(
        built_in,
        servers={"write_mb_per_s": 60, "read_mb_per_s": 200},
        metadata={"create_backlog": 300, "open_backlog": 2000},
    )
    found = calibrate(off)
    for section in ("servers", "metadata"):
        ours, there = (dataclasses.asdict(getattr(cluster, section)) for cluster in (found, built_in))
        assert ours == pytest.approx(there, rel=0.01)


def test_calibrated_are_the_5_mb_rows_and_no_others() -> None:
    held = points(built_in_cluster())
    assert {p.where for p in held if p.calibrated} == {"XT3, 5 MB, all ranks", "XT3, 5 MB, a subset (aggregate)"}
    assert len([p for p in held if p.calibrated]) == 4
    assert len(held) == 18


def test_the_shape_of_the_paper() -> None:
    """Few are limited by their links, a subset is best, everybody at once is slow."""
    xt3 = built_in_cluster()
    rates = {
        writers: simulate(xt3, SimulatedTransfer("write", writers)).bandwidth_mb_per_s for writers in (1, 96, 960, 8640)
    }
    assert rates[1] <= xt3.client.link_mb_per_s
    assert rates[96] > 50 * rates[1]
    assert rates[960] > 5 * rates[8640]


# ---- the file ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("[client]", "[client", "is no TOML"),
        ('name = "Cray XT3 of Fahey (2007)"', "", "name is missing"),
        ("[network]", "[other]", "other is no key of a cluster"),
        ("count = 96 ", "count = 9.5 ", "servers.count is 9.5 and must be a whole number"),
        ("count = 96 ", "count = true ", "servers.count is True and must be a whole number"),
        ("count = 96 ", "", "servers.count is missing"),
        ("count = 96 ", "count = 96\nspeed = 1 ", "servers.speed is no key of a cluster"),
        ("link_mb_per_s = 200", "link_mb_per_s = 0", "link_mb_per_s is 0 and must be more than 0"),
        ("latency_ms = 0.1", "latency_ms = -1", "latency_ms is -1 and must be 0 or more than 0"),
        ("latency_ms = 0.1", "latency_ms = nan", "must be 0 or more than 0"),
        ('file = "per-writer"', 'file = "one"', "may be 'per-writer' or 'shared'"),
        ("stripe_count = 1 ", "stripe_count = 97 ", "there are 96 servers"),
        ("ranks = 8640", "ranks = 100001", "may be 100000 at most"),
    ],
)
def test_a_bad_file_is_one_line(tmp_path: Path, old: str, new: str, message: str) -> None:
    path = tmp_path / "cluster.toml"
    text = BUILT_IN_FILE.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))
    with pytest.raises(FerryError, match=re.escape(message)) as caught:
        read_cluster(path)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


# ---- the command ---------------------------------------------------------------------------------


def test_the_command(command: Command, tmp_path: Path) -> None:
    cluster = tmp_path / "small.toml"
    cluster.write_text(SMALL)
    out = tmp_path / "out"
    arguments = ["study", "writers", "--simulate", "--quick", "--cluster", cluster]
    done = command.run(*arguments, "--out", out)
    assert (done.returncode, done.stderr) == (0, "")
    assert "Best numbers of writers: " in done.stdout
    assert "XT4, 8 MB, all ranks" in done.stdout
    document = json.loads((out / "results.json").read_text())
    jsonschema.validate(document, SCHEMA)
    page = (out / "report.html").read_text()
    assert "How many ranks should write" in page
    assert "nothing was measured" in page
    assert sorted(path.name for path in (out / "plots").iterdir()) == [
        f"{name}.{ending}" for name in ("paper", "ranks", "writers") for ending in ("pdf", "png", "svg")
    ]
    lines = (out / "results.csv").read_text().splitlines()
    assert len(lines) == 1 + len(document["rows"]) + len(document["paper"])
    again = command.run(*arguments, "--out", out)
    assert again.returncode == 1
    assert "--overwrite replaces it" in again.stderr
    # The same file gives the same numbers.
    replaced = command.run(*arguments, "--out", out, "--overwrite", "--json", "-")
    assert replaced.returncode == 0
    printed = json.loads(replaced.stdout)
    for key in ("rows", "paper", "best", "settings", "conclusions", "notes"):
        assert printed[key] == document[key]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["placements", "--storage", "ceph:/"], "--storage is not for the study placements"),
        (["writers", "--storage", "/tmp"], "/tmp is no URI"),
        (["writers", "--simulate", "--storage", "ceph:/"], "--storage is for measuring"),
        (["placements", "--simulate"], "are for the study writers"),
        (["writers", "--cluster", "c.toml"], "add --simulate"),
        (["writers", "--simulate", "--repeats", "3"], "--repeats is for measuring"),
        (["writers", "--simulate", "--dir", "."], "--dir is for measuring"),
    ],
)
def test_wrong_arguments(command: Command, arguments: list[str], message: str) -> None:
    done = command.run("study", *arguments)
    assert done.returncode == 2
    assert message in done.stderr
    assert done.stderr.count("\n") == 1


def test_a_cluster_that_is_not_there(command: Command) -> None:
    done = command.run("study", "writers", "--simulate", "--cluster", "nowhere.toml")
    assert done.returncode == 1
    assert done.stderr == "ferry: nowhere.toml: No such file or directory; name a cluster's file\n"
