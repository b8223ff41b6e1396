"""Child processes of fork: what they read, and that they never wait for their parent's threads."""

from __future__ import annotations

import errno
import multiprocessing
import os
import sys
from collections.abc import Callable
from pathlib import Path

import numpy
import pytest

import ferry
from support import TIMEOUT_S, raises_errno, run_program

MIB = 1 << 20
SIZE = 8 * MIB


@pytest.fixture
def data() -> bytes:
    return numpy.random.default_rng(4).integers(1, 256, SIZE, numpy.uint8).tobytes()


# With reads of all kinds in flight in other threads at every fork.
POOL_PROGRAM = """
import multiprocessing, sys, threading
import ferry, numpy
path, method = sys.argv[1:]
wanted = numpy.fromfile(path, numpy.uint8)

def work(number):
    at = number * 4096 % wanted.size
    part = wanted[at : at + 300_000]
    target = numpy.zeros(part.size, numpy.uint8)
    with ferry.open(path, direct=number % 2 == 0) as file:
        assert file.read_at(target, at) == part.size
        assert numpy.array_equal(target, part)
        assert file.read_at_async(target, at).result(60) == part.size
    assert numpy.array_equal(ferry.load(path, dtype="u1"), wanted)
    assert bytes(ferry.read_files([path])[0]) == wanted.tobytes()
    if method == "fork":
        target[:] = 0
        assert shared.read_at(target, at) == part.size
        assert numpy.array_equal(target, part)
    return number

if __name__ == "__main__":
    shared = ferry.open(path)
    ends = threading.Event()
    def read_on():
        target = numpy.zeros(wanted.size, numpy.uint8)
        while not ends.is_set():
            with ferry.open(path, direct=True) as file:
                futures = [file.read_at_async(target, 0), shared.read_at_async(target, 0)]
                shared.read_at(target[:1000], 0)
                [future.result() for future in futures]
            ferry.read_files([path] * 3)
    threads = [threading.Thread(target=read_on) for _ in range(3)]
    [thread.start() for thread in threads]
    try:
        for _ in range(int(method == "fork") * 4 + 1):
            with multiprocessing.get_context(method).Pool(3) as pool:
                assert pool.map_async(work, range(12)).get(100) == list(range(12))
    finally:
        ends.set()
        [thread.join() for thread in threads]
    print("answered")
"""


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_a_pool_of_workers_answers(tmp_path: Path, path: Path, method: str) -> None:
    program = tmp_path / "program.py"  # spawned workers read it again
    program.write_text(POOL_PROGRAM)
    done = run_program(sys.executable, program, path, method)
    assert (done.returncode, done.stdout, done.stderr) == (0, "answered\n", "")


def in_a_child(work: Callable[[], None]) -> None:
    """Runs in a child of fork, which must end without an exception."""
    child = multiprocessing.get_context("fork").Process(target=work)
    child.start()
    child.join(TIMEOUT_S)
    assert child.exitcode == 0
    child.close()


def test_a_child_has_its_parents_file(path: Path, data: bytes) -> None:
    """Whatever the name means now, and wherever the child is."""
    os.chdir(path.parent)
    with ferry.open("file", "r+") as file:
        path.with_name("new").write_bytes(bytes(SIZE))
        path.with_name("new").rename(path)

        def work() -> None:
            os.chdir("/")
            target = bytearray(SIZE)
            assert file.read_at(target, 0) == SIZE
            assert target == data
            file.write_at(b"child", 100)

        in_a_child(work)
        target = bytearray(5)
        file.read_at(target, 100)
        assert target == b"child"


def test_another_file_is_not_taken_for_it(path: Path) -> None:
    """A child that closed all descriptors, like a daemon, only has the name."""
    with ferry.open(path) as file:
        number = file.fileno()
        path.with_name("new").write_bytes(bytes(SIZE))
        path.with_name("new").rename(path)

        def work() -> None:
            os.close(number)
            with raises_errno(errno.ESTALE, path):
                file.read(1)

        in_a_child(work)


def test_a_child_opens_the_file_anew(path: Path, data: bytes) -> None:
    with ferry.open(path) as file:
        file.seek(4)

        def work() -> None:
            assert file.read(3) == data[4:7]
            assert file.read_at_async(bytearray(2), 0).result(60) == 2
            file.close()

        in_a_child(work)
        assert file.read(2) == data[4:6]


def test_a_child_does_not_wait_for_its_parents_transfers(path: Path) -> None:
    path.write_bytes(bytes(64 * MIB))
    with ferry.open(path, direct=True) as file:
        future = file.read_at_async(bytearray(64 * MIB), 0)

        def work() -> None:
            try:
                future.result(60)  # if it was over before the fork
            except OSError as error:
                assert error.errno == errno.ECHILD

        in_a_child(work)
        assert future.result() == 64 * MIB
