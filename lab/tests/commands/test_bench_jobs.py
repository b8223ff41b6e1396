"""``ferry bench --jobs``: job files, what they measure, and what is wrong with them."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest
from documents import measured, validated
from ferry.errors import FerryError
from ferry.sizes import KIB, MIB
from ferry_lab.run.job_file import read_jobs
from measured import corrupt
from processes import run_on_terminal, started, wait_until
from support import TIMEOUT_S, Command


def write_jobs(folder: Path, text: str) -> Path:
    path = folder / "jobs.fio"
    path.write_text(text)
    return path


TWO = """
# A random reader beside a writer.
[global]
size=256k

[reader]
rw=randread     ; 4 KiB, as in fio
numjobs=2
[writer]
rw=write
bs=64k
fsync=2
end_fsync=1
"""


def rows_of(command: Command, tmp_path: Path, text: str, *flags: object) -> dict[str, dict[str, Any]]:
    document, _ = measured(command, "bench", "--jobs", write_jobs(tmp_path, text), "-i", 2, *flags)
    return {row["id"]: row for row in document["rows"]}


@pytest.mark.parametrize(
    "flags", [[], ["-a", "posix"], ["-a", "mmap"], ["--placement", "compute", "-R"], ["--placement", "automatic"]]
)
def test_two_jobs(command: Command, scratch: Path, tmp_path: Path, flags: list[str]) -> None:
    rows = rows_of(command, tmp_path, TWO, *flags)
    assert list(rows) == ["reader", "writer", "group 1"]
    for repeat in range(2):
        found = {
            name: (row["repeats"][repeat]["bytes"], row["repeats"][repeat]["operations"]) for name, row in rows.items()
        }
        assert found == {"reader": (512 * KIB, 128), "writer": (256 * KIB, 4), "group 1": (768 * KIB, 132)}
    assert rows["group 1"]["jobs"] == ["reader", "writer"]
    assert rows["group 1"]["operation"] == "mixed"
    assert rows["reader"]["group"] == "group 1"
    assert rows["writer"]["repeats"][0]["sync_ns"] > 0
    assert [rows[name]["sync_every_calls"] for name in ("reader", "writer")] == [0, 2]
    assert list(scratch.iterdir()) == []


def test_what_is_printed(command: Command, scratch: Path, tmp_path: Path) -> None:
    output = command.succeeds("bench", "--jobs", write_jobs(tmp_path, TWO), "-i", 2, "--latency")
    assert "[reader] read random, 4 KiB calls of 2 threads, 512 KiB: reader, interface ferry" in output
    assert "reader: contents verified, hot" in output
    assert "writer: latency of single calls" in output
    (line,) = [line for line in output.splitlines() if line.split()[:2] == ["group", "1"]]
    assert len(line.split()) == 11


def test_standard_input(command: Command, scratch: Path, tmp_path: Path) -> None:
    with write_jobs(tmp_path, "[a]\nsize=64k\n").open() as text:
        assert "a.0.0" in command.succeeds("bench", "--jobs", "-", "-i", 1, stdin=text)


def test_results_are_compared(command: Command, scratch: Path, tmp_path: Path) -> None:
    jobs = write_jobs(tmp_path, TWO)
    for name, interface in (("a.json", "ferry"), ("b.json", "posix")):
        command.succeeds("bench", "--jobs", jobs, "-i", 6, "-a", interface, "--json", tmp_path / name)
    found = command.json("compare", tmp_path / "a.json", tmp_path / "b.json")
    pairs = {(row["row"], row["metric"]) for row in found["rows"]}
    assert {(name, "bandwidth_mib_per_s") for name in ("reader", "writer", "group 1")} <= pairs
    assert ("writer", "bandwidth_with_sync_mib_per_s") in pairs
    assert found["only_in_a"] == []
    assert {"what": "settings.jobs.reader.interface", "a": "ferry", "b": "posix"} in found["differences"]


def test_rates_and_latencies_fit_a_terminal(command: Command, tmp_path: Path) -> None:
    lines = run_on_terminal(command, 80, "bench", "--jobs", write_jobs(tmp_path, TWO), "-i", 1)
    head = next(line for line in lines if "IOPS" in line)
    assert "longest" in head
    assert len(head) <= 80


def test_results_of_jobs_are_imported(command: Command, scratch: Path, tmp_path: Path) -> None:
    jobs, path = write_jobs(tmp_path, TWO), tmp_path / "a.json"
    command.succeeds("bench", "--jobs", jobs, "-i", 3, "--json", path)
    output = command.succeeds(
        "import", path, path, "--json", tmp_path / "both.json", env={**command.environment, "COLUMNS": "200"}
    )
    assert [line.split()[:3] for line in output.splitlines() if "2 jobs" in line] == [["ferry", "2", "jobs"]]
    rows = {row["id"]: row for row in validated(tmp_path / "both.json")["rows"]}
    assert {name: len(row["repeats"]) for name, row in rows.items()} == {"reader": 6, "writer": 6, "group 1": 6}


def test_a_group_of_one_is_imported_as_one_job(command: Command, scratch: Path, tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    command.succeeds("bench", "--jobs", write_jobs(tmp_path, "[r]\nsize=64k\n"), "-i", 1, "--json", path)
    assert " 1 job " in command.succeeds("import", path)


def test_a_stonewall_hands_files_on(command: Command, scratch: Path, tmp_path: Path) -> None:
    text = """
        [w]
        rw=randwrite
        size=64k
        filename=file
        runtime=10
        [r]
        stonewall
        rw=read
        filename=file
        numjobs=2
        size=64k
        [other]
        size=64k
    """
    rows = rows_of(command, tmp_path, text, "-R")
    assert list(rows) == ["w", "group 1", "r", "other", "group 2"]
    assert rows["r"]["repeats"][1]["bytes"] == 2 * 64 * KIB  # each clone the whole file
    assert rows["w"]["deadline_ms"] == 10_000
    assert list(scratch.iterdir()) == []


def test_files_that_are_there_stay(command: Command, scratch: Path, tmp_path: Path) -> None:
    content = os.urandom(70_000)
    (scratch / "in").write_bytes(content)
    (scratch / "out").write_bytes(content)
    text = "[r]\nfilename=in\n[w]\nrw=write\nsize=8k\nfilename=out\n"
    jobs = write_jobs(tmp_path, text)
    command.fails("bench", "--jobs", jobs, says="--overwrite")
    rows = rows_of(command, tmp_path, text, "--overwrite")
    assert rows["r"]["total_bytes"] == 17 * 4096  # whole blocks of the file
    assert (scratch / "in").read_bytes() == content
    assert (scratch / "out").stat().st_size == 8 * KIB


@pytest.mark.parametrize("flags", [["-a", "posix"], ["-a", "mmap"], ["-a", "uring"], ["--placement", "compute"]])
def test_loops_over_a_part_of_a_file(command: Command, scratch: Path, tmp_path: Path, flags: list[str]) -> None:
    """A writer, a reader of a part of that, both at once in one file, and one that does either."""
    depth = "iodepth=4" if "uring" in flags else ""
    text = f"""
        [global]
        size=64k
        loops=3
        [w]
        rw=randwrite
        offset=20k
        filename=out
        verify=crc32c
        {depth}
        [r]
        stonewall
        rw=randread
        offset=36k
        size=48k
        filename=out
        verify=md5
        [mixed]
        rw=randrw
        offset=4k
        verify=xxhash
        [over]
        rw=write
        offset=8k
        filename=both
        [under]
        rw=randread
        offset=4k
        loops=1
        filename=both
        verify=sha1
    """
    (scratch / "out").write_bytes(b"x" * 100)
    rows = rows_of(command, tmp_path, text, "--overwrite", *flags)
    calls = {name: [one["operations"] for one in row["repeats"]] for name, row in rows.items() if "jobs" not in row}
    assert calls == {"w": [48] * 2, "r": [36] * 2, "mixed": [48] * 2, "over": [48] * 2, "under": [16] * 2}
    assert [
        (row["check"], row["passes"], row["offset_bytes"] // KIB) for row in rows.values() if "jobs" not in row
    ] == [(True, 3, 20), (True, 3, 36), (True, 3, 4), (False, 3, 8), (True, 1, 4)]
    written = (scratch / "out").read_bytes()
    assert len(written) == 84 * KIB
    assert written[: 20 * KIB] == bytes(20 * KIB)
    assert all(any(written[at : at + 4 * KIB]) for at in range(20 * KIB, 84 * KIB, 4 * KIB))
    assert [path.name for path in scratch.iterdir()] == ["out"]


def test_verify_reads_what_bench_has_written(command: Command, scratch: Path, tmp_path: Path) -> None:
    jobs = write_jobs(tmp_path, "[r]\nrw=randread\nfilename=file\noffset=8k\nsize=32k\nverify=crc32c\n")
    (scratch / "file").write_bytes(os.urandom(64 * KIB))
    command.fails("bench", "--jobs", jobs, says="does not hold the pattern that ferry bench writes")
    (scratch / "file").unlink()
    command.succeeds("bench", "-w", "-k", "-b", "64k", "-t", "4k", "-i", 1, "file")
    command.succeeds("bench", "--jobs", jobs, "-i", 1)
    corrupt(scratch / "file", 60 * KIB)  # behind what is read
    command.succeeds("bench", "--jobs", jobs, "-i", 1)
    corrupt(scratch / "file", 39 * KIB)
    command.fails("bench", "--jobs", jobs, says=f"the contents of {scratch}/file are wrong at byte {39 * KIB}")


def test_interrupted(command: Command, scratch: Path, tmp_path: Path) -> None:
    jobs = write_jobs(tmp_path, "[global]\ntime_based\nruntime=1h\nsize=1m\n[r]\n[w]\nrw=write\n[m]\nrw=randrw\n")
    with started(command, "bench", "--jobs", jobs) as process:
        names = {"r.0.0", "w.0.0", "m.0.0"}
        wait_until(lambda: names <= {path.name for path in scratch.iterdir()})
        os.killpg(process.pid, signal.SIGINT)
        _, message = process.communicate(timeout=TIMEOUT_S)
    assert process.returncode == 130
    assert list(scratch.iterdir()) == []
    assert message.strip() == "ferry: interrupted; scratch files are removed"


# ---- what files say ------------------------------------------------------------------------------


def jobs_of(tmp_path: Path, text: str) -> list[Any]:
    return read_jobs(str(write_jobs(tmp_path, text)))


@pytest.mark.parametrize(
    ("kb_base", "text", "expected"),
    [
        *((1024, text, 1024) for text in ("1k", "1K", "1kb", "1ki", "1024", "1024b")),
        *((1024, text, 1000) for text in ("1kib", "1KiB", "1000")),
        *((1000, text, 1000) for text in ("1k", "1kb", "1ki")),
        *((1000, text, 1024) for text in ("1kib",)),
        (1024, "3m", 3 * MIB),
        (1000, "2g", 2_000_000_000),
        (1024, "1t", 1 << 40),
    ],
)
def test_sizes_mean_what_they_mean_in_fio(tmp_path: Path, kb_base: int, text: str, expected: int) -> None:
    (job,) = jobs_of(tmp_path, f"[a]\nkb_base={kb_base}\nbs={text}\nsize={text}\n")
    assert (job.block_bytes, job.size_bytes) == (expected, expected)


def test_sections_take_what_global_ones_before_them_say(tmp_path: Path) -> None:
    text = "[global]\nbs=8k\nsize=8k\n[a]\n[global]\nbs=4k\ndirectory=/d\n[b]\nstonewall\n[c]\nrw=rw\nrwmixwrite=25\n"
    a, b, c = jobs_of(tmp_path, text)
    assert (a.block_bytes, a.path, a.group) == (8192, os.path.abspath("a.0.0"), 0)
    assert (b.block_bytes, b.path, b.group) == (4096, "/d/b.0.0", 1)
    assert (c.group, c.operation, c.read_percent) == (1, "mixed", 75)


def test_lines_may_end_and_files_begin_as_on_windows(tmp_path: Path) -> None:
    (job,) = jobs_of(tmp_path, "\ufeff[a]\r\nsize=4k\r\n")
    assert (job.name, job.size_bytes) == ("a", 4096)


def test_what_global_sections_say_of_other_jobs(tmp_path: Path) -> None:
    text = "[global]\nsize=4k\nrandom_distribution=zipf:1.5\nfsync=4\niodepth=2\n[a]\n[b]\nrw=randwrite\niodepth=1\n"
    a, b = jobs_of(tmp_path, text)
    assert (a.pattern, a.fsync_writes, a.queue_depth) == ("sequential", 0, 2)
    assert (b.pattern, b.fsync_writes, b.queue_depth) == ("zipf:1.5", 4, 1)


def test_times(tmp_path: Path) -> None:
    text = "[a]\nstartdelay=1500ms\nruntime=2m\nramp_time=3\ntime_based\nsize=4k\nrate_iops=10\n"
    (job,) = jobs_of(tmp_path, text)
    assert (job.start_delay_ms, job.runtime_ms, job.ramp_ms, job.rate_bytes_per_s) == (1500, 120_000, 3000, 40_960)


@pytest.mark.parametrize(
    ("text", "line", "says"),
    [
        ("[a]\nrw=trim\n", 2, "rw: 'trim' is none of read, write, "),
        ("[a]\nbs=4k\nnosuch=1\n", 3, "nosuch: ferry bench does not know this key; leave it out, or write one of bs, "),
        ("[a]\nrunetime=2\n", 2, "runetime: ferry bench does not know this key; did you mean runtime?"),
        ("[a]\ncpus_allowed=1\n", 2, "cpus_allowed: ferry bench does not take this key of fio's; --device-cpus names"),
        ("[a]\nbsrange=4k-8k\n", 2, "bsrange: ferry bench does not take this key of fio's; write bs with one size"),
        ("[a]\nnrfiles=2\n", 2, "nrfiles: ferry bench does not take this key of fio's; a job has one file"),
        ("[a]\noffset=20%\n", 2, "offset: '20%' is a part of the file; write where that begins as a size"),
        ("[a]\nsize=4e\n", 2, "size: '4e' is no size that bench takes"),
        ("[a]\nsize=3000p\noffset=2000p\n", 3, "[a] offset and size together are below 4 EiB"),
        ("[a]\nverify=pattern\n", 2, "verify: 'pattern' is about contents that fio makes"),
        ("[a]\nverify=crc\n", 2, "verify: 'crc' is none of 0, md5, "),
        ("[a]\nloops=0\n", 2, "loops: '0' is no whole number from 1 to 1048576"),
        (
            "[a]\nrw=rw\nsize=8k\nloops=2\nverify=md5\niodepth=2\n",
            1,
            "[a] may read what it is writing, which verify cannot check; write iodepth=1, or leave out verify",
        ),
        (
            "[a]\nsize=4k\noffset=4k\nfilename=f\nrw=write\n[b]\nstonewall\nsize=4k\nfilename=f\n",
            6,
            "[b] reads f from before where [a] writes; choose a larger offset",
        ),
        (
            "[a]\nsize=8k\nfilename=f\nrw=write\n[b]\nsize=4k\noffset=8k\nfilename=f\n",
            5,
            "[b] reads more of f than [a] writes; choose a smaller size",
        ),
        ("[a]\nfilename=small\noffset=8k\n", 1, "[a] has no size; write one"),
        ("[a]\nfsync=2\niodepth=2\nrw=write\n", 2, "[a] fsync is for one call at a time"),
        ("[a]\nbs=4k,8k\n", 2, "bs: '4k,8k' is no size that bench takes"),
        ("[a]\nsize=0\n", 2, "size: '0' is no size; choose one above zero"),
        ("[a]\nsize=10k\n", 2, "[a] size is no multiple of bs"),
        ("[a]\nioengine=libaio\n", 2, "ioengine: 'libaio' is not here; write io_uring"),
        ("[a]\niodepth=0\n", 2, "iodepth: '0' is no whole number from 1 to 1024"),
        ("[a]\ntime_based\n", 2, "[a] time_based needs a time; write runtime=60"),
        ("[a]\nramp_time=1\n", 2, "[a] ramp_time needs a job that goes on for a time"),
        ("[a]\nruntime=5us\n", 2, "runtime: '5us' is no time that bench takes"),
        ("[a]\nrate=1m\nrate_iops=1\n", 3, "[a] rate and rate_iops exclude each other"),
        ("[a]\nrw=rw\nrate=1m\n", 3, "[a] a rate holds for reads and writes apart in fio"),
        ("[a]\nrate=1m\niodepth=2\n", 3, "[a] a rate is for one call at a time"),
        ("[a]\nrandom_distribution=zipf:1\n", 2, "[a] random_distribution is for random offsets"),
        ("[a]\nrandom_distribution=pareto:1\n", 2, "random_distribution: 'pareto:1' is neither random nor zipf"),
        ("[a]\nfilename=x:y\n", 2, "filename: 'x:y' names several files"),
        ("[a]\nrw=rw\nfilename=x\nnumjobs=2\n", 4, "[a] several clones that read and write one file"),
        ("[a]\nrwmixread=30\nrwmixwrite=30\n", 3, "[a] rwmixread and rwmixwrite are not 100 together"),
        ("[a]\ndirect=yes\n", 2, "direct: 'yes' switches something on or off; write 1 or 0"),
        ("[a]\nkb_base=10\n", 2, "kb_base: '10' is none of 1000, 1024"),
        ("[a/b]\n", 1, "[a/b] the name of a job without filename names its file"),
        ("[a]\n\n[a]\n", 3, "there are two jobs [a]"),
        ("[group 1]\n", 1, "[group 1] is the name of all jobs together"),
        ("bs=4k\n", 1, "'bs=4k' stands before any section"),
        ("[global]\nbs=4k\n", None, "has no job; a line like [reader] begins one"),
        # What more than one key, or the files, say.
        ("[a]\n", 1, "[a] has no size; write one, like size=1g"),
        ("[a]\nioengine=mmap\nsize=4k\ndirect=1\n", 1, "[a] has direct=1, which no mapping can do"),
        ("[a]\nioengine=psync\nsize=4k\niodepth=2\n", 1, "[a] has iodepth=2, and interface posix at most 1"),
        ("[a]\nioengine=psync\nsize=4k\nplacement=host\n", 1, "[a] has a placement, which is for interface ferry"),
        ("[a]\nbs=1000\nsize=4000\ndirect=1\n", 1, "[a] has direct=1, which moves whole sectors"),
        (
            "[a]\nsize=4k\nfilename=f\n[b]\nstonewall\nsize=4k\nrw=write\nfilename=f\n",
            4,
            "[b] writes f, which [a] uses, too; give it a filename of its own",
        ),
        (
            "[a]\nsize=4k\nrw=write\nfilename=f\n[b]\nsize=4k\nrw=write\nfilename=f\n",
            1,
            "[a] writes f, which [b] uses, too; give it a filename of its own",
        ),
        ("[a]\nsize=4k\nrw=rw\nfilename=f\n[b]\nstonewall\nsize=4k\nfilename=f\n", 5, "[b] reads f, which [a] removes"),
        (
            "[a]\nsize=4k\nfilename=f\nrw=write\n[b]\nsize=8k\nfilename=f\n",
            5,
            "[b] reads more of f than [a] writes; choose a smaller size",
        ),
        (
            "[a]\nsize=4k\nfilename=small\nrw=write\n[b]\nsize=4k\nfilename=small\n",
            1,
            "[a] makes its file, which others read, and small exists; name another",
        ),
        ("[a]\nsize=4k\nfilename=f\n[b]\nsize=8k\nfilename=f\n", 4, "[b] reads f, which is not there"),
        ("[a]\nsize=16m\nfilename=small\n", 1, "[a] reads 16 MiB of small, which has 5 bytes"),
        ("[a]\nsize=4k\nrw=randrw\nfilename=small\n", 1, "[a] makes its file, and small exists"),
        (
            "[a]\nsize=4k\nrw=write\nnumjobs=2\n[b]\nsize=4k\nrw=write\nfilename=a.00000001\n",
            5,
            "[b] uses a.00000001, as [a] does by another name; give both the same filename, or each a file of its own",
        ),
        (
            "[a]\nsize=4k\nfilename=f\n[b]\nstonewall\nsize=4k\nrw=write\nfilename=link/f\n",
            4,
            "[b] uses link/f, as [a] does by another name",
        ),
        ("[a]\nrw=write\nbs=1\nsize=1g\n", 1, "[a] makes more than 268435456 calls in each clone"),
        ("[a]\nsize=4k\nnumjobs=4096\n[b]\nsize=4k\n", 4, "[b] is above the 4096 clones that can run at once"),
        ("[a]\nsize=4k\nrate_iops=4611686018427387903\n", 3, "[a] a rate is below 4 EiB/s"),
        ("[a]\nfsync=268435457\n", 2, "fsync: '268435457' is no whole number from 0 to 268435456"),
        *(
            (f"[a]\n{key}={'9' * 5000}\n", 2, f"9' is no {what}")
            for key, what in (("size", "size"), ("numjobs", "whole number"), ("runtime", "time"))
        ),
    ],
)
def test_wrong_files(command: Command, scratch: Path, text: str, line: int | None, says: str) -> None:
    (scratch / "small").write_bytes(b"small")
    (scratch / "link").symlink_to(".")
    write_jobs(scratch, text)
    done = command.run("bench", "--jobs", "jobs.fio")
    assert done.returncode == 1
    message = done.stderr.replace(f"{scratch}/", "")
    assert message.startswith("ferry: jobs.fio" + (f":{line}: " if line else " ")), message
    assert says in message
    assert message.count("\n") == 1


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        (
            "[global]\nbssplit=4k/50\n[a]\nbs=0\nkb_base=7\nsize=4k\n[b]\nthinktime=5\nnosuch=1\n",
            ["2: bssplit: ", "4: bs: '0' ", "5: kb_base: '7' ", "8: thinktime: ", "9: nosuch: "],
        ),
        ("[a]\ntime_based\n[a]\n[b]\nsize=5k\n", ["2: [a] time_based", "3: there are two jobs [a]", "5: [b] size"]),
    ],
)
def test_all_that_is_wrong_is_said_at_once(command: Command, scratch: Path, text: str, wrong: list[str]) -> None:
    """Each in a line of its own, in the file's order."""
    write_jobs(scratch, text)
    done = command.run("bench", "--jobs", "jobs.fio")
    assert done.returncode == 1
    found = [line.removeprefix("ferry: jobs.fio:") for line in done.stderr.splitlines()]
    assert [line[: len(begin)] for line, begin in zip(found, wrong, strict=True)] == wrong


