"""Positioned transfers, futures, batches, and refusals."""

from __future__ import annotations

import asyncio
import concurrent.futures
import ctypes
import errno
import gc
import io
import os
import resource
import sys
import time
import weakref
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy
import pytest

import ferry
from support import raises_errno

SIZE = 3_000_001


@pytest.fixture(scope="module")
def data() -> bytes:
    return numpy.random.default_rng(5).bytes(SIZE)


@pytest.mark.parametrize(
    "make",
    [bytearray, lambda n: numpy.empty(n, numpy.uint8), lambda n: memoryview(bytearray(n))],
    ids=["bytearray", "numpy", "memoryview"],
)
@pytest.mark.parametrize("offset", [0, 1, 4096, 2_900_000, SIZE, SIZE + 10])
def test_reads_into_any_buffer(path: Path, data: bytes, make: Any, offset: int) -> None:
    wanted = data[offset : offset + 500_000]
    with ferry.open(path) as file:
        for bytes_wanted in (10, 500_000):
            target = make(bytes_wanted)
            assert file.read_at(target, offset) == len(wanted[:bytes_wanted])
            assert bytes(target)[: len(wanted[:bytes_wanted])] == wanted[:bytes_wanted]
        assert file.tell() == 0


def test_reads_into_arrays_of_any_shape_and_type(path: Path, data: bytes) -> None:
    with ferry.open(path) as file:
        matrix = numpy.empty((50, 1000), numpy.float64)
        assert file.read_at(matrix, 8) == matrix.nbytes
        assert matrix.tobytes() == data[8 : 8 + matrix.nbytes]
        dates = numpy.empty(100, "datetime64[ns]")  # no buffer format
        assert file.read_at(dates, 0) == 800
        assert dates.tobytes() == data[:800]
        assert file.read_at(numpy.empty(0), 0) == 0


# Memory that only one protocol shows.
SHOWN = {
    "__array_interface__": lambda array: SimpleNamespace(__array_interface__=array.__array_interface__),
    "__dlpack__": lambda array: SimpleNamespace(__dlpack__=array.__dlpack__, __dlpack_device__=array.__dlpack_device__),
}
ON_THE_GPU = {"data": (0, False), "shape": (4,), "typestr": "|u1", "version": 3}


@pytest.mark.parametrize("protocol", SHOWN)
def test_other_protocols(path: Path, data: bytes, protocol: str) -> None:
    array = numpy.zeros(5000, numpy.uint16)
    target = SHOWN[protocol](array)
    with ferry.open(path, "r+") as file:
        assert file.read_at(target, 3) == 10_000
        assert array.tobytes() == data[3:10_003]
        assert file.write_at(target, 0) == 10_000
    assert path.read_bytes()[:10_000] == data[3:10_003]


REFUSED = [
    (lambda: bytes(10), (TypeError, ValueError, BufferError)),
    (lambda: numpy.zeros((10, 10))[:, :5], ValueError),
    (lambda: numpy.zeros(10)[::2], ValueError),
    (lambda: numpy.broadcast_to(numpy.zeros(1), 5), ValueError),
    (lambda: memoryview(bytearray(10))[::2], (ValueError, BufferError)),
    # No driver, or none that knows this memory.
    (lambda: SimpleNamespace(__cuda_array_interface__=ON_THE_GPU), (OSError, ValueError)),
    (lambda: [1, 2, 3], TypeError),
    (lambda: "text", TypeError),
    (lambda: None, TypeError),
    (lambda: object(), TypeError),
]


@pytest.mark.parametrize(("make", "error"), REFUSED)
def test_refused_buffers(path: Path, make: Any, error: Any) -> None:
    with ferry.open(path) as file:
        with pytest.raises(error):
            file.read_at(make(), 0)
        with pytest.raises(error):
            file.read_at_async(make(), 0)
        with pytest.raises(error):
            ferry.read_batch([(file, bytearray(1), 0), (file, make(), 0)])


def test_read_only_arrays_say_so(path: Path) -> None:
    array = numpy.zeros(10)
    array.flags.writeable = False
    with ferry.open(path) as file, pytest.raises(ValueError, match="read-only"):
        file.read_at(array, 0)


