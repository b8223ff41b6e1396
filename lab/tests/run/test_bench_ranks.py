"""``mpiexec -n N ferry bench``: IOR's flags with MPI ranks in the place of threads."""

from __future__ import annotations

import contextlib
import json
import os
import resource
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from documents import validated
from ferry.programs import find_program
from ferry.sizes import KIB
from ferry_lab.run.measuring import mpiexec, read_mpi_info
from ferry_lab.run.ranks import MPI_PROGRAM
from measured import corrupt
from mpi import OVERSUBSCRIBED, needs_mpi
from processes import is_measuring, wait_until
from support import TIMEOUT_S, Command, mock_of_pvfs2

pytestmark = needs_mpi

FEW = [["ferry", "-c"], ["mpiio", "-c"], ["posix"]]
WAYS = [["ferry"], ["ferry", "-c"], ["mpiio"], ["mpiio", "-c"], ["posix"]]
SMALL = ["-b", "64k", "-t", "16k", "-s", "2", "-i", "2"]


def words(command: Command, ranks: int, *arguments: object) -> list[str]:
    return [*mpiexec(), "-n", str(ranks), *command.arguments("bench", *arguments)]


def launch(
    command: Command, ranks: int, *arguments: object, file_bytes: int = resource.RLIM_INFINITY
) -> subprocess.CompletedProcess[str]:
    """Runs it to its end. Writes behind ``file_bytes`` fail."""

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (file_bytes, file_bytes))

    return subprocess.run(
        words(command, ranks, *arguments),
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        timeout=TIMEOUT_S,
        env={**command.environment, **OVERSUBSCRIBED},
        cwd=command.scratch,
        preexec_fn=limit,
    )


def measured(command: Command, ranks: int, *arguments: object) -> tuple[dict[str, Any], str]:
    """The document of one that must succeed, in silence, and what it printed."""
    path = command.scratch.parent / "r.json"
    path.unlink(missing_ok=True)
    done = launch(command, ranks, *arguments, "--json", path)
    assert (done.returncode, done.stderr) == (0, "")
    return validated(path), done.stdout


def complaint(command: Command, ranks: int, *arguments: object, **limits: int) -> str:
    """The only line of one that must fail. mpiexec may add what it thinks of ranks that fail."""
    done = launch(command, ranks, *arguments, **limits)
    assert done.returncode != 0
    assert "access" not in done.stdout
    (line,) = [line for line in done.stderr.splitlines() if line.startswith("ferry: ")]
    wait_until(lambda: command.processes() == [])
    return line


@contextmanager
def running(command: Command, *arguments: object) -> Iterator[subprocess.Popen[str]]:
    """One of two ranks that measures for long; gives mpiexec."""
    process = subprocess.Popen(
        words(command, 2, *arguments),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**command.environment, **OVERSUBSCRIBED},
        cwd=command.scratch,
        start_new_session=True,
    )
    try:
        wait_until(lambda: is_measuring(command) and any(command.scratch.iterdir()))
        yield process
    finally:
        process.kill()


@pytest.mark.parametrize("way", WAYS, ids=" ".join)
@pytest.mark.parametrize("flags", [[], ["-F"], ["-z"], ["-F", "-z", "-C"], ["-Z"]], ids=" ".join)
def test_writes_and_reads_what_iors_flags_say(command: Command, way: list[str], flags: list[str]) -> None:
    document, shown = measured(command, 3, "-a", *way, *SMALL, "-w", "-r", "-R", "-e", "-k", *flags, "file")
    assert [row["operation"] for row in document["rows"]] == ["write", "read"]
    for row in document["rows"]:
        assert (row["interface"], row["collective"], row["ranks"]) == (way[0], "-c" in way, 3)
        assert (row["total_bytes"], row["segments"], row["verified"]) == (3 * 128 * KIB, 2, True)
        assert (row["file_per_rank"], row["random"]) == ("-F" in flags, "-z" in flags)
        assert [(one["repeat"], one["operations"]) for one in row["repeats"]] == [(0, 24), (1, 24)]
        assert all((one["sync_ns"] > 0) == (row["operation"] == "write") for one in row["repeats"])
    assert document["settings"]["ranks"] == 3
    assert shown.count("access ") == 1
    assert len([line for line in shown.splitlines() if line.startswith(("write  ", "read  "))]) == 4
    # Threads write the same bytes in the same places.
    ours = sorted(command.scratch.glob("file*"))
    assert len(ours) == (3 if "-F" in flags else 1)
    own = ["-F"] if "-F" in flags else []
    command.succeeds("bench", "-a", "posix", *SMALL, "-w", "-k", "--threads", 3, *own, "other")
    for path in ours:
        assert path.read_bytes() == path.with_name(path.name.replace("file", "other")).read_bytes()