@pytest.mark.parametrize(
    ("flags", "says"),
    [
        (["file"], "PATH is for one job, and --jobs has several; write filename in the job file"),
        (["-b", "1m"], "-b is for one job, and --jobs has several; write size in the job file"),
        (["-a", "mpiio"], "-a mpiio is for MPI ranks, which run one job; choose another for --jobs"),
        (["--warm"], "--warm is for one job, and --jobs has several; leave it out"),
        (["--queue-depth", "2"], "--queue-depth is for one job, and --jobs has several; write iodepth in the job file"),
    ],
)
def test_flags_of_one_job(command: Command, scratch: Path, flags: list[str], says: str) -> None:
    write_jobs(scratch, TWO)
    command.fails("bench", "--jobs", "jobs.fio", *flags, says=says, status=2)


def test_no_file(scratch: Path) -> None:
    with pytest.raises(FerryError, match="does not exist; name a job file"):
        read_jobs(str(scratch / "none"))


# ---- fio itself ----------------------------------------------------------------------------------

SAME = """
[global]
ioengine=psync
size=1m
kb_base=1000
[clones]
rw=randread
numjobs=3
filename=shared
size=524288
bs=4kib
[units]
rw=write
bs=8kB
size=160k
[default]
size=1mib
bs=16384
[mixed]
rw=randrw
rwmixread=30
bs=8KiB
size=1MiB
[zipf]
stonewall
rw=randwrite
bs=10k
random_distribution=zipf:1.2
[meanwhile]
rw=randread
bs=4KiB
size=512KiB
filename=both
[over]
rw=randwrite
bs=8KiB
size=1MiB
filename=both
[own]
rw=write
numjobs=2
bs=20k
[synced]
rw=rw
size=256kib
bs=16KiB
fsync=3
end_fsync=1
[past]
rw=randwrite
size=64KiB
offset=20KiB
bs=4KiB
fsync=0
loops=3
[past_reads]
rw=read
size=64KiB
offset=20KiB
bs=16KiB
loops=2
"""


