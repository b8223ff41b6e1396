"""What the tests of the package and of the laboratory share: the command, and ``ferry-bench``."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from ferry import programs

import prepared

TIMEOUT_S = 120
ROOT = Path(__file__).resolve().parents[2]
SOURCES = f"{ROOT / 'python'}{os.pathsep}{ROOT / 'lab'}"  # as ./ferry has them in PYTHONPATH
BUILD = Path(os.environ.get("FERRY_BUILD_DIR", ROOT / "build" / "release")).resolve()
os.environ["FERRY_PROFILE"] = ""  # whatever profile the user has


def built(target: str) -> str:
    """The library that a target of CMake makes for tests."""
    library = BUILD / f"lib{target}.so"
    assert library.exists(), f"{library} is missing: build the target {target}"
    return str(library)


def eventually(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + TIMEOUT_S
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def run_program(*words: object, **options: Any) -> subprocess.CompletedProcess[str]:
    """Runs a program to its end, without input; what it prints is text."""
    options = {"timeout": TIMEOUT_S, "stdin": subprocess.DEVNULL} | options
    return subprocess.run(list(map(str, words)), capture_output=True, text=True, **options)


def in_own_mounts(*words: object) -> list[str]:
    """A command in a mount namespace of its own. It ends with 77 where this process may not mount.

    `unshare -m` refuses where the root directory is no mount point, as in a chroot.
    """
    program = """import os, sys
from ferry_lab.run.mounts import own_mounts
with own_mounts() as mounts:
    if mounts is None:
        sys.exit(77)
    os.execvp(sys.argv[1], sys.argv[1:])"""
    return [sys.executable, "-c", program, *map(str, words)]


@contextmanager
def raises_errno(number: int, filename: object = None, match: str | None = None) -> Iterator[None]:
    """The block raises an OSError with this errno and, if given, of this file and with this text."""
    with pytest.raises(OSError, match=match) as caught:
        yield
    assert caught.value.errno == number
    assert filename is None or os.fspath(caught.value.filename) == os.fspath(filename)


def _default_signals() -> None:
    """A test run in the background may have SIGINT ignored; the command must not inherit that."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


class Command:
    """The ``ferry`` command, run the way ``./ferry`` runs it."""

    def __init__(self, scratch: Path) -> None:
        self.scratch = scratch
        self.mark = f"FERRY_TEST_MARK={uuid.uuid4()}"
        name, value = self.mark.split("=")
        self.environment = {**os.environ, "PYTHONPATH": SOURCES, "TMPDIR": str(scratch), "COLUMNS": "80", name: value}

    def arguments(self, *arguments: object) -> list[str]:
        return [sys.executable, "-P", "-m", "ferry", *map(str, arguments)]

    def run(self, *arguments: object, **options: Any) -> subprocess.CompletedProcess[str]:
        """Runs it to its end."""
        usual: dict[str, Any] = {"env": self.environment, "cwd": self.scratch, "timeout": TIMEOUT_S}
        options = usual | options
        if options.keys() == usual.keys():
            done = prepared.run(list(map(str, arguments)), options["env"], options["cwd"], options["timeout"])
            if done is not None:
                return done
        return run_program(*self.arguments(*arguments), **options)

    def succeeds(self, *arguments: object, **options: Any) -> str:
        """Runs it to its end; returns what it printed."""
        done = self.run(*arguments, **options)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def json(self, *arguments: object) -> Any:
        """Runs it with ``--json -``; returns the document."""
        return json.loads(self.succeeds(*arguments, "--json", "-"))

    def fails(self, *arguments: object, says: str, status: int = 1, **options: Any) -> str:
        """Runs it; it fails with this status and in one line, which it returns.

        Only ``info`` prints what it knows all the same.
        """
        done = self.run(*arguments, **options)
        assert done.returncode == status, done.stderr
        assert done.stdout == "" or arguments[0] == "info"
        assert says in done.stderr
        assert done.stderr.count("\n") == 1
        return done.stderr

    def start(self, *arguments: object, **options: Any) -> subprocess.Popen[str]:
        """Starts it in a process group of its own."""
        return subprocess.Popen(
            self.arguments(*arguments),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=self.environment,
            cwd=self.scratch,
            start_new_session=True,
            preexec_fn=_default_signals,
            **options,
        )

    def processes(self) -> list[str]:
        """Command lines of what runs of this command and of what it started."""
        found = []
        for process in Path("/proc").iterdir():
            try:
                if self.mark.encode() in (process / "environ").read_bytes().split(b"\0"):
                    found.append((process / "cmdline").read_text().replace("\0", " "))
            except OSError:
                continue
        return found


