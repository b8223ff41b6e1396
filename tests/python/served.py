"""What the tests of programs under ``ferry run`` share: a ferryd of their own."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from ferry import programs
from ferry.errors import FerryError
from support import TIMEOUT_S, Command, mock_of_pvfs2

# File systems whose files ferryd serves, as stat names them.
SERVED = {"ext2/ext3", "xfs", "btrfs", "f2fs", "tmpfs"}
# Reads a file over and over in blocks, and prints the hash of each round.
READER = """
import hashlib, os, sys
path, rounds = sys.argv[1], int(sys.argv[2])
file = os.open(path, os.O_RDONLY)
size = os.fstat(file).st_size
for _ in range(rounds):
    blocks = [os.pread(file, 4096, at) for at in range(0, size + 4096, 4096)]
    print(hashlib.sha256(b"".join(blocks)).hexdigest(), [len(block) for block in blocks[-2:]])
"""


def why_absent() -> str:
    try:
        programs.find_program("ferryd")
        programs.find_library("libferry_run.so")
    except FerryError as error:
        return f"absent: {error}"
    return ""


class Node:
    """A ferryd's socket, a folder whose files it serves, and the command."""

    def __init__(self, command: Command, folder: Path, sockets: Path) -> None:
        self.command = command
        self.folder = folder
        for name in list(command.environment):
            if name.startswith(("LD_PRELOAD", "FERRY_RUN", "FERRY_IOBUF")):
                del command.environment[name]
        command.environment["XDG_RUNTIME_DIR"] = str(sockets)

    def status(self) -> dict[str, Any]:
        found: dict[str, Any] = self.command.json("daemon", "status")
        return found

    def start(self) -> int:
        self.command.succeeds("daemon", "start", "--cache", "32m")
        return int(self.status()["pid"])

    def file(self, name: str, size: int) -> Path:
        path = self.folder / name
        path.write_bytes(os.urandom(size))
        return path

    def serve(self, path: Path, *options: object) -> None:
        """Has the file read under ``ferry run OPTIONS`` until reads of it are served from the cache."""
        before = self.status()["hits"]
        deadline = time.monotonic() + TIMEOUT_S
        while self.status()["hits"] == before:
            assert time.monotonic() < deadline, self.status()
            self.command.succeeds("run", *options, "--", sys.executable, "-c", READER, path, 20)


@pytest.fixture
def node(command: Command, tmp_path: Path) -> Iterator[Node]:
    """A ferryd of its own."""
    kind = subprocess.run(["stat", "-fc", "%T", tmp_path], capture_output=True, text=True).stdout.strip()
    place = None if kind in SERVED else "/dev/shm"
    folder = Path(tempfile.mkdtemp(prefix="ferry-test-", dir=place))
    sockets = Path(tempfile.mkdtemp(prefix="ferry-test-"))  # socket paths are short
    found = Node(command, folder, sockets)
    yield found
    status = command.run("daemon", "status", "--json", "-")
    if status.returncode == 0:
        with contextlib.suppress(ProcessLookupError):
            os.kill(json.loads(status.stdout)["pid"], signal.SIGKILL)
    for scratch in (folder, sockets):
        shutil.rmtree(scratch)


@dataclass
class Server:
    """A served folder, and its URI."""

    uri: str
    folder: Path

    def named(self, name: str) -> str:
        path, _, settings = self.uri.partition("?")
        return f"{path.rstrip('/')}/{name}?{settings}" if settings else f"{path.rstrip('/')}/{name}"


@pytest.fixture(params=["NFS", "CEPH", "mock"])
def server(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    """Servers that the rigs start, and PVFS2's library as a mock, which keeps files in a folder."""
    if request.param == "mock":
        for name, value in mock_of_pvfs2(tmp_path).items():
            monkeypatch.setenv(name, value)
        yield Server("pvfs2:/mock", tmp_path / "served")
        return
    uri = os.environ.get(f"FERRY_TEST_{request.param}", "")
    if not uri:
        pytest.skip(f"absent: the server of {request.param}; ./test --stage storages starts one")
    served = Path(os.environ[f"FERRY_TEST_{request.param}_DIRECTORY"])
    name = f"programs-{os.getpid()}"
    folder = served / name
    folder.mkdir()
    yield Server(Server(uri, served).named(name), folder)
    shutil.rmtree(folder)
