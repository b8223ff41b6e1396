"""``ferry run`` with the real ferryd: what is served, and that programs see what they see without."""

from __future__ import annotations

import hashlib
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from served import READER, Node, why_absent
from support import TIMEOUT_S, eventually, in_own_mounts


pytestmark = pytest.mark.skipif(bool(why_absent()), reason=why_absent())

PAGE = 4096

# Reads the first block of a file, with a line for each line that it gets.
ASKED = """
import os, sys
file = os.open(sys.argv[1], os.O_RDONLY)
for line in sys.stdin:
    for _ in range(int(line)):
        block = os.pread(file, 4096, 0)
    print(len(block), block[:8].hex(), flush=True)
"""


class Asked:
    """A program under ``ferry run`` that reads the beginning of a file when it is asked to."""

    def __init__(self, node: Node, path: Path) -> None:
        self.process = subprocess.Popen(
            node.command.arguments("run", "--", sys.executable, "-c", ASKED, path), text=True,
            env=node.command.environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        )  # fmt: skip

    def read(self, times: int = 1) -> tuple[int, str]:
        """The length and first bytes of the last of so many reads."""
        assert self.process.stdin and self.process.stdout
        self.process.stdin.write(f"{times}\n")
        self.process.stdin.flush()
        length, begin = (*self.process.stdout.readline().split(), "")[:2]
        return int(length), begin

    def read_served(self, node: Node) -> tuple[int, str]:
        """Reads until reads are served; what the last one gave."""
        before = node.status()["hits"]
        deadline = time.monotonic() + TIMEOUT_S
        while True:
            found = self.read(3000)
            if node.status()["hits"] > before:
                return found
            assert time.monotonic() < deadline, node.status()

    def __enter__(self) -> Asked:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.communicate()


def begin_of(path: Path) -> str:
    return path.read_bytes()[:8].hex()


def gone(process: int) -> bool:
    state = Path(f"/proc/{process}/stat")
    try:
        return state.read_text().rpartition(")")[2].split()[0] in "ZX"
    except OSError:
        return True


def test_programs_print_what_they_print_without(node: Node) -> None:
    path = node.file("data", 3 * PAGE + 100)
    for words in (["cat", path], ["sha256sum", path], ["tail", "-c", 300, path], ["ls", "-l", path]):
        plain = subprocess.run(list(map(str, words)), capture_output=True)
        done = subprocess.run(
            node.command.arguments("run", "--cache", "32m", "--", *words), env=node.command.environment,
            capture_output=True, timeout=TIMEOUT_S,
        )  # fmt: skip
        assert (done.returncode, done.stdout, done.stderr) == (0, plain.stdout, b"")


@pytest.mark.skipif(os.getuid() != 0, reason="only root may mount")
def test_a_full_dev_shm_is_no_limit(node: Node) -> None:
    """Engines give containers 64 MiB of it."""
    path = node.file("data", 3 * PAGE)
    shell = 'mount -t tmpfs -o size=64k ferry-test /dev/shm && { ! cat /dev/zero >/dev/shm/full; } && exec "$@"'
    words = node.command.arguments("run", "--", sys.executable, "-c", READER, path, 5)
    done = subprocess.run(
        in_own_mounts("sh", "-c", shell, "-", *words), env=node.command.environment, capture_output=True,
        text=True, timeout=TIMEOUT_S,
    )  # fmt: skip
    if done.returncode == 77:
        pytest.skip("this process may not mount")
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[0].startswith(hashlib.sha256(path.read_bytes()).hexdigest())


@pytest.mark.parametrize("size", [1, PAGE - 1, PAGE, 70_000, 3 << 20])
def test_reads_are_served_and_right(node: Node, size: int) -> None:
    node.start()
    path = node.file("data", size)
    node.serve(path)
    last = [size % PAGE, 0] if size % PAGE else [PAGE, 0]
    right = [f"{hashlib.sha256(path.read_bytes()).hexdigest()} {last}"] * 5

    def is_cached() -> bool:
        printed = node.command.succeeds("run", "--", sys.executable, "-c", READER, path, 5).splitlines()
        assert printed == right
        return int(node.status()["cached_bytes"]) >= size

    eventually(is_cached)  # a read that finds the filling threads late goes to the kernel
    assert node.status()["fills"] >= 1


def test_only_what_is_mapped_is_served(node: Node) -> None:
    node.start()
    inside, outside = node.folder / "in", node.folder / "out"
    for folder in (inside, outside):
        folder.mkdir()
        (folder / "data").write_bytes(os.urandom(PAGE))
    node.command.succeeds("run", "--map", inside, "--", sys.executable, "-c", READER, outside / "data", 200)
    status = node.status()
    assert (status["hits"], status["fills"]) == (0, 0)
    node.serve(inside / "data", "--map", inside)


