"""The command from end to end: output, files and leftovers."""

from __future__ import annotations

import hashlib
import json
import os
import pty
import re
import subprocess
from pathlib import Path

import jsonschema
import pytest
from documents import SCHEMA, validated
from ferry_lab.results.records import CacheCounters
from ferry_lab.run.bench import _COLUMNS
from ferry_lab.run.plan import INTERFACES, PLACEMENTS
from support import TIMEOUT_S, Command


def fingerprint(path: Path) -> tuple[str, int, int]:
    status = path.stat()
    return hashlib.sha256(path.read_bytes()).hexdigest(), status.st_mtime_ns, status.st_mode


# ---- bench ---------------------------------------------------------------------------------------


def test_the_schema_refuses_what_is_not_in_it(command: Command, tmp_path: Path) -> None:
    path = tmp_path / "r.json"
    flags = ["--placement", "compute", "-b", "64k", "-t", "64k", "-i", "1", "--json", path]
    assert command.run("bench", *flags, "file").returncode == 0
    document = validated(path)
    assert document["schema"] == "ferry.results/3"
    sample = document["rows"][1]["repeats"][0]
    for wrong in ({"hits": 1}, {**sample["cache"], "pages": 1}, {**sample["cache"], "hits": -1}):
        sample["cache"] = wrong
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate(document, SCHEMA)


@pytest.mark.parametrize("placement", PLACEMENTS)
def test_bench_of_every_placement(command: Command, scratch: Path, placement: str) -> None:
    flags = ["--placement", placement, "-b", "256k", "-t", "64k", "-i", "2", "-e"]
    done = command.run("bench", *flags, "--json", "../r.json", "file")
    assert done.stderr == ""
    assert done.returncode == 0
    assert list(scratch.iterdir()) == []
    cached = placement != "host"
    assert f"placement {placement}, " in done.stdout
    assert ("page cache of 64 MiB in the device, pages of 64 KiB" in done.stdout) == cached
    assert done.stdout.count("page cache per repeat: ") == (2 if cached else 0)
    document = validated(scratch.parent / "r.json")
    (settings,) = {row["placement"] for row in document["rows"]}
    assert settings == placement
    for row in document["rows"]:
        assert (row["device_cache_state"] is None) == (not cached or row["operation"] == "write")
        for sample in row["repeats"]:
            assert (sample["cache"] is not None) == cached
            if cached:
                assert tuple(sample["cache"]) == CacheCounters.__struct_fields__


def test_bench_shows_the_cache_that_was_asked_for(command: Command, scratch: Path) -> None:
    flags = ["--cache-size", "1m", "--page-size", "4k", "--placement", "compute"]
    done = command.run("bench", *flags, "-b", "256k", "-t", "64k", "-i", "1", "file")
    assert done.returncode == 0
    assert "page cache of 1 MiB in the device, pages of 4 KiB" in done.stdout
    # Each of the 64 pages was a miss or read ahead.
    read = re.search(r"read: page cache per repeat: (\d+) hits, (\d+) misses, ", done.stdout)
    assert read and int(read[1]) + int(read[2]) == 64
    assert int(read[2]) > 0


def test_bench_reads_with_the_device_cache_cold_and_warm(command: Command, data: Path) -> None:
    flags = ["-r", "-b", "1m", "-t", "64k", "-i", "2", "--placement", "compute"]
    done = command.run("bench", *flags, data)
    assert done.returncode == 0
    assert ", hot, device cache cold, contents verified" in done.stdout
    done = command.run("bench", *flags, "--warm", data)
    assert done.returncode == 0
    assert ", hot, device cache warm, contents verified" in done.stdout
    assert "16 hits, 0 misses, 0 fills (0 bytes)" in done.stdout
    # Half of it does not fit: the first data is evicted before it is read again.
    done = command.run("bench", *flags, "--warm", "--cache-size", "512k", data)
    assert done.returncode == 0
    assert ", hot, device cache unverified, contents verified" in done.stdout
    assert "note: read: unverified, because the counters of the device's page cache" in done.stdout


@pytest.mark.parametrize("interface", INTERFACES)
def test_bench_writes_then_reads_then_cleans_up(command: Command, scratch: Path, interface: str) -> None:
    flags = ["-a", interface, "-b", "256k", "-t", "16k", "-i", "3", "-e", "--json", "../r.json"]
    done = command.run("bench", *flags, "file")
    assert done.stderr == ""
    assert done.returncode == 0
    assert list(scratch.iterdir()) == []
    lines = done.stdout.splitlines()
    head = next(i for i, line in enumerate(lines) if line.startswith("access"))
    assert lines[head].split() == [*_COLUMNS, "fsync(s)"]
    table = [line.split() for line in lines[head + 2 : head + 8]]
    assert [(row[0], row[10]) for row in table] == [
        *[("write", str(i)) for i in range(3)],
        *[("read", str(i)) for i in range(3)],
    ]
    assert all(row[4:6] == ["256", "16.00"] for row in table)
    assert done.stdout.count("contents verified") == 2

    document = validated(scratch.parent / "r.json")
    assert [row["operation"] for row in document["rows"]] == ["write", "read"]
    for row in document["rows"]:
        assert len(row["repeats"]) == 3
        assert row["metrics"]["elapsed_ns"]["count"] == 3
        assert row["verified"]
    assert document["kind"] == "bench"
    assert document["settings"]["transfer_bytes"] == 16384


