"""``ferry compare``: two results side by side."""

from __future__ import annotations

import datetime
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema
import msgspec
import pytest
from ferry import output_files
from ferry.sizes import KIB, MIB
from ferry_lab.results import results
from ferry_lab.results.records import Latencies, Row
from ferry_lab.results.schema import make_schema
from ferry_lab.run.measuring import Measurement
from ferry_lab.run.plan import Cell
from made_up import ENVIRONMENT, Json, sample
from support import Command

VALIDATOR = jsonschema.Draft202012Validator(make_schema("comparison"))
FIO = Path(__file__).parents[1] / "importers" / "data" / "fio.json"


def row(time_ns: Callable[[int], float], repeats: int = 20, **changes: Any) -> Row:
    """A row of a bench document whose repeat number n takes time_ns(n), every call a 16th of it."""
    facts = {"interface": "posix", "operation": "read", "transfer_bytes": MIB} | changes
    cell = Cell(id=facts["operation"], path="/f", total_bytes=16 * MIB, **facts)
    samples = []
    for number in range(repeats):
        ns = int(time_ns(number))
        latency = Latencies(ns // 16, ns // 16, ns // 16, ns // 16, 16, 1, p99_9=ns // 16)
        times = {"io_ns": ns, "elapsed_ns": 2 * ns, "sync_ns": ns, "latency_ns": latency}
        samples.append(sample(number, bytes=cell.total_bytes, operations=16, cache_state="hot", **times))
    return results.make_row(cell, "bench", samples)


def write(path: Path, rows: list[Row], settings: Json | None = None, environment: Any = ENVIRONMENT) -> Path:
    """A file with the document of these rows."""
    document = results.make_document(
        *("bench", settings or {}, [Measurement(environment=environment)], rows),
        started=datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC),
    )
    output_files.write_json(str(path), msgspec.to_builtins(document), True)
    return path


def steady(milliseconds: float) -> Callable[[int], float]:
    """Times that scatter by 2 %."""
    return lambda number: milliseconds * 1e6 * (1 + 0.01 * (number * 7 % 5 - 2) / 2)


def noisy(milliseconds: float) -> Callable[[int], float]:
    """Times of which every other one is far off."""
    return lambda number: milliseconds * 1e6 * (1 + (number * number % 7) / 2)


def findings(comparison: Json) -> dict[tuple[str, str], str]:
    return {(one["row"], one["metric"]): one["finding"] for one in comparison["rows"]}


@pytest.mark.parametrize(
    ("a", "b", "finding"),
    [
        (steady(10), steady(5), "faster"),
        (steady(5), steady(10), "slower"),
        (steady(10), steady(10.1), "within_5_percent"),
        (noisy(10), noisy(8), "no_difference"),
    ],
)
def test_a_difference_counts_beyond_noise_alone(
    command: Command, tmp_path: Path, a: Callable[[int], float], b: Callable[[int], float], finding: str
) -> None:
    files = write(tmp_path / "a", [row(a)]), write(tmp_path / "b", [row(b)])
    compared = command.json("compare", *files)
    VALIDATOR.validate(compared)
    assert findings(compared) == {
        ("read", metric): finding
        for metric in (
            *("bandwidth_mib_per_s", "bandwidth_open_to_close_mib_per_s"),
            *("latency_p50_ns", "latency_p90_ns"),  # too few calls for the others
        )
    }
    for one in compared["rows"]:
        assert one["ratio_low_95"] <= one["ratio_median"] <= one["ratio_high_95"]
        assert one["ratio_median"] == pytest.approx(one["b_median"] / one["a_median"])


def test_few_repeats_show_nothing_and_say_so(command: Command, tmp_path: Path) -> None:
    files = write(tmp_path / "a", [row(steady(9))]), write(tmp_path / "b", [row(steady(1), repeats=5)])
    assert set(findings(command.json("compare", *files)).values()) == {"no_difference"}
    shown = command.succeeds("compare", *files)
    assert "too few repeats" in shown
    assert "measure with -i 6" in shown


