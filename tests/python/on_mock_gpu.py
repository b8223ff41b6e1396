"""Arrays in GPU memory, on the mock driver. ``test_gpu.py`` runs this file in its own process."""

from __future__ import annotations

import ctypes
import errno
import os
import threading
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy
import pytest
import safetensors.numpy
from dlpack_made_up import CUDA, Dlpack

import ferry
import ferry.memory
from support import raises_errno, write_safetensors

driver = ctypes.CDLL(os.environ["FERRY_CUDA_LIBRARY"])
driver.ferry_mock_cuda_get.restype = ctypes.c_long

FAULTS = ("out_of_memory", "fail_copy_call", "fail_copy", "lost", "copy_delay_us", "hold_copies")


def get(name: str) -> int:
    return driver.ferry_mock_cuda_get(name.encode())


def set_to(name: str, value: int) -> None:
    driver.ferry_mock_cuda_set(name.encode(), ctypes.c_long(value))


@pytest.fixture(autouse=True)
def without_faults() -> Iterator[None]:
    yield
    for fault in FAULTS:
        set_to(fault, 0)
    assert get("freed_under_a_copy") == 0
    assert get("pageable_copies") == 0


def foreign(array: ferry.GpuArray, **changes: Any) -> SimpleNamespace:
    """Another package's array: it shows a GpuArray's memory as asked."""
    return SimpleNamespace(array=array, __cuda_array_interface__=array.__cuda_array_interface__ | changes)


def dlpack_of(array: ferry.GpuArray, **options: Any) -> Dlpack:
    """The memory of an array that then only DLPack shows."""
    options = {"shape": array.shape, "device_type": CUDA} | options
    return Dlpack(array.__cuda_array_interface__["data"][0], **options)


@pytest.fixture
def data() -> bytes:
    return numpy.random.default_rng(1).bytes(3_000_001)


def test_arrays_are_made_read_and_written(path: Path, data: bytes) -> None:
    array = ferry.GpuArray((1000, 25), "<i4", "cuda:1")
    before = ferry.stats()["gpu_tasks"]
    with ferry.open(path, "r+") as file:
        assert file.read_at(array, 1001) == array.nbytes == 100_000
        assert array.copy_to_host().tobytes() == data[1001:101_001]
        assert file.write_at(array, 7) == 100_000
        assert file.read_at_async(array, 2_950_001).result() == 50_000
    assert path.read_bytes()[7:100_007] == data[1001:101_001]
    assert ferry.stats()["gpu_tasks"] == before + 3
    assert ferry.stats()["pinned_bytes"] == get("pinned_bytes") > 0


def test_progress_and_batches(path: Path, data: bytes) -> None:
    seen: list[tuple[int, int]] = []
    whole = ferry.GpuArray((len(data),), "u1")
    host = numpy.zeros(1000, "u1")
    with ferry.open(path) as file:
        assert file.read_at(whole, 0, progress=lambda *now: seen.append(now)) == len(data)
        assert seen[-1] == (len(data), len(data))
        other = ferry.GpuArray((500_000,), "u1", "cuda:1")
        assert ferry.read_batch([(file, other, 9), (file, host, 3)]) == [500_000, 1000]
    assert whole.copy_to_host().tobytes() == data
    assert other.copy_to_host().tobytes() == data[9:500_009]
    assert host.tobytes() == data[3:1003]


def new_stream() -> ctypes.c_void_p:
    context, stream = ctypes.c_void_p(), ctypes.c_void_p()
    assert driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) == 0
    assert driver.cuCtxPushCurrent_v2(context) == 0
    assert driver.cuStreamCreate(ctypes.byref(stream), 1) == 0
    return stream


def test_waits_for_the_stream_that_the_array_names(path: Path, data: bytes) -> None:
    array = ferry.GpuArray((4096,), "u1")
    stream = new_stream()
    try:
        set_to("copy_delay_us", 50_000)
        source = ctypes.c_void_p()
        assert driver.cuMemHostAlloc(ctypes.byref(source), ctypes.c_size_t(4096), 0) == 0
        ctypes.memset(source, ord("x"), 4096)
        address = ctypes.c_ulonglong(array.__cuda_array_interface__["data"][0])
        # Still in flight when the file is written, which must contain its data.
        assert driver.cuMemcpyHtoDAsync_v2(address, source, ctypes.c_size_t(4096), stream) == 0
        with ferry.open(path, "r+") as file:
            assert file.write_at(foreign(array, stream=stream.value), 0) == 4096
        assert path.read_bytes()[:4096] == b"x" * 4096
        assert driver.cuMemFreeHost(source) == 0
    finally:
        driver.cuStreamDestroy_v2(stream)
        driver.cuCtxPopCurrent_v2(ctypes.byref(ctypes.c_void_p()))


