"""Tensors from ``.safetensors`` files, many files at once."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy

from ferry.arrays import new_array
from ferry.engine import Engine, Path, choose
from ferry.file_objects import File
from ferry.file_objects import open as open_file
from ferry.transfers import Future, Progress

# The limit of the safetensors package itself.
_HEADER_BYTES_MAX = 100_000_000
_INDEX_BYTES_MAX = 100_000_000

# Names of types in the format: bytes of an element, NumPy's name or None, PyTorch's name or None.
_TYPES: dict[str, tuple[int, str | None, str | None]] = {
    "BOOL": (1, "?", "bool"),
    "U8": (1, "u1", "uint8"),
    "I8": (1, "i1", "int8"),
    "U16": (2, "<u2", "uint16"),
    "I16": (2, "<i2", "int16"),
    "U32": (4, "<u4", "uint32"),
    "I32": (4, "<i4", "int32"),
    "U64": (8, "<u8", "uint64"),
    "I64": (8, "<i8", "int64"),
    "F16": (2, "<f2", "float16"),
    "BF16": (2, None, "bfloat16"),
    "F32": (4, "<f4", "float32"),
    "F64": (8, "<f8", "float64"),
    "C64": (8, "<c8", "complex64"),
    "F8_E4M3": (1, None, "float8_e4m3fn"),
    "F8_E5M2": (1, None, "float8_e5m2"),
}


@dataclass(frozen=True)
class Entry:
    """One tensor of a file: its type, its shape, and where it lies behind the header, in bytes."""

    name: str
    type_name: str
    shape: tuple[int, ...]
    begin: int
    end: int


def load_safetensors(
    path: Path | Iterable[Path],
    device: str = "cpu",
    *,
    framework: str = "numpy",
    engine: Engine | None = None,
    progress: Progress | None = None,
) -> dict[str, Any]:
    """Loads all tensors of one or more ``.safetensors`` files, in parallel.

    Each file is read straight into memory that its tensors then share: nothing is held twice.

    Args:
        path: a file, several files, or the ``.safetensors.index.json`` of a sharded model, which
            names files beside it.
        device: ``"cpu"``; others are not built in yet.
        framework: ``"numpy"`` or ``"torch"``. NumPy has no name for ``BF16`` and the 8-bit floats:
            such tensors are arrays of unsigned integers of that size.
        engine: whose threads read.
        progress: called with ``(bytes_done, bytes_total)`` of all files together.

    Returns:
        Arrays or tensors by name, writable. Those of one file share memory that stays while one does.

    Raises:
        OSError: a file cannot be read.
        ValueError: a file that is not what its header says: too short, overlapping or missing
            ranges, sizes that do not fit shapes, unknown types, a name that comes twice.
        NotImplementedError: the device.
    """
    if device != "cpu":
        raise NotImplementedError(f"device {device!r} is not built in; load to \"cpu\" and move from there")
    if framework not in ("numpy", "torch"):
        raise ValueError(f"framework {framework!r}: \"numpy\" or \"torch\"")
    used = choose(engine)
    files: list[File] = []
    try:
        layouts = []
        for one in _files_of(path):
            file = open_file(one, "rb", engine=used)
            files.append(file)
            layouts.append(read_layout(file))
        _check_names(layouts, files)
        memories = [new_array((data_bytes,), numpy.dtype("u1")) for _, data_bytes, _ in layouts]
        parts = [
            (file.native, memory, begin)
            for file, memory, (_, _, begin) in zip(files, memories, layouts, strict=True)
            if memory.nbytes
        ]
        got = Future(used, parts, writing=False, single=False).watch(progress)
        for (_, memory, _), count in zip(parts, got, strict=True):
            if count != memory.nbytes:
                raise ValueError("a file became shorter while it was read")
    finally:
        for file in files:
            file.close()
    make = _torch_tensor if framework == "torch" else _numpy_array
    return {
        entry.name: make(entry, memory)
        for (entries, _, _), memory in zip(layouts, memories, strict=True)
        for entry in entries
    }


def _files_of(path: Path | Iterable[Path]) -> list[Path]:
    if not isinstance(path, (str, bytes, os.PathLike)):
        return list(path)
    name = os.fsdecode(path)
    if not name.endswith(".index.json"):
        return [path]
    with open_file(path, "rb") as file:
        text = file.read(_INDEX_BYTES_MAX)
    try:
        shards = sorted(set(json.loads(text)["weight_map"].values()))
        if any(os.path.basename(shard) != shard or shard in ("", ".", "..") for shard in shards):
            raise ValueError
    except (KeyError, TypeError, AttributeError, ValueError):
        raise ValueError(f"{name} is no index of a sharded model: no weight_map of plain file names") from None
    return [os.path.join(os.path.dirname(name), shard) for shard in shards]


def read_layout(file: File) -> tuple[list[Entry], int, int]:
    """Returns the tensors of a file, how many bytes their data has, and where it begins.

    Raises ValueError for a header that does not hold together with the file.
    """
    name = os.fsdecode(file.name)
    file_bytes = file.size()
    head = bytearray(8)
    if file.read_at(head, 0) < 8:
        raise ValueError(f"{name}: {file_bytes} bytes are too short for a safetensors file")
    header_bytes = int.from_bytes(head, "little")
    if header_bytes > min(_HEADER_BYTES_MAX, file_bytes - 8):
        raise ValueError(f"{name}: a header of {header_bytes} bytes does not fit into the file, or is too large")
    text = bytearray(header_bytes)
    file.read_at(text, 8)
    try:
        header = json.loads(text, object_pairs_hook=_no_duplicates)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{name}: the header is no JSON that could be read: {error}") from None
    if not isinstance(header, dict):
        raise ValueError(f"{name}: the header is no JSON object")
    header.pop("__metadata__", None)
    try:
        entries = [_parse_entry(key, value) for key, value in header.items()]
        _check_ranges(entries, file_bytes - 8 - header_bytes)
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from None
    return entries, file_bytes - 8 - header_bytes, 8 + header_bytes


def _no_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a name comes twice")
    return found


def _is_size(value: Any) -> bool:
    return type(value) is int and 0 <= value < 1 << 63


def _parse_entry(name: str, value: Any) -> Entry:
    if not isinstance(value, dict):
        raise ValueError(f"tensor {name!r} is not described")
    type_name, shape, offsets = (value.get(key) for key in ("dtype", "shape", "data_offsets"))
    if not isinstance(type_name, str) or type_name not in _TYPES:
        raise ValueError(f"tensor {name!r} has the unknown type {type_name!r}")
    if not isinstance(shape, list) or not all(map(_is_size, shape)):
        raise ValueError(f"tensor {name!r} has no shape that could be")
    if not isinstance(offsets, list) or len(offsets) != 2 or not all(map(_is_size, offsets)):
        raise ValueError(f"tensor {name!r} has no data_offsets that could be")
    begin, end = offsets
    if end - begin != math.prod(shape) * _TYPES[type_name][0]:
        raise ValueError(f"tensor {name!r}: {end - begin} bytes do not fit its shape {shape} of {type_name}")
    return Entry(name, type_name, tuple(shape), begin, end)


def _check_ranges(entries: list[Entry], data_bytes: int) -> None:
    """The tensors cover the data without gaps and overlaps, as the format demands."""
    at = 0
    for entry in sorted(entries, key=lambda one: (one.begin, one.end)):
        if entry.begin != at:
            raise ValueError(f"tensor {entry.name!r} begins at {entry.begin} where {at} is expected")
        at = entry.end
    if at != data_bytes:
        raise ValueError(f"{at} bytes of data are announced and {data_bytes} are there")


def _check_names(layouts: list[tuple[list[Entry], int, int]], files: list[File]) -> None:
    seen: dict[str, File] = {}
    for (entries, _, _), file in zip(layouts, files, strict=True):
        for entry in entries:
            if entry.name in seen:
                raise ValueError(
                    f"tensor {entry.name!r} is in {os.fsdecode(seen[entry.name].name)} and in "
                    f"{os.fsdecode(file.name)}"
                )
            seen[entry.name] = file


def _numpy_array(entry: Entry, memory: numpy.ndarray) -> numpy.ndarray:
    element_bytes, numpy_name, _ = _TYPES[entry.type_name]
    dtype = numpy.dtype(numpy_name or f"<u{element_bytes}")
    return numpy.ndarray(entry.shape, dtype, memory, entry.begin)


def _torch_tensor(entry: Entry, memory: numpy.ndarray) -> Any:
    import torch

    element = getattr(torch, _TYPES[entry.type_name][2] or "")
    data = torch.from_numpy(memory[entry.begin : entry.end])
    if entry.begin % element.itemsize:
        data = data.clone()  # PyTorch views aligned memory only
    return data.view(element).reshape(entry.shape)