HOLDING_OBJECTS = {
    "objects": lambda: numpy.full(4, None),
    "a view of them": lambda: memoryview(numpy.full(4, None)),
    "in a field": lambda: numpy.zeros(3, [("a", "i4"), ("b", object)]),
    "beside what has no buffer format": lambda: numpy.zeros(3, [("a", "M8[s]"), ("b", object)]),
    "of ctypes": lambda: (ctypes.py_object * 3)(None, None, None),
}


@pytest.mark.parametrize("kind", HOLDING_OBJECTS)
def test_python_objects_are_no_bytes(path: Path, tmp_path: Path, kind: str) -> None:
    """What a file says would be followed as pointers."""
    target = HOLDING_OBJECTS[kind]()
    with ferry.open(path) as file, ferry.open(tmp_path / "new", "w+") as new:
        for call in (
            lambda: file.read_at(target, 0),
            lambda: file.readinto(target),
            lambda: file.read_at_async(target, 0),
            lambda: ferry.read_batch([(file, target, 0)]),
            lambda: new.write_at(target, 0),
            lambda: new.write(target),
        ):
            with pytest.raises(TypeError, match="Python objects"):
                call()
        assert new.size() == 0
        # A name is not enough.
        named = numpy.zeros(3, [("Offset", "f8")])
        assert file.read_at(named, 0) == 24
        assert named.tobytes() == path.read_bytes()[:24]


def test_wrong_arguments(path: Path) -> None:
    with ferry.open(path) as file:
        with pytest.raises(ValueError, match="negative"):
            file.read_at(bytearray(1), -1)
        with pytest.raises(TypeError):
            file.read_at(bytearray(1), 1.5)
        with pytest.raises(io.UnsupportedOperation):
            file.write_at(b"x", 0)
        with raises_errno(errno.EINVAL):
            file.read_at(bytearray(10), (1 << 63) - 5)
        with pytest.raises(OverflowError):
            file.read_at(bytearray(10), 1 << 70)
        with pytest.raises(ValueError):
            ferry.read_batch([(file, bytearray(1))])
        for run in (ferry.read_batch, ferry.read_batch_async):
            with pytest.raises(ValueError, match="offset -1 is negative"):
                run([(file, bytearray(1), -1)])
            with pytest.raises(TypeError, match="a file of ferry.open"):
                run([(str(path), bytearray(1), 0)])
        assert ferry.read_batch([(file, bytearray(1), numpy.int64(5))]) == [1]
    with pytest.raises(TypeError, match="several"):
        ferry.read_files(str(path))
    with pytest.raises(ValueError, match="closed"):
        file.read_at(bytearray(1), 0)
    with pytest.raises(ValueError, match="closed"):
        file.read_at_async(bytearray(1), 0)
    with pytest.raises(ValueError):
        ferry.Engine(route="sideways")
    with pytest.raises(ValueError, match="workers: -1 is negative"):
        ferry.Engine(workers=-1)
    with pytest.raises(TypeError):
        ferry.Engine(depth=1.5)
    with raises_errno(errno.EINVAL):
        ferry.Engine(task_bytes=1000)


def test_a_full_disk_is_an_error() -> None:
    with ferry.open("/dev/full", "r+") as file:
        for call in (
            lambda: file.write_at(bytes(1 << 20), 0),
            lambda: file.write_at_async(bytes(1 << 20), 0).result(),
            lambda: ferry.write_batch([(file, bytes(1 << 20), 0)]),
        ):
            with raises_errno(errno.ENOSPC, "/dev/full"):
                call()


def test_futures_work_with_concurrent_futures(path: Path, data: bytes) -> None:
    with ferry.open(path) as file:
        targets = [bytearray(100_000) for _ in range(20)]
        futures = {file.read_at_async(target, i * 100_000): i for i, target in enumerate(targets)}
        for future in concurrent.futures.as_completed(futures, timeout=60):
            i = futures[future]
            assert future.result() == 100_000
            assert targets[i] == data[i * 100_000 : (i + 1) * 100_000]
        done, pending = concurrent.futures.wait(futures, timeout=60)
        assert len(done) == 20
        assert not pending
        called = []
        future = file.read_at_async(bytearray(10), 0)
        future.add_done_callback(called.append)
        assert future.result() == 10
        assert future.exception() is None
        assert future.progress() == (10, 10)
        concurrent.futures.wait([future])
        assert called == [future]


