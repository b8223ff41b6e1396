"""Arrays and tensors in files, compared with numpy's and safetensors' own."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import numpy
import pytest
import safetensors
import safetensors.numpy

import ferry
from support import write_safetensors

ARRAYS = {
    "empty": numpy.zeros((0, 3)),
    "scalar": numpy.array(5.5),
    "vector": numpy.arange(1000, dtype=">i4"),
    "matrix": numpy.arange(600.0).reshape(20, 30),
    "fortran": numpy.asfortranarray(numpy.arange(600).reshape(20, 30)),
    "strided": numpy.arange(1000)[::3],
    "text": numpy.array(["a", "bcd"]),
    "dates": numpy.array(["2026-11-21"], dtype="datetime64[D]"),
    "fields": numpy.zeros(5, dtype=[("x", "<f4"), ("y", "<i8", (2,))]),
    "large": numpy.arange(1 << 19, dtype=numpy.float64).reshape(4, -1),
    "large fortran": numpy.asfortranarray(numpy.arange(1 << 19).reshape(4, -1)),
}


@pytest.mark.parametrize("name", ARRAYS)
def test_npy_both_ways(tmp_path: Path, name: str) -> None:
    array = ARRAYS[name]
    theirs, ours = tmp_path / "theirs.npy", tmp_path / "ours.npy"
    numpy.save(theirs, array)
    ferry.save(ours, array)
    assert ours.read_bytes() == theirs.read_bytes()
    loaded = ferry.load(theirs)
    numpy.testing.assert_array_equal(loaded, array)
    assert loaded.dtype == array.dtype
    assert loaded.flags.writeable
    assert loaded.flags.f_contiguous == numpy.load(theirs).flags.f_contiguous


def test_raw_both_ways(tmp_path: Path) -> None:
    path = tmp_path / "raw"
    array = numpy.asfortranarray(numpy.arange(24, dtype="<u2").reshape(4, 6))
    ferry.save(path, array, raw=True)
    assert path.read_bytes() == array.tobytes()
    numpy.testing.assert_array_equal(ferry.load(path, dtype="<u2", shape=(4, 6)), array)
    assert ferry.load(path, dtype="<u2").shape == (24,)
    assert ferry.load(path, dtype="<u2", offset=8)[0] == 4
    path.write_bytes(b"123")
    for arguments in ({"dtype": "<u2"}, {"dtype": "u1", "shape": (4,)}, {"dtype": "u1", "offset": 4}):
        with pytest.raises(ValueError):
            ferry.load(path, **arguments)


def npy(header: str, data: bytes = b"", version: bytes = b"\x01\x00", length: int | None = None) -> bytes:
    text = header.encode("latin1")
    count = len(text) if length is None else length
    return b"\x93NUMPY" + version + count.to_bytes(2 if version[0] == 1 else 4, "little") + text + data


GOOD = "{'descr': '<f8', 'fortran_order': False, 'shape': (%s,), }\n"


@pytest.mark.parametrize(
    "contents",
    [
        b"", b"\x93NUM", b"PK\x03\x04" + bytes(100), npy(GOOD % 2, bytes(15)), npy(GOOD % 2**61),
        npy(GOOD % -1, bytes(80)), npy(GOOD % 2, bytes(16), length=5000),
        npy(GOOD % 2, bytes(16), b"\x09\x00"), npy(GOOD % 2, bytes(16), b"\x02\x00", 1 << 31),
        npy("{'descr': '|O', 'fortran_order': False, 'shape': (1,), }\n", bytes(8)),
        npy("{'descr': 'zz', 'fortran_order': False, 'shape': (1,)}\n", bytes(8), b"\x03\x00"),
        npy("{'descr': '<f8', 'fortran_order': False, 'shape': (1.5,)}\n", bytes(8), b"\x03\x00"),
        npy("{'descr': '<f8', 'shape': (1,)}\n", bytes(8), b"\x03\x00"), npy("[1]\n", b"", b"\x03\x00"),
        npy("__import__('os').abort()\n"), npy("{'descr': '<f8'}\n"), npy("[" * 5000),
    ],
)  # fmt: skip
def test_hostile_npy_files(tmp_path: Path, contents: bytes) -> None:
    path = tmp_path / "hostile.npy"
    path.write_bytes(contents)
    with pytest.raises(ValueError):
        ferry.load(path)


@pytest.mark.parametrize("shape", ["9223372036854775807, 0, 9223372036854775807", "0, " * 99 + "0", "-3, 0"])
def test_shapes_that_cannot_be_name_the_file(tmp_path: Path, shape: str) -> None:
    path = tmp_path / "hostile.npy"
    path.write_bytes(npy(GOOD % shape))
    with pytest.raises(ValueError, match="hostile.npy: a shape of .* cannot be"):
        ferry.load(path)


def test_names_of_fields_in_any_language(tmp_path: Path) -> None:
    array = numpy.array([(1, 2.0)], [("größe", "i4"), ("長さ", "f8")])
    with pytest.warns(UserWarning, match="3.0"):
        numpy.save(tmp_path / "a.npy", array)
    assert ferry.load(tmp_path / "a.npy").dtype == array.dtype
    ferry.save(tmp_path / "b.npy", array)
    got = numpy.load(tmp_path / "b.npy")
    assert got.dtype == array.dtype
    assert got.tolist() == array.tolist()


def test_raw_files_and_wrong_arguments(tmp_path: Path) -> None:
    path = tmp_path / "raw"
    ferry.save(path, numpy.arange(6, dtype="<i4"), raw=True)
    assert ferry.load(path, dtype="<i4", shape=4).tolist() == [0, 1, 2, 3]
    assert ferry.load(path, dtype="<i4", shape=[3], offset=numpy.int64(8)).tolist() == [2, 3, 4]
    for arguments, text in (
        ({"offset": -4}, "offset -4 is negative"),
        ({"offset": 100}, "ends 76 bytes before the offset"),
        ({"shape": 7}, "28 bytes of data are announced and 24 are there"),
        ({"shape": (-1, 2)}, "shape of .-1, 2. cannot be"),
        ({"dtype": "V7"}, "no whole number of 7-byte elements"),
        ({"dtype": "O"}, "Python objects"),
    ):
        with pytest.raises(ValueError, match=text):
            ferry.load(path, **({"dtype": "<i4"} | arguments))
    with pytest.raises(TypeError):
        ferry.load(path, dtype="<i4", shape=(1.5,))
    for load in (ferry.load, ferry.load_safetensors):
        with pytest.raises(TypeError, match="device is a str"):
            load(path, device=0)


def test_arrays_of_objects_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="objects"):
        ferry.save(tmp_path / "a", numpy.array([{}]))
    assert not (tmp_path / "a").exists()
    with pytest.raises(ValueError, match="objects"):
        numpy.save(tmp_path / "b.npy", numpy.array([{}]), allow_pickle=True)
        ferry.load(tmp_path / "b.npy")


def tensors(seed: int, prefix: str) -> dict[str, numpy.ndarray]:
    rng = numpy.random.default_rng(seed)
    return {
        f"{prefix}.weight": rng.standard_normal((300, 700)).astype("f4"),
        f"{prefix}.half": rng.standard_normal(33).astype("f2"),
        f"{prefix}.ids": rng.integers(0, 9, (3, 5), dtype="i8"),
        f"{prefix}.mask": rng.integers(0, 2, 7).astype(bool),
        f"{prefix}.byte": rng.integers(0, 255, 5).astype("u1"),
        f"{prefix}.none": numpy.zeros((0, 4), "f8"),
        f"{prefix}.scalar": numpy.array(3, "i4"),
    }


def same(got: dict[str, Any], wanted: dict[str, numpy.ndarray]) -> None:
    assert got.keys() == wanted.keys()
    for name, array in wanted.items():
        numpy.testing.assert_array_equal(got[name], array)
        assert got[name].dtype == array.dtype


def test_safetensors_of_the_package(tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    wanted = tensors(1, "a")
    safetensors.numpy.save_file(wanted, path, metadata={"format": "np"})
    got = ferry.load_safetensors(path)
    same(got, wanted)
    got["a.weight"][0, 0] = 1  # writable
    safetensors.numpy.save_file({}, path)
    assert ferry.load_safetensors(path) == {}


def test_sharded_models(tmp_path: Path) -> None:
    shards = [tmp_path / f"model-{i}.safetensors" for i in range(5)]
    wanted: dict[str, numpy.ndarray] = {}
    weight_map = {}
    for i, shard in enumerate(shards):
        some = tensors(i, f"layer{i}")
        safetensors.numpy.save_file(some, shard)
        wanted |= some
        weight_map |= dict.fromkeys(some, shard.name)
    index = tmp_path / "model.safetensors.index.json"
    index.write_text(json.dumps({"metadata": {}, "weight_map": weight_map}))
    told: list[tuple[int, int]] = []
    same(ferry.load_safetensors(index, progress=lambda *now: told.append(now)), wanted)
    assert told[-1][0] == told[-1][1] > 0
    same(ferry.load_safetensors(shards), wanted)
    with pytest.raises(ValueError, match="is in"):
        ferry.load_safetensors([shards[0], shards[0]])
    same(ferry.load_safetensors([index]), wanted)  # beside others, too
    index.write_text(json.dumps({"weight_map": weight_map | {"lost": shards[1].name}}))
    with pytest.raises(ValueError, match="model-1.safetensors has no tensor 'lost'"):
        ferry.load_safetensors(index)
    for bad in ({"a": "../secret"}, {"a": "/etc/passwd"}, {"a": 5}, [], {"a": ""}):
        index.write_text(json.dumps({"weight_map": bad}))
        with pytest.raises(ValueError, match="index"):
            ferry.load_safetensors(index)


def bf16_file(path: Path) -> None:
    entry = {"dtype": "BF16", "shape": [2], "data_offsets": [0, 4]}
    write_safetensors(path, {"x": entry}, b"\x80\x3f\x00\x40")  # 1.0, 2.0


def test_types_that_numpy_lacks(tmp_path: Path) -> None:
    bf16_file(tmp_path / "x")
    got = ferry.load_safetensors(tmp_path / "x")["x"]
    assert got.dtype == numpy.uint16
    assert got.tolist() == [0x3F80, 0x4000]


# What safetensors calls it, the name in the file, and what NumPy sees of four bytes.
NARROW = {
    "float8_e4m3fn": ("F8_E4M3", (4,), "u1"), "float8_e5m2": ("F8_E5M2", (4,), "u1"),
    "float8_e8m0fnu": ("F8_E8M0", (4,), "u1"), "float8_e4m3fnuz": ("F8_E4M3FNUZ", (4,), "u1"),
    "float8_e5m2fnuz": ("F8_E5M2FNUZ", (4,), "u1"), "float4_e2m1fn_x2": ("F4", (4,), "u1"),
    "bfloat16": ("BF16", (2,), "u2"), "complex64": ("C64", (1,), "c8"),
}  # fmt: skip


@pytest.mark.parametrize("name", NARROW)
def test_every_type_that_the_package_writes(tmp_path: Path, name: str) -> None:
    written, shape, element = NARROW[name]
    data = numpy.frombuffer(bytes(range(16, 16 + numpy.dtype(element).itemsize * shape[0])), "u1").copy()
    spec = safetensors.TensorSpec(dtype=name, shape=list(shape), data_ptr=data.ctypes.data, data_len=data.size)
    safetensors.serialize_file({"x": spec}, tmp_path / "x")
    assert f'"{written}"'.encode() in (tmp_path / "x").read_bytes()
    got = ferry.load_safetensors(tmp_path / "x")["x"]
    assert (got.dtype, got.shape) == (numpy.dtype(element), shape)
    assert got.tobytes() == data.tobytes()


def test_packed_types(tmp_path: Path) -> None:
    path = tmp_path / "x"

    def load(type_name: str, shape: list[int], size: int) -> list[list[int]]:
        header = {"x": {"dtype": type_name, "shape": shape, "data_offsets": [0, size]}}
        write_safetensors(path, header, bytes(range(size)))
        return ferry.load_safetensors(path)["x"].tolist()

    assert load("F4", [3, 6], 9) == [[0, 1, 2], [3, 4, 5], [6, 7, 8]]
    assert load("F6_E2M3", [2, 4], 6) == [[0, 1, 2], [3, 4, 5]]
    with pytest.raises(ValueError, match="end within a byte"):
        load("F4", [2, 3], 3)


def test_a_framework_that_is_missing_is_said_before_anything_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bf16_file(tmp_path / "x")
    monkeypatch.setitem(sys.modules, "torch", None)
    before = ferry.stats()["bytes_read"]
    with pytest.raises(ImportError, match="torch"):
        ferry.load_safetensors(tmp_path / "x", framework="torch")
    assert ferry.stats()["bytes_read"] == before


def test_an_unknown_framework(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="framework"):
        ferry.load_safetensors(tmp_path / "x", framework="tea leaves")


def entry(**changes: Any) -> dict[str, Any]:
    return {"dtype": "F32", "shape": [2, 2], "data_offsets": [0, 16]} | changes


HOSTILE = {
    "not JSON": b"{nonsense",
    "no object": [1, 2],
    "deep": b"[" * 100_000,
    "unknown type": {"x": entry(dtype="F33")},
    "type is a list": {"x": entry(dtype=["F32"])},
    "negative shape": {"x": entry(shape=[-2, -2])},
    "shape is a float": {"x": entry(shape=[2.0, 2])},
    "shape is true": {"x": entry(shape=[True, 4])},
    "huge shape": {"x": entry(shape=[1 << 62, 1 << 62])},
    "size does not fit": {"x": entry(data_offsets=[0, 12])},
    "backwards": {"x": entry(data_offsets=[16, 0])},
    "beyond the end": {"x": entry(shape=[4, 2], data_offsets=[0, 32])},
    "hole": {"x": entry(shape=[2], data_offsets=[8, 16])},
    "overlap": {"x": entry(), "y": entry(shape=[2], data_offsets=[8, 16])},
    "less than is there": {"x": entry(shape=[2], data_offsets=[0, 8])},
    "no offsets": {"x": {"dtype": "F32", "shape": []}},
    "three offsets": {"x": entry(data_offsets=[0, 8, 16])},
    "no description": {"x": 5},
    "twice": b'{"x":' + json.dumps(entry()).encode() + b',"x":' + json.dumps(entry()).encode() + b"}",
    "UTF-16": json.dumps({"x": entry()}).encode("utf-16"),
    "100 dimensions": {"x": entry(shape=[2, 2] + [1] * 98)},
    "empty, but too large": {"x": entry(shape=[0, 1 << 62, 4], data_offsets=[0, 0])},
    "metadata of numbers": {"x": entry(), "__metadata__": {"a": 1}},
    "not UTF-8": b'{"\xff":' + json.dumps(entry()).encode() + b"}",
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_headers(tmp_path: Path, name: str) -> None:
    path = tmp_path / "hostile.safetensors"
    write_safetensors(path, HOSTILE[name], bytes(16))
    before = len(os.listdir("/proc/self/fd"))
    with pytest.raises(ValueError, match="hostile"):
        ferry.load_safetensors(path)
    assert len(os.listdir("/proc/self/fd")) <= before + 1


@pytest.mark.parametrize("length", [17, 1 << 40, (1 << 64) - 1, (1 << 63)])
def test_hostile_lengths(tmp_path: Path, length: int) -> None:
    path = tmp_path / "hostile.safetensors"
    path.write_bytes(length.to_bytes(8, "little") + b"{}" + bytes(14))
    with pytest.raises(ValueError, match="does not fit"):
        ferry.load_safetensors(path)


def test_truncated_files(tmp_path: Path) -> None:
    whole = tmp_path / "whole"
    safetensors.numpy.save_file(tensors(1, "a"), whole)
    contents = whole.read_bytes()
    for size in (0, 7, 8, 100, len(contents) // 2, len(contents) - 1):
        (tmp_path / "cut").write_bytes(contents[:size])
        with pytest.raises(ValueError):
            ferry.load_safetensors(tmp_path / "cut")