def mock_of_pvfs2(folder: Path) -> dict[str, str]:
    """The variables by which pvfs2:/mock is the new folder ``folder``/served, through a mock of PVFS2's library."""
    (folder / "served").mkdir()
    table = folder / "pvfs2tab"
    table.write_text(f"mock:{folder}/served /mock pvfs2 defaults 0 0\n")
    return {"LD_LIBRARY_PATH": str(BUILD / "mocks"), "PVFS2TAB_FILE": str(table)}


def copy_there_and_back(command: Command, uri: Callable[[str], str], served: Path) -> None:
    """Copies a file to a storage, on it and back. The storage's folder is also ``served``."""
    before, data = set(served.iterdir()), os.urandom((9 << 20) + 77)
    (command.scratch / "from").write_bytes(data)
    assert "verified" in command.succeeds("cp", "from", uri("copied"))
    assert (served / "copied").read_bytes() == data
    command.succeeds("cp", uri("copied"), uri("again"))
    command.succeeds("cp", uri("again"), command.scratch)
    assert (command.scratch / "again").read_bytes() == data
    command.fails("cp", "from", uri("again"), says="--overwrite replaces it")
    assert set(served.iterdir()) - before == {served / "again", served / "copied"}


def run_python(
    program: str, *arguments: object, flags: tuple[str, ...] = (), **environment: str
) -> subprocess.CompletedProcess[str]:
    """Runs the text of a program. What it writes to standard error is buffered, as it usually is."""
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    return run_program(sys.executable, *flags, "-c", program, *arguments, env=kept | environment)


def write_safetensors(path: Path, header: object, data: bytes) -> None:
    """Writes a file with this header: JSON, or bytes as they are."""
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text + data)


@pytest.fixture
def scratch(tmp_path: Path) -> Path:
    """An empty folder that is also $TMPDIR of the command."""
    folder = tmp_path / "scratch"
    folder.mkdir()
    return folder


@pytest.fixture
def command(scratch: Path) -> Command:
    """The command, with ``scratch`` as its folder."""
    return Command(scratch)


def run_bench(plan: dict[str, Any], **options: Any) -> tuple[int, list[dict[str, Any]]]:
    """Runs ``ferry-bench`` on a plan: exit status and lines."""
    done = subprocess.run(
        [str(programs.find_program()), "--plan", "-"],
        input=json.dumps({"schema": "ferry.plan/3", **plan}),
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        **options,
    )
    return done.returncode, [json.loads(line) for line in done.stdout.splitlines()]


def cell(path: Path, **changes: Any) -> dict[str, Any]:
    """A small read cell, with changes."""
    return {
        "id": "a",
        "interface": "ferry",
        "operation": "read",
        "path": str(path),
        "transfer_bytes": 4096,
        "total_bytes": 65536,
        **changes,
    }


@pytest.fixture
def path(tmp_path: Path, data: bytes) -> Path:
    """A file of the bytes ``data``, which the module of the test defines."""
    found = tmp_path / "file"
    found.write_bytes(data)
    return found


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A file of 2 MiB with the pattern of seed 5."""
    path = tmp_path / "data"
    status, _ = run_bench({"cells": [cell(path, operation="write", total_bytes=2 << 20, keep=True, seed=5)]})
    assert status == 0
    return path