def test_futures_can_be_awaited(path: Path, data: bytes) -> None:
    async def read_all(file: ferry.File) -> list[int]:
        targets = [bytearray(100_000) for _ in range(5)]
        counts = await asyncio.gather(*(file.read_at_async(t, 7) for t in targets))
        assert all(target == data[7:100_007] for target in targets)
        with pytest.raises(OSError):
            await file.read_at_async(bytearray(1), (1 << 62))  # beyond what ext4 has
            raise OSError  # where the file system takes it, it is short
        return counts

    with ferry.open(path) as file:
        assert asyncio.run(read_all(file)) == [100_000] * 5


def test_failed_futures(path: Path) -> None:
    with ferry.open("/dev/full", "w") as file:
        future = file.write_at_async(bytes(100), 0)
        assert isinstance(future.exception(60), OSError)
        with pytest.raises(OSError, match="bytes 0 to 100"):
            future.result()


def test_cancelled_futures(path: Path) -> None:
    """The only worker makes random numbers while the others wait to be cancelled."""
    engine = ferry.Engine(workers=1, task_bytes=4096)
    targets = [bytearray(SIZE) for _ in range(20)]
    with ferry.open("/dev/urandom", engine=engine) as slow, ferry.open(path, engine=engine) as file:
        first = slow.read_at_async(bytearray(64 << 20), 0)
        futures = [file.read_at_async(target, 0) for target in targets]
        was_cancelled = [future.cancel() for future in reversed(futures)]
        assert any(was_cancelled)
        for future, cancelled in zip(reversed(futures), was_cancelled, strict=True):
            assert future.done()
            assert future.cancelled() is cancelled
            if cancelled:
                with pytest.raises(concurrent.futures.CancelledError):
                    future.result()
        first.cancel()
        assert ferry.stats(engine)["cancelled_transfers"] >= sum(was_cancelled)


def test_a_buffer_is_free_once_the_result_is_there(path: Path) -> None:
    """A held exporter cannot be resized, closed or released."""
    with ferry.open(path) as file:
        for _ in range(300):
            target = bytearray(200_000)
            future = file.read_at_async(target, 0)
            assert future.result() == 200_000
            target.append(0)
            view = memoryview(bytearray(300_000))
            concurrent.futures.wait([file.read_at_async(view, 0)])
            view.release()


def test_buffers_are_kept_and_let_go(path: Path) -> None:
    with ferry.open(path) as file:
        target = numpy.empty(SIZE, numpy.uint8)
        gone = weakref.ref(target)
        future = file.read_at_async(target, 0)
        del target
        future.result()
        concurrent.futures.wait([future])
        del future
        for _ in range(100):
            gc.collect()
            if gone() is None:
                break
            file.read_at_async(bytearray(1), 0).result()
        assert gone() is None
        held = bytearray(1000)
        file.read_at(held, 0)
        held.extend(b"x")  # no export is left behind
        with pytest.raises(OSError):
            file.read_at(held, (1 << 63) - 5)
        held.extend(b"x")


def test_progress_is_told(path: Path) -> None:
    seen: list[tuple[int, int]] = []
    with ferry.open(path) as file:
        got = file.read_at(bytearray(SIZE), 0, progress=lambda done, total: seen.append((done, total)))
        assert got == SIZE
        assert seen[-1] == (SIZE, SIZE)

        def interrupt(done: int, total: int) -> None:
            raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            file.read_at(bytearray(SIZE), 0, progress=interrupt)


def test_batches(path: Path, tmp_path: Path, data: bytes) -> None:
    (tmp_path / "other").write_bytes(data[::-1])
    with ferry.open(path) as one, ferry.open(tmp_path / "other") as two:
        rng = numpy.random.default_rng(1)
        places = rng.integers(0, SIZE - 4096, 2000).tolist()
        targets = numpy.empty((2000, 4096), numpy.uint8)
        files = [one, two]
        parts = [(files[i % 2], targets[i], place) for i, place in enumerate(places)]
        assert ferry.read_batch(parts) == [4096] * 2000
        for i, place in enumerate(places):
            source = data if i % 2 == 0 else data[::-1]
            assert targets[i].tobytes() == source[place : place + 4096]
        future = ferry.read_batch_async([(one, bytearray(10), SIZE - 4), (two, bytearray(10), 0)])
        assert future.result(60) == [4, 10]
        assert ferry.read_batch([]) == []
    with ferry.open(tmp_path / "new", "w+") as new:
        assert ferry.write_batch([(new, b"ab", 0), (new, b"cd", 4)]) == [2, 2]
        assert ferry.write_batch_async([(new, b"ef", 6)]).result(60) == [2]
        assert new.read() == b"ab\0\0cdef"


