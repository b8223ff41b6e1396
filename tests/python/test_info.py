"""``ferry info``: its facts about machine and path, and what it leaves untouched."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

from support import TIMEOUT_S, Command

PLACEMENTS = ["host", "compute", "service", "automatic"]


def test_info_of_this_machine(command: Command) -> None:
    text = command.succeeds("info")
    for word in ("device", "I/O server", "arena", "page cache", "degraded", "built in"):
        assert word in text
    lines = text.splitlines()
    first = next(i for i, line in enumerate(lines) if line.startswith("placements "))
    assert [line[14:].split()[0] for line in lines[first : first + 4]] == PLACEMENTS
    assert "the default" in lines[first]


def test_info_says_what_automatic_decides_from(command: Command) -> None:
    text = " ".join(command.succeeds("info").split())
    assert "automatic built-in: what is not in the device's cache goes to the host, from 64" in text
    assert "profile none: profiles are not wanted (FERRY_PROFILE is empty" in text


def test_info_of_a_path(command: Command, data: Path) -> None:
    facts = command.json("info", data)
    assert facts["schema"] == "ferry.info/2"
    path = facts["path"]
    assert path["kind"] == "file"
    assert path["size_bytes"] == 2 << 20
    assert path["file_system"]["type"]
    assert path["served"]["storage"] == "posix"
    text = command.succeeds("info", data)
    assert path["file_system"]["type"] in text
    assert "served by" in text


def test_info_leaves_nothing_in_a_folder(command: Command, scratch: Path) -> None:
    assert "direct I/O" in command.succeeds("info", scratch)
    assert list(scratch.iterdir()) == []


def test_info_of_a_fifo_does_not_open_it(command: Command, scratch: Path) -> None:
    """Opening it would wait for a writer, or let one start whose data is lost."""
    fifo = scratch / "fifo"
    os.mkfifo(fifo)
    with subprocess.Popen(["bash", "-c", 'echo bytes >"$0"', str(fifo)]) as writer:
        try:
            done = command.run("info", fifo, "--json", "-")
            shown = command.run("info", fifo)
            assert writer.poll() is None, "the writer was let begin"
            reader = os.open(fifo, os.O_RDONLY | os.O_NONBLOCK)
            assert writer.wait(TIMEOUT_S) == 0
            assert os.read(reader, 100) == b"bytes\n"
            os.close(reader)
        finally:
            writer.kill()
    assert (done.stderr, done.returncode) == ("", 0)
    assert json.loads(done.stdout)["path"]["kind"] == "FIFO"
    assert "FIFO" in shown.stdout


def test_info_says_which_client_libraries_are_there(command: Command, scratch: Path) -> None:
    text = " ".join(command.succeeds("info", "--json", scratch / "info.json").split())
    clients = json.loads((scratch / "info.json").read_text())["clients"]
    assert [client["storage"] for client in clients] == ["nfs", "ceph", "pvfs2"]
    for client in clients:
        if client["problem"] is None:
            assert f"{client['storage']}: {client['library']}" in text
        else:
            assert client["problem"].startswith(f"{client['library']} cannot be loaded; install ")
            assert f"{client['storage']}: {client['problem']}" in text


def test_info_says_what_to_install(command: Command, scratch: Path) -> None:
    """Libraries of these names are found first, and are none."""
    for name in ("libnfs.so.13", "libnfs.so.14", "libcephfs.so.2"):
        (scratch / name).write_bytes(b"not a library")
    environment = {**command.environment, "LD_LIBRARY_PATH": str(scratch)}
    text = " ".join(command.succeeds("info", env=environment).split())
    for storage, library, package in (
        ("nfs", "libnfs.so.13 or libnfs.so.14", "libnfs13 or libnfs14"),
        ("ceph", "libcephfs.so.2", "libcephfs2"),
    ):
        assert f"{storage}: {library} cannot be loaded; install the Debian package {package}" in text


def test_info_of_a_path_loads_no_client(command: Command, scratch: Path) -> None:
    assert command.json("info", scratch)["clients"] is None