def test_calls_and_syncs_are_compared_where_they_say_something(command: Command, tmp_path: Path) -> None:
    a = row(steady(10), operation="write", sync="fsync")
    b = row(steady(10), operation="write", sync="fsync", transfer_bytes=64 * KIB)
    compared = findings(command.json("compare", write(tmp_path / "a", [a]), write(tmp_path / "b", [b])))
    assert compared.keys() >= {("write", "bandwidth_with_sync_mib_per_s"), ("write", "operations_per_s")}


@pytest.mark.parametrize("tool", ["fio", "ior"])
def test_what_another_tool_has_measured(command: Command, tmp_path: Path, tool: str) -> None:
    """Their fsync is not timed apart."""
    imported = tmp_path / "imported"
    command.succeeds("import", FIO.with_name(f"{tool}.json"), "--json", imported)
    synced = {one["id"] for one in json.loads(imported.read_text())["rows"] if one["sync"] == "fsync"}
    compared = findings(command.json("compare", imported, imported))
    assert synced & {name for name, _ in compared}
    assert "bandwidth_with_sync_mib_per_s" not in {metric for _, metric in compared}


def test_what_else_differs_is_listed(command: Command, tmp_path: Path) -> None:
    parsed = msgspec.to_builtins(ENVIRONMENT)
    parsed["machine"]["kernel"] = "Linux 6.2"
    parsed["versions"]["compiler"] = "14"
    parsed["file_systems"][0]["free_bytes"] = 7  # changes by itself
    other = msgspec.convert(parsed, type(ENVIRONMENT))
    a = write(tmp_path / "a", [row(steady(1))], {"threads": 1, "direct": False})
    b = write(
        tmp_path / "b", [row(steady(1)), row(steady(1), operation="write")], {"threads": 2, "direct": True}, other
    )
    compared = command.json("compare", a, b)
    assert {one["what"]: (one["a"], one["b"]) for one in compared["differences"]} == {
        "machine.kernel": ("Linux 6.1", "Linux 6.2"),
        "versions.compiler": ("12.2.0", "14"),
        "settings.threads": (1, 2),
        "settings.direct": (False, True),
    }
    assert (compared["only_in_a"], compared["only_in_b"]) == ([], ["write"])
    shown = command.succeeds("compare", a, b).split()
    assert {"machine.kernel", "versions.compiler", "settings.threads", "settings.direct"} <= set(shown)


def test_settings_of_a_job_that_one_has_alone_are_no_difference(command: Command, tmp_path: Path) -> None:
    reader, writer = row(steady(1)), row(steady(1), operation="write")
    of_a = {"read": {"queue_depth": 1}}
    of_b = {"read": {"queue_depth": 2}, "write": {"queue_depth": 1}}
    a = write(tmp_path / "a", [reader], {"jobs": of_a})
    b = write(tmp_path / "b", [reader, writer], {"jobs": of_b})
    compared = command.json("compare", a, b)
    assert [one["what"] for one in compared["differences"]] == ["settings.jobs.read.queue_depth"]
    assert compared["only_in_b"] == ["write"]


def test_tables_for_pages_and_papers(command: Command, tmp_path: Path) -> None:
    a = write(tmp_path / "a", [row(steady(10))], {"what": "50 % of a|b_c"})
    b = write(tmp_path / "b", [row(steady(5))])
    markdown = command.succeeds("compare", "--format", "markdown", a, b).splitlines()
    assert "| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: |" in markdown
    assert "| settings.what | 50 % of a\\|b_c | - |" in markdown
    assert any(line.startswith("| read | MiB/s, transfers | 1600.00 | 3200.00 | 2.000 |") for line in markdown)
    latex = command.succeeds("compare", "--format", "latex", a, b).splitlines()
    assert r"settings.what & 50 \% of a|b\_c & - \\" in latex
    assert latex.count(r"\begin{tabular}{llrrrrrr}") == latex.count(r"\begin{tabular}{lll}") == 1
    assert any(line.startswith(r"read & \textmu{}s, 50 \% & 625.00 & 312.50 & 0.500 &") for line in latex)