def test_batches_report_every_failure(path: Path) -> None:
    with ferry.open(path) as good, ferry.open("/dev/full", "w") as full:
        with pytest.raises(ferry.TransferError) as raised:
            ferry.write_batch([(full, b"x" * 10, 5), (full, b"y" * 20, 100)])
        failures = raised.value.failures
        assert [(f.part, f.offset, f.bytes, f.errno) for f in failures] == [
            (0, 5, 10, errno.ENOSPC),
            (1, 100, 20, errno.ENOSPC),
        ]
        assert failures[0].path == "/dev/full"
        assert raised.value.errno == errno.ENOSPC
        target = bytearray(10)
        with pytest.raises(ferry.TransferError) as raised:
            ferry.read_batch([(good, target, 0), (full, bytearray(1), 0)])
        assert [failure.part for failure in raised.value.failures] == [1]
        assert target == path.read_bytes()[:10]  # the others are done


def test_many_small_files(tmp_path: Path) -> None:
    paths = [tmp_path / f"{i}" for i in range(300)]
    for i, path in enumerate(paths):
        path.write_bytes(os.urandom(i * 100 % 5000))
    contents = ferry.read_files(paths)
    assert [bytes(c) for c in contents] == [path.read_bytes() for path in paths]
    with pytest.raises(ferry.TransferError) as raised:
        ferry.read_files([paths[0], tmp_path / "gone", tmp_path])
    assert [f.errno for f in raised.value.failures] == [errno.ENOENT, errno.EISDIR]
    assert "No such file or directory, and 1 more part: " in str(raised.value)
    assert ferry.read_files([]) == []


def test_other_threads_run_meanwhile(path: Path) -> None:
    """Transfers release the interpreter's lock: two threads' transfers overlap."""
    with ferry.open(path) as file, concurrent.futures.ThreadPoolExecutor(8) as pool:
        results = pool.map(lambda i: file.read_at(bytearray(SIZE), i), range(50))
        assert list(results) == [SIZE - i for i in range(50)]


def test_a_file_that_shrinks_is_short(path: Path) -> None:
    with ferry.open(path) as file:
        os.truncate(path, 1_500_000)
        assert file.read_at(bytearray(SIZE), 0) == 1_500_000


def test_pinned_routes(path: Path, data: bytes) -> None:
    for route in ("buffered", "direct"):
        engine = ferry.Engine(route=route, workers=1, depth=2, task_bytes=65536)
        assert engine.options()["workers"] == 1
        explained = engine.explain(path)
        assert explained["depth"] == 2
        assert any("pinned" in reason for reason in explained["reasons"])
        with ferry.open(path, engine=engine) as file:
            target = bytearray(SIZE)
            assert file.read_at(target, 0) == SIZE
            assert target == data
    engine.shut_down()
    with raises_errno(errno.ESHUTDOWN):
        ferry.open(path, engine=engine)


def test_nothing_leaks(path: Path) -> None:
    """The number of transfers does not increase references, descriptors or memory."""
    with ferry.open(path) as file:
        target = bytearray(200_000)

        def work(times: int) -> None:
            for _ in range(times):
                file.read_at(target, 0)
                file.read_at_async(target, 0).result()
                ferry.read_batch([(file, target, 0)])
                ferry.read_files([path])
                with pytest.raises(ValueError):
                    file.read_at(numpy.zeros(4)[::2], 0)

        work(30)
        gc.collect()
        references, descriptors = sys.getrefcount(target), len(os.listdir("/proc/self/fd"))
        memory_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        work(100)
        gc.collect()
        # The thread that ends asynchronous transfers may be a few behind their results.
        until = time.monotonic() + 30
        while sys.getrefcount(target) > references + 2 and time.monotonic() < until:
            time.sleep(0.01)
        assert sys.getrefcount(target) <= references + 2
        assert len(os.listdir("/proc/self/fd")) <= descriptors + 1
        assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss < memory_kib + 64 * 1024