@pytest.mark.parametrize("way", WAYS, ids=" ".join)
def test_files_that_are_there_are_read_and_compared(command: Command, scratch: Path, way: list[str]) -> None:
    contents = os.urandom(512 * KIB)
    (scratch / "mine").write_bytes(contents)
    document, _ = measured(command, 2, "-a", *way, *SMALL, "-r", "-C", "-z", "mine")
    (row,) = document["rows"]
    assert (row["cache_state"], row["repeats"][0]["pattern_seed"]) == ("hot", None)
    assert (scratch / "mine").read_bytes() == contents
    assert complaint(command, 2, "-a", *way, *SMALL, "-r", "-R", "mine").startswith(
        f"ferry: {scratch}/mine does not hold the pattern that ferry bench writes"
    )


@pytest.mark.parametrize("way", WAYS, ids=" ".join)
@pytest.mark.parametrize("own", [[], ["-F"]], ids=" ".join)
def test_a_wrong_byte_is_found(command: Command, scratch: Path, way: list[str], own: list[str]) -> None:
    measured(command, 2, "-a", *way, *SMALL, *own, "-w", "-k", "file")
    corrupt(scratch / ("file.00000001" if own else "file"), 100 * KIB)
    found = complaint(command, 2, "-a", *way, *SMALL, *own, "-r", "-R", "file")
    assert f"the contents of {scratch}/file are wrong, by way of {way[0]} (rank " in found


# Which the others, in collective calls, wait for.
@pytest.mark.parametrize("way", WAYS, ids=" ".join)
def test_a_rank_that_fails_alone_ends_all(command: Command, scratch: Path, way: list[str]) -> None:
    flags = ["-a", *way, "-b", "2m", "-t", "64k", "-w", "file"]
    found = complaint(command, 3, *flags, file_bytes=5 << 20)
    assert f"writing {scratch}/file, by way of {way[0]} (rank " in found
    assert list(scratch.iterdir()) == []


