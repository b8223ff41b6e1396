"""Arrays in files: ``.npy`` and raw."""

from __future__ import annotations

import io
import math
import os
import tokenize
from typing import Any

import numpy

from ferry import _bulk
from ferry.engine import Engine, Path
from ferry.file_objects import open as open_file
from ferry.memory import as_buffer
from ferry.transfers import Progress

_MAGIC = b"\x93NUMPY"
# Arrays from this size on get memory in huge pages, which direct I/O fills as it is.
_ALIGNED_BYTES_MIN = 1 << 20
_HEADER_BYTES_MAX = 1 << 20


def new_array(shape: tuple[int, ...], dtype: numpy.dtype, fortran_order: bool = False) -> numpy.ndarray:
    """Returns an array that has no contents yet, in memory that suits large reads.

    Raises:
        ValueError: the type holds Python objects.
        MemoryError: there is not that much.
    """
    if dtype.hasobject:
        raise ValueError("arrays of Python objects are not read: that would execute what the file says")
    order = "F" if fortran_order else "C"
    size_bytes = math.prod(shape) * dtype.itemsize
    if size_bytes < _ALIGNED_BYTES_MIN:
        return numpy.empty(shape, dtype, order)
    return numpy.ndarray(shape, dtype, _bulk.AlignedMemory(size_bytes), order=order)


def _flat_bytes(array: numpy.ndarray) -> Any:
    """The memory of a contiguous array of either order."""
    return as_buffer(array if array.flags.c_contiguous else array.T, writable=False)


def load(
    path: Path,
    *,
    dtype: Any = None,
    shape: tuple[int, ...] | None = None,
    offset: int = 0,
    engine: Engine | None = None,
    progress: Progress | None = None,
) -> numpy.ndarray:
    """Reads an array from a ``.npy`` file, or from a raw one.

    Args:
        path: the file.
        dtype: for a raw file, the type of its elements; None reads a ``.npy`` file.
        shape: for a raw file, how many elements; by default all up to the end, in one dimension.
        offset: where the file's data begins, in bytes.
        engine: whose threads read.
        progress: called with ``(bytes_done, bytes_total)``.

    Returns:
        A new, writable array of the file's shape, type and order.

    Raises:
        OSError: the file cannot be read.
        ValueError: it is no ``.npy`` file, is shorter than its header says, or holds Python objects,
            which are never loaded; or a raw file that is no whole number of elements.

    >>> import os, tempfile
    >>> path = os.path.join(tempfile.mkdtemp(), "raw")
    >>> save(path, numpy.arange(6, dtype="<i2"), raw=True)
    >>> load(path, dtype="<i2", shape=(2, 3))
    array([[0, 1, 2],
           [3, 4, 5]], dtype=int16)
    """
    with open_file(path, "rb", engine=engine) as file:
        if dtype is None:
            if shape is not None:
                raise ValueError("shape is for raw files; a .npy file has its own")
            shape, fortran_order, element, begin = _read_header(file, offset)
        else:
            element, fortran_order, begin = numpy.dtype(dtype), False, offset
            shape = _raw_shape(file.size() - offset, element, shape, path)
        size_bytes = math.prod(shape) * element.itemsize
        if file.size() - begin < size_bytes:
            raise ValueError(
                f"{os.fsdecode(path)}: {size_bytes} bytes of data are announced and "
                f"{max(file.size() - begin, 0)} are there"
            )
        array = new_array(shape, element, fortran_order)
        if size_bytes > 0:
            got = file.read_at(_flat_bytes(array), begin, progress=progress)
            if got != size_bytes:
                raise ValueError(f"{os.fsdecode(path)} became shorter while it was read")
        return array


def _raw_shape(
    there_bytes: int, dtype: numpy.dtype, shape: tuple[int, ...] | None, path: Path
) -> tuple[int, ...]:
    if shape is not None:
        return tuple(shape)
    if there_bytes < 0 or dtype.itemsize == 0 or there_bytes % dtype.itemsize:
        raise ValueError(
            f"{os.fsdecode(path)}: {there_bytes} bytes are no whole number of {dtype.itemsize}-byte elements"
        )
    return (there_bytes // dtype.itemsize,)


def _read_header(file: Any, offset: int) -> tuple[tuple[int, ...], bool, numpy.dtype, int]:
    """Returns shape, order and type, and where the data begins."""
    file.seek(offset)
    head = file.read(12)
    name = os.fsdecode(file.name)
    if len(head) < 12 or not head.startswith(_MAGIC):
        raise ValueError(f"{name} is no .npy file; dtype= reads raw ones")
    version = tuple(head[6:8])
    length_bytes = 2 if version == (1, 0) else 4
    length = int.from_bytes(head[8 : 8 + length_bytes], "little")
    if version not in ((1, 0), (2, 0), (3, 0)) or length > _HEADER_BYTES_MAX:
        raise ValueError(f"{name}: a .npy header of version {version} and {length} bytes is not understood")
    begin = offset + 8 + length_bytes + length
    file.seek(offset)
    stream = io.BytesIO(file.read(begin - offset))
    numpy.lib.format.read_magic(stream)
    read = (
        numpy.lib.format.read_array_header_1_0
        if version == (1, 0)
        else numpy.lib.format.read_array_header_2_0
    )
    try:
        shape, fortran_order, dtype = read(stream, max_header_size=_HEADER_BYTES_MAX)
    except (ValueError, SyntaxError, RecursionError, MemoryError, tokenize.TokenError) as error:
        raise ValueError(f"{name}: the .npy header cannot be read: {error}") from None
    if any(extent < 0 for extent in shape):
        raise ValueError(f"{name}: a shape of {shape} cannot be")
    return shape, fortran_order, dtype, begin


def save(
    path: Path,
    array: Any,
    *,
    raw: bool = False,
    engine: Engine | None = None,
    progress: Progress | None = None,
) -> None:
    """Writes an array as ``.npy``, or its bare bytes.

    Args:
        path: the file; it is replaced if it exists. No suffix is added.
        array: anything ``numpy.asarray`` takes, but of Python objects. One that is contiguous in
            neither order is copied first.
        raw: the elements only, in C order.
        engine: whose threads write.
        progress: called with ``(bytes_done, bytes_total)``.

    Raises:
        OSError: the file cannot be written.
        ValueError: the array holds Python objects.
    """
    data = numpy.asarray(array)
    if data.dtype.hasobject:
        raise ValueError("arrays of Python objects are not written; use pickle")
    keeps_order = data.flags.c_contiguous or (data.flags.f_contiguous and not raw)
    if not keeps_order:
        data = numpy.ascontiguousarray(data)
    header = b"" if raw else _make_header(data)
    with open_file(path, "wb", engine=engine) as file:
        if header:
            file.write_at(header, 0)
        if data.nbytes > 0:
            file.write_at(_flat_bytes(data), len(header), progress=progress)


def _make_header(data: numpy.ndarray) -> bytes:
    stream = io.BytesIO()
    fields = numpy.lib.format.header_data_from_array_1_0(data)
    try:
        numpy.lib.format.write_array_header_1_0(stream, fields)
    except ValueError:  # a type with very many fields
        stream = io.BytesIO()
        numpy.lib.format.write_array_header_2_0(stream, fields)
    return stream.getvalue()
