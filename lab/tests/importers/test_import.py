"""Results of IOR and fio, converted to ferry's schema."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from documents import measured
from ferry import output_files
from ferry.sizes import KIB, MIB
from ferry_lab.results import results
from ferry_lab.run.measuring import Measurement
from ferry_lab.run.plan import RanksCell
from made_up import ENVIRONMENT
from mpi import made_up_rows
from support import Command

DATA = Path(__file__).resolve().parent / "data"
IOR, FIO = DATA / "ior.json", DATA / "fio.json"
Json = dict[str, Any]


def imported(command: Command, *files: Path) -> Json:
    """The document of an import that must succeed."""
    return measured(command, "import", *files, "--overwrite")[0]


def changed(tmp_path: Path, source: Path, change: Callable[[Json], object]) -> Path:
    """A changed copy of the file."""
    document = json.loads(source.read_text())
    change(document)
    path = tmp_path / "changed.json"
    path.write_text(json.dumps(document))
    return path


def test_ior(command: Command) -> None:
    document = imported(command, IOR)
    assert (document["kind"], document["environment"]["machine"]) == ("import", None)
    write, read = document["rows"]
    assert (write["operation"], read["operation"]) == ("write", "read")
    for row in (write, read):
        assert row["interface"] == "posix"
        assert (row["transfer_bytes"], row["total_bytes"]) == (64 * KIB, 16 * MIB)
        assert (row["threads"], row["queue_depth"], row["segments"]) == (1, 1, 1)
        assert not row["verified"]
        assert row["source"]["tool"] == "ior"
        assert [sample["operations"] for sample in row["repeats"]] == [256, 256]
    assert (write["sync"], write["cache_state"]) == ("fsync", None)
    assert (read["sync"], read["cache_state"]) == ("none", "unverified")
    # From the rates, which are more precise than the times.
    times = [sample["elapsed_ns"] for sample in read["repeats"]]
    assert times == [round(16 / 7213.6799 * 1e9), round(16 / 7948.4619 * 1e9)]
    assert read["metrics"]["operations_per_s"]["maximum"] == pytest.approx(127872.0762)


def test_ior_that_a_deadline_ended(command: Command, tmp_path: Path) -> None:
    def shorten(document: Json) -> None:
        # A quarter of the file in 4 ms
        result = document["tests"][0]["Results"][1]
        result.update(bwMiB=1000.0, iops=16000.0, totalTime=0.004, wrRdTime=0.004)

    _, read = imported(command, changed(tmp_path, IOR, shorten))["rows"]
    first, second = read["repeats"]
    assert (first["bytes"], first["operations"]) == (4 * MIB, 64)
    assert (second["bytes"], second["operations"]) == (16 * MIB, 256)


def test_ior_with_tasks_files_and_checks(command: Command, tmp_path: Path) -> None:
    def change(document: Json) -> None:
        document["Command line"] += " --posix.odirect"
        (test,) = document["tests"]
        test["Parameters"].update(filePerProc=1, randomOffset=1, checkRead=1, api="MPIIO")
        test["Parameters"].update(segmentCount=2, blockSize=2 * MIB)
        test["Options"]["tasks"] = 4

    write, read = imported(command, changed(tmp_path, IOR, change))["rows"]
    for row in (write, read):
        assert (row["threads"], row["segments"], row["total_bytes"]) == (4, 2, 16 * MIB)
        assert (row["file_per_thread"], row["direct"], row["pattern"]) == (True, True, "random")
        assert row["interface"] == "MPIIO"
    assert (write["verified"], read["verified"]) == (False, True)


def test_fio(command: Command) -> None:
    read, write = imported(command, FIO)["rows"]
    assert (read["interface"], read["pattern"], read["operation"]) == ("posix", "sequential", "read")
    assert (read["transfer_bytes"], read["total_bytes"]) == (64 * KIB, 16 * MIB)
    (sample,) = read["repeats"]
    assert sample["io_ns"] == 31_000_000
    assert sample["latency_ns"] == {
        **{"p50": 7456, "p90": 46336, "p99": 3817472, "max": 8235824},
        **{"samples": 256, "one_call_in": 1},
    }
    # 20 % of 30 ms
    assert sample["callers"] == {**{"user_cpu_ns": 0, "system_cpu_ns": 6_000_000, "context_switches": 10}}
    # Two parallel jobs are two threads of one measurement.
    assert (write["interface"], write["pattern"], write["operation"]) == ("uring", "random", "write")
    assert (write["threads"], write["queue_depth"], write["sync"]) == (2, 8, "fsync")
    assert (write["transfer_bytes"], write["total_bytes"]) == (4 * KIB, 32 * MIB)
    (sample,) = write["repeats"]
    assert (sample["operations"], sample["latency_ns"]) == (8192, None)
    assert sample["io_ns"] == 128_000_000


def test_fio_groups_and_mixed_jobs(command: Command, tmp_path: Path) -> None:
    def change(document: Json) -> None:
        deep = document["jobs"].pop()
        deep["job options"]["group_reporting"] = "1"
        document["jobs"][-1]["job options"]["group_reporting"] = "1"
        document["jobs"][0]["write"] = deep["write"]
        document["jobs"][0]["job options"]["rw"] = "randrw"

    write, read, grouped = imported(command, changed(tmp_path, FIO, change))["rows"]
    assert (write["operation"], read["operation"]) == ("write", "read")
    assert write["pattern"] == read["pattern"] == "random"
    assert write["repeats"][0]["callers"] is read["repeats"][0]["callers"] is None
    assert grouped["threads"] == 2  # one entry for both


def test_several_files_are_repeats_in_one_table(command: Command) -> None:
    command.succeeds("bench", "-a", "posix", "-b", "64k", "-t", "4k", "-i", "2", "--json", "b", "f")
    mine = command.scratch / "b"
    document = imported(command, FIO, mine, IOR, FIO, mine)
    counts = [(row.get("source", {}).get("tool"), len(row["repeats"])) for row in document["rows"]]
    assert counts == [("fio", 2), ("fio", 2), (None, 4), (None, 4), ("ior", 2), ("ior", 2)]
    for row in document["rows"]:
        assert [sample["repeat"] for sample in row["repeats"]] == list(range(len(row["repeats"])))
        assert row["metrics"]["elapsed_ns"]["count"] == len(row["repeats"])
    assert document["environment"]["machine"]["kernel"].startswith("Linux")
    shown = command.succeeds("import", FIO, mine, IOR)
    assert [line.split()[0] for line in shown.splitlines()[3:9]] == [*("fio", "fio", "ferry", "ferry", "ior", "ior")]
    # Imported results can be imported again.
    again = imported(command, command.scratch.parent / "r.json")
    assert again["rows"] == document["rows"]


def test_what_ranks_measured_keeps_its_metrics(command: Command) -> None:
    cell = RanksCell("a", "native", "write", "/f", ranks=4, transfer_bytes=MIB, total_bytes=4 * MIB)
    rows = made_up_rows([cell], lambda _: 10.0)
    made = results.make_document("study", {}, [Measurement(ENVIRONMENT)], rows, study="writers", started=results.now())
    mine = command.scratch / "ranks.json"
    output_files.write_json(str(mine), msgspec.to_builtins(made), False)
    (row,) = imported(command, mine, mine)["rows"]
    assert len(row["repeats"]) == row["metrics"]["storage_bytes"]["count"] == 40
    shown = command.succeeds("import", mine).splitlines()[3].split()
    assert shown[:8] == ["ferry", "native", "write", "1", "MiB", "4", "MiB", "4"]


def test_a_document_with_a_field_too_many_is_refused_in_one_line(command: Command) -> None:
    document = imported(command, IOR)
    document["rows"][0]["repeats"][0]["speed"] = 3
    path = command.scratch / "wrong.json"
    path.write_text(json.dumps(document))
    command.fails("import", path, says="unknown field `speed`")


def test_lines_before_the_json_are_skipped(command: Command, tmp_path: Path) -> None:
    path = tmp_path / "noisy.json"
    path.write_text("fio: this platform does not support that\n" + FIO.read_text())
    assert len(imported(command, path)["rows"]) == 2


def _delete(document: Json) -> None:
    del document["jobs"][0]["read"]["runtime"]


@pytest.mark.parametrize(
    ("source", "change", "words"),
    [
        (FIO, lambda d: d["jobs"][0].update(error=5), "job seq ended with error 5"),
        (FIO, lambda d: d.update(jobs=[]), "no job moved anything"),
        (FIO, _delete, "runtime"),
        (FIO, lambda d: d.update(jobs=3), "not as it should be"),
        (IOR, lambda d: d["tests"][0].update(Results=[]), "no results"),
        (IOR, lambda d: d["tests"][0]["Results"][0].update(bwMiB=0), "moved nothing"),
        (IOR, lambda d: d.pop("tests"), "nothing that ferry import knows"),
        (IOR, lambda d: d.update(schema="ferry.results/1"), "ferry.results/1, and this"),
    ],
)
def test_what_is_not_understood_is_one_line(
    command: Command, tmp_path: Path, source: Path, change: Callable[[Json], object], words: str
) -> None:
    path = changed(tmp_path, source, change)
    message = command.fails("import", path, "--json", "out.json", says=words)
    assert message.startswith(f"ferry: {path}")
    assert not (command.scratch / "out.json").exists()


def test_fio_itself(command: Command, data: Path) -> None:
    fio = shutil.which("fio")
    if fio is None:
        pytest.skip("needs fio")
    out = command.scratch / "fio.json"
    job = ["--name=j", f"--filename={data}", "--rw=randread", "--bs=4k", "--size=1m"]
    subprocess.run([fio, *job, "--output-format=json", f"--output={out}"], check=True, timeout=60)
    (row,) = imported(command, out)["rows"]
    assert (row["pattern"], row["transfer_bytes"], row["total_bytes"]) == ("random", 4 * KIB, MIB)
    assert row["repeats"][0]["operations"] == 256