def test_bench_reads_a_file_without_changing_it(command: Command, data: Path) -> None:
    data.chmod(0o444)
    before = fingerprint(data)
    done = command.run("bench", "-r", "-b", "1m", "-t", "4k", "-z", "-i", "2", data)
    assert done.returncode == 0
    assert fingerprint(data) == before
    assert ", hot, contents verified" in done.stdout


def test_bench_cold_and_direct(command: Command, data: Path) -> None:
    done = command.run("bench", "-r", "-b", "1m", "--cold", "--direct", "-i", "2", data)
    assert done.returncode == 0
    assert ", cold," in done.stdout or ", unverified," in done.stdout


def test_bench_keeps_the_file_when_asked(command: Command, scratch: Path) -> None:
    done = command.run("bench", "-w", "-k", "-b", "64k", "-t", "64k", "-i", "2", "file")
    assert done.returncode == 0
    assert [(p.name, p.stat().st_size) for p in scratch.iterdir()] == [("file", 65536)]


def test_bench_never_overwrites_unasked(command: Command, data: Path) -> None:
    before = fingerprint(data)
    done = command.run("bench", "-w", "-b", "64k", "-t", "64k", data)
    assert done.returncode == 1
    assert "--overwrite" in done.stderr
    assert fingerprint(data) == before
    done = command.run("bench", "-w", "--overwrite", "-b", "64k", "-t", "64k", data)
    assert done.returncode == 0
    assert data.stat().st_size == 65536


def test_bench_with_threads_and_depth(command: Command, scratch: Path) -> None:
    flags = ["--threads", "2", "--queue-depth", "4", "--server-threads", "2", "--engine", "threads"]
    done = command.run("bench", *flags, "-b", "64k", "-t", "4k", "-i", "1", "--json", "-", "file")
    assert done.returncode == 0
    document = json.loads(done.stdout)
    jsonschema.validate(document, SCHEMA)
    assert document["rows"][0]["total_bytes"] == 131072
    runtime = document["environment"]["runtimes"][0]
    assert runtime["page_cache"] is None
    assert (runtime["device_threads"], runtime["server_threads"]) == (2, 2)
    assert runtime["storage_engine"] == "threads"


def test_bench_of_a_path_that_is_not_utf_8(command: Command, scratch: Path) -> None:
    name = os.fsdecode(b"odd \xff name")
    done = command.run("bench", "-b", "64k", "-t", "64k", "-i", "1", name, errors="replace")
    assert done.returncode in (0, 1)
    assert "Traceback" not in done.stderr
    assert list(scratch.iterdir()) == []


# ---- study ---------------------------------------------------------------------------------------