@pytest.mark.skipif(shutil.which("fio") is None, reason="absent: fio, which is the peer here")
def test_fio_moves_as_much(command: Command, scratch: Path, tmp_path: Path) -> None:
    theirs = tmp_path / "theirs"
    theirs.mkdir()
    jobs = write_jobs(tmp_path, SAME)
    done = subprocess.run(
        ["fio", "--output-format=json", jobs], cwd=theirs, capture_output=True, text=True, timeout=TIMEOUT_S, check=True
    )
    by_job: dict[str, list[int]] = defaultdict(lambda: [0, 0, 0])
    for job in json.loads(done.stdout[done.stdout.index("{") :])["jobs"]:
        of_job = by_job[job["jobname"]]
        for kind in ("read", "write"):
            of_job[0] += job[kind]["io_bytes"]
            of_job[1] += job[kind]["total_ios"]
        of_job[2] = job["groupid"] + 1
    (scratch / "past.0.0").touch()
    rows = rows_of(command, tmp_path, SAME, "--overwrite")
    ours = {
        name: [row["repeats"][0]["bytes"], row["repeats"][0]["operations"], int(row["group"].removeprefix("group "))]
        for name, row in rows.items()
        if "jobs" not in row
    }
    assert ours == by_job
    assert (scratch / "past.0.0").stat().st_size == (theirs / "past.0.0").stat().st_size