@pytest.mark.parametrize("way", [["ferry", "-c"], ["mpiio", "-c"]], ids=" ".join)
def test_a_rank_that_cannot_verify_ends_all(command: Command, way: list[str]) -> None:
    """The kernel gives the file a size that is larger than what can be read, here by the last rank alone."""
    path = Path("/sys/devices/system/node/node0/meminfo")
    there, said = (len(path.read_bytes()), path.stat().st_size) if path.exists() else (0, 0)
    block = (there // 64 - 2) * 64
    if not there < 2 * block <= said:
        pytest.skip("the kernel has no such file")
    assert str(path) in complaint(command, 2, "-a", *way, "-r", "-t", 64, "-b", block, path)


def test_files_stay_or_go_as_they_are_asked_to(command: Command, scratch: Path) -> None:
    measured(command, 2, "-a", "mpiio", *SMALL, "file")
    assert list(scratch.iterdir()) == []
    (scratch / "mine").write_bytes(bytes(1 << 20))  # more than is written
    assert "exists" in complaint(command, 2, "-a", "mpiio", *SMALL, "-w", "mine")
    measured(command, 2, "-a", "mpiio", *SMALL, "-w", "--overwrite", "mine")
    assert (scratch / "mine").stat().st_size == 256 * KIB


def in_place(command: Command, ranks: int, name: str, *arguments: object) -> bytes:
    """Writes to a file that is there, by so many ranks or with 0 by three threads, and returns what it holds then."""
    path = command.scratch / name
    path.write_bytes(b"before")
    flags = [*arguments, "-w", "--overwrite", "-i", "1", name]
    if ranks:
        measured(command, ranks, *flags)
    else:
        command.succeeds("bench", "--threads", 3, *flags)
    return path.read_bytes()


@pytest.mark.parametrize("way", FEW, ids=" ".join)
def test_draws_the_places_that_threads_draw(command: Command, way: list[str]) -> None:
    """What is read back afterwards is made whole before, with -W; else places that were not drawn are holes."""
    flags = ["-b", "256k", "-t", "16k", "-s", "2", "--distribution", "hotspot:25/90"]
    drawn = in_place(command, 3, "a", "-a", *way, *flags)
    assert drawn == in_place(command, 0, "b", "-a", "posix", *flags)
    assert bytes(16 * KIB) in drawn
    whole = in_place(command, 3, "a", "-a", *way, *flags, "-W")
    assert whole == in_place(command, 0, "b", "-a", "posix", *flags[:-2])


@pytest.mark.parametrize(
    ("way", "flags"),
    [(["posix"], ["--ramp", "1"]), (["ferry", "-c"], ["--ramp", "1"]), (["mpiio", "-c"], ["-z", "-F"])],
    ids=["posix", "ferry -c", "mpiio -c"],
)
def test_goes_on_for_a_time(command: Command, scratch: Path, way: list[str], flags: list[str]) -> None:
    """Collective calls end behind the same one on all ranks: else they would wait for each other without end."""
    sizes = ["-b", "256k", "-t", "64k", "-i", "1", "--time", "1", "--latency"]
    document, shown = measured(command, 3, "-a", *way, *sizes, *flags, "-w", "-k", "file")
    (row,) = document["rows"]
    (one,) = row["repeats"]
    assert (row["time_ms"], row["ramp_ms"]) == (1000, 1000 if "--ramp" in flags else 0)
    assert one["operations"] > 12  # over and over
    assert one["bytes"] == one["operations"] * 64 * KIB
    assert "-c" not in way or one["operations"] % 3 == 0
    assert one["operations"] == one["latency_ns"]["samples"] == row["latency_ns"]["samples"]
    assert sum(calls for _, _, calls in row["latency_ns"]["histogram"]) == one["operations"]
    assert shown.count(": latency of single calls (µs, calls, share)") == 1
    sizes_of = [path.stat().st_size for path in scratch.glob("file*")]
    assert sizes_of == ([256 * KIB] * 3 if "-F" in flags else [768 * KIB])


@pytest.mark.parametrize("way", FEW, ids=" ".join)
def test_a_deadline_ends_a_repeat(command: Command, scratch: Path, way: list[str]) -> None:
    """A rate lets no rank make all of its calls before: they are due after 0, 1/2, 2/2 seconds and so on."""
    flags = ["-b", "256k", "-t", "16k", "--rate", "32k", "-D", "1"]
    written = in_place(command, 3, "file", "-a", *way, *flags)
    (row,) = validated(scratch.parent / "r.json")["rows"]
    (one,) = row["repeats"]
    assert one["deadline_reached"]
    assert 3 <= one["operations"] <= 6
    assert "-c" not in way or one["operations"] % 3 == 0
    blocks = [written[at : at + 16 * KIB] for at in range(0, len(written), 16 * KIB)]
    assert sum(any(block) for block in blocks) == one["operations"]
    # What is read afterwards is made whole before.
    document, shown = measured(command, 3, "-a", *way, *flags, "-w", "-r", "-R", "-i", "1", "other")
    assert [row["repeats"][0]["deadline_reached"] for row in document["rows"]] == [True, True]
    assert "note: read: the deadline ended 1 of 1 repeats" in shown


@pytest.mark.parametrize("way", WAYS, ids=" ".join)
def test_reads_and_writes_are_mixed(command: Command, scratch: Path, way: list[str]) -> None:
    """By the same draw as with threads, where each rank draws for itself; by collective calls all do the same."""
    flags = ["-b", "64k", "-t", "4k", "--mix", "60", "-z", "-R", "-e", "-i", "2", "--latency"]
    document, shown = measured(command, 3, "-a", *way, *flags, "file")
    (row,) = document["rows"]
    assert (row["operation"], row["read_percent"], row["verified"]) == ("mixed", 60, True)
    command.succeeds("bench", "-a", "posix", "--threads", 3, *flags, "--json", scratch.parent / "t.json", "file")
    threads = validated(scratch.parent / "t.json")["rows"][0]["repeats"][0]["mixed"]["read_operations"]
    for one in row["repeats"]:
        mixed = one["mixed"]
        assert one["operations"] == 48
        assert mixed["read_operations"] == mixed["read_latency_ns"]["samples"]
        assert mixed["read_operations"] + mixed["write_latency_ns"]["samples"] == 48
        assert mixed["read_operations"] % 3 == 0 if "-c" in way else mixed["read_operations"] == threads
        assert 0 < mixed["read_operations"] < 48
    assert "mixed: reads: " in shown
    assert list(scratch.iterdir()) == []


@pytest.mark.parametrize("way", [["ferry", "-c"], ["posix"]], ids=" ".join)
def test_goes_past_the_page_cache(command: Command, scratch: Path, way: list[str]) -> None:
    document, shown = measured(command, 2, "-a", *way, *SMALL, "--direct", "-w", "-r", "-R", "-W", "file")
    assert [row["direct"] for row in document["rows"]] == [True, True]
    assert "direct I/O (O_DIRECT), " in shown
    if not _takes_direct(scratch):
        pytest.skip("no direct I/O on this file system")
    flags = ["-a", *way, "-b", "1m", "-t", "64k", "--direct", "--time", "3600", "-i", "1"]
    with running(command, *flags, "-w", "file") as process:
        wait_until(lambda: any(_has_direct(one, scratch / "file") for one in Path("/proc").iterdir()))
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=TIMEOUT_S)
    wait_until(lambda: command.processes() == [] and list(scratch.iterdir()) == [])


