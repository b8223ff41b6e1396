"""``ferry cp``: what arrives, what is refused, and that nothing half-written stays."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from pathlib import Path

import pytest

from conftest import Command

SIZES = [0, 1, 4096, (1 << 20) - 1, 1 << 20, (40 << 20) + 12345]


def contents(size: int) -> bytes:
    block = bytes(range(251)) * 4177
    return (block * (size // len(block) + 1))[:size]


@pytest.mark.parametrize("size", SIZES)
def test_the_copy_is_the_same(command: Command, scratch: Path, size: int) -> None:
    source, target = scratch / "from", scratch / "to"
    source.write_bytes(contents(size))
    source.chmod(0o640)
    done = command.run("cp", source, target)
    assert (done.returncode, done.stderr) == (0, "")
    assert "verified" in done.stdout
    assert target.read_bytes() == source.read_bytes()
    assert target.stat().st_mode & 0o777 == 0o640
    assert sorted(path.name for path in scratch.iterdir()) == ["from", "to"]


def test_into_a_directory(command: Command, scratch: Path) -> None:
    (scratch / "from").write_bytes(b"abc")
    (scratch / "dir").mkdir()
    assert command.run("cp", "from", "dir").returncode == 0
    assert command.run("cp", "./from", "dir/").returncode == 1  # it is there now
    assert (scratch / "dir" / "from").read_bytes() == b"abc"


def test_json(command: Command, scratch: Path) -> None:
    (scratch / "from").write_bytes(b"abc")
    done = command.run("cp", "from", "to", "--json", "-")
    facts = json.loads(done.stdout)
    assert facts["schema"] == "ferry.cp/1"
    assert (facts["from"], facts["to"], facts["bytes"]) == ("from", "to", 3)


def test_an_existing_file_is_replaced_only_on_demand(command: Command, scratch: Path) -> None:
    (scratch / "from").write_bytes(b"new")
    (scratch / "to").write_bytes(b"old")
    done = command.run("cp", "from", "to")
    assert done.returncode == 1
    assert done.stderr == "ferry: to: File exists; --overwrite replaces it\n"
    assert (scratch / "to").read_bytes() == b"old"
    assert command.run("cp", "--overwrite", "from", "to").returncode == 0
    assert (scratch / "to").read_bytes() == b"new"


@pytest.mark.parametrize(
    ("source", "target", "words"),
    [
        ("missing", "to", "missing: No such file or directory; name a path that is there"),
        ("dir", "to", "dir: Is a directory"),
        ("from", "missing/to", "No such file or directory"),
        ("/dev/null", "to", "/dev/null is no regular file"),
        ("nfs://127.0.0.1/x?nonsense=1", "to", 'no setting "nonsense"'),
        ("from", "nfs://127.0.0.1/x?nfsport=1&mountport=1", "cannot be used"),
    ],
)
def test_refusals(
    command: Command, scratch: Path, source: str, target: str, words: str
) -> None:
    (scratch / "from").write_bytes(b"abc")
    (scratch / "dir").mkdir()
    done = command.run("cp", source, target)
    assert done.returncode == 1
    assert words in done.stderr
    assert done.stderr.count("\n") == 1
    assert sorted(path.name for path in scratch.iterdir()) == ["dir", "from"]


def test_a_failed_write_leaves_nothing(command: Command, scratch: Path) -> None:
    (scratch / "from").write_bytes(contents(8 << 20))
    arguments = command.arguments("cp", "from", "to")
    limited = ["bash", "-c", 'ulimit -f 4096; exec "$@"', "-", *arguments]
    done = subprocess.run(
        limited, env=command.environment, cwd=scratch, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 1
    assert "File too large" in done.stderr
    assert [path.name for path in scratch.iterdir()] == ["from"]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_interrupted(command: Command, scratch: Path, number: signal.Signals) -> None:
    with open(scratch / "from", "wb") as file:
        file.truncate(64 << 30)  # holes: far more than can be copied meanwhile
    process = command.start("cp", "from", "to")
    try:
        while not list(scratch.glob(".ferry-cp-*")) and process.poll() is None:
            time.sleep(0.01)
        os.killpg(process.pid, number)
        _, message = process.communicate(timeout=60)
    finally:
        process.kill()
    assert process.returncode == 128 + number
    assert [path.name for path in scratch.iterdir()] == ["from"]
    assert command.processes() == []
    assert "Traceback" not in message
