"""ferry.open is a raw file like io.FileIO: the same expectations are run against both."""

from __future__ import annotations

import array
import copy
import errno
import io
import json
import mmap
import os
import pickle
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy
import pytest

import ferry
from support import raises_errno

Opener = Callable[..., Any]


@pytest.fixture(params=["ferry", "FileIO"])
def opener(request: pytest.FixtureRequest) -> Opener:
    return ferry.open if request.param == "ferry" else io.FileIO


@pytest.fixture
def data() -> bytes:
    return b"0123456789"


MODES = {
    "r": (True, False, "rb"), "rb": (True, False, "rb"), "r+": (True, True, "rb+"),
    "rb+": (True, True, "rb+"), "w": (False, True, "wb"), "wb+": (True, True, "rb+"),
    "a": (False, True, "ab"), "ab+": (True, True, "ab+"), "x": (False, True, "xb"),
    "x+": (True, True, "xb+"),
}  # fmt: skip


@pytest.mark.parametrize(("mode", "expected"), MODES.items())
def test_modes(opener: Opener, tmp_path: Path, mode: str, expected: tuple) -> None:
    path = tmp_path / "file"
    if "x" not in mode:
        path.write_bytes(b"abc")
    with opener(path, mode) as file:
        assert (file.readable(), file.writable(), file.mode) == expected
        assert file.seekable()
        assert not file.isatty()
        assert not file.closed
        assert isinstance(file, io.RawIOBase)
    assert file.closed
    assert path.stat().st_size == (3 if "r" in mode or "a" in mode else 0)


@pytest.mark.parametrize("mode", ["", "b", "rw", "rt", "U", "r++", "rr", "wa", "+"])
def test_modes_that_cannot_be(opener: Opener, path: Path, mode: str) -> None:
    with pytest.raises(ValueError):
        opener(path, mode)


def test_reading_moves_the_position(opener: Opener, path: Path) -> None:
    with opener(path) as file:
        assert file.tell() == 0
        assert file.read(3) == b"012"
        assert file.tell() == 3
        target = bytearray(4)
        assert file.readinto(target) == 4
        assert target == b"3456"
        assert file.read() == b"789"
        assert file.read() == b""
        assert file.read(5) == b""
        assert file.readinto(target) == 0
        assert file.read(0) == b""
        assert file.seek(0) == 0
        assert file.read(-1) == b"0123456789"
        file.seek(0)
        assert file.readall() == b"0123456789"


def test_seeking(opener: Opener, path: Path) -> None:
    with opener(path) as file:
        assert file.seek(4) == 4
        assert file.seek(2, io.SEEK_CUR) == 6
        assert file.seek(-3, io.SEEK_END) == 7
        assert file.seek(100) == 100
        assert file.read() == b""
        assert file.seek(0, io.SEEK_END) == 10
        for offset, whence in ((-1, 0), (-200, 1), (-11, 2)):
            with raises_errno(errno.EINVAL):
                file.seek(offset, whence)
        assert file.tell() == 10
        with pytest.raises(TypeError):
            file.seek(1.5)
        with pytest.raises((ValueError, OSError)):
            file.seek(0, 99)


def test_writing(opener: Opener, path: Path) -> None:
    with opener(path, "r+") as file:
        assert file.write(b"ab") == 2
        assert file.tell() == 2
        assert file.write(memoryview(b"cd")) == 2
        assert file.write(numpy.arange(2, dtype=numpy.uint8)) == 2
        assert file.write(b"") == 0
        file.seek(15)
        assert file.write(b"!") == 1
        with pytest.raises(TypeError):
            file.write("text")
    assert path.read_bytes() == b"abcd\x00\x016789\0\0\0\0\0!"


def test_appending(opener: Opener, path: Path) -> None:
    with opener(path, "a+") as file:
        assert file.tell() == 10
        file.seek(0)
        assert file.write(b"ab") == 2
        assert file.tell() == 12
        file.seek(8)
        assert file.read() == b"89ab"
    assert path.read_bytes() == b"0123456789ab"