def test_files_that_cannot_be_compared(command: Command, tmp_path: Path) -> None:
    good = write(tmp_path / "a", [row(steady(1))])
    command.fails("compare", good, FIO, says="holds no results of ferry; ferry import --json makes some")
    other = write(tmp_path / "b", [row(steady(1), operation="write")])
    command.fails("compare", good, other, says="have no row in common; measure both with the same")
    document = json.loads(good.read_text())
    document["schema"] = "ferry.results/2"
    (tmp_path / "old").write_text(json.dumps(document))
    command.fails("compare", good, tmp_path / "old", says="old is ferry.results/2, and this is about ferry.results/3")
    document["schema"] = "ferry.comparison/1"
    (tmp_path / "other").write_text(json.dumps(document))
    command.fails("compare", good, tmp_path / "other", says="about ferry.results/3; name what ferry bench or")
    document["schema"] = "ferry.results/3"
    document["rows"][0]["repeats"][3]["bytes"] = 0
    (tmp_path / "empty").write_text(json.dumps(document))
    command.fails("compare", good, tmp_path / "empty", says="empty has a repeat that moved nothing")
    (tmp_path / "deep").write_text('{"rows":' + "[" * 10**5 + "]" * 10**5 + "}")
    command.fails("compare", good, tmp_path / "deep", says="deep is no JSON")
    document["rows"] *= 2
    (tmp_path / "twice").write_text(json.dumps(document))
    command.fails("compare", good, tmp_path / "twice", says="several rows of one id")
    del document["rows"]
    (tmp_path / "cut").write_text(json.dumps(document))
    command.fails("compare", good, tmp_path / "cut", says="cut is not as it should be")


def test_what_bench_has_measured(command: Command, scratch: Path) -> None:
    for name, flags in (("a", ["-a", "posix"]), ("b", ["-a", "mmap"])):
        command.succeeds("bench", *flags, "-b", "64k", "-t", "4k", "-i", "6", "--latency", "--json", name, "file")
    shown = command.succeeds("compare", "a", "b", "--json", "c")
    assert shown.startswith("A: a, ")
    compared = json.loads((scratch / "c").read_text())
    VALIDATOR.validate(compared)
    assert {"what": "settings.interface", "a": "posix", "b": "mmap"} in compared["differences"]


def test_what_metadata_has_measured(command: Command, tmp_path: Path) -> None:
    command.succeeds("metadata", "-n", "20", "-i", "6", "-a", "posix", tmp_path, "--json", tmp_path / "a")
    faster = json.loads((tmp_path / "a").read_text())
    faster["settings"]["interface"] = "ferry"
    for number, one in enumerate(faster["repeats"]):
        one["elapsed_ns"] = 1000 + number
    (tmp_path / "b").write_text(json.dumps(faster))
    compared = command.json("compare", tmp_path / "a", tmp_path / "b")
    VALIDATOR.validate(compared)
    phases = ("create", "stat", "read", "remove")
    assert {key for key in findings(compared) if key[1] == "files_per_s"} == {
        (phase, "files_per_s") for phase in phases
    }
    for one in compared["rows"]:
        is_rate = one["metric"] == "files_per_s"
        assert one["ratio_median"] > 1 if is_rate else one["ratio_median"] == 1
        assert one["b_median"] == pytest.approx(20 / 1e-6, rel=0.05) or not is_rate
    assert [one["what"] for one in compared["differences"]] == ["settings.interface"]
    shown = command.succeeds("compare", tmp_path / "a", tmp_path / "b")
    assert "files/s" in shown
    assert "\u00b5s, 50 %" in shown


def test_metadata_and_bench_have_nothing_in_common(command: Command, tmp_path: Path) -> None:
    command.succeeds("metadata", "-n", "2", "-i", "1", "-a", "posix", tmp_path, "--json", tmp_path / "a")
    bench = write(tmp_path / "b", [row(steady(1))])  # a row "read", too
    command.fails("compare", tmp_path / "a", bench, says="have no row in common")
    cut = json.loads((tmp_path / "a").read_text())
    del cut["repeats"]
    (tmp_path / "cut").write_text(json.dumps(cut))
    command.fails("compare", tmp_path / "a", tmp_path / "cut", says="cut is not as it should be")
