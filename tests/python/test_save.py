"""``ferry.save`` over existing files: the old one stays until the new one is complete."""

from __future__ import annotations

import ctypes
import errno
import fcntl
import itertools
import os
import stat
import sys
import threading
from pathlib import Path

import numpy
import pytest

import access_lists
import ferry
from ferry import replacing
from ferry.replacing import left_over, replacement
from support import in_own_mounts, raises_errno, run_program, run_python

OLD = numpy.arange(1000)
NEW = numpy.arange(1 << 20)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A file that exists."""
    found = tmp_path / "array.npy"
    ferry.save(found, OLD)
    return found


# Files may not grow beyond 1 MiB: the disk is full, without one.
LIMITED = """
import resource, signal, sys
import numpy, ferry
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, 1 << 20))
try:
    ferry.save(sys.argv[1], numpy.arange(1 << 20), raw=len(sys.argv) > 2)
except OSError as error:
    print(error.errno, error.filename)
"""


@pytest.mark.parametrize("arguments", [[], ["raw"]])
@pytest.mark.parametrize("exists", [True, False])
def test_a_full_disk_leaves_the_old_file(tmp_path: Path, exists: bool, arguments: list[str]) -> None:
    path = tmp_path / "array.npy"
    if exists:
        ferry.save(path, OLD)
    done = run_python(LIMITED, path, *arguments)
    assert (done.returncode, done.stdout, done.stderr) == (0, f"27 {path}\n", "")
    assert os.listdir(tmp_path) == (["array.npy"] if exists else [])
    if exists:
        numpy.testing.assert_array_equal(ferry.load(path), OLD)


def test_the_new_file_is_like_the_old_one(tmp_path: Path, path: Path) -> None:
    path.chmod(0o640)
    if os.getuid() == 0:
        os.chown(path, 12345, 54321)
    before = path.stat()
    with open(path, "rb") as opened:
        ferry.save(path, NEW)
        assert len(opened.read()) == before.st_size, "whoever has the old one open keeps it"
    numpy.testing.assert_array_equal(ferry.load(path), NEW)
    after = path.stat()
    assert after.st_ino != before.st_ino
    assert (after.st_mode, after.st_uid, after.st_gid) == (before.st_mode, before.st_uid, before.st_gid)
    assert os.listdir(tmp_path) == ["array.npy"]


def test_the_access_list_stays(path: Path) -> None:
    access_lists.give_list(path)
    before = path.stat()
    ferry.save(path, NEW)
    assert path.stat().st_ino != before.st_ino, "replaced"
    assert access_lists.list_of(path) == access_lists.LIST
    assert stat.S_IMODE(path.stat().st_mode) == access_lists.MODE


@pytest.mark.skipif(os.getuid() != 0, reason="only root may write such files")
def test_a_mode_that_lets_nobody_write_stays(path: Path) -> None:
    path.chmod(0o444)
    ferry.save(path, NEW)
    assert stat.S_IMODE(path.stat().st_mode) == 0o444
    numpy.testing.assert_array_equal(ferry.load(path), NEW)


@pytest.mark.skipif(os.getuid() != 0, reason="only root can mount")
def test_a_file_that_is_mounted_over_is_written_in_place(tmp_path: Path, path: Path) -> None:
    above = tmp_path / "above.npy"
    ferry.save(above, OLD)
    program = "import sys, numpy, ferry; ferry.save(sys.argv[1], numpy.arange(1 << 20))"
    shell = 'mount --bind "$1" "$2" && exec "$3" -c "$4" "$2"'
    words = in_own_mounts("bash", "-c", shell, "-", above, path, sys.executable, program)
    run_program(*words, check=True)
    numpy.testing.assert_array_equal(ferry.load(above), NEW)
    numpy.testing.assert_array_equal(ferry.load(path), OLD)
    assert sorted(os.listdir(tmp_path)) == ["above.npy", "array.npy"]


@pytest.mark.skipif(os.getuid() != 0, reason="only root may give files away")
def test_a_file_of_an_unknown_owner_is_written_in_place(path: Path) -> None:
    """As in a container of a user namespace that does not have the owner."""
    os.chown(path, 12345, 54321)
    path.chmod(0o666)
    before = path.stat()
    program = "import sys, numpy, ferry; ferry.save(sys.argv[1], numpy.arange(1 << 20))"
    words = ("unshare", "--user", "--map-root-user")
    if run_program(*words, "true").returncode != 0:
        pytest.skip("absent: user namespaces")
    run_program(*words, sys.executable, "-c", program, path, check=True)
    numpy.testing.assert_array_equal(ferry.load(path), NEW)
    after = path.stat()
    assert (after.st_ino, after.st_uid, after.st_gid) == (before.st_ino, before.st_uid, before.st_gid)
    assert os.listdir(path.parent) == ["array.npy"]


def test_a_file_without_a_name_is_written_itself(tmp_path: Path) -> None:
    with open(tmp_path / "array.npy", "w+b") as nameless:
        os.unlink(nameless.name)
        ferry.save(f"/proc/self/fd/{nameless.fileno()}", NEW)
        numpy.testing.assert_array_equal(numpy.load(nameless), NEW)
    assert os.listdir(tmp_path) == []


def test_a_new_file_has_the_usual_permissions(tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        ferry.save(tmp_path / "array.npy", OLD)
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "array.npy").stat().st_mode) == 0o640


def test_links_are_followed_and_kept(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "link").symlink_to("folder/array.npy")
    ferry.save(tmp_path / "link", OLD)  # to where it leads, as ever
    ferry.save(tmp_path / "link", NEW)
    assert (tmp_path / "link").is_symlink()
    assert os.listdir(tmp_path / "folder") == ["array.npy"]
    numpy.testing.assert_array_equal(ferry.load(tmp_path / "folder" / "array.npy"), NEW)


def test_hard_links_are_kept(tmp_path: Path) -> None:
    ferry.save(tmp_path / "one.npy", NEW)
    (tmp_path / "two.npy").hardlink_to(tmp_path / "one.npy")
    ferry.save(tmp_path / "one.npy", OLD)
    numpy.testing.assert_array_equal(ferry.load(tmp_path / "two.npy"), OLD)
    assert (tmp_path / "one.npy").stat().st_nlink == 2


def test_what_is_no_regular_file_is_written(tmp_path: Path) -> None:
    ferry.save("/dev/null", OLD)
    with pytest.raises(OSError, match="No space left"):
        ferry.save("/dev/full", OLD)
    assert stat.S_ISCHR(os.stat("/dev/null").st_mode)
    with pytest.raises(IsADirectoryError):
        ferry.save(tmp_path, OLD)
    with raises_errno(errno.ENOENT, tmp_path / "none" / "array.npy"):
        ferry.save(tmp_path / "none" / "array.npy", OLD)


def test_an_interruption_leaves_the_old_file(tmp_path: Path, path: Path) -> None:

    def interrupt(done: int, total: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        ferry.save(path, NEW, progress=interrupt)
    numpy.testing.assert_array_equal(ferry.load(path), OLD)
    assert os.listdir(tmp_path) == ["array.npy"]


def test_a_new_file_takes_no_name_that_was_given_meanwhile(tmp_path: Path) -> None:
    path = tmp_path / "file"
    with pytest.raises(FileExistsError), replacement(str(path), only_new=True) as (place, durable):
        assert durable
        Path(place).write_bytes(b"new")
        path.write_bytes(b"another's")
    assert path.read_bytes() == b"another's"
    assert os.listdir(tmp_path) == ["file"]


@pytest.mark.parametrize("link_error", [0, errno.EPERM, errno.ENOSYS, errno.ENOTSUP, errno.EMLINK])
@pytest.mark.parametrize("rename_error", [errno.EINVAL, errno.ENOSYS, errno.ENOTSUP])
def test_a_new_file_is_one_where_no_name_can_be_kept_from_replacing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rename_error: int, link_error: int
) -> None:
    class Older:
        """A file system without RENAME_NOREPLACE."""

        def renameat2(self, *_: object) -> int:
            ctypes.set_errno(rename_error)
            return -1

    def refuse(source: str, target: str) -> None:
        raise OSError(link_error, os.strerror(link_error), source, None, target)

    monkeypatch.setattr(ctypes, "CDLL", lambda *_, **__: Older())
    if link_error:
        monkeypatch.setattr(os, "link", refuse)
    with replacement(str(tmp_path / "file"), only_new=True) as (place, _):
        Path(place).write_bytes(b"new")
    assert (tmp_path / "file").read_bytes() == b"new"
    with pytest.raises(FileExistsError), replacement(str(tmp_path / "other"), only_new=True):
        (tmp_path / "other").write_bytes(b"another's")
    assert sorted(os.listdir(tmp_path)) == ["file", "other"]


@pytest.mark.parametrize("when", ["between two looks", "within a look"])
def test_a_file_that_another_command_replaces_meanwhile_is_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, when: str
) -> None:
    """It would be empty for a while for all who read it, and lost in a crash."""
    path = tmp_path / "file"
    path.write_bytes(b"old")
    look = replacing._status
    looks: list[str] = []

    def replace_meanwhile(name: str) -> os.stat_result | None:
        with open(name, "rb") as found:
            looks.append(name)
            if len(looks) <= 2:
                (tmp_path / "another").write_bytes(b"another's")
                status = look(name) if when == "between two looks" else None
                os.rename(tmp_path / "another", path)
                return status or os.fstat(found.fileno())
            return look(name)

    monkeypatch.setattr(replacing, "_status", replace_meanwhile)
    with replacement(str(path)) as (place, durable):
        assert len(looks) >= 2
        assert durable
        Path(place).write_bytes(b"new")
        assert path.read_bytes() == b"another's"
    assert path.read_bytes() == b"new"
    assert os.listdir(tmp_path) == ["file"]


def test_a_file_whose_number_changes_is_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As on file systems that give numbers as they please."""
    path = tmp_path / "file"
    path.write_bytes(b"old")
    numbers = itertools.count(1)

    def look(name: str) -> os.stat_result:
        status = os.stat(name)
        return os.stat_result((status.st_mode, next(numbers), *status[2:]))

    monkeypatch.setattr(replacing, "_status", look)
    with replacement(str(path)) as (place, durable):
        assert durable
        Path(place).write_bytes(b"new")
    assert path.read_bytes() == b"new"
    assert os.listdir(tmp_path) == ["file"]