def test_the_study_ends_with_tables_conclusions_and_results(command: Command, scratch: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    arguments = ["study", "placements", "--quick", "--repeats", "2", "--out", out]
    done = command.run(*arguments)
    assert done.stderr == ""
    assert done.returncode == 0
    assert list(scratch.iterdir()) == []
    for title in (
        *("Reads of 16 MiB", "Device cache cold (MiB/s", "Device cache warm (MiB/s"),
        *("Writes of 16 MiB into a new file", "The call alone (MiB/s", "Call + flush (MiB/s"),
        *("Call + fsync (MiB/s", "Programs that read 16 MiB", "Programs that write 16 MiB"),
    ):
        assert title in done.stdout
    lines = [line.rstrip() for line in done.stdout.splitlines() if not line.startswith("note: ")]
    assert max(map(len, lines)) <= 100
    assert lines[0].startswith("Reads: while the device's cache is cold, ")
    assert 1 <= lines.index("") <= 8
    assert lines[lines.index("") + 1].startswith("Study placements on ")
    document = validated(out / "results.json")
    assert {row["group"] for row in document["rows"]} == {"read", "write", "programs"}
    assert {row["interface"] for row in document["rows"]} == {"ferry", "posix", "mmap"}
    assert {row["placement"] for row in document["rows"]} == {*PLACEMENTS, None}
    shown = " ".join(done.stdout.split())
    for sentence in document["conclusions"]:
        about, clause = sentence.split(": ", 1)
        assert f"{about}: " in shown
        assert clause in shown
    # 4 sizes read cold and warm, written in 3 ways; 2 programs read cold and warm and written: 4
    # placements beside plain calls (host in the warm view is the cold one), 2 pairs, 1 best
    assert len(document["comparisons"]) == 4 * (7 + 6 + 3 * 7) + 2 * (7 + 6 + 7)
    for row in document["rows"]:
        if row["operation"] == "read" and row["placement"] in PLACEMENTS[1:]:
            expected = row["axes"]["device_cache"]
            assert row["device_cache_state"] == expected
    csv = (out / "results.csv").read_text().splitlines()
    assert len(csv) == 1 + sum(len(row["repeats"]) for row in document["rows"])
    assert "elapsed_ns" in csv[0]
    assert sorted(path.name for path in out.iterdir()) == [*("plots", "report.html", "results.csv", "results.json")]
    html = (out / "report.html").read_text()
    assert document["environment"]["machine"]["kernel"] in html
    assert f"study placements --quick --repeats 2 --out {out}" in html
    plots = {path.name for path in (out / "plots").iterdir()}
    names = ("reads", "writes", "programs-read", "programs-write")
    assert plots == {f"{name}.{ending}" for name in names for ending in ("png", "svg")}

    again = command.run(*arguments)
    assert again.returncode == 1
    assert "results.json" in again.stderr


@pytest.mark.parametrize(
    ("name", "plots"),
    [("optimizations", ("alone", "file-sizes", "small-files")), ("storages", ("file-sizes", "table-1", "threads"))],
)
def test_the_other_studies_end_like_that(
    command: Command, scratch: Path, tmp_path: Path, name: str, plots: tuple[str, ...]
) -> None:
    out = tmp_path / "out"
    arguments = ["study", name, "--quick", "--repeats", "2", "--out", out]
    done = command.run(*arguments, timeout=4 * TIMEOUT_S)
    assert done.stderr == ""
    assert done.returncode == 0
    assert list(scratch.iterdir()) == []
    assert str(scratch) not in Path("/proc/self/mounts").read_text()
    lines = [line.rstrip() for line in done.stdout.splitlines() if not line.startswith("note: ")]
    assert max(map(len, lines)) <= 110
    assert not any("…" in line for line in lines), "a column is cut off"
    document = validated(out / "results.json")
    assert document["study"] == name
    shown = " ".join(done.stdout.split())
    for sentence in document["conclusions"]:
        assert sentence in shown
    assert len(document["comparisons"]) > 40
    assert {path.name for path in (out / "plots").iterdir()} == {
        f"{plot}.{ending}" for plot in plots for ending in ("png", "svg")
    }


def test_a_file_is_only_for_the_study_that_reads_one(command: Command, data: Path) -> None:
    for name in ("optimizations", "storages"):
        done = command.run("study", name, "--file", data)
        assert done.returncode == 2
        assert f"--file is not for the study {name}" in done.stderr


def test_the_study_only_reads_a_file_of_the_user(command: Command, scratch: Path, data: Path) -> None:
    data.chmod(0o444)
    before = fingerprint(data)
    done = command.run(
        *("study", "placements", "--quick", "--repeats", "2", "--file", data), *("--json", scratch / "r.json")
    )
    assert done.returncode == 0
    assert fingerprint(data) == before
    assert "the write half is left out" in done.stdout
    assert "2 MiB in total instead" in done.stdout
    assert "writes" not in done.stdout
    document = validated(scratch / "r.json")
    assert {row["operation"] for row in document["rows"]} == {"read"}
    assert [p.name for p in scratch.iterdir()] == ["r.json"]


def test_the_study_uses_the_folder_it_is_given(command: Command, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    done = command.run("study", "placements", "--quick", "--repeats", "2", "--dir", other)
    assert done.returncode == 0
    assert list(other.iterdir()) == []


# ---- terminal and pipes --------------------------------------------------------------------------


def test_progress_is_shown_on_a_terminal_only(command: Command, data: Path) -> None:
    arguments = command.arguments("bench", "-r", "-b", "1m", "-i", "30", data)
    ours, theirs = pty.openpty()
    try:
        done = subprocess.run(
            arguments,
            env={**command.environment, "TERM": "xterm", "COLUMNS": "200"},  # a long path fits
            stdout=subprocess.PIPE,
            stderr=theirs,
            timeout=60,
        )
        os.close(theirs)
        shown = b""
        try:
            while chunk := os.read(ours, 65536):
                shown += chunk
        except OSError:
            pass  # the terminal's other end is closed
    finally:
        os.close(ours)
    assert done.returncode == 0
    assert b"0%" in shown
    assert command.run(*arguments[4:]).stderr == ""


@pytest.mark.parametrize("arguments", [["info"], ["--help"], ["bench", "-r", "-b", "1m", "DATA"]])
def test_a_reader_that_goes_away_is_no_crash(command: Command, data: Path, arguments: list[str]) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    try:
        done = subprocess.run(
            command.arguments(*[str(data) if a == "DATA" else a for a in arguments]),
            env=command.environment,
            stdout=writer,
            stderr=subprocess.PIPE,
            text=True,
            timeout=60,
        )
    finally:
        os.close(writer)
    assert "Traceback" not in done.stderr
    assert "Exception" not in done.stderr
