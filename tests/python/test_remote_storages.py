"""Commands on remote storages; some tests need a server."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from support import Command

SERVER = os.environ.get("FERRY_TEST_NFS", "")
SERVED = Path(os.environ.get("FERRY_TEST_NFS_DIRECTORY", "/nonexistent"))
needs_server = pytest.mark.skipif(
    not SERVER, reason="absent: no NFS server; ./test --stage storages starts one"
)
RIG = Path(__file__).resolve().parents[2] / "rigs" / "rig"


def uri(name: str) -> str:
    """The server's name for a file of the served folder."""
    path, _, settings = SERVER.partition("?")
    return f"{path}/{name}?{settings}"


def test_info_says_why_a_server_cannot_be_used(command: Command) -> None:
    done = command.run("info", "nfs://127.0.0.1/x?nfsport=1&mountport=1")
    assert done.returncode == 1
    assert "the NFS server 127.0.0.1 cannot be used" in done.stderr
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize("settings", ["nonsense=1", "version=4", "uid=x"])
def test_info_says_what_is_wrong_with_a_uri(command: Command, settings: str) -> None:
    done = command.run("info", f"nfs://127.0.0.1/x?{settings}")
    assert done.returncode == 1
    assert settings.split("=")[0] in done.stderr



@needs_server
def test_info(command: Command) -> None:
    (SERVED / "info").write_bytes(b"abc")
    try:
        done = command.run("info", uri("info"), "--json", "-")
        facts = json.loads(done.stdout)["storage"]
        assert (facts["storage"], facts["engine"]) == ("nfs", "libnfs")
        assert (facts["kind"], facts["size_bytes"], facts["problem"]) == ("file", 3, None)
        assert facts["request_timeout_s"] == 30
        assert len(facts["limits"]) == 3
        shown = command.run("info", uri("info")).stdout
        assert "NFS version 3" in shown
        assert "appends by several clients" in shown
    finally:
        (SERVED / "info").unlink()
    done = command.run("info", uri("info"))
    assert done.returncode == 1
    assert "No such file or directory; name a path that is there" in done.stderr


@needs_server
def test_copy_there_and_back(command: Command, scratch: Path) -> None:
    data = os.urandom((9 << 20) + 77)
    (scratch / "from").write_bytes(data)
    before = set(SERVED.iterdir())
    try:
        assert command.run("cp", "from", uri("copied")).returncode == 0
        assert (SERVED / "copied").read_bytes() == data
        assert command.run("cp", uri("copied"), uri("again")).returncode == 0
        assert command.run("cp", uri("again"), scratch).returncode == 0
        assert (scratch / "again").read_bytes() == data
        assert command.run("cp", "from", uri("again")).returncode == 1
        assert set(SERVED.iterdir()) - before == {SERVED / "again", SERVED / "copied"}
    finally:
        for name in ("copied", "again"):
            (SERVED / name).unlink(missing_ok=True)


@needs_server
def test_a_copy_to_a_full_server_leaves_nothing(command: Command, scratch: Path) -> None:
    for name, size in (("tiny", 1), ("fits", 900 << 10), ("large", 2 << 20)):
        (scratch / name).write_bytes(bytes(size))
    small = SERVER.replace("/ferry?", "/ferry-small/to?")
    assert command.run("cp", "--overwrite", "tiny", small).returncode == 0
    done = command.run("cp", "--overwrite", "large", small)
    assert done.returncode == 1
    assert "No space left on device; free some space there" in done.stderr
    assert command.run("cp", "--overwrite", "fits", small).returncode == 0, "no room was left"
    assert command.run("cp", "--overwrite", "tiny", small).returncode == 0


@needs_server
def test_a_rig_that_is_up_stays_as_it_is() -> None:
    again = subprocess.run([RIG, "up", "nfs"], capture_output=True, text=True, check=True)
    assert again.stdout.strip() == SERVER
    status = subprocess.run([RIG, "status"], capture_output=True, text=True, check=True)
    assert ["nfs", "up", SERVER] in [line.split() for line in status.stdout.splitlines()]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [(["up", "moon"], "no rig"), (["up"], "takes a name"), (["jump", "nfs"], "no command")],
)
def test_the_rig_refuses_what_it_does_not_know(arguments: list[str], words: str) -> None:
    done = subprocess.run([RIG, *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert words in done.stderr
