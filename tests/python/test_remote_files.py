"""The package on files of an NFS server, which some tests need."""

from __future__ import annotations

import asyncio
import errno
import io
import os
import stat
from collections.abc import Callable

import fsspec
import numpy
import pandas
import pytest

import ferry
from file_system_checks import CHECKS, tables_of_pandas  # registers the file systems
from ferry.remote_filesystem import NfsFileSystem
from support import raises_errno
from test_remote_storages import SERVED, clean_folder, needs_server, uri  # noqa: F401

NOWHERE = "nfs://127.0.0.1/x?nfsport=1&mountport=1"


def test_a_server_that_is_not_there() -> None:
    possible = {errno.ECONNREFUSED, errno.ENOPKG}
    with pytest.raises(OSError) as caught:
        ferry.open(NOWHERE)
    assert caught.value.errno in possible
    assert caught.value.filename == NOWHERE
    with pytest.raises(OSError) as caught:
        fsspec.open(NOWHERE).open()
    assert caught.value.errno in possible


def test_settings_of_a_url_are_options() -> None:
    fs, path = fsspec.url_to_fs("nfs://server/export/file?nfsport=5&uid=7")
    assert path == "server/export/file"
    assert fs.uri(path) == "nfs://server/export/file?nfsport=5&uid=7"
    assert fs.unstrip_protocol(path) == "nfs://server/export/file"
    assert NfsFileSystem().uri("nfs://server/export/file") == "nfs://server/export/file"


@needs_server
def test_a_file_of_a_server(folder: None) -> None:
    data = os.urandom((3 << 20) + 5)
    with ferry.open(uri("file"), "w+") as file:
        assert file.write(data) == len(data)
        assert file.seek(-5, io.SEEK_END) == len(data) - 5
        assert file.read() == data[-5:]
        file.sync()
    assert (SERVED / "file").read_bytes() == data
    with ferry.open(uri("file")) as file:
        target = numpy.zeros(len(data), numpy.uint8)
        seen = []
        assert file.read_at(target, 0, progress=lambda done, total: seen.append((done, total))) == len(data)
        assert target.tobytes() == data
        assert seen[-1] == (len(data), len(data))

        async def read() -> int:
            return await file.read_at_async(target[:100], len(data) - 50)

        assert asyncio.run(read()) == 50
        assert target[:50].tobytes() == data[-50:]
    with raises_errno(errno.ENOENT, uri("missing")):
        ferry.open(uri("missing"))


@needs_server
def test_arrays_and_explanations(folder: None) -> None:
    array = numpy.arange(100_000, dtype=numpy.float32).reshape(100, 1000)
    ferry.save(uri("array.npy"), array)
    numpy.testing.assert_array_equal(numpy.load(SERVED / "array.npy"), array)
    numpy.testing.assert_array_equal(ferry.load(uri("array.npy")), array)
    explained = ferry.explain(uri("array.npy"))
    assert (explained["storage"], explained["resident_bytes"]) == ("nfs", None)
    assert [bytes(one) for one in ferry.read_files([uri("array.npy")])] == [(SERVED / "array.npy").read_bytes()]


@needs_server
def test_fsspec(folder: None) -> None:
    with fsspec.open(uri("text"), "wt") as file:
        file.write("one\ntwo\n")
    with fsspec.open(uri("text"), "rt") as file:
        assert file.readlines() == ["one\n", "two\n"]
    fs, path = fsspec.url_to_fs(uri("text"))
    info = fs.info(path)
    assert (info["size"], info["type"]) == (8, "file")
    assert stat.S_IMODE(info["mode"]) == stat.S_IMODE((SERVED / "text").stat().st_mode)
    assert fs.cat(path) == b"one\ntwo\n"
    assert fs.cat_file(path, -4) == b"two\n"
    fs.pipe_file(f"{path}2", b"abc")
    assert sorted(fs.cat([path, f"{path}2"]).values()) == [b"abc", b"one\ntwo\n"]
    fs.mv(f"{path}2", f"{path}3")
    assert (fs.exists(f"{path}2"), fs.exists(f"{path}3"), fs.size(f"{path}3")) == (False, True, 3)
    with pytest.raises(FileNotFoundError):
        fs.cat_file(f"{path}2")
    fs.rm(f"{path}3")
    assert not (SERVED / "text3").exists()


@needs_server
@pytest.mark.parametrize(
    "check", [check for check in CHECKS if check is not tables_of_pandas], ids=lambda check: check.__name__
)
def test_programs_through_fsspec(folder: None, check: Callable[[str], None]) -> None:
    SERVED.joinpath("tree").mkdir()
    SERVED.joinpath("tree").chmod(0o777)
    check(uri("tree"))


@needs_server
def test_tables_of_pandas(folder: None) -> None:
    """pandas passes nfs:// to urllib, which does not support it: files opened by fsspec work."""
    table = pandas.DataFrame({"x": [1.5, 2.5], "name": ["a", "ä"]})
    with fsspec.open(uri("table.csv"), "w") as file:
        table.to_csv(file, index=False)
    with fsspec.open(uri("table.csv"), "r") as file:
        pandas.testing.assert_frame_equal(pandas.read_csv(file), table)