def _takes_direct(folder: Path) -> bool:
    try:
        os.close(os.open(folder, os.O_TMPFILE | os.O_RDWR | os.O_DIRECT))
    except OSError:
        return False
    return True


def _has_direct(process: Path, path: Path) -> bool:
    """Whether a process has the file open for direct I/O."""
    if not process.name.isdecimal():
        return False
    with contextlib.suppress(OSError):
        for opened in (process / "fd").iterdir():
            with contextlib.suppress(OSError):
                flags = (process / "fdinfo" / opened.name).read_text().split("flags:")[1].split()[0]
                if os.readlink(opened) == str(path) and int(flags, 8) & os.O_DIRECT:
                    return True
    return False


@pytest.mark.parametrize("way", [[], ["-c"], ["-F", "-C"]], ids=" ".join)
def test_files_of_a_uri_are_written_and_read(command: Command, tmp_path: Path, way: list[str]) -> None:
    command.environment |= mock_of_pvfs2(tmp_path)
    document, shown = measured(command, 2, "-a", "ferry", *way, *SMALL, "-R", "-w", "-r", "-e", "pvfs2:/mock/file")
    assert [(row["operation"], row["cache_state"]) for row in document["rows"]] == [
        ("write", None),
        ("read", "unverified"),
    ]
    assert "on storage pvfs2" in shown
    assert list((tmp_path / "served").iterdir()) == []


def test_is_one_rank_under_mpiexec_with_one(command: Command) -> None:
    document, shown = measured(command, 1, "-a", "mpiio", *SMALL, "-w", "file")
    assert document["rows"][0]["ranks"] == 1
    assert "independent calls of 1 rank\n" in shown


def test_two_documents_are_compared(command: Command, scratch: Path) -> None:
    for name, way in (("a", ["mpiio"]), ("b", ["posix"])):
        measured(command, 2, "-a", *way, *SMALL, "file")
        (scratch.parent / "r.json").rename(scratch.parent / f"{name}.json")
    shown = command.succeeds("compare", scratch.parent / "a.json", scratch.parent / "b.json")
    assert "settings.interface" in shown and "MiB/s, transfers" in shown


@pytest.mark.parametrize(
    ("flags", "says"),
    [
        (["-a", "uring"], "-a uring is for threads; ranks have -a ferry, posix, mpiio"),
        (["-a", "posix", "-c"], "-c is for -a ferry and mpiio"),
        (["--threads", "2"], "--threads is for threads; leave it out, or leave out mpiexec"),
        (["--warm"], "--warm is for threads"),
        (["-a", "mpiio", "--direct"], "--direct is for -a ferry and posix"),
        (["-t", "2g", "-b", "2g"], "-t of ranks is at most 1 GiB"),
        (["-t", "3k"], "is no multiple of -t 3 KiB"),
        (["--what"], "No such option"),
        (["-r", "none"], "none does not exist"),
        (["-r", "small"], "with 3 ranks needs 48 MiB"),
        (["-a", "mpiio", "ceph:/f"], "-a mpiio reaches files of mounted file systems only"),
    ],
    ids=lambda one: " ".join(one) if isinstance(one, list) else "",
)
def test_what_is_wrong_is_said_once(command: Command, scratch: Path, flags: list[str], says: str) -> None:
    (scratch / "small").write_bytes(bytes(1 << 20))
    path = [] if flags[-1] in ("none", "small", "ceph:/f") else ["file"]
    assert says in complaint(command, 3, *flags, *path)


