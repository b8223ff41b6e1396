"""Arrays in files: ``.npy`` and raw."""

from __future__ import annotations

import ast
import io
import math
import operator
import os
import stat
import tokenize
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, Literal

import numpy

from ferry import _bulk
from ferry.engine import Engine, Path, choose
from ferry.file_objects import File
from ferry.file_objects import open as open_file
from ferry.gpu import GpuArray, device_index
from ferry.memory import as_buffer, has_cuda_interface
from ferry.replacing import beside, remove_after, replacement
from ferry.transfers import Future, Progress, TransferError
from ferry.uris import encoded, folder_of, in_folder, is_uri

_MAGIC = b"\x93NUMPY"
# Arrays of at least this size get huge pages, which direct I/O fills without staging.
_ALIGNED_BYTES_MIN = 1 << 20
_HEADER_BYTES_MAX = 1 << 20


def new_array(shape: tuple[int, ...], dtype: numpy.dtype, fortran_order: bool = False) -> numpy.ndarray:
    """Returns an uninitialised array in memory that suits large reads.

    Raises:
        ValueError: the type holds Python objects.
        MemoryError: there is not enough memory.
    """
    if dtype.hasobject:
        raise ValueError("arrays of Python objects are not read: that would execute what the file says")
    order: Literal["C", "F"] = "F" if fortran_order else "C"
    size_bytes = math.prod(shape) * dtype.itemsize
    if size_bytes < _ALIGNED_BYTES_MIN:
        return numpy.empty(shape, dtype, order)
    memory: Any = _bulk.AlignedMemory(size_bytes)
    return numpy.ndarray(shape, dtype, memory, order=order)


# NumPy's limits: dimensions, and bytes, counting an extent of 0 as 1.
_DIMENSIONS_MAX = 64
_BYTES_MAX = (1 << 63) - 1


def check_shape(shape: Iterable[int], item_bytes: int) -> tuple[int, ...]:
    """Returns a valid array shape. Raises ValueError, TypeError."""
    extents = tuple(operator.index(extent) for extent in shape)
    fits = math.prod(max(extent, 1) for extent in extents) * item_bytes <= _BYTES_MAX
    if len(extents) > _DIMENSIONS_MAX or any(extent < 0 for extent in extents) or not fits:
        raise ValueError(f"a shape of {_shorten(extents)} cannot be")
    return extents


def _shorten(extents: tuple[int, ...]) -> str:
    return str(extents) if len(extents) <= 8 else f"({', '.join(map(str, extents[:8]))}, ...)"


def _flat_bytes(array: numpy.ndarray | GpuArray) -> Any:
    """The memory of a contiguous array of either order."""
    if isinstance(array, GpuArray):
        return array.flat_bytes()
    return as_buffer(array if array.flags.c_contiguous else array.T, writable=False)


def load(
    path: Path,
    *,
    dtype: Any = None,
    shape: int | Iterable[int] | None = None,
    offset: int = 0,
    device: str = "cpu",
    engine: Engine | None = None,
    progress: Progress | None = None,
) -> Any:
    """Reads an array from a ``.npy`` file, or from a raw one.

    Args:
        path: the file.
        dtype: for a raw file, the type of its elements; None reads a ``.npy`` file.
        shape: for a raw file, how many elements; by default all up to the end, in one dimension.
        offset: where the file's data begins, in bytes.
        device: ``"cpu"``, or the GPU to read into: ``"cuda:0"``.
        engine: whose threads read.
        progress: called with ``(bytes_done, bytes_total)``.

    Returns:
        A new, writable array of the file's shape, type and order; a ``GpuArray`` in a GPU's memory.

    Raises:
        OSError: the file cannot be read.
        ValueError: it is no ``.npy`` file, is shorter than its header or ``shape`` says, or holds Python
            objects, which are never loaded; or a raw file that is no whole number of elements; or
            ``offset`` is negative.

    >>> import os, tempfile
    >>> path = os.path.join(tempfile.mkdtemp(), "raw")
    >>> save(path, numpy.arange(6, dtype="<i2"), raw=True)
    >>> load(path, dtype="<i2", shape=(2, 3))
    array([[0, 1, 2],
           [3, 4, 5]], dtype=int16)
    """
    on_gpu = device_index(device) is not None
    offset = operator.index(offset)
    if offset < 0:
        raise ValueError(f"offset {offset} is negative")
    with open_file(path, "rb", engine=engine) as file:
        if dtype is None:
            if shape is not None:
                raise ValueError("shape is for raw files; a .npy file has its own")
            extents, fortran_order, element, begin = _read_header(file, offset)
        else:
            element, fortran_order, begin = numpy.dtype(dtype), False, offset
            extents = _raw_shape(file.size() - offset, element, shape, path)
        size_bytes = math.prod(extents) * element.itemsize
        if file.size() - begin < size_bytes:
            raise ValueError(
                f"{os.fsdecode(path)}: {size_bytes} bytes of data are announced and "
                f"{max(file.size() - begin, 0)} are there"
            )
        array = (
            GpuArray(extents, element, device, fortran_order=fortran_order)
            if on_gpu
            else new_array(extents, element, fortran_order)
        )
        if size_bytes > 0:
            got = file.read_at(_flat_bytes(array), begin, progress=progress)
            if got != size_bytes:
                raise ValueError(f"{os.fsdecode(path)} became shorter while it was read")
        return array