def test_dlpack(path: Path, data: bytes) -> None:
    array = ferry.GpuArray((10, 20), "<f4")
    tensor = dlpack_of(array)
    with ferry.open(path) as file:
        assert file.read_at(tensor, 5) == 800
    assert tensor.streams == [1], "the producer is told on which stream to be done"
    assert array.copy_to_host().tobytes() == data[5:805]


@pytest.mark.parametrize("element", [(17, 4, 2), (17, 4, 1), (4, 16, 1)], ids=["4 bits, 2 lanes", "4 bits", "bfloat16"])
def test_dlpack_of_types_that_numpy_lacks(path: Path, data: bytes, element: tuple[int, int, int]) -> None:
    _, bits, lanes = element
    size = 200 * bits * lanes // 8
    array = ferry.GpuArray((1000,), "u1")
    with ferry.open(path) as file:
        assert file.read_at(dlpack_of(array, shape=(10, 20), element=element), 5) == size
    assert array.copy_to_host().tobytes()[:size] == data[5 : 5 + size]


def test_what_cannot_be_used_is_refused(path: Path) -> None:
    array = ferry.GpuArray((10, 20), "<f4")
    freed = ferry.GpuArray((10,), "u1")
    stale = freed.__cuda_array_interface__
    freed.__init__((1,), "u1")
    refused: list[tuple[Any, str]] = [
        (foreign(array, data=(array.__cuda_array_interface__["data"][0], True)), "read-only"),
        (foreign(array, strides=(4, 40)), "contiguous"),
        (foreign(array, stream=0), "stream 0"),
        (foreign(array, mask=array), "mask"),
        (foreign(array, data=stale["data"]), "knows no such memory"),
        (dlpack_of(array, strides=(1, 10)), "contiguous"),
    ]
    with ferry.open(path) as file:
        for target, why in refused:
            with pytest.raises(ValueError, match=why):
                file.read_at(target, 0)
        with pytest.raises(NotImplementedError, match="neither"):
            file.read_at(dlpack_of(array, device_type=10), 0)
        assert file.read_at(foreign(array, shape=(0, 20)), 0) == 0
    with pytest.raises(NotImplementedError, match="memory of a GPU"):
        ferry.memory.as_buffer(array, True)
    with raises_errno(errno.ENODEV, match="no GPU 7"):
        ferry.GpuArray((1,), "u1", "cuda:7")


def test_errors_have_an_errno(path: Path, data: bytes) -> None:
    array = ferry.GpuArray((len(data),), "u1")
    with ferry.open(path) as file:
        set_to("fail_copy_call", 1)
        with raises_errno(errno.EIO, path, match="bytes 0 to 3000001"):
            file.read_at(array, 0)
        set_to("lost", 1)
        with raises_errno(errno.EIO, match="."):
            file.read_at(array, 0)
        set_to("lost", 0)
        set_to("out_of_memory", 1)
        with raises_errno(errno.ENOMEM, match="CUDA_ERROR_OUT_OF_MEMORY"):
            ferry.GpuArray((len(data),), "u1")
        set_to("out_of_memory", 0)
        assert file.read_at(array, 0) == len(data)


def test_cancelled_futures_wait_for_copies(path: Path, data: bytes) -> None:
    array = ferry.GpuArray((len(data),), "u1")
    with ferry.open(path) as file:
        set_to("hold_copies", 1)
        future = file.read_at_async(array, 0)
        threading.Timer(0.05, set_to, ("hold_copies", 0)).start()
        future.cancel()
        assert get("hold_copies") == 0, "cancel() came back while a copy could touch the array"