def test_a_look_at_left_over_files_takes_no_lock_away(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It looks at the file before its writer has locked it."""
    flock = fcntl.flock
    looks: list[threading.Timer] = []

    def look_before(descriptor: int, how: int) -> None:
        if how & fcntl.LOCK_EX:
            monkeypatch.undo()
            (name,) = os.listdir(tmp_path)
            looking = os.open(tmp_path / name, os.O_RDONLY)
            flock(looking, fcntl.LOCK_SH)
            looks.append(threading.Timer(0.1, os.close, [looking]))
            looks[0].start()
        flock(descriptor, how)

    monkeypatch.setattr(fcntl, "flock", look_before)
    with replacement(str(tmp_path / "file")) as (place, _):
        Path(place).write_bytes(b"new")
        looks[0].join()
        assert left_over(str(tmp_path)) == []
    assert os.listdir(tmp_path) == ["file"]


def test_what_gets_its_name_during_a_look_is_not_left_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    flock = fcntl.flock

    def end_before(descriptor: int, how: int) -> None:
        os.rename(tmp_path / ".ferry-save-a0", tmp_path / "file")
        flock(descriptor, how)

    (tmp_path / ".ferry-save-a0").write_bytes(b"new")
    assert left_over(str(tmp_path)) == [".ferry-save-a0"]
    monkeypatch.setattr(fcntl, "flock", end_before)
    assert left_over(str(tmp_path)) == []
