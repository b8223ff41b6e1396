"""Tensors of types unknown to NumPy, through DLPack, and PyTorch's if installed."""

from __future__ import annotations

import ctypes
import json
import math
from pathlib import Path
from typing import Any

import pytest
from dlpack_made_up import FLOAT32, Dlpack

import ferry
from ferry.safetensors_files import TYPES
from support import write_safetensors

# DLPack's code, bits and lanes for safetensors' types that NumPy lacks.
ELEMENTS = {
    "bfloat16": (4, 16, 1),
    "float8_e4m3fn": (10, 8, 1),
    "float8_e5m2": (12, 8, 1),
    "float8_e8m0fnu": (14, 8, 1),
    "float6_e2m3fn": (15, 6, 1),
    "float6_e3m2fn": (16, 6, 1),
    "float4_e2m1fn": (17, 4, 1),
    "float4_e2m1fn_x2": (17, 4, 2),
}
SHAPES = [(), (4,), (3, 8), (2, 0, 4)]


@pytest.fixture
def data() -> bytes:
    return bytes(range(1, 101))


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("element", ELEMENTS)
def test_types_that_numpy_lacks(path: Path, element: str, shape: tuple[int, ...]) -> None:
    _, bits, lanes = ELEMENTS[element]
    size = -(-math.prod(shape) * bits * lanes // 8)
    memory = bytearray(64)
    tensor = Dlpack(ctypes.addressof(ctypes.c_char.from_buffer(memory)), shape, ELEMENTS[element])
    with ferry.open(path, "r+") as file:
        assert file.read_at(tensor, 1) == size
        assert bytes(memory) == bytes(range(2, 2 + size)) + bytes(64 - size)
        assert file.read_at_async(tensor, 3).result() == size
        assert ferry.read_batch([(file, tensor, 7)]) == [size]
        memory[:] = b"x" * 64
        assert file.write_at(tensor, 10) == size
    assert path.read_bytes() == bytes(range(1, 11)) + b"x" * size + bytes(range(11 + size, 101))


def test_what_cannot_be_used_is_refused(path: Path) -> None:
    memory = bytearray(64)
    address = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    with ferry.open(path) as file:
        with pytest.raises(ValueError, match="not contiguous"):
            file.read_at(Dlpack(address, (4, 2), ELEMENTS["bfloat16"], strides=(4, 1)), 0)
        with pytest.raises(NotImplementedError, match="neither"):
            file.read_at(Dlpack(address, (4,), ELEMENTS["bfloat16"], device_type=10), 0)
    assert memory == bytearray(64)


def torch_types() -> list[str]:
    """Every type that safetensors has and PyTorch may have."""
    return sorted({name for _, _, name in TYPES.values() if name is not None})


def bytes_of(tensor: Any) -> bytes:
    return ctypes.string_at(tensor.data_ptr(), tensor.numel() * tensor.element_size()) if tensor.numel() else b""


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("name", torch_types())
def test_torch_tensors_of_every_type(path: Path, name: str, shape: tuple[int, ...]) -> None:
    torch = pytest.importorskip("torch", reason="absent: torch")
    if not hasattr(torch, name):
        pytest.skip(f"absent: torch.{name}")
    tensor = torch.empty(shape, dtype=getattr(torch, name))
    tensor.untyped_storage().fill_(0)
    size = tensor.numel() * tensor.element_size()
    path.write_bytes(bytes(range(256)))
    with ferry.open(path) as file:
        assert file.read_at(tensor, 1) == size
    assert bytes_of(tensor) == bytes(range(1, 1 + size))


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("padding", [0, 1], ids=["aligned", "unaligned"])
@pytest.mark.parametrize("type_name", TYPES)
def test_torch_loads_every_type(tmp_path: Path, type_name: str, padding: int, shape: tuple[int, ...]) -> None:
    torch = pytest.importorskip("torch", reason="absent: torch")
    bits, _, name = TYPES[type_name]
    if name is not None and not hasattr(torch, name):
        pytest.skip(f"absent: torch.{name}")
    if bits < 8 and (not shape or shape[-1] * bits % 8):
        pytest.skip("rows that end within a byte are refused, see test_arrays.py")
    size = math.prod(shape) * bits // 8
    data = bytes([0, 1] * (size // 2 + 1))[:size]
    header = {
        "before": {"dtype": "U8", "shape": [padding], "data_offsets": [0, padding]},
        "x": {"dtype": type_name, "shape": shape, "data_offsets": [padding, padding + size]},
    }
    text = json.dumps(header).encode()
    write_safetensors(tmp_path / "x", text + b" " * (-len(text) % 8), bytes(padding) + data)
    got = ferry.load_safetensors(tmp_path / "x", framework="torch")["x"]
    assert got.dtype == getattr(torch, name or "uint8")
    assert got.shape == (shape if bits >= 8 else (*shape[:-1], shape[-1] * bits // 8))
    assert bytes_of(got) == data


def test_torch_tensors_that_are_no_plain_memory(path: Path) -> None:
    torch = pytest.importorskip("torch", reason="absent: torch")
    learnt = torch.zeros(2, dtype=torch.bfloat16, requires_grad=True)
    refused = [
        (torch.zeros(4, 4, dtype=torch.bfloat16)[:, :2], "contiguous"),
        (torch.zeros(4, 3).T, "contiguous"),
        (torch.zeros(4, 4).to_sparse(), "contiguous"),
        (torch.zeros(4, dtype=torch.complex64).conj(), "not its value; read into a new one"),
    ]
    with ferry.open(path) as file:
        assert file.read_at(learnt, 0) == 4
        for tensor, why in refused:
            with pytest.raises(ValueError, match=why):
                file.read_at(tensor, 0)
    assert bytes_of(learnt) == bytes([1, 2, 3, 4])


@pytest.mark.parametrize("element", [FLOAT32, ELEMENTS["bfloat16"]], ids=["float32", "bfloat16"])
def test_only_memory_that_may_be_written_is_read_into(path: Path, element: tuple[int, int, int]) -> None:
    size = 3 * element[1] // 8
    memory = bytearray(b"x" * size)
    address = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    with ferry.open(path, "r+") as file:
        for tensor in (Dlpack(address, (3,), element, read_only=True), Dlpack(address, (3,), element, old=True)):
            with pytest.raises(ValueError, match="read-only"):
                file.read_at(tensor, 0)
            assert file.write_at(tensor, 20) == size
        assert memory == b"x" * size
        assert file.read_at(Dlpack(address, (3,), element), 0) == size
    assert memory == bytes(range(1, 1 + size))
    assert path.read_bytes()[20 : 20 + size] == b"x" * size
