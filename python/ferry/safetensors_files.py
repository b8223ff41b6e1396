"""Tensors from ``.safetensors`` files, many files at once."""

from __future__ import annotations

import importlib
import json
import math
import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy

from ferry import _bulk
from ferry.arrays import check_shape, new_array
from ferry.engine import Engine, Path, choose
from ferry.file_objects import File
from ferry.file_objects import open as open_file
from ferry.gpu import GpuArray, device_index
from ferry.transfers import Future, Progress

# The limit of the safetensors package.
HEADER_BYTES_MAX = 100_000_000
_INDEX_BYTES_MAX = 100_000_000

# Types of the format: bits of an element, NumPy's name or None, PyTorch's name or None.
TYPES: dict[str, tuple[int, str | None, str | None]] = {
    "BOOL": (8, "?", "bool"),
    "U8": (8, "u1", "uint8"),
    "I8": (8, "i1", "int8"),
    "U16": (16, "<u2", "uint16"),
    "I16": (16, "<i2", "int16"),
    "U32": (32, "<u4", "uint32"),
    "I32": (32, "<i4", "int32"),
    "U64": (64, "<u8", "uint64"),
    "I64": (64, "<i8", "int64"),
    "F16": (16, "<f2", "float16"),
    "BF16": (16, None, "bfloat16"),
    "F32": (32, "<f4", "float32"),
    "F64": (64, "<f8", "float64"),
    "C64": (64, "<c8", "complex64"),
    "F8_E4M3": (8, None, "float8_e4m3fn"),
    "F8_E5M2": (8, None, "float8_e5m2"),
    "F8_E8M0": (8, None, "float8_e8m0fnu"),
    "F8_E4M3FNUZ": (8, None, "float8_e4m3fnuz"),
    "F8_E5M2FNUZ": (8, None, "float8_e5m2fnuz"),
    "F4": (4, None, "float4_e2m1fn_x2"),
    "F6_E2M3": (6, None, None),
    "F6_E3M2": (6, None, None),
}


