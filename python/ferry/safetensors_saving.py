"""Tensors into ``.safetensors`` files."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy

from ferry.arrays import write_file
from ferry.engine import Engine, Path
from ferry.memory import has_cuda_interface
from ferry.safetensors_files import HEADER_BYTES_MAX, TYPES
from ferry.transfers import Progress

_METADATA = "__metadata__"
# Where the data begins, for direct I/O; small files do without the gap.
_PAGE_BYTES = 4096
_PAGED_BYTES_MIN = 1 << 20

_BY_DTYPE = {numpy.dtype(name): type_name for type_name, (_, name, _) in TYPES.items() if name}
# PyTorch's names; the package ml_dtypes has the same for its types of NumPy.
_BY_NAME = {name: type_name for type_name, (_, _, name) in TYPES.items() if name}


@dataclass(frozen=True)
class _Tensor:
    """One tensor to write: how the header describes it, and its elements in C order."""

    name: str
    type_name: str
    shape: tuple[int, ...]
    data: Any

    @property
    def nbytes(self) -> int:
        return math.prod(self.shape) * TYPES[self.type_name][0] // 8


def save_safetensors(
    path: Path,
    tensors: Mapping[str, Any],
    *,
    metadata: Mapping[str, str] | None = None,
    types: Mapping[str, str] | None = None,
    engine: Engine | None = None,
    progress: Progress | None = None,
) -> None:
    """Writes tensors into one ``.safetensors`` file, in parallel and from where they are.

    A file that exists is replaced as by ``ferry.save``: it stays as it was until the new one is whole
    and durable. Only tensors that are not contiguous in C order, or not little-endian, are copied
    first.

    Args:
        path: the file; it is replaced if it exists. No suffix is added.
        tensors: by name: anything ``numpy.asarray`` takes, tensors of PyTorch, and arrays in a GPU's
            memory with ``__cuda_array_interface__``. Tensors that share memory are each written.
        metadata: strings that the file's header keeps.
        types: the format's types, by tensor, of arrays whose own type cannot tell: ``{"w": "BF16"}``
            for unsigned integers that are such elements, as ``load_safetensors`` returns them. The
            last dimension of an ``F4`` or 6-bit float counts bytes.
        engine: whose threads write.
        progress: called with ``(bytes_done, bytes_total)`` of all tensors together.

    Raises:
        OSError: the file cannot be written.
        ValueError: the format has no such type; a big-endian array in a GPU's memory; a name, or one in
            ``types``, that cannot be; a header above 100 MB.
        TypeError: ``tensors`` is no mapping; a name, or a key or value of ``metadata``, is no string.

    >>> import os, tempfile
    >>> path = os.path.join(tempfile.mkdtemp(), "model.safetensors")
    >>> save_safetensors(path, {"bias": numpy.zeros(3, "<f4"), "steps": numpy.int64(7)})
    >>> from ferry.safetensors_files import load_safetensors
    >>> load_safetensors(path)
    {'steps': array(7), 'bias': array([0., 0., 0.], dtype=float32)}
    """
    if not isinstance(tensors, Mapping):
        raise TypeError(f"tensors is a mapping of names to arrays, not {type(tensors).__name__}")
    given = dict(types or {})
    found = [_described(name, tensor, given.pop(name, None)) for name, tensor in tensors.items()]
    if given:
        raise ValueError(f"types names {min(given)!r}, and there is no such tensor")
    # Wider elements come first, so that all are aligned.
    found.sort(key=lambda one: (-TYPES[one.type_name][0], one.name))
    header = _make_header(found, metadata)
    parts, at = [], len(header)
    for one in found:
        if one.nbytes:
            parts.append((one.data, at))
        at += one.nbytes
    write_file(path, header, parts, engine, progress)


def _described(name: str, tensor: Any, type_name: str | None) -> _Tensor:
    if not isinstance(name, str):
        raise TypeError(f"a tensor's name is a str, not {type(name).__name__}")
    if name == _METADATA:
        raise ValueError(f"{_METADATA!r} names no tensor in this format; metadata= takes strings")
    if type_name is not None and type_name not in TYPES:
        raise ValueError(f"tensor {name!r}: the format has no type {type_name!r}")
    try:
        data, shape, dtype, element_bytes = _plain(tensor)
    except ValueError as error:
        raise ValueError(f"tensor {name!r} {error}") from None
    type_name = type_name or _type_of(dtype)
    if not type_name:
        raise ValueError(f"tensor {name!r}: the format has no type for {dtype}; convert it first")
    bits = TYPES[type_name][0]
    if max(bits // 8, 1) != element_bytes:
        raise ValueError(f"tensor {name!r}: elements of {element_bytes} bytes are no {type_name}")
    if bits < 8:
        if not shape or shape[-1] * 8 % bits:
            raise ValueError(f"tensor {name!r}: rows of {type_name} that end within an element cannot be")
        shape = (*shape[:-1], shape[-1] * 8 // bits)
    return _Tensor(name, type_name, shape, data)


def _plain(tensor: Any) -> tuple[Any, tuple[int, ...], Any, int]:
    """The tensor as it can be written, its shape, the type of its elements, and their bytes."""
    if (torch := sys.modules.get("torch")) is not None and isinstance(tensor, torch.Tensor):
        if tensor.layout != torch.strided:
            raise ValueError("is sparse; call .to_dense() first")
        data = tensor.detach().resolve_conj().resolve_neg().contiguous()
        return data, tuple(data.shape), data.dtype, data.element_size()
    if has_cuda_interface(tensor):
        interface = tensor.__cuda_array_interface__
        dtype = numpy.dtype(interface["typestr"])
        if dtype != dtype.newbyteorder("<"):
            raise ValueError("is big-endian, in a GPU's memory; convert it first")
        return tensor, tuple(interface["shape"]), dtype, dtype.itemsize
    data = numpy.asarray(tensor)
    if data.dtype.hasobject:
        raise ValueError("holds Python objects, which the format has no type for")
    # Not ascontiguousarray(), which gives a scalar a dimension.
    data = numpy.asarray(data, data.dtype.newbyteorder("<"), order="C")
    return data, data.shape, data.dtype, data.dtype.itemsize


def _type_of(dtype: Any) -> str:
    """The format's name of a type of NumPy or PyTorch; "" where it has none."""
    if isinstance(dtype, numpy.dtype):
        return _BY_DTYPE.get(dtype) or _BY_NAME.get(dtype.name, "")
    return _BY_NAME.get(str(dtype).removeprefix("torch."), "")


def _make_header(tensors: list[_Tensor], metadata: Mapping[str, str] | None) -> bytes:
    fields: dict[str, Any] = {}
    if metadata is not None:
        if not all(isinstance(word, str) for pair in metadata.items() for word in pair):
            raise TypeError("metadata is strings by strings")
        fields[_METADATA] = dict(metadata)
    end = 0
    for one in tensors:
        begin, end = end, end + one.nbytes
        fields[one.name] = {"dtype": one.type_name, "shape": one.shape, "data_offsets": [begin, end]}
    try:
        text = json.dumps(fields, separators=(",", ":"), ensure_ascii=False).encode()
    except UnicodeEncodeError as error:
        raise ValueError(f"a name or metadata that is no Unicode text: {error}") from None
    text += b" " * (-(8 + len(text)) % (_PAGE_BYTES if end >= _PAGED_BYTES_MIN else 8))
    if len(text) > HEADER_BYTES_MAX:
        raise ValueError(f"a header of {len(text)} bytes is above what the format allows; write several files")
    return len(text).to_bytes(8, "little") + text
