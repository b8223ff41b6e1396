"""Commands on remote storages; some tests need a server."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from support import ROOT, Command, copy_there_and_back, run_program

SERVER = os.environ.get("FERRY_TEST_NFS", "")
SERVED = Path(os.environ.get("FERRY_TEST_NFS_DIRECTORY", "/nonexistent"))
needs_server = pytest.mark.skipif(not SERVER, reason="absent: no NFS server; ./test --stage storages starts one")
RIG = ROOT / "rigs" / "rig"


def uri(name: str) -> str:
    """The server's name for a file of the served folder."""
    path, _, settings = SERVER.partition("?")
    return f"{path}/{name}?{settings}"


@pytest.fixture(name="folder")
def clean_folder() -> Iterator[None]:
    """Restores the served folder at the end."""
    before = set(SERVED.iterdir())
    yield
    for path in set(SERVED.iterdir()) - before:
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink()


@pytest.mark.parametrize(
    ("uri", "says"),
    [
        ("nfs://127.0.0.1/x?nfsport=1&mountport=1", "the NFS server 127.0.0.1 cannot be used"),
        ("nfs://127.0.0.1/x?nonsense=1", "nonsense"),
        ("nfs://127.0.0.1/x?version=4", "version"),
        ("nfs://127.0.0.1/x?uid=x", "uid"),
        ("ceph:/x?conf=/absent/ceph.conf", "the Ceph cluster of /absent/ceph.conf cannot be used"),
        ("ceph:/x?nonsense=1", "nonsense"),
        ("ceph:/x?timeout=0", "timeout"),
        ("ceph:/x?uid=x", "uid"),
    ],
)
def test_info_says_why_a_uri_cannot_be_used(command: Command, uri: str, says: str) -> None:
    command.fails("info", uri, says=says)


@needs_server
def test_info(command: Command, folder: None) -> None:
    (SERVED / "info").write_bytes(b"abc")
    facts = command.json("info", uri("info"))["storage"]
    assert (facts["storage"], facts["engine"]) == ("nfs", "libnfs")
    assert (facts["kind"], facts["size_bytes"], facts["problem"]) == ("file", 3, None)
    assert facts["request_timeout_s"] == 30
    assert len(facts["limits"]) == 3
    shown = command.succeeds("info", uri("info"))
    assert "NFS version 3" in shown
    assert "appends by several clients" in shown
    (SERVED / "info").unlink()
    command.fails("info", uri("info"), says="No such file or directory; name a path that exists")


@needs_server
def test_copy_there_and_back(command: Command, folder: None) -> None:
    copy_there_and_back(command, uri, SERVED)


@needs_server
def test_a_copy_to_a_full_server_leaves_nothing(command: Command, scratch: Path) -> None:
    for name, size in (("tiny", 1), ("fits", 900 << 10), ("large", 2 << 20)):
        (scratch / name).write_bytes(bytes(size))
    small = SERVER.replace("/ferry?", "/ferry-small/to?")
    copy = ("cp", "--overwrite")
    command.succeeds(*copy, "tiny", small)
    command.fails(*copy, "large", small, says="No space left on device; free some space there")
    command.succeeds(*copy, "fits", small)  # no room was left taken
    command.succeeds(*copy, "tiny", small)


@needs_server
def test_a_rig_that_is_up_stays_as_it_is() -> None:
    again = run_program(RIG, "up", "nfs", check=True)
    assert again.stdout.strip() == SERVER
    status = run_program(RIG, "status", check=True)
    assert ["nfs", "up", SERVER] in [line.split() for line in status.stdout.splitlines()]


@pytest.mark.parametrize(
    ("arguments", "words"), [(["up", "moon"], "no rig"), (["up"], "takes a name"), (["jump", "nfs"], "no command")]
)
def test_the_rig_refuses_what_it_does_not_know(arguments: list[str], words: str) -> None:
    done = run_program(RIG, *arguments)
    assert done.returncode == 2
    assert words in done.stderr