def _raw_shape(there_bytes: int, dtype: numpy.dtype, shape: int | Iterable[int] | None, path: Path) -> tuple[int, ...]:
    if shape is not None:
        return check_shape(shape if isinstance(shape, Iterable) else (shape,), dtype.itemsize)
    if there_bytes < 0:
        raise ValueError(f"{os.fsdecode(path)} ends {-there_bytes} bytes before the offset")
    if dtype.itemsize == 0 or there_bytes % dtype.itemsize:
        raise ValueError(
            f"{os.fsdecode(path)}: {there_bytes} bytes are no whole number of {dtype.itemsize}-byte elements"
        )
    return (there_bytes // dtype.itemsize,)


def _read_header_3_0(stream: io.BytesIO, max_header_size: int) -> tuple[tuple[int, ...], bool, numpy.dtype]:
    """Like version 2.0, but UTF-8 for field names; NumPy has no public function for it."""
    length = int.from_bytes(stream.read(4), "little")
    fields = ast.literal_eval(stream.read(min(length, max_header_size)).decode())
    if not isinstance(fields, dict) or fields.keys() != {"descr", "fortran_order", "shape"}:
        raise ValueError("descr, fortran_order and shape are expected")
    if not isinstance(fields["shape"], tuple) or not isinstance(fields["fortran_order"], bool):
        raise ValueError("shape is no tuple, or fortran_order neither True nor False")
    try:
        return fields["shape"], fields["fortran_order"], numpy.lib.format.descr_to_dtype(fields["descr"])
    except (TypeError, ValueError, LookupError):
        raise ValueError(f"{fields['descr']!r} is no type") from None


_HEADER_READERS: dict[tuple[int, int], Any] = {
    (1, 0): numpy.lib.format.read_array_header_1_0,
    (2, 0): numpy.lib.format.read_array_header_2_0,
    (3, 0): _read_header_3_0,
}


def _read_header(file: Any, offset: int) -> tuple[tuple[int, ...], bool, numpy.dtype, int]:
    """Returns shape, order, type and the offset of the data."""
    file.seek(offset)
    head = file.read(12)
    name = os.fsdecode(file.name)
    if len(head) < 12 or not head.startswith(_MAGIC):
        raise ValueError(f"{name} is no .npy file; dtype= reads raw ones")
    version = tuple(head[6:8])
    length_bytes = 2 if version == (1, 0) else 4
    length = int.from_bytes(head[8 : 8 + length_bytes], "little")
    if version not in _HEADER_READERS or length > _HEADER_BYTES_MAX:
        raise ValueError(f"{name}: a .npy header of version {version} and {length} bytes is not understood")
    begin = offset + 8 + length_bytes + length
    file.seek(offset)
    stream = io.BytesIO(file.read(begin - offset))
    numpy.lib.format.read_magic(stream)
    try:
        shape, fortran_order, dtype = _HEADER_READERS[version](stream, max_header_size=_HEADER_BYTES_MAX)
    except (ValueError, SyntaxError, RecursionError, MemoryError, tokenize.TokenError) as error:
        raise ValueError(f"{name}: the .npy header cannot be read: {error}") from None
    try:
        extents = check_shape(shape, dtype.itemsize)
    except (ValueError, TypeError) as error:
        raise ValueError(f"{name}: {error}") from None
    return extents, fortran_order, dtype, begin


def save(
    path: Path, array: Any, *, raw: bool = False, engine: Engine | None = None, progress: Progress | None = None
) -> None:
    """Writes an array as ``.npy``, or its bare bytes.

    The file is durable when the call returns. It is written beside, under a temporary name, and gets its
    name once it is whole and durable; if anything is raised before, or a crash comes before, a file that
    exists is as it was. It is written in place, and an error or a crash leaves it incomplete, where that
    cannot be: it is not a regular file or has several names, or its folder does not let a file of its
    owner be made.

    Args:
        path: the file; it is replaced if it exists. No suffix is added.
        array: anything ``numpy.asarray`` takes, but of Python objects. One that is contiguous in
            neither order is copied first. Or an array in a GPU's memory with
            ``__cuda_array_interface__``, contiguous in C order.
        raw: the elements only, in C order.
        engine: whose threads write.
        progress: called with ``(bytes_done, bytes_total)``.

    Raises:
        OSError: the file cannot be written.
        ValueError: the array holds Python objects.
    """
    if has_cuda_interface(array):
        _save_from_gpu(path, array, raw, engine, progress)
        return
    data = numpy.asarray(array)
    if data.dtype.hasobject:
        raise ValueError("arrays of Python objects are not written; use pickle")
    keeps_order = data.flags.c_contiguous or (data.flags.f_contiguous and not raw)
    if not keeps_order:
        data = numpy.ascontiguousarray(data)
    fields = numpy.lib.format.header_data_from_array_1_0(data)
    header = b"" if raw else _make_header(fields["descr"], fields["fortran_order"], fields["shape"])
    write_file(path, header, [(_flat_bytes(data), len(header))] if data.nbytes else [], engine, progress)


def write_file(
    path: Path, header: bytes, parts: Sequence[tuple[Any, int]], engine: Engine | None, progress: Progress | None
) -> None:
    """Creates or replaces a file with a header and parts: their memory, and where they begin."""
    used = choose(engine)
    with _replacement(path, used) as (place, durable, permissions):
        try:
            with File(place, "wb", engine=used, permissions=permissions) as file:
                if header:
                    file.write_at(header, 0)
                if parts:
                    native = [(file.native, data, at) for data, at in parts]
                    Future[Any](used, native, writing=True, single=len(parts) == 1).watch(progress)
                if durable:
                    file.sync()
        except OSError as error:
            if error.filename == place:
                error.filename = os.fsdecode(path)
                if isinstance(error, TransferError):
                    error.failures = [replace(failure, path=error.filename) for failure in error.failures]
            raise


@contextmanager
def _replacement(path: Path, engine: Engine) -> Iterator[tuple[str, bool, int]]:
    """``replacement`` for any storage; also gives the permissions of a new file."""
    name = os.fsdecode(encoded(path))
    if not is_uri(name):
        with replacement(name) as (place, durable):
            yield place, durable, 0o666
        return
    try:
        _, _, mode = engine.status(name)
    except FileNotFoundError:
        mode = None
    if mode is not None and not stat.S_ISREG(mode):
        yield name, False, 0o666
        return
    scratch = in_folder(folder_of(name), os.path.basename(beside("")))
    try:
        yield scratch, True, 0o666 if mode is None else mode & 0o777
        engine.rename(scratch, name)
    except BaseException as error:
        remove_after(error, lambda: engine.unlink(scratch), scratch)
        raise


def _save_from_gpu(path: Path, array: Any, raw: bool, engine: Engine | None, progress: Progress | None) -> None:
    interface = array.__cuda_array_interface__
    memory = as_buffer(array, writable=False, gpu_too=True)
    descr = numpy.lib.format.dtype_to_descr(numpy.dtype(interface["typestr"]))
    header = b"" if raw else _make_header(descr, False, tuple(interface["shape"]))
    write_file(path, header, [(memory, len(header))] if memory.bytes else [], engine, progress)


def _make_header(descr: Any, fortran_order: bool, shape: tuple[int, ...]) -> bytes:
    stream = io.BytesIO()
    fields = {"descr": descr, "fortran_order": fortran_order, "shape": shape}
    try:
        numpy.lib.format.write_array_header_1_0(stream, fields)
    except UnicodeEncodeError:  # field names outside Latin-1
        text = repr(fields).encode()
        text += b" " * (-(12 + len(text) + 1) % numpy.lib.format.ARRAY_ALIGN) + b"\n"
        return _MAGIC + b"\x03\x00" + len(text).to_bytes(4, "little") + text
    except ValueError:  # a type with very many fields
        stream = io.BytesIO()
        numpy.lib.format.write_array_header_2_0(stream, fields)
    return stream.getvalue()