def test_what_another_process_writes_is_seen_at_once(node: Node) -> None:
    node.start()
    path = node.file("data", PAGE)
    with Asked(node, path) as reader:
        for number in range(5):
            assert reader.read_served(node) == (PAGE, begin_of(path))
            with open(path, "r+b") as file:
                file.write(bytes([number] * 8))
                file.flush()
                assert reader.read() == (PAGE, f"{number:02x}" * 8)
                file.write(os.urandom(100))
        assert reader.read() == (PAGE, "04" * 8)
    assert node.status()["breaks"] >= 5


def test_truncation_renaming_and_removal_are_seen(node: Node) -> None:
    node.start()
    path = node.file("data", PAGE)
    with Asked(node, path) as reader:
        reader.read_served(node)
        os.truncate(path, 5)
        assert reader.read() == (5, begin_of(path))
        reader.read_served(node)
        os.truncate(path, 0)
        assert reader.read() == (0, "")
    path.write_bytes(b"first..." * 512)
    node.serve(path)
    with Asked(node, path) as reader:
        assert reader.read_served(node) == (PAGE, b"first...".hex())
        (node.folder / "new").write_bytes(b"second.." * 512)
        os.rename(node.folder / "new", path)
        assert reader.read(10) == (PAGE, b"first...".hex())
        with Asked(node, path) as another:
            assert another.read_served(node) == (PAGE, b"second..".hex())
        path.unlink()
        assert reader.read(10) == (PAGE, b"first...".hex())


def test_programs_outlive_ferryd(node: Node) -> None:
    process = node.start()
    path = node.file("data", PAGE)
    with Asked(node, path) as reader:
        reader.read_served(node)
        os.kill(process, signal.SIGKILL)
        assert reader.read(100) == (PAGE, begin_of(path))
        path.write_bytes(b"written!")
        assert reader.read() == (8, b"written!".hex())
        assert node.start() != process
        node.serve(path)  # a new one serves programs that start from now on
        assert reader.read() == (8, b"written!".hex())
        node.command.succeeds("daemon", "stop")
        assert reader.read() == (8, b"written!".hex())


def test_stopping_waits_until_ferryd_is_gone(node: Node) -> None:
    process = node.start()
    node.command.succeeds("daemon", "stop")
    assert gone(process)
    node.command.fails("daemon", "status", says="no ferryd serves")
    node.command.fails("daemon", "stop", says="no ferryd serves")


def test_an_idle_ferryd_ends(node: Node) -> None:
    said = node.command.succeeds("daemon", "start", "--cache", "32m", "--idle", "1")
    process = int(said.split()[1])
    deadline = time.monotonic() + TIMEOUT_S
    while not gone(process):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    node.command.fails("daemon", "status", says="no ferryd serves")


def test_children_are_served_too(node: Node) -> None:
    """Through a shell, which forks and executes."""
    node.start()
    path = node.file("data", 10 * PAGE)
    node.serve(path)
    before = node.status()["hits"]
    script = '"$@"; "$@" | cat'
    words = ["sh", "-c", script, "-", sys.executable, "-c", READER, path, 50]
    done = node.command.run("run", "--", *words)
    assert done.returncode == 0
    lines = done.stdout.splitlines()
    assert len(lines) == 100
    assert set(lines) == {f"{hashlib.sha256(path.read_bytes()).hexdigest()} [4096, 0]"}
    assert node.status()["hits"] > before


def test_the_summary_names_files_and_why(node: Node, scratch: Path) -> None:
    node.start()
    path = node.file("data", PAGE)
    node.serve(path)
    words = ["--", sys.executable, "-c", READER, path, 200]
    done = node.command.run("run", "--summary=out", *words)
    assert (done.returncode, done.stderr) == (0, "")
    (line,) = [line for line in (scratch / "out").read_text().splitlines() if str(path) in line]
    assert "reads" in line and "served" in line
    done = node.command.run("run", "--summary", *words)
    assert str(path) in done.stderr
    node.command.succeeds("run", "--summary=out", *words)
    assert (scratch / "out").read_text().count(str(path)) == 2


@pytest.mark.skipif(os.getuid() != 0, reason="absent: root, who can become another user")
def test_the_socket_of_another_user_is_refused(node: Node) -> None:
    sockets = Path(node.command.environment["XDG_RUNTIME_DIR"]) / "ferry"
    sockets.mkdir(mode=0o700)
    os.chown(sockets, 65534, 65534)
    node.command.fails("run", "--", "true", says=str(sockets))
    os.chown(sockets, 0, 0)
    sockets.chmod(0o755)
    node.command.fails("run", "--", "true", says=str(sockets))


def test_a_leftover_socket_is_replaced(node: Node) -> None:
    os.kill(node.start(), signal.SIGKILL)
    node.start()
    assert node.status()["clients"] == 0


def test_programs_that_start_at_once_share_one_ferryd(node: Node) -> None:
    words = node.command.arguments("run", "--cache", "32m", "--", "true")
    all_of_them = [
        subprocess.Popen(words, env=node.command.environment, stderr=subprocess.PIPE, text=True) for _ in range(4)
    ]
    assert [one.communicate(timeout=TIMEOUT_S)[1] for one in all_of_them] == [""] * 4
    assert [one.returncode for one in all_of_them] == [0] * 4
    assert node.status()["pid"] > 0
