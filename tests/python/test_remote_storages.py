"""Commands and the package on files of remote storages; some tests need an NFS server."""

from __future__ import annotations

import asyncio
import errno
import io
import os
import random
import shutil
import stat
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import fsspec
import numpy
import pandas
import pytest

import ferry
from ferry.remote_filesystem import NfsFileSystem
from file_system_checks import CHECKS, tables_of_pandas  # registers the file systems
from support import ROOT, Command, built, copy_there_and_back, raises_errno, run_program

SERVER = os.environ.get("FERRY_TEST_NFS", "")
SERVED = Path(os.environ.get("FERRY_TEST_NFS_DIRECTORY", "/nonexistent"))
needs_server = pytest.mark.skipif(not SERVER, reason="absent: no NFS server; ./test --stage storages starts one")
RIG = ROOT / "rigs" / "rig"
NOWHERE = "nfs://127.0.0.1/x?nfsport=1&mountport=1"


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
        (NOWHERE, "the NFS server 127.0.0.1 cannot be used"),
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


@pytest.mark.parametrize("place", ["mounted", pytest.param("server", marks=needs_server)])
def test_each_allocation_fails(request: pytest.FixtureRequest, tmp_path: Path, place: str) -> None:
    seed = int(os.environ.get("FERRY_TEST_SEED", "0")) or random.randrange(1, 1 << 32)
    print("FERRY_TEST_SEED =", seed)
    if place == "server":
        request.getfixturevalue("folder")
    named, served = (uri("*"), SERVED) if place == "server" else (tmp_path / "*", tmp_path)
    step = 1 if os.environ.get("FERRY_TEST_DEPTH") == "deep" else 8
    done = run_program(
        sys.executable,
        Path(__file__).with_name("lacks_memory.py"),
        named,
        served,
        step,
        1 + seed % step,
        env=os.environ | {"LD_PRELOAD": built("ferry_failing_new")},
        timeout=600,
    )
    assert (done.returncode, done.stderr) == (0, "")
    print("points:", done.stdout)
    assert int(done.stdout) > 0


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