def test_truncating(opener: Opener, path: Path) -> None:
    with opener(path, "r+") as file:
        file.seek(5)
        assert file.truncate() == 5
        assert file.tell() == 5
        assert file.truncate(8) == 8
        assert file.tell() == 5
        assert path.read_bytes() == b"01234\0\0\0"
        with raises_errno(errno.EINVAL):
            file.truncate(-1)
    with opener(path) as file, pytest.raises(io.UnsupportedOperation):
        file.truncate(0)


def test_wrong_direction(opener: Opener, path: Path) -> None:
    with opener(path) as file, pytest.raises(io.UnsupportedOperation):
        file.write(b"x")
    with opener(path, "a") as file:
        for call in (lambda: file.read(1), file.readall, lambda: file.readinto(bytearray(1))):
            with pytest.raises(OSError):  # io.UnsupportedOperation, or FileIO's EBADF
                call()


def test_closed_files(opener: Opener, path: Path) -> None:
    file = opener(path, "r+")
    file.close()
    file.close()
    calls = (
        lambda: file.read(1), file.readall, lambda: file.readinto(bytearray(1)),
        lambda: file.write(b"x"), lambda: file.seek(0), file.tell, file.truncate, file.readable,
        file.writable, file.seekable, file.isatty, file.fileno, file.flush, file.__enter__,
        file.readline, file.readlines, lambda: next(file),
    )  # fmt: skip
    for call in calls:
        with pytest.raises(ValueError):
            call()


def test_files_that_cannot_be_opened(opener: Opener, tmp_path: Path, path: Path) -> None:
    for name, mode, wanted, number in (
        (tmp_path / "missing", "r", FileNotFoundError, errno.ENOENT),
        (path, "x", FileExistsError, errno.EEXIST),
        (tmp_path, "w", IsADirectoryError, errno.EISDIR),
        (tmp_path, "r", IsADirectoryError, errno.EISDIR),
        (path / "inside", "r", NotADirectoryError, errno.ENOTDIR),
    ):
        with pytest.raises(wanted) as raised:
            opener(name, mode)
        assert raised.value.errno == number
        assert os.fspath(raised.value.filename) == os.fspath(name)


UNKNOWN = "s3://bucket/key"


@pytest.mark.parametrize(
    "call",
    [
        lambda: ferry.open(UNKNOWN, "r"),
        lambda: ferry.open(Path("nfs:/export/file"), "w"),
        lambda: ferry.open(b"foo://x", "x"),
        lambda: ferry.load(UNKNOWN),
        lambda: ferry.save(UNKNOWN, numpy.zeros(1)),
        lambda: ferry.save(UNKNOWN, numpy.zeros(1), raw=True),
        lambda: ferry.load_safetensors(UNKNOWN),
        lambda: ferry.load_safetensors([f"{UNKNOWN}.index.json"]),
        lambda: ferry.read_files([UNKNOWN]),
        lambda: ferry.explain(UNKNOWN),
        lambda: ferry.Engine().status(UNKNOWN),
        lambda: ferry.Engine().list(UNKNOWN),
        lambda: ferry.Engine().unlink(UNKNOWN),
        lambda: ferry.Engine().rename("x", UNKNOWN),
        lambda: ferry.Engine().make_directory(UNKNOWN),
        lambda: ferry.Engine().remove_directory(UNKNOWN),
    ],
)
def test_unknown_schemes_are_no_missing_files(
    call: Callable[[], Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ValueError, match="names no storage that Ferry knows; its URIs are nfs://"):
        call()
    assert list(tmp_path.iterdir()) == []


def test_folders_may_be_named_like_schemes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "s3:" / "bucket").mkdir(parents=True)
    with ferry.open(UNKNOWN, "w") as file:
        file.write(b"x")
    assert (tmp_path / "s3:" / "bucket" / "key").read_bytes() == b"x"
    assert bytes(ferry.read_files([UNKNOWN])[0]) == b"x"


def test_names(opener: Opener, tmp_path: Path) -> None:
    for name in (str(tmp_path / "a"), os.fsencode(tmp_path / "b"), tmp_path / "ü"):
        with opener(name, "w") as file:
            assert file.name == name
            assert "rb" not in repr(file)
        assert os.path.exists(name)