@pytest.mark.parametrize("order", ["C", "F"])
def test_npy_files(tmp_path: Path, order: str) -> None:
    wanted = numpy.asarray(numpy.random.default_rng(2).normal(size=(300, 500)), order=order)
    ferry.save(tmp_path / "a.npy", wanted)
    got = ferry.load(tmp_path / "a.npy", device="cuda:1")
    assert isinstance(got, ferry.GpuArray) and got.device == "cuda:1"
    numpy.testing.assert_array_equal(got.copy_to_host(), wanted)
    interface = got.__cuda_array_interface__
    assert interface["strides"] == (None if order == "C" else wanted.strides)
    if order == "C":
        ferry.save(tmp_path / "b.npy", foreign(got))
        numpy.testing.assert_array_equal(numpy.load(tmp_path / "b.npy"), wanted)
        ferry.save(tmp_path / "b.raw", got, raw=True)
        assert (tmp_path / "b.raw").read_bytes() == wanted.tobytes()
    else:
        with pytest.raises(ValueError, match="contiguous"):
            ferry.save(tmp_path / "b.npy", got)


def test_safetensors_are_written_from_a_gpu(tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    wanted = {"a": numpy.arange(7, dtype="<i2"), "b": numpy.arange(1 << 18, dtype="<f4").reshape(4, -1)}
    safetensors.numpy.save_file(wanted, path)
    got = ferry.load_safetensors(path, device="cuda")
    mixed = {"of the host": wanted["b"], "a": got["a"], "b": foreign(got["b"]), "none": ferry.GpuArray((0, 3), "<f8")}
    ferry.save_safetensors(path, mixed, types={"a": "BF16"})
    written = ferry.load_safetensors(path)
    assert written["none"].shape == (0, 3)
    assert written["a"].tobytes() == wanted["a"].tobytes()
    for name in ("b", "of the host"):
        numpy.testing.assert_array_equal(written[name], wanted["b"])
    with pytest.raises(ValueError, match="not contiguous"):
        ferry.save_safetensors(path, {"turned": ferry.GpuArray((2, 3), "<f4", fortran_order=True)})
    for types in ({}, {"b": "I32"}):
        with pytest.raises(ValueError, match="'b' is big-endian, in a GPU's memory"):
            ferry.save_safetensors(path, {"b": foreign(got["b"], typestr=">f4")}, types=types)
    assert ferry.load_safetensors(path).keys() == mixed.keys()


def test_tensors_that_lie_askew_are_set_right(tmp_path: Path) -> None:
    entries = {
        "a": {"dtype": "U8", "shape": [3], "data_offsets": [0, 3]},
        "b": {"dtype": "F64", "shape": [2], "data_offsets": [3, 19]},
    }
    values = numpy.array([1.5, -2.5])
    write_safetensors(tmp_path / "x", entries, b"abc" + values.tobytes())
    got = ferry.load_safetensors(tmp_path / "x", device="cuda")
    assert got["a"].copy_to_host().tobytes() == b"abc"
    numpy.testing.assert_array_equal(got["b"].copy_to_host(), values)
    assert got["b"].__cuda_array_interface__["data"][0] % 256 == 0


def test_safetensors_take_no_more_host_memory_than_staging(tmp_path: Path) -> None:
    random = numpy.random.default_rng(3)
    shards = []
    wanted: dict[str, numpy.ndarray] = {}
    for shard in range(3):
        tensors = {
            f"{shard}.odd": random.integers(0, 255, 3, dtype="u1"),
            f"{shard}.large": random.normal(size=(512, 700 + shard)).astype("f4"),
            f"{shard}.empty": numpy.zeros((0, 5), "f8"),
            f"{shard}.wide": random.normal(size=(99, 3)),
        }
        shards.append(tmp_path / f"model-{shard}.safetensors")
        safetensors.numpy.save_file(tensors, shards[-1])
        wanted |= tensors
    before = ferry.stats()
    got = ferry.load_safetensors(shards, device="cuda:0")
    assert got.keys() == wanted.keys()
    for name, array in got.items():
        assert isinstance(array, ferry.GpuArray)
        numpy.testing.assert_array_equal(array.copy_to_host(), wanted[name])
        address = array.__cuda_array_interface__["data"][0]
        assert address % array.dtype.itemsize == 0
    assert ferry.stats()["gpu_tasks"] > before["gpu_tasks"]
    assert ferry.stats()["pinned_bytes"] <= 128 << 20
    with pytest.raises(ValueError, match="cupy"):
        ferry.load_safetensors(shards, device="cuda:0", framework="numpy")
