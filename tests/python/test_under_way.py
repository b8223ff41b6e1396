"""Changes to files and processes during transfers."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from pathlib import Path

import numpy
import pytest
import safetensors.numpy

import ferry
from ferry import safetensors_files
from support import run_python

MIB = 1 << 20
SIZE = 24 * MIB
SHORT = 5 * MIB + 77


@pytest.fixture
def data() -> bytes:
    return numpy.random.default_rng(3).integers(1, 256, SIZE, numpy.uint8).tobytes()


@pytest.fixture
def shrinking(path: Path, data: bytes) -> Iterator[Path]:
    """A file that another process repeatedly truncates and fills."""
    ends = threading.Event()

    def cut() -> None:
        with path.open("r+b", buffering=0) as file:
            while not ends.is_set():
                file.truncate(SHORT)
                file.seek(SHORT)
                file.write(data[SHORT:])

    thread = threading.Thread(target=cut)
    thread.start()
    yield path
    ends.set()
    thread.join()


@pytest.mark.parametrize("route", ["automatic", "buffered", "direct"])
def test_a_file_that_shrinks_meanwhile(shrinking: Path, data: bytes, route: str) -> None:
    """Reads are short, or have the file's old data or zeros where it was cut; the rest is right."""
    wanted = numpy.frombuffer(data, numpy.uint8)
    with ferry.open(shrinking, engine=ferry.Engine(route=route, task_bytes=256 << 10)) as file:
        for _ in range(12):
            target = numpy.zeros(SIZE + 4096, numpy.uint8)
            got = file.read_at(target, 0)
            assert SHORT <= got <= SIZE
            numpy.testing.assert_array_equal(target[:SHORT], wanted[:SHORT])
            rest = target[SHORT:got]
            assert numpy.all((rest == wanted[SHORT:got]) | (rest == 0))
            assert not target[SIZE:].any()


def test_a_model_that_shrinks_after_its_header_was_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "model.safetensors"
    safetensors.numpy.save_file({"x": numpy.arange(1_000_000, dtype=numpy.int64)}, path)
    really = safetensors_files.read_layout

    def read_and_cut(file: ferry.File) -> object:
        layout = really(file)
        os.truncate(path, 4_000_000)
        return layout

    monkeypatch.setattr(safetensors_files, "read_layout", read_and_cut)
    with pytest.raises(ValueError, match="became shorter"):
        ferry.load_safetensors(path)
    for descriptor in Path("/proc/self/fd").iterdir():
        assert not (descriptor.exists() and descriptor.samefile(path))


def test_a_checkpoint_that_is_replaced_after_its_header_was_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Tensors are those of one file, of that whose header was read."""
    path, new = tmp_path / "model.safetensors", tmp_path / "new"
    old = {name: numpy.full(1_000_000, 1, numpy.int64) for name in "xy"}
    safetensors.numpy.save_file(old, path)
    safetensors.numpy.save_file({name: 2 * tensor for name, tensor in old.items()}, new)
    for one in (path, new):
        with one.open("rb") as file:
            os.fsync(file.fileno())
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    really = safetensors_files.read_layout

    def read_and_replace(file: ferry.File) -> object:
        layout = really(file)
        new.rename(path)
        return layout

    monkeypatch.setattr(safetensors_files, "read_layout", read_and_replace)
    loaded = ferry.load_safetensors(path)
    for name, tensor in old.items():
        numpy.testing.assert_array_equal(loaded[name], tensor)


def test_forks_with_transfers_under_way(path: Path, data: bytes) -> None:
    """Neither the parent's transfers nor the children's are hurt, and both leave in the usual way."""
    program = """
import os, sys
import ferry, numpy
file = ferry.open(sys.argv[1])
wanted = open(sys.argv[1], "rb").read()
children = []
for _ in range(4):
    targets = [numpy.zeros(len(wanted), numpy.uint8) for _ in range(4)]
    futures = [file.read_at_async(target, 0) for target in targets]
    child = os.fork()
    if child == 0:
        again = numpy.zeros(len(wanted), numpy.uint8)
        future = file.read_at_async(again, 0)
        assert file.read_at(bytearray(100), 0) == 100
        assert future.result(60) == len(wanted)
        assert again.tobytes() == wanted
        file.read_at_async(again, 0)  # is under way when the child ends
        sys.exit(7)
    children.append(child)
    for future, target in zip(futures, targets):
        assert future.result(60) == len(wanted)
        assert target.tobytes() == wanted
for child in children:
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
"""
    done = run_python(program, path)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