def test_lines_and_iteration(opener: Opener, path: Path) -> None:
    path.write_bytes(b"one\ntwo\nthree")
    with opener(path) as file:
        assert file.readline() == b"one\n"
        assert list(file) == [b"two\n", b"three"]


def test_lines_of_bounded_length(opener: Opener, path: Path) -> None:
    path.write_bytes(b"one\ntwo\nthree")
    with opener(path) as file:
        assert file.readline(2) == b"on"
        assert file.readline(0) == b""
        assert file.readline(-1) == b"e\n"
        assert file.readlines(3) == [b"two\n"]
        assert file.readline(None) == b"three"
        assert file.readline() == b""


def test_buffers_with_large_items(opener: Opener, path: Path) -> None:
    with opener(path, "r+") as file:
        numbers = array.array("H", [0, 0, 0])
        assert file.readinto(numbers) == 6
        assert numbers.tobytes() == b"012345"
        assert file.readinto(memoryview(numbers)[1:]) == 4
        assert numbers.tobytes() == b"016789"
        assert file.write(array.array("H", [0x4141])) == 2
        assert file.tell() == 12
    assert path.read_bytes() == b"0123456789AA"


def test_what_cannot_be_read_into(opener: Opener, path: Path) -> None:
    with opener(path) as file:
        for target in (b"1234", "text", 5, None, memoryview(bytearray(8))[::2]):
            with pytest.raises((TypeError, ValueError, BufferError)):
                file.readinto(target)
        assert file.tell() == 0


def test_several_pieces_are_written(opener: Opener, path: Path) -> None:
    with opener(path, "w") as file:
        file.writelines([b"one\n", bytearray(b"two\n")])
        assert file.tell() == 8
        with pytest.raises(TypeError):
            file.writelines(["text"])
    assert path.read_bytes() == b"one\ntwo\n"


def test_far_positions(opener: Opener, path: Path) -> None:
    with opener(path, "r+") as file:
        assert file.seek(5 << 30) == 5 << 30
        assert file.read(10) == b""
        assert file.readinto(bytearray(10)) == 0
        assert file.write(b"far") == 3
        assert file.tell() == (5 << 30) + 3
        assert file.seek(-3, io.SEEK_END) == 5 << 30
        assert file.read() == b"far"
        assert file.truncate(4) == 4
        assert file.read() == b""
        assert file.seek(numpy.int64(2)) == 2
        assert file.read(None) == b"23"
        for call in (file.seek, file.truncate):
            with pytest.raises(OverflowError):
                call(1 << 70)
    assert path.read_bytes() == b"0123"


def test_wrong_types(opener: Opener, path: Path) -> None:
    with opener(path, "r+") as file:
        for call in (lambda: file.truncate(1.5), lambda: file.read("1"), lambda: file.seek(None)):
            with pytest.raises(TypeError):
                call()
        with pytest.raises(AttributeError):
            file.mode = "wb"
    with pytest.raises(TypeError):
        opener(None)
    with pytest.raises(ValueError):
        opener("a\0b")
    assert path.read_bytes() == b"0123456789"


def test_files_are_not_copied(opener: Opener, path: Path) -> None:
    with opener(path) as file:
        for copying in (pickle.dumps, copy.copy, copy.deepcopy):
            with pytest.raises(TypeError):
                copying(file)
        assert weakref.ref(file)() is file
        file.note = "files have attributes"


@pytest.mark.parametrize(("mode", "then"), [("rb", "rb"), ("w", "rb+"), ("a", "ab"), ("x+", "rb+"), ("r+", "rb+")])
def test_what_to_send_instead_of_a_file_is_said(tmp_path: Path, mode: str, then: str) -> None:
    path = tmp_path / "it's"
    if "x" not in mode:
        path.write_bytes(b"kept")
    with ferry.open(path, mode) as file, pytest.raises(TypeError) as caught:
        pickle.dumps(file)
    assert repr(str(path)) in str(caught.value)
    assert f"ferry.open(path, '{then}')" in str(caught.value)


