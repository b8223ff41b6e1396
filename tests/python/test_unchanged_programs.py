"""Programs that know nothing of Ferry do the same with it: plain, served, and on mapped folders.

Each is a shell script that runs in an empty folder. What it prints, its exit status and the files
that it leaves must be the same.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import subprocess
import tempfile
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from ferry import programs
from served import Node, why_absent
from support import TIMEOUT_S

pytestmark = pytest.mark.skipif(bool(why_absent()), reason=why_absent())

# name: the commands that it needs besides those of every system, and the script.
# Each may begin with "# needs: COMMAND ...", for what not every system has.
SCRIPTS = sorted((Path(__file__).parent / "unchanged").glob("*.sh"))
ENVIRONMENT = {"LC_ALL": "C", "TZ": "UTC", "HOME": "/nonexistent", "PYTHONDONTWRITEBYTECODE": "1"}


@dataclass
class Done:
    """What a program did."""

    status: int
    out: str
    error: str
    files: dict[str, tuple[str, int, str]]  # mode, size and contents of each path


def tree(folder: Path) -> dict[str, tuple[str, int, str]]:
    found = {}
    for path in sorted(folder.rglob("*")):
        status = path.lstat()
        contents = hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else ""
        found[str(path.relative_to(folder))] = (oct(status.st_mode), status.st_size if contents else 0, contents)
    return found


def carried_out(words: list[str], script: Path, folder: Path, stored: Path, environment: dict[str, str]) -> Done:
    """Runs the script in a folder; the files that it leaves are those in `stored`."""
    shell = [*words, "/bin/sh", "-euc", 'cd "$1"; . "$2"', "sh", str(folder), str(script)]
    done = subprocess.run(
        shell, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=TIMEOUT_S
    )
    return Done(done.returncode, done.stdout, done.stderr, tree(stored))


@pytest.fixture(scope="module", params=SCRIPTS, ids=lambda script: script.stem)
def program(request: pytest.FixtureRequest) -> Path:
    """The script of a program that is there."""
    script: Path = request.param
    needs = re.match(r"# needs: (.*)", script.read_text())
    if missing := [name for name in needs[1].split() if shutil.which(name) is None] if needs else []:
        pytest.skip(f"absent: {', '.join(missing)}")
    return script


@pytest.fixture(scope="module")
def plain(program: Path, tmp_path_factory: pytest.TempPathFactory) -> Done:
    folder = tmp_path_factory.mktemp("plain")
    done = carried_out([], program, folder, folder, {**os.environ, **ENVIRONMENT})
    assert done.status == 0, done
    return done


@pytest.fixture
def environment(node: Node) -> dict[str, str]:
    return node.command.environment | ENVIRONMENT


@pytest.fixture
def empty() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="ferry-test-") as folder:
        yield Path(folder)


@pytest.fixture(params=["NFS", "CEPH"])
def cluster(request: pytest.FixtureRequest) -> Iterator[tuple[str, Path]]:
    """The URI of an empty directory of a server, and a folder where its files are seen, too."""
    kind = request.param
    uri, directory = os.environ.get(f"FERRY_TEST_{kind}"), os.environ.get(f"FERRY_TEST_{kind}_DIRECTORY")
    if not uri or not directory:
        pytest.skip(f"absent: no {kind} server (FERRY_TEST_{kind} is not set); ./test --stage storages starts one")
    stored = Path(directory) / f"programs-{uuid.uuid4()}"
    stored.mkdir()
    path, mark, query = uri.partition("?")
    yield f"{path.rstrip('/')}/{stored.name}{mark}{query}", stored
    shutil.rmtree(stored)


def test_programs_do_the_same_when_they_are_served(
    program: Path, plain: Done, node: Node, environment: dict[str, str]
) -> None:
    folder = node.folder / "served"
    folder.mkdir()
    node.start()
    words = node.command.arguments("run", "--map", node.folder, "--")
    assert carried_out(words, program, folder, folder, environment) == plain


def test_programs_do_the_same_on_a_mapped_folder(program: Path, plain: Done, empty: Path, tmp_path: Path) -> None:
    if not os.path.exists("/dev/fuse"):
        pytest.skip("absent: /dev/fuse")
    maps = [{"folder": str(empty), "target": str(tmp_path)}]
    words = [str(programs.find_program("ferry-mount")), json.dumps(maps), "/usr/bin/env", "env"]
    assert carried_out(words, program, empty, tmp_path, {**os.environ, **ENVIRONMENT}) == plain


def test_programs_do_the_same_on_a_cluster(
    cluster: tuple[str, Path], program: Path, plain: Done, node: Node, environment: dict[str, str], empty: Path
) -> None:
    uri, stored = cluster
    words = node.command.arguments("run", "--map", f"{empty}={uri}", "--")
    assert carried_out(words, program, empty, stored, environment) == plain
