"""Mutated .npy and .safetensors files: each loads or is refused with ValueError."""

from __future__ import annotations

import io
import json
from pathlib import Path

import numpy
import safetensors.numpy

import ferry
from mutations import Mutator, refuses_politely


def _npy(array: numpy.ndarray) -> bytes:
    stream = io.BytesIO()
    numpy.lib.format.write_array(stream, array, allow_pickle=True)
    return stream.getvalue()


NPY = [
    _npy(numpy.arange(12, dtype="<i4").reshape(3, 4)),
    _npy(numpy.asfortranarray(numpy.ones((2, 3), ">f8"))),
    _npy(numpy.zeros(3, [("a", "u1"), ("ä", "<f4", (2,))])),
    _npy(numpy.array([None])),
    _npy(numpy.array("text")),
    b"\x93NUMPY\x03\x00\x40\x00\x00\x00{'descr': '|V9', 'fortran_order': False, 'shape': (99999999999, 0), }",
]
_LAYOUT = {
    "a": {"dtype": "F32", "shape": [2, 2], "data_offsets": [0, 16]},
    "b": {"dtype": "BF16", "shape": [4], "data_offsets": [16, 24]},
    "__metadata__": {"format": "pt"},
}


def _safetensors(layout: object, data: bytes = bytes(24)) -> bytes:
    header = json.dumps(layout).encode()
    return len(header).to_bytes(8, "little") + header + data


SAFETENSORS = [
    _safetensors(_LAYOUT),
    _safetensors({"x": {"dtype": "F4", "shape": [2, 2], "data_offsets": [0, 2]}}, bytes(2)),
    safetensors.numpy.save({"one": numpy.ones(3), "two": numpy.zeros((2, 2), "u1")}),
    (1 << 62).to_bytes(8, "little") + b"{}",
]


def test_npy(tmp_path: Path) -> None:
    path = tmp_path / "array.npy"

    def use(data: bytes) -> None:
        path.write_bytes(data)
        ferry.load(path)

    refuses_politely(use, lambda mutator: mutator.of_bytes(NPY), 300, ValueError)


def test_safetensors(tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"

    def use(data: bytes) -> None:
        path.write_bytes(data)
        ferry.load_safetensors(path)

    def make(mutator: Mutator) -> bytes:
        bytewise = mutator.of_bytes(SAFETENSORS)
        return bytewise if len(bytewise) % 2 else _safetensors(mutator.of_json([_LAYOUT]))

    refuses_politely(use, make, 300, ValueError)


def test_indices_of_sharded_models(tmp_path: Path) -> None:
    (tmp_path / "a.safetensors").write_bytes(SAFETENSORS[0])
    path = tmp_path / "model.safetensors.index.json"
    index = {"metadata": {"total_size": 24}, "weight_map": {"a": "a.safetensors", "b": "a.safetensors"}}

    def use(data: bytes) -> None:
        path.write_bytes(data)
        ferry.load_safetensors(path)

    def make(mutator: Mutator) -> bytes:
        whole = json.dumps(mutator.of_json([index])).encode()
        return whole if len(whole) % 2 else mutator.of_bytes([whole])

    # A name in it may be that of no file.
    refuses_politely(use, make, 150, (ValueError, OSError))
