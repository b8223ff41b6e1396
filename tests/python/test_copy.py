"""``ferry cp``: results, refusals, and that no partial file remains."""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import signal
import stat
import struct
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from ferry.replacing import left_over

import access_lists
from support import Command, in_own_mounts, run_program


def contents(size: int) -> bytes:
    block = bytes(range(251)) * 4177
    return (block * (size // len(block) + 1))[:size]


@pytest.fixture(autouse=True)
def original(scratch: Path) -> Path:
    """What most tests copy."""
    path = scratch / "from"
    path.write_bytes(b"abc")
    return path


@contextlib.contextmanager
def long_copy(
    command: Command, scratch: Path, has_begun: Callable[[], object], *arguments: str
) -> Iterator[subprocess.Popen[str]]:
    """``cp ARGUMENTS`` of ``from``, started, and too long to end."""
    with open(scratch / "from", "wb") as file:
        file.truncate(64 << 30)  # holes: far more than can be copied meanwhile
    process = command.start("cp", *arguments)
    try:
        while not has_begun() and process.poll() is None:
            time.sleep(0.01)
        yield process
    finally:
        process.kill()


def run_after(setting: str, command: Command, *arguments: str) -> subprocess.CompletedProcess[str]:
    """``cp ARGUMENTS`` after a command of the shell, in mounts of its own for root."""
    words = ["bash", "-c", f'{setting} && exec "$@"', "-", *command.arguments("cp", *arguments)]
    return run_program(
        *(in_own_mounts(*words) if os.getuid() == 0 else words), env=command.environment, cwd=command.scratch
    )


def parts_in(folder: Path) -> list[Path]:
    """What copies into the folder have written so far."""
    return list(folder.glob(".ferry-cp-*"))


@pytest.mark.parametrize("size", [0, 1, 4096, (1 << 20) - 1, 1 << 20, (40 << 20) + 12345])
def test_the_copy_is_the_same(command: Command, scratch: Path, original: Path, size: int) -> None:
    target = scratch / "to"
    original.write_bytes(contents(size))
    original.chmod(0o640)
    done = command.run("cp", original, target)
    assert (done.returncode, done.stderr) == (0, "")
    assert "verified" in done.stdout
    assert target.read_bytes() == original.read_bytes()
    assert target.stat().st_mode & 0o777 == 0o640
    assert sorted(path.name for path in scratch.iterdir()) == ["from", "to"]


def names_and_events(folder: int) -> list[tuple[str, int]]:
    """The events in a folder, from inotify."""
    found, events, at = [], os.read(folder, 1 << 16), 0
    while at < len(events):
        _, mask, _, length = struct.unpack_from("iIII", events, at)
        found.append((events[at + 16 : at + 16 + length].rstrip(b"\0").decode(), mask))
        at += 16 + length
    return found


def test_a_new_name_is_that_of_the_whole_file(command: Command, scratch: Path) -> None:
    """No empty file is visible under the final name."""
    (scratch / "from").write_bytes(contents(3 << 20))
    created, moved_to = 0x100, 0x80
    libc = ctypes.CDLL(None, use_errno=True)
    watch = libc.inotify_init1(os.O_CLOEXEC)
    try:
        assert libc.inotify_add_watch(watch, os.fsencode(scratch), created | moved_to) >= 0
        command.succeeds("cp", "from", "to")
        events = names_and_events(watch)
    finally:
        os.close(watch)
    assert [mask for name, mask in events if name == "to"] == [moved_to]
    assert (scratch / "to").read_bytes() == contents(3 << 20)


def test_into_a_directory(command: Command, scratch: Path) -> None:
    (scratch / "dir").mkdir()
    command.succeeds("cp", "from", "dir")
    command.fails("cp", "./from", "dir/", says="ferry: dir/from: File exists; --overwrite replaces it")
    assert (scratch / "dir" / "from").read_bytes() == b"abc"


def test_json(command: Command) -> None:
    facts = command.json("cp", "from", "to")
    assert facts["schema"] == "ferry.cp/1"
    assert (facts["from"], facts["to"], facts["bytes"]) == ("from", "to", 3)


def test_an_existing_file_is_replaced_only_on_demand(command: Command, scratch: Path) -> None:
    (scratch / "to").write_bytes(b"old")
    said = command.fails("cp", "from", "to", says="")
    assert said == "ferry: to: File exists; --overwrite replaces it\n"
    assert (scratch / "to").read_bytes() == b"old"
    command.succeeds("cp", "--overwrite", "from", "to")
    assert (scratch / "to").read_bytes() == b"abc"


@pytest.mark.parametrize(
    ("source", "target", "words"),
    [
        ("missing", "to", "missing: No such file or directory; name a path that is there"),
        ("dir", "to", "dir: Is a directory"),
        ("from", "missing/to", "No such file or directory"),
        ("/dev/null", "to", "/dev/null is not a regular file; cp copies regular files only\n"),
        ("nfs://127.0.0.1/x?nonsense=1", "to", 'no setting "nonsense"'),
        ("from", "nfs://127.0.0.1/x?nfsport=1&mountport=1", "cannot be used"),
    ],
)
def test_refusals(command: Command, scratch: Path, source: str, target: str, words: str) -> None:
    (scratch / "dir").mkdir()
    command.fails("cp", source, target, says=words)
    assert sorted(path.name for path in scratch.iterdir()) == ["dir", "from"]


@pytest.mark.parametrize("arguments", [["cp", "URI", "to"], ["info", "URI"], ["layout", "get", "URI"]])
def test_a_setting_that_is_unknown_is_not_shown(command: Command, arguments: list[str]) -> None:
    uri = "ceph:/x?key=secret"
    done = command.run(*(uri if word == "URI" else word for word in arguments))
    assert done.stderr.startswith('ferry: ceph:/x?key=...: no setting "key"; there are: ')
    assert "secret" not in done.stdout


def test_a_failed_write_leaves_nothing(command: Command, scratch: Path) -> None:
    (scratch / "from").write_bytes(contents(8 << 20))
    done = run_after("ulimit -f 4096", command, "from", "to")
    assert done.returncode == 1
    assert "File too large" in done.stderr
    assert [path.name for path in scratch.iterdir()] == ["from"]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_interrupted(command: Command, scratch: Path, number: signal.Signals) -> None:
    with long_copy(command, scratch, lambda: parts_in(scratch), "from", "to") as process:
        os.killpg(process.pid, number)
        _, message = process.communicate(timeout=60)
    assert process.returncode == 128 + number
    assert [path.name for path in scratch.iterdir()] == ["from"]
    assert command.processes() == []
    assert "Traceback" not in message


def test_what_a_copy_that_was_cut_off_left_is_named(command: Command, scratch: Path) -> None:
    (scratch / ".ferry-cp-12").write_bytes(b"a")
    (scratch / ".ferry-save-a0").write_bytes(b"b")
    (scratch / ".ferry-cp-mine").write_bytes(b"c")
    (scratch / ".ferry-cp-13").touch()  # as before its writer has locked it
    done = command.run("cp", "from", "to")
    assert done.returncode == 0
    assert done.stderr == (
        f"ferry: {scratch} has .ferry-cp-12, .ferry-save-a0 from a command that was cut off; "
        "remove what you do not need\n"
    )


def test_what_another_copy_writes_is_not_named(command: Command, scratch: Path) -> None:
    (scratch / "small").write_bytes(b"abc")
    with long_copy(command, scratch, lambda: parts_in(scratch) and not left_over(str(scratch)), "from", "to"):
        done = command.run("cp", "small", "copy")
        assert parts_in(scratch)
    assert (done.returncode, done.stderr) == (0, "")


def test_what_a_copy_writes_is_never_named(command: Command, scratch: Path) -> None:
    """Neither between its end and its new name."""
    copies = [command.start("cp", "--overwrite", "from", f"to{number}") for number in range(8)]
    names: set[str] = set()
    while any(copy.poll() is None for copy in copies):
        names.update(left_over(str(scratch)))
    assert [copy.communicate()[1] for copy in copies] == [""] * 8
    assert names == set()


@pytest.mark.parametrize(("error", "status"), [(errno.ENFILE, 1), (errno.EACCES, 0)])
def test_a_name_that_cannot_be_made_durable_is_an_error(
    command: Command, scratch: Path, error: int, status: int
) -> None:
    """But in a folder that may be written and not be read."""
    setting = f"import limits, os, sys; limits.refuse_folders_to_sync({error}); os.execvp(sys.argv[1], sys.argv[1:])"
    environment = command.environment | {
        "PYTHONPATH": f"{os.path.dirname(__file__)}:{command.environment['PYTHONPATH']}"
    }
    words = [sys.executable, "-c", setting, *command.arguments("cp", "from", "to")]
    done = run_program(*words, env=environment, cwd=scratch)
    assert done.returncode == status, done.stderr
    assert (scratch / "to").read_bytes() == b"abc"
    assert done.stderr == ("" if status == 0 else f"ferry: syncing .: {os.strerror(error)}\n")


def test_a_device_is_not_replaced(command: Command, scratch: Path) -> None:
    (scratch / "device").symlink_to("/dev/null")
    os.mkfifo(scratch / "fifo")
    for target in ("device", "fifo"):
        before = (scratch / target).stat()
        says = f"{target} is not a regular file; cp copies regular files only\n"
        command.fails("cp", "--overwrite", "from", target, says=says)
        assert (scratch / target).stat().st_ino == before.st_ino
    assert (scratch / "device").is_symlink()
    assert stat.S_ISFIFO((scratch / "fifo").stat().st_mode)


def test_a_fifo_is_refused_without_opening_it(command: Command, scratch: Path) -> None:
    """A program waiting to write into it would start, and lose its data."""
    os.mkfifo(scratch / "fifo")
    writer = subprocess.Popen(["bash", "-c", "echo bytes >fifo"], cwd=scratch)
    try:
        command.fails("cp", "fifo", "to", says="fifo is not a regular file; cp copies regular files only\n")
        assert writer.poll() is None, "it waits still"
        assert (scratch / "fifo").read_bytes() == b"bytes\n"
        assert writer.wait(timeout=60) == 0
    finally:
        writer.kill()
        writer.wait()


@pytest.mark.skipif(os.getuid() != 0, reason="only root can mount")
def test_a_file_that_is_mounted_over_is_written_in_place(command: Command, scratch: Path) -> None:
    (scratch / "to").write_bytes(b"below")
    (scratch / "above").write_bytes(b"older")
    done = run_after("mount --bind above to", command, "--overwrite", "from", "to")
    assert (done.returncode, done.stderr) == (0, "")
    assert (scratch / "above").read_bytes() == b"abc"
    assert (scratch / "to").read_bytes() == b"below"
    assert sorted(os.listdir(scratch)) == ["above", "from", "to"]


def test_a_link_is_followed(command: Command, scratch: Path) -> None:
    (scratch / "folder").mkdir()
    (scratch / "folder" / "to").write_bytes(b"old")
    (scratch / "link").symlink_to("folder/to")
    command.succeeds("cp", "--overwrite", "from", "link")
    assert (scratch / "link").is_symlink()
    assert (scratch / "folder" / "to").read_bytes() == b"abc"
    assert [path.name for path in (scratch / "folder").iterdir()] == ["to"]


@pytest.mark.parametrize("flags", [[], ["--overwrite"]])
def test_a_dangling_link_is_refused(command: Command, scratch: Path, flags: list[str]) -> None:
    (scratch / "link").symlink_to("nowhere")
    why = "link is a dangling symbolic link"
    command.fails("cp", *flags, "from", "link", says=why)
    assert sorted(os.listdir(scratch)) == ["from", "link"]
    assert os.readlink(scratch / "link") == "nowhere"


@pytest.mark.parametrize("arguments", [["from"], ["--overwrite", "link"], ["--overwrite", "hard"]])
def test_onto_itself(command: Command, scratch: Path, arguments: list[str]) -> None:
    (scratch / "link").symlink_to("from")
    (scratch / "hard").hardlink_to(scratch / "from")
    command.fails("cp", "from", *arguments, says="are the same file; name another DST\n")
    assert (scratch / "from").stat().st_nlink == 2
    assert (scratch / "hard").read_bytes() == b"abc"


@pytest.mark.parametrize("size", [3, (1 << 20) + 5])
def test_hard_links_are_kept(command: Command, scratch: Path, size: int) -> None:
    (scratch / "from").write_bytes(contents(size))
    (scratch / "to").write_bytes(b"old" * 500_000)
    (scratch / "hard").hardlink_to(scratch / "to")
    command.succeeds("cp", "--overwrite", "from", "to")
    assert (scratch / "hard").read_bytes() == contents(size)
    assert (scratch / "to").stat().st_nlink == 2
    assert sorted(os.listdir(scratch)) == ["from", "hard", "to"]


def test_permissions(command: Command, scratch: Path) -> None:
    (scratch / "from").chmod(0o6777)
    (scratch / "to").write_bytes(b"old")
    (scratch / "to").chmod(0o660)
    command.succeeds("cp", "from", "new", umask=0o027)
    command.succeeds("cp", "--overwrite", "from", "to", umask=0o027)
    assert stat.S_IMODE((scratch / "new").stat().st_mode) == 0o750
    assert stat.S_IMODE((scratch / "to").stat().st_mode) == 0o660


def test_the_mode_stays_whatever_it_forbids(command: Command, scratch: Path) -> None:
    modes = [0o220, 0o444] if os.getuid() == 0 else [0o620]
    for mode in modes:
        (scratch / "to").write_bytes(b"older")
        (scratch / "to").chmod(mode)
        command.succeeds("cp", "--overwrite", "from", "to")
        assert stat.S_IMODE((scratch / "to").stat().st_mode) == mode


def test_the_access_list_stays(command: Command, scratch: Path) -> None:
    (scratch / "to").write_bytes(b"older")
    access_lists.give_list(scratch / "to")
    command.succeeds("cp", "--overwrite", "from", "to")
    assert (scratch / "to").read_bytes() == b"abc"
    assert access_lists.list_of(scratch / "to") == access_lists.LIST
    assert stat.S_IMODE((scratch / "to").stat().st_mode) == access_lists.MODE


@pytest.mark.skipif(os.getuid() != 0, reason="only root can make files of other owners")
def test_the_owner_stays(command: Command, scratch: Path) -> None:
    (scratch / "to").write_bytes(b"older")
    os.chown(scratch / "to", 12345, 54321)
    command.succeeds("cp", "--overwrite", "from", "to")
    status = (scratch / "to").stat()
    assert (status.st_uid, status.st_gid, status.st_size) == (12345, 54321, 3)
    assert sorted(os.listdir(scratch)) == ["from", "to"]


@pytest.mark.parametrize("source", ["/proc/self/maps", "/proc/cpuinfo"])
def test_a_source_without_a_size(command: Command, scratch: Path, source: str) -> None:
    done = command.run("cp", source, "to")
    assert (done.returncode, done.stderr) == (0, "")
    copied = (scratch / "to").read_bytes()
    assert len(copied) > 500
    if source == "/proc/cpuinfo":
        assert [line for line in copied.splitlines() if line.startswith(b"model name")] == [
            line for line in Path(source).read_bytes().splitlines() if line.startswith(b"model name")
        ]


def test_a_source_that_grows(command: Command, scratch: Path) -> None:
    """The source changed during the copy: it is reported, and nothing remains."""
    with open(scratch / "from", "wb") as file:
        file.truncate(64 << 20)
    for _ in range(20):  # on a busy machine a copy may be faster than this process
        process = command.start("cp", "from", "to")
        try:
            while process.poll() is None:
                with open(scratch / "from", "ab") as file:
                    file.write(b"more")
                time.sleep(0.001)
            _, message = process.communicate(timeout=60)
        finally:
            process.kill()
        if process.returncode != 0:
            break
        (scratch / "to").unlink()
    assert process.returncode == 1
    assert "from changed during the copy" in message
    assert os.listdir(scratch) == ["from"]


def test_a_file_that_cannot_be_completed_in_place(command: Command, scratch: Path) -> None:
    (scratch / "from").write_bytes(contents(8 << 20))
    (scratch / "to").write_bytes(b"old")
    (scratch / "hard").hardlink_to(scratch / "to")
    done = run_after("ulimit -f 4096", command, "--overwrite", "from", "to")
    assert done.returncode == 1
    assert "File too large" in done.stderr
    assert "to was overwritten in place and is not complete" in done.stderr
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_an_interrupted_copy_in_place_names_the_file(command: Command, scratch: Path, number: signal.Signals) -> None:
    target = scratch / "to"
    target.write_bytes(b"old")
    (scratch / "hard").hardlink_to(target)
    arguments = ["--overwrite", "from", "to"]
    with long_copy(command, scratch, lambda: target.stat().st_size != 3, *arguments) as process:
        if number == signal.SIGKILL:  # of the copying process
            os.kill(copier_in(scratch), number)
        else:
            os.killpg(process.pid, number)
        _, message = process.communicate(timeout=60)
    assert process.returncode == (1 if number == signal.SIGKILL else 128 + number)
    assert "to was overwritten in place and is not complete; copy again" in message
    assert "Traceback" not in message
    assert sorted(os.listdir(scratch)) == ["from", "hard", "to"]


def copier_in(folder: Path) -> int:
    """The process that copies for a command in this folder."""
    (found,) = [
        int(status.parent.name)
        for status in Path("/proc").glob("[0-9]*/comm")
        if status.read_text() == "ferry-copy\n" and (status.parent / "cwd").resolve() == folder
    ]
    return found


@pytest.mark.parametrize(("number", "gone"), [(signal.SIGTERM, True), (signal.SIGKILL, False), (signal.SIGKILL, True)])
def test_a_stopped_copy_leaves_nothing_or_names_it(
    command: Command, scratch: Path, number: signal.Signals, gone: bool
) -> None:
    folder = scratch / "folder"
    folder.mkdir()
    with long_copy(command, scratch, lambda: parts_in(folder), "from", "folder/to") as process:
        stopped = copier_in(scratch) if number == signal.SIGKILL else process.pid
        if gone:  # from its name, like the folder of a server that is gone
            folder.rename(scratch / "moved")
            folder.touch()  # ENOTDIR
        os.kill(stopped, number)
        _, message = process.communicate(timeout=60)
    assert process.returncode == (1 if number == signal.SIGKILL else 128 + number)
    assert ("signal 9" in message) == (number == signal.SIGKILL)
    if gone:
        (left,) = os.listdir(scratch / "moved")
        assert f"left behind: folder/{left}; remove it" in message
    else:
        assert os.listdir(folder) == []
        assert "left behind" not in message


@pytest.mark.parametrize("target", ["nowhere/to", "/proc/ferry-to"])
def test_messages_name_no_file_that_nobody_typed(command: Command, target: str) -> None:
    why = f"{target}: No such file or directory; make its folder first or name another"
    assert command.fails("cp", "from", target, says=why) == f"ferry: {why}\n"
