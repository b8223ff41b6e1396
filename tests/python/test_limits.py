"""The ``ferry`` command on a machine that withholds something: it works, or says in one line what is missing."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from datetime import datetime, timedelta
from pathlib import Path

import pytest

import limits
from support import BUILD, Command, built, in_own_mounts

THREADS = "raise the limit of processes (ulimit -u)"
DESCRIPTORS = "raise the limit of open files (ulimit -n)"
MEMORY = "raise the limit of memory (ulimit -v)"
# What cannot be had without these, and what the line says then.
REFUSED = {("no-threads", "info"): THREADS, ("no-threads", "cp"): THREADS, ("no-threads", "bench"): THREADS}
# Where there is so little of something, it depends on Python how far a command comes.
SCARCE = {"8-descriptors": DESCRIPTORS, "150-MiB": MEMORY}
# What `ferry info` says is degraded, or in force.
SHOWN = {
    "io_uring-unknown": "the kernel refuses io_uring: Function not implemented; blocking calls on worker threads",
    "io_uring-forbidden": "the kernel refuses io_uring: Operation not permitted; blocking calls on worker threads",
    "no-huge-pages": "arena 4 KiB pages",
    "no-locked-memory": "raise the limit of locked memory, ulimit -l",
    "one-cpu": "oversubscribed",
}
COMMANDS = {
    "info": ["info", "from", "--json", "facts.json"],
    "cp": ["cp", "from", "to"],
    "bench": ["bench", "-b", "256k", "-t", "64k", "--placement", "compute", "--json", "facts.json", "data"],
}


# By a program that tries to have it: what it prints, or how it fails.
_IO_URING = "import ctypes; c = ctypes.CDLL(None, use_errno=True); print(c.syscall(425, 1, 0), ctypes.get_errno())"
_DESCRIPTORS = "import os; all(os.dup(0) for _ in range({0}))"
_MEMORY = "bytearray({0} << 20)"
_LOCKED = "import ctypes; c = ctypes.CDLL(None, use_errno=True); print(c.mlock(ctypes.create_string_buffer(9), 9))"
_THREADS = "import threading; threading.Thread(target=print).start()"
_CLOCK = "import time; times = [time.time() for _ in range(40)]; print(max(times) - min(times) > 100_000)"
WITHHELD = {
    "io_uring-unknown": (_IO_URING, "-1 38"),
    "io_uring-forbidden": (_IO_URING, "-1 1"),
    "no-huge-pages": ("import ctypes; print(ctypes.CDLL(None).prctl(42, 0, 0, 0, 0))", "1"),
    "no-locked-memory": (_LOCKED, "-1"),
    "no-threads": (_THREADS, "can't start new thread"),
    "one-cpu": ("import os; print(len(os.sched_getaffinity(0)))", "1"),
    "no-home": ("import pathlib; (pathlib.Path.home() / 'mine').write_text('')", "FileNotFoundError"),
    "clock-jumps": (_CLOCK, "True"),
    "time-zone-east": ("import time; print(time.strftime('%z'))", "+1400"),
    "time-zone-unknown": ("import time; print(time.tzname[0])", "Nowhere"),
    **{f"{most}-descriptors": (_DESCRIPTORS.format(most), "Too many open files") for most in (8, 16, 40)},
    **{f"{most}-MiB": (_MEMORY.format(most), "MemoryError") for most in (150, 400)},
}


@pytest.fixture
def limited(command: Command) -> Command:
    """The command with a file ``from``, and where a limit finds the clock that jumps."""
    clock = BUILD / "libferry_jumping_clock.so"
    if clock.exists():  # not with a sanitizer
        command.environment["FERRY_JUMPING_CLOCK"] = built("ferry_jumping_clock")
    (command.scratch / "from").write_bytes(os.urandom(3_000_000))
    return command


def run(command: Command, limit: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Runs it under the limit; it ends well, or with one line and nothing left behind."""
    before = {path: path.read_bytes() for path in command.scratch.iterdir()}
    words = [sys.executable, limits.__file__, limit, "--", *command.arguments(*arguments)]
    done = subprocess.run(
        words,
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        env=command.environment,
        cwd=command.scratch,
        check=False,
    )
    assert done.returncode in (0, 1), done.stderr
    assert done.stderr.count("\n") == done.returncode, done.stderr
    if done.returncode == 1:
        assert {path: path.read_bytes() for path in command.scratch.iterdir()} == before
    assert command.processes() == []
    return done


