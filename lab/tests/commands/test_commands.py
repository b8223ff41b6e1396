"""The command from end to end: output, files and leftovers."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from documents import SCHEMA, measured, validated
from ferry_lab.render.plots import ENDINGS
from ferry_lab.results.records import CacheCounters
from ferry_lab.run.bench import _COLUMNS
from ferry_lab.run.plan import INTERFACES, PLACEMENTS
from processes import on_terminal, run_unread
from support import TIMEOUT_S, Command


def fingerprint(path: Path) -> tuple[str, int, int]:
    status = path.stat()
    return hashlib.sha256(path.read_bytes()).hexdigest(), status.st_mtime_ns, status.st_mode


# ---- bench ---------------------------------------------------------------------------------------


def test_the_schema_refuses_what_is_not_in_it(command: Command) -> None:
    flags = ["--placement", "compute", "-b", "64k", "-t", "64k", "-i", "1"]
    document, _ = measured(command, "bench", *flags, "file")
    assert document["schema"] == "ferry.results/3"
    sample = document["rows"][1]["repeats"][0]
    for wrong in ({"hits": 1}, {**sample["cache"], "pages": 1}, {**sample["cache"], "hits": -1}):
        sample["cache"] = wrong
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate(document, SCHEMA)


@pytest.mark.parametrize("placement", PLACEMENTS)
def test_bench_of_every_placement(command: Command, scratch: Path, placement: str) -> None:
    flags = ["--placement", placement, "-b", "256k", "-t", "64k", "-i", "2", "-e"]
    document, shown = measured(command, "bench", *flags, "file")
    assert list(scratch.iterdir()) == []
    cached = placement != "host"
    assert f"placement {placement}, " in shown
    assert ("page cache of 64 MiB in the device, pages of 64 KiB" in shown) == cached
    assert shown.count("page cache per repeat: ") == (2 if cached else 0)
    (settings,) = {row["placement"] for row in document["rows"]}
    assert settings == placement
    for row in document["rows"]:
        assert (row["device_cache_state"] is None) == (not cached or row["operation"] == "write")
        for sample in row["repeats"]:
            assert (sample["cache"] is not None) == cached
            if cached:
                assert tuple(sample["cache"]) == CacheCounters.__struct_fields__


def test_bench_shows_the_cache_that_was_asked_for(command: Command) -> None:
    flags = ["--cache-size", "1m", "--page-size", "4k", "--placement", "compute"]
    shown = command.succeeds("bench", *flags, "-b", "256k", "-t", "64k", "-i", "1", "file")
    assert "page cache of 1 MiB in the device, pages of 4 KiB" in shown
    # Each of the 64 pages was a miss or read ahead.
    read = re.search(r"read: page cache per repeat: (\d+) hits, (\d+) misses, ", shown)
    assert read and int(read[1]) + int(read[2]) == 64
    assert int(read[2]) > 0


def test_bench_reads_with_the_device_cache_cold_and_warm(command: Command, data: Path) -> None:
    flags = ["-r", "-b", "1m", "-t", "64k", "-i", "2", "--placement", "compute"]
    assert ", hot, device cache cold, contents verified" in command.succeeds("bench", *flags, data)
    warm = command.succeeds("bench", *flags, "--warm", data)
    assert ", hot, device cache warm, contents verified" in warm
    assert "16 hits, 0 misses, 0 fills (0 bytes)" in warm
    # Half of it does not fit: the first data is evicted before it is read again.
    evicted = command.succeeds("bench", *flags, "--warm", "--cache-size", "512k", data)
    assert ", hot, device cache unverified, contents verified" in evicted
    assert "note: read: unverified, because the counters of the device's page cache" in evicted


@pytest.mark.parametrize("interface", INTERFACES)
def test_bench_writes_then_reads_then_cleans_up(command: Command, scratch: Path, interface: str) -> None:
    document, shown = measured(command, "bench", "-a", interface, "-b", "256k", "-t", "16k", "-i", "3", "-e", "file")
    assert list(scratch.iterdir()) == []
    lines = shown.splitlines()
    head = next(i for i, line in enumerate(lines) if line.startswith("access"))
    assert lines[head].split() == [*_COLUMNS, "fsync(s)"]
    table = [line.split() for line in lines[head + 2 : head + 8]]
    assert [(row[0], row[10]) for row in table] == [
        *[("write", str(i)) for i in range(3)],
        *[("read", str(i)) for i in range(3)],
    ]
    assert all(row[4:6] == ["256", "16.00"] for row in table)
    assert shown.count("contents verified") == 2
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
    shown = command.succeeds("bench", "-r", "-b", "1m", "-t", "4k", "-z", "-i", "2", data)
    assert fingerprint(data) == before
    assert ", hot, contents verified" in shown


def test_bench_cold_and_direct(command: Command, data: Path) -> None:
    shown = command.succeeds("bench", "-r", "-b", "1m", "--cold", "--direct", "-i", "2", data)
    assert ", cold," in shown or ", unverified," in shown


def test_bench_keeps_the_file_when_asked(command: Command, scratch: Path) -> None:
    command.succeeds("bench", "-w", "-k", "-b", "64k", "-t", "64k", "-i", "2", "file")
    assert [(p.name, p.stat().st_size) for p in scratch.iterdir()] == [("file", 65536)]


def test_bench_never_overwrites_unasked(command: Command, data: Path) -> None:
    before = fingerprint(data)
    command.fails("bench", "-w", "-b", "64k", "-t", "64k", data, says="--overwrite")
    assert fingerprint(data) == before
    command.succeeds("bench", "-w", "--overwrite", "-b", "64k", "-t", "64k", data)
    assert data.stat().st_size == 65536


def test_bench_with_threads_and_depth(command: Command) -> None:
    flags = ["--threads", "2", "--queue-depth", "4", "--server-threads", "2", "--engine", "threads"]
    document = command.json("bench", *flags, "-b", "64k", "-t", "4k", "-i", "1", "file")
    jsonschema.validate(document, SCHEMA)
    assert document["rows"][0]["total_bytes"] == 131072
    runtime = document["environment"]["runtimes"][0]
    assert runtime["page_cache"] is None
    assert (runtime["device_threads"], runtime["server_threads"]) == (2, 2)
    assert runtime["storage_engine"] == "threads"


# ---- study ---------------------------------------------------------------------------------------


def studied(command: Command, name: str, out: Path, *flags: object) -> tuple[dict[str, Any], str, list[str]]:
    """Makes a study in silence; returns its document, what it printed, and the lines that are no notes."""
    done = command.run("study", name, "--quick", "--repeats", "2", *flags, "--out", out, timeout=4 * TIMEOUT_S)
    assert (done.returncode, done.stderr) == (0, "")
    assert list(command.scratch.iterdir()) == []
    lines = [line.rstrip() for line in done.stdout.splitlines() if not line.startswith("note: ")]
    return validated(out / "results.json"), " ".join(done.stdout.split()), lines


def test_the_study_ends_with_tables_conclusions_and_results(command: Command, tmp_path: Path) -> None:
    """It measures in the folder that it is given, and leaves nothing there."""
    out, other = tmp_path / "out", tmp_path / "other"
    other.mkdir()
    document, shown, lines = studied(command, "placements", out, "--dir", other)
    assert list(other.iterdir()) == []
    assert all(Path(row["path"]).is_relative_to(other) for row in document["rows"])
    for title in (
        *("Reads of 16 MiB", "Device cache cold (MiB/s", "Device cache warm (MiB/s"),
        *("Writes of 16 MiB into a new file", "The call alone (MiB/s", "Call + flush (MiB/s"),
        *("Call + fsync (MiB/s", "Programs that read 16 MiB", "Programs that write 16 MiB"),
    ):
        assert title in shown
    assert max(map(len, lines)) <= 100
    assert lines[0].startswith("Reads: while the device's cache is cold, ")
    assert 1 <= lines.index("") <= 8
    assert lines[lines.index("") + 1].startswith("Study placements on ")
    assert {row["group"] for row in document["rows"]} == {"read", "write", "unflushed", "programs"}
    assert {row["interface"] for row in document["rows"]} == {"ferry", "posix", "mmap"}
    assert {row["placement"] for row in document["rows"]} == {*PLACEMENTS, None}
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
    assert f"study placements --quick --repeats 2 --dir {other} --out {out}" in html
    plots = {path.name for path in (out / "plots").iterdir()}
    names = ("reads", "writes", "programs-read", "programs-write")
    assert plots == {f"{name}.{ending}" for name in names for ending in ENDINGS}

    command.fails("study", "placements", "--quick", "--out", out, says="results.json")


@pytest.mark.parametrize(
    ("name", "plots"),
    [("optimizations", ("alone", "file-sizes", "small-files")), ("storages", ("file-sizes", "table-1", "threads"))],
)
def test_the_other_studies_end_like_that(
    command: Command, scratch: Path, tmp_path: Path, name: str, plots: tuple[str, ...]
) -> None:
    out = tmp_path / "out"
    document, shown, lines = studied(command, name, out)
    assert str(scratch) not in Path("/proc/self/mounts").read_text()
    assert max(map(len, lines)) <= 110
    assert not any("…" in line for line in lines), "a column is cut off"
    assert document["study"] == name
    for sentence in document["conclusions"]:
        assert sentence in shown
    assert len(document["comparisons"]) > 40
    assert {path.name for path in (out / "plots").iterdir()} == {
        f"{plot}.{ending}" for plot in plots for ending in ENDINGS
    }


def test_a_file_is_only_for_the_study_that_reads_one(command: Command, data: Path) -> None:
    for name in ("optimizations", "storages", "scale"):
        command.fails("study", name, "--file", data, says=f"--file is not for the study {name}", status=2)


def test_the_study_only_reads_a_file_of_the_user(command: Command, scratch: Path, data: Path) -> None:
    data.chmod(0o444)
    before = fingerprint(data)
    document, shown = measured(command, "study", "placements", "--quick", "--repeats", "2", "--file", data)
    assert fingerprint(data) == before
    assert "the write half is left out" in shown
    assert "2 MiB in total instead" in shown
    assert "writes" not in shown
    assert {row["operation"] for row in document["rows"]} == {"read"}
    assert list(scratch.iterdir()) == []


# ---- terminal and pipes --------------------------------------------------------------------------


def test_progress_is_shown_on_a_terminal_only(command: Command, data: Path) -> None:
    arguments = ["bench", "-r", "-b", "1m", "-i", "30", data]
    # So wide that a long path fits.
    with on_terminal(command, 200, *arguments, stream="stderr", kind="xterm") as (process, pieces):
        shown = b"".join(pieces)
        process.communicate(timeout=TIMEOUT_S)
    assert process.returncode == 0
    assert b"0%" in shown
    assert command.run(*arguments).stderr == ""


@pytest.mark.parametrize("arguments", [["info"], ["--help"], ["bench", "-r", "-b", "1m", "DATA"]])
def test_a_reader_that_goes_away_is_no_crash(command: Command, data: Path, arguments: list[str]) -> None:
    errors = run_unread(command, *(data if word == "DATA" else word for word in arguments))
    assert "Traceback" not in errors
    assert "Exception" not in errors