def test_shows_its_help_once(command: Command) -> None:
    done = launch(command, 3, "--help")
    assert (done.returncode, done.stderr, done.stdout.count("Usage:")) == (0, "", 1)


def test_the_checkouts_command_shows_its_help_once(command: Command) -> None:
    ferry = Path(__file__).parents[3] / "ferry"
    for _ in range(5):
        done = subprocess.run(
            [*mpiexec(), "-n", "3", ferry, "bench", "--help"],
            capture_output=True,
            text=True,
            stdin=subprocess.DEVNULL,
            timeout=TIMEOUT_S,
            env={**command.environment, **OVERSUBSCRIBED},
        )
        if done.returncode != -signal.SIGPIPE:
            break  # else MPICH's mpiexec, as at times where ranks end at once
    assert (done.returncode, done.stderr, done.stdout.count("Usage:")) == (0, "", 1)


def test_another_librarys_mpiexec_is_refused_once(command: Command) -> None:
    rank, size = "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"
    if read_mpi_info()["mpi"].startswith("Open MPI"):
        rank, size = "PMI_RANK", "PMI_SIZE"
    command.environment |= {rank: "0", size: "2"}
    command.fails("bench", "-w", "file", says="this mpiexec is of another MPI library than ferry-bench-mpi (")
    command.environment[rank] = "1"
    done = command.run("bench", "-w", "file")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_nothing_says_how_many_ranks(command: Command) -> None:
    command.environment["PMIX_RANK"] = "0"
    command.fails("bench", "-w", "file", says="nothing says how many; start them with mpiexec")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_interrupted(command: Command, scratch: Path, number: signal.Signals) -> None:
    with running(command, "-a", "mpiio", "-b", "1m", "-i", "100000", "-w", "file") as process:
        process.send_signal(number)
        _, errors = process.communicate(timeout=TIMEOUT_S)
    assert errors.count("ferry: interrupted; scratch files are removed\n") <= 1
    wait_until(lambda: command.processes() == [] and list(scratch.iterdir()) == [])


def test_a_rank_waits_for_none_that_was_interrupted_before(command: Command) -> None:
    first = ["sh", "-c", "trap 'kill $!; exit 130' INT; sleep 1000 & wait; exit 130"]
    process = subprocess.Popen(
        [*mpiexec(), "-n", "1", *first, ":", "-n", "1", str(find_program(MPI_PROGRAM)), "--other"],
        stdin=subprocess.DEVNULL,
        env={**command.environment, **OVERSUBSCRIBED},
        start_new_session=True,
    )
    try:
        wait_until(lambda: any(_holds(command, one, signal.SIGINT) for one in Path("/proc").iterdir()))
        process.send_signal(signal.SIGINT)
        process.wait(timeout=TIMEOUT_S / 4)
    finally:
        process.kill()
    wait_until(lambda: command.processes() == [])


def test_a_rank_does_not_outlive_what_started_it(command: Command) -> None:
    with running(command, "-a", "mpiio", "-b", "1m", "-i", "100000", "-w", "file") as process:
        (parent,) = (
            int(one.name)
            for one in Path("/proc").iterdir()
            if one.name.isdecimal() and _is_of(command, one) and b"-m\0ferry\0bench" in _words_of(one)
        )
        os.kill(parent, signal.SIGKILL)
        process.communicate(timeout=TIMEOUT_S)
    wait_until(lambda: command.processes() == [])


def _is_of(command: Command, process: Path) -> bool:
    try:
        return command.mark.encode() in (process / "environ").read_bytes().split(b"\0")
    except OSError:
        return False


def _holds(command: Command, process: Path, number: signal.Signals) -> bool:
    if not process.name.isdecimal() or not _is_of(command, process):
        return False
    try:
        (held,) = (one for one in (process / "status").read_text().splitlines() if one.startswith("SigBlk:"))
    except OSError:
        return False
    return int(held.split()[1], 16) >> (number - 1) & 1 == 1


def _words_of(process: Path) -> bytes:
    try:
        found = (process / "cmdline").read_bytes()
    except OSError:
        return b""
    return found if found.startswith(os.fsencode(Path(sys.executable))) else b""


def test_json_goes_to_standard_output(command: Command) -> None:
    done = launch(command, 2, "-a", "posix", *SMALL, "-w", "file", "--json", "-")
    assert (done.returncode, json.loads(done.stdout)["rows"][0]["ranks"]) == (0, 2)