def check_result(command: Command, limit: str, name: str) -> None:
    """What the command has made is right and whole."""
    if name == "cp":
        assert (command.scratch / "to").read_bytes() == (command.scratch / "from").read_bytes()
        return
    facts = json.loads((command.scratch / "facts.json").read_text())
    if name == "info":
        assert facts["path"]["size_bytes"] == 3_000_000
    else:
        assert facts["rows"], "no rows"
        zone = datetime.fromisoformat(facts["started"]).utcoffset()
        assert zone is not None
        if limit == "time-zone-east":
            assert zone == timedelta(hours=14)


def needs_clock(limited: Command, limit: str) -> None:
    if limit == "clock-jumps" and "FERRY_JUMPING_CLOCK" not in limited.environment:
        pytest.skip("the clock that jumps is not built")


@pytest.mark.parametrize("limit", limits.LIMITS)
def test_a_limit_withholds_what_it_says(limited: Command, limit: str) -> None:
    needs_clock(limited, limit)
    program, says = WITHHELD[limit]
    done = subprocess.run(
        [sys.executable, limits.__file__, limit, "--", sys.executable, "-c", program],
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        env=limited.environment,
        check=False,
    )
    if done.returncode == 0:
        assert done.stdout.strip() == says, done.stderr
    else:
        assert says in done.stderr


@pytest.mark.parametrize("name", COMMANDS)
@pytest.mark.parametrize("limit", limits.LIMITS)
def test_a_command_works_or_says_what_is_missing(limited: Command, limit: str, name: str) -> None:
    needs_clock(limited, limit)
    done = run(limited, limit, *COMMANDS[name])
    if done.returncode == 0:
        assert (limit, name) not in REFUSED
        check_result(limited, limit, name)
    else:
        assert REFUSED.get((limit, name), SCARCE.get(limit, "nothing may fail here")) in done.stderr


@pytest.mark.parametrize("limit", SHOWN)
def test_info_shows_what_is_degraded(limited: Command, limit: str) -> None:
    assert SHOWN[limit] in " ".join(run(limited, limit, "info").stdout.split())


def test_a_study_with_ranks_says_what_is_missing(limited: Command) -> None:
    done = run(limited, "16-descriptors", "study", "endian", "--quick", "--out", "out")
    assert done.returncode == 1
    if "ferry-bench-mpi" in done.stderr:  # it is built, and there is an mpiexec
        # By an assertion or an error of its own.
        ended = "ferry-bench-mpi ended with" in done.stderr
        assert DESCRIPTORS in done.stderr or ended, "the MPI library may end the process"


def test_a_cache_larger_than_memory_is_refused(limited: Command) -> None:
    bench = [*COMMANDS["bench"][:-1], "--cache-size", "8g", "data"]
    said = run(limited, "400-MiB", *bench).stderr
    assert "Cannot allocate memory; choose a smaller" in said
    assert said.count("Cannot allocate memory") == 1


@pytest.mark.parametrize(
    ("options", "says"),
    [("size=16k", "free some space or choose another folder"), ("size=64m,nr_inodes=1", "No space left on device")],
)
@pytest.mark.parametrize(
    "words", [COMMANDS["bench"], ["study", "endian", "--quick", "--repeats", "2", "--out", "facts.json"]]
)
def test_no_space_for_results(limited: Command, words: list[str], options: str, says: str, tmp_path: Path) -> None:
    """Too few bytes, which is found before, or no place for a file, which is not. The measured files lie elsewhere."""
    small = tmp_path / "small"
    small.mkdir()
    arguments = [word.replace("facts.json", str(small / "results")) for word in words]
    mount = f'mount -t tmpfs -o {options} none "$0" || exit 77; exec "$@"'
    done = subprocess.run(
        in_own_mounts("sh", "-c", mount, small, *limited.arguments(*arguments)),
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        env=limited.environment,
        cwd=limited.scratch,
        check=False,
    )
    if done.returncode == 77:
        pytest.skip("this process may not mount")
    assert done.returncode == 1
    assert says in done.stderr
    assert done.stderr.count("\n") == 1
    assert [path.name for path in limited.scratch.iterdir()] == ["from"]