@dataclass(frozen=True)
class TensorEntry:
    """One tensor of a file: type, shape, and offset behind the header in bytes.

    Elements smaller than a byte are packed: the shape counts bytes.
    """

    name: str
    type_name: str
    shape: tuple[int, ...]
    begin: int
    end: int

    @property
    def element_bytes(self) -> int:
        """Bytes of an element, 1 where several share a byte."""
        return max(TYPES[self.type_name][0] // 8, 1)


def load_safetensors(
    path: Path | Iterable[Path],
    device: str = "cpu",
    *,
    framework: str | None = None,
    engine: Engine | None = None,
    progress: Progress | None = None,
) -> dict[str, Any]:
    """Loads all tensors of one or more ``.safetensors`` files, in parallel.

    Each file is read straight into memory that its tensors share; nothing is held twice. For a GPU,
    the host uses no more than the engine's page-locked memory.

    Args:
        path: a file, several files, or the ``.safetensors.index.json`` of a sharded model, which
            names files beside it; or several of these.
        device: ``"cpu"``, or the GPU to read into: ``"cuda:0"``.
        framework: ``"numpy"``, the default, or ``"torch"``; for a GPU ``"cupy"`` or
            ``"torch"``, by default each tensor is a ``ferry.GpuArray``, which both accept. NumPy
            and CuPy have no ``BF16`` or 8-bit floats: these tensors become unsigned integers of
            that size. ``F4`` and the 6-bit floats are packed: their last dimension counts bytes.
        engine: whose threads read.
        progress: called with ``(bytes_done, bytes_total)`` of all files together.

    Returns:
        Arrays or tensors by name, writable. Those of one file share memory that stays while one does.

    Raises:
        OSError: a file cannot be read.
        ValueError: a file contradicts its header: too short, overlapping or missing ranges,
            sizes that do not fit shapes, unknown types, a name twice; or an index names a tensor
            that its file lacks.
        OSError: there is no such GPU (ENODEV), or not enough memory in it (ENOMEM).
        ImportError: the framework is not installed.
    """
    make = _maker(device, framework)
    used = choose(engine)
    files: list[File] = []
    try:
        layouts = []
        for one, expected in _files_of(path, used):
            file = open_file(one, "rb", engine=used)
            files.append(file)
            layouts.append(read_layout(file))
            missing = expected.difference(entry.name for entry in layouts[-1][0])
            if missing:
                raise ValueError(f"{os.fsdecode(one)} has no tensor {min(missing)!r}, which the index names")
        _check_names(layouts, files)
        places = [_Place.choose(device, *layout) for layout in layouts]
        wanted = [
            (file, memory, begin)
            for file, place in zip(files, places, strict=True)
            for memory, begin in place.parts
            if memory.nbytes
        ]
        parts = [(file.native, memory, begin) for file, memory, begin in wanted]
        future: Future[list[int]] = Future(used, parts, writing=False, single=False)
        for (file, memory, _), count in zip(wanted, future.watch(progress), strict=True):
            if count != memory.nbytes:
                raise ValueError(f"{os.fsdecode(file.name)} became shorter while it was read")
    finally:
        for file in files:
            file.close()
    return {entry.name: make(entry, place) for place in places for entry in place.entries}


def _files_of(path: Path | Iterable[Path], engine: Engine) -> Iterator[tuple[Path, frozenset[str]]]:
    """The files, each with the tensor names that an index gives for it."""
    for one in [path] if isinstance(path, (str, bytes, os.PathLike)) else path:
        if os.fsdecode(one).endswith(".index.json"):
            yield from _shards_of(one, engine)
        else:
            yield one, frozenset()


def _shards_of(index: Path, engine: Engine) -> Iterator[tuple[Path, frozenset[str]]]:
    name = os.fsdecode(index)
    with open_file(index, "rb", engine=engine) as file:
        text = file.read(_INDEX_BYTES_MAX)
    shards: dict[str, set[str]] = {}
    try:
        for tensor, shard in json.loads(text)["weight_map"].items():
            shards.setdefault(shard, set()).add(tensor)
        if any(os.path.basename(shard) != shard or shard in ("", ".", "..") for shard in shards):
            raise ValueError
    except (KeyError, TypeError, AttributeError, ValueError, RecursionError):
        raise ValueError(f"{name} is no index of a sharded model: no weight_map of plain file names") from None
    for shard in sorted(shards):
        yield os.path.join(os.path.dirname(name), shard), frozenset(shards[shard])


def read_layout(file: File) -> tuple[list[TensorEntry], int, int]:
    """Returns the tensors of a file, the size of their data, and its offset.

    Raises ValueError for a header that contradicts the file.
    """
    name = os.fsdecode(file.name)
    file_bytes = file.size()
    head = bytearray(8)
    if file.read_at(head, 0) < 8:
        raise ValueError(f"{name}: {file_bytes} bytes are too short for a safetensors file")
    header_bytes = int.from_bytes(head, "little")
    if header_bytes > min(HEADER_BYTES_MAX, file_bytes - 8):
        raise ValueError(f"{name}: a header of {header_bytes} bytes does not fit into the file, or is too large")
    text = bytearray(header_bytes)
    file.read_at(text, 8)
    try:
        header = json.loads(text.decode(), object_pairs_hook=_no_duplicates)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{name}: the header is no JSON that could be read: {error}") from None
    if not isinstance(header, dict):
        raise ValueError(f"{name}: the header is no JSON object")
    metadata = header.pop("__metadata__", {})
    if not isinstance(metadata, dict) or not all(isinstance(value, str) for value in metadata.values()):
        raise ValueError(f"{name}: __metadata__ is no JSON object of strings")
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


def _parse_entry(name: str, value: Any) -> TensorEntry:
    if not isinstance(value, dict):
        raise ValueError(f"tensor {name!r} is not described")
    type_name, shape, offsets = (value.get(key) for key in ("dtype", "shape", "data_offsets"))
    if not isinstance(type_name, str) or type_name not in TYPES:
        raise ValueError(f"tensor {name!r} has the unknown type {type_name!r}")
    if not isinstance(shape, list) or not all(map(_is_size, shape)):
        raise ValueError(f"tensor {name!r} has no shape that could be")
    if not isinstance(offsets, list) or len(offsets) != 2 or not all(map(_is_size, offsets)):
        raise ValueError(f"tensor {name!r} has no data_offsets that could be")
    begin, end = offsets
    bits = TYPES[type_name][0]
    if (end - begin) * 8 != math.prod(shape) * bits:
        raise ValueError(f"tensor {name!r}: {end - begin} bytes do not fit its shape {shape} of {type_name}")
    if bits < 8:
        if not shape or shape[-1] * bits % 8:
            raise ValueError(f"tensor {name!r}: rows of {type_name} that end within a byte are not read")
        shape = [*shape[:-1], shape[-1] * bits // 8]
    try:
        return TensorEntry(name, type_name, check_shape(shape, max(bits // 8, 1)), begin, end)
    except ValueError as error:
        raise ValueError(f"tensor {name!r}: {error}") from None


def _check_ranges(entries: list[TensorEntry], data_bytes: int) -> None:
    """Checks that the tensors cover the data without gaps or overlaps, as the format demands."""
    at = 0
    for entry in sorted(entries, key=lambda one: (one.begin, one.end)):
        if entry.begin != at:
            raise ValueError(f"tensor {entry.name!r} begins at {entry.begin} where {at} is expected")
        at = entry.end
    if at != data_bytes:
        raise ValueError(f"{at} bytes of data are announced and {data_bytes} are there")


def _check_names(layouts: list[tuple[list[TensorEntry], int, int]], files: list[File]) -> None:
    seen: dict[str, File] = {}
    for (entries, _, _), file in zip(layouts, files, strict=True):
        for entry in entries:
            if entry.name in seen:
                raise ValueError(
                    f"tensor {entry.name!r} is in {os.fsdecode(seen[entry.name].name)} and in {os.fsdecode(file.name)}"
                )
            seen[entry.name] = file


# The alignment for GPU accesses of any width.
_GPU_ALIGNMENT_BYTES = 256


@dataclass(frozen=True)
class _Place:
    """The memory of a file's tensors: their offsets, and what to read into it."""

    entries: list[TensorEntry]
    device: str
    memory: Any
    begins: dict[str, int]
    parts: list[tuple[Any, int]]

    @classmethod
    def choose(cls, device: str, entries: list[TensorEntry], data_bytes: int, begin: int) -> _Place:
        """All data of a file in one piece; separate where a GPU could not use the tensors in place."""
        begins = {entry.name: entry.begin for entry in entries}
        index = device_index(device)
        if index is None:
            memory = new_array((data_bytes,), numpy.dtype("u1"))
            return cls(entries, device, memory, begins, [(memory, begin)])
        # What to read: offset and size in the file's data, and offset in the memory.
        pieces = [(0, data_bytes, 0)]
        end = data_bytes
        if any(entry.begin % entry.element_bytes for entry in entries):
            pieces, end = [], 0
            for entry in entries:
                begins[entry.name] = end
                pieces.append((entry.begin, entry.end - entry.begin, end))
                end += -(-(entry.end - entry.begin) // _GPU_ALIGNMENT_BYTES) * _GPU_ALIGNMENT_BYTES
        allocation = _bulk.GpuAllocation(index, end)
        parts = [(GpuArray((size,), "u1", device, memory=allocation, offset=to), begin + at) for at, size, to in pieces]
        return cls(entries, device, allocation, begins, parts)


def _maker(device: str, framework: str | None) -> Callable[[TensorEntry, _Place], Any]:
    if device_index(device) is None:
        makers = {None: _numpy_array, "numpy": _numpy_array, "torch": _torch_tensor}
        names = '"numpy" or "torch"'
    else:
        makers = {None: _gpu_array, "cupy": _cupy_array, "torch": _torch_tensor}
        names = 'for a GPU "cupy" or "torch"'
    if framework not in makers:
        raise ValueError(f"framework {framework!r}: {names}")
    if framework is not None:
        importlib.import_module(framework)  # before any allocation or read
    return makers[framework]


def _dtype(entry: TensorEntry) -> numpy.dtype:
    return numpy.dtype(TYPES[entry.type_name][1] or f"<u{entry.element_bytes}")


def _torch_type(torch: Any, entry: TensorEntry) -> Any:
    name = TYPES[entry.type_name][2] or "uint8"
    if not hasattr(torch, name):
        raise ValueError(f"tensor {entry.name!r}: this version of PyTorch has no torch.{name}; load without framework=")
    return getattr(torch, name)


def _numpy_array(entry: TensorEntry, place: _Place) -> numpy.ndarray:
    return numpy.ndarray(entry.shape, _dtype(entry), place.memory, entry.begin)


def _gpu_array(entry: TensorEntry, place: _Place) -> GpuArray:
    return GpuArray(entry.shape, _dtype(entry), place.device, memory=place.memory, offset=place.begins[entry.name])


def _cupy_array(entry: TensorEntry, place: _Place) -> Any:
    import cupy

    with cupy.cuda.Device(device_index(place.device)):
        return cupy.asarray(_gpu_array(entry, place))


def _torch_tensor(entry: TensorEntry, place: _Place) -> Any:
    import torch

    element = _torch_type(torch, entry)
    if entry.begin == entry.end:
        return torch.empty(entry.shape, dtype=element, device=place.device)
    if place.device != "cpu":
        data = torch.as_tensor(_gpu_array(entry, place).flat_bytes(), device=place.device)
    else:
        data = torch.from_numpy(place.memory[entry.begin : entry.end])
        if entry.begin % element.itemsize:
            data = data.clone()  # PyTorch needs aligned memory
    return data.view(element).reshape(entry.shape)