def test_advice_for_memory_that_is_not_contiguous_loses_no_data(path: Path) -> None:
    array = numpy.zeros((4, 8), numpy.uint8)[:, :5]
    with ferry.open(path, "r+") as file:
        with pytest.raises(ValueError, match="not contiguous") as reading:
            file.read_at(array, 0)
        assert "ascontiguousarray" not in str(reading.value)
        assert "array[...] = new" in str(reading.value)
        with pytest.raises(ValueError, match=r"copy it with numpy\.ascontiguousarray"):
            file.write_at(array, 0)
        backwards = memoryview(bytearray(8))[::-1]
        with pytest.raises(ValueError, match=r"array\[\.\.\.\] = new"):
            file.read_at(backwards, 0)


def test_leaving_a_block_by_an_error_closes(opener: Opener, path: Path) -> None:
    with pytest.raises(KeyError), opener(path) as file:
        raise KeyError
    assert file.closed
    with pytest.raises(ValueError), file:
        pass


def test_reading_what_others_add(opener: Opener, path: Path) -> None:
    with opener(path) as file, path.open("ab") as other:
        assert file.readall() == b"0123456789"
        other.write(b"more")
        other.flush()
        assert file.read() == b"more"


def test_wrapped_in_buffers(opener: Opener, path: Path) -> None:
    with io.BufferedReader(opener(path)) as file:
        assert file.peek(2)[:2] == b"01"
        assert file.read(4) == b"0123"
        assert file.tell() == 4
    with io.BufferedWriter(opener(path, "w")) as file:
        file.write(b"x" * 100)
        file.write(b"y" * 100_000)
    assert path.read_bytes() == b"x" * 100 + b"y" * 100_000
    with io.BufferedRandom(opener(path, "r+")) as file:
        file.seek(50)
        file.write(b"z")
        file.seek(49)
        assert file.read(3) == b"xzx"
    with io.TextIOWrapper(io.BufferedReader(opener(path)), "ascii") as file:
        assert file.read(3) == "xxx"


def test_json_and_pickle(opener: Opener, path: Path) -> None:
    value = {"a": [1, 2.5, None], "b": "ü" * 5000}
    with opener(path, "w") as file:
        pickle.dump(value, file)
    with io.BufferedReader(opener(path)) as file:
        assert pickle.load(file) == value
    path.write_text(json.dumps(value))
    with opener(path) as file:
        assert json.load(file) == value


def test_numpy_tofile_and_back(opener: Opener, path: Path) -> None:
    array = numpy.arange(1000.0)
    with opener(path, "w") as file:
        numpy.save(file, array)
    with opener(path) as file:
        numpy.testing.assert_array_equal(numpy.load(io.BytesIO(file.readall())), array)


def test_numpy_by_the_descriptor(opener: Opener, path: Path) -> None:
    """numpy.fromfile and tofile use fileno(), and move the position."""
    with opener(path) as file:
        file.seek(2)
        assert numpy.fromfile(file, "u1", 3).tobytes() == b"234"
        assert file.tell() == 5
        assert file.read(2) == b"56"
        with mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ) as mapped:
            assert mapped[:3] == b"012"
    with opener(path, "r+") as file:
        file.seek(4)
        numpy.frombuffer(b"ab", "u1").tofile(file)
        assert file.tell() == 6
    assert path.read_bytes() == b"0123ab6789"


def test_a_large_file_is_read_whole(opener: Opener, path: Path) -> None:
    data = os.urandom(5 << 20)
    path.write_bytes(data)
    with opener(path) as file:
        assert file.read() == data
        file.seek(1)
        target = bytearray(len(data))
        assert file.readinto(target) == len(data) - 1
        assert target[:-1] == data[1:]


def test_forgotten_files_are_closed(path: Path) -> None:
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(50):
        ferry.open(path)
    assert len(os.listdir("/proc/self/fd")) <= before + 2


def test_settings_that_a_storage_has_not_are_named() -> None:
    with pytest.raises(OSError, match='no setting "bogus"; there are: connections') as caught:
        ferry.File("nfs://127.0.0.1/export/file?bogus=1")
    assert caught.value.errno == errno.EINVAL


def test_a_server_that_cannot_be_reached_is_named() -> None:
    with pytest.raises(ConnectionRefusedError, match=r"the NFS server 127\.0\.0\.1 cannot be used"):
        ferry.File("nfs://127.0.0.1/export/file?nfsport=1&mountport=1&timeout=5")
