"""Memory of NVIDIA GPUs: other packages' arrays, and Ferry's own."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import Any

import numpy

from ferry import _bulk

_LEGACY_STREAM = 1  # CUDA's default stream in __dlpack__ and __cuda_array_interface__


def view_of(array: Any, writable: bool) -> _bulk.GpuView | None:
    """Returns the GPU memory of ``array``; None if it is in host memory.

    Waits for the array's stream where it names one: ``stream`` of ``__cuda_array_interface__``
    (version 3), or DLPack.

    Raises:
        ValueError: not contiguous, read-only and to be written, or memory that CUDA does not know.
        OSError: there is no CUDA driver (ENODEV), or the GPU failed.
    """
    try:
        interface = getattr(array, "__cuda_array_interface__", None)
    except (TypeError, KeyError, RuntimeError):  # PyTorch: a type that the interface cannot express
        interface = None
    if interface is not None and (interface.get("version", 0) >= 3 or not hasattr(array, "__dlpack__")):
        return _of_interface(array, interface, writable)
    if hasattr(array, "__dlpack_device__") and int(array.__dlpack_device__()[0]) in (2, 13):
        view = _bulk.GpuView(array.__dlpack__(stream=_LEGACY_STREAM))
        if view.bytes:
            _bulk.synchronize_stream(view.address, _LEGACY_STREAM)
        return view
    return None


def _of_interface(array: Any, interface: dict[str, Any], writable: bool) -> _bulk.GpuView:
    address, read_only = interface["data"]
    shape = tuple(interface["shape"])
    item_bytes = int(re.sub(r"\D", "", interface["typestr"]))
    if writable and read_only:
        raise ValueError("the array is read-only; give one that may be written")
    if not _is_contiguous(shape, interface.get("strides"), item_bytes):
        raise ValueError("the array is not contiguous (C order); copy it so first")
    if interface.get("mask") is not None:
        raise ValueError("an array with a mask has no memory to transfer as it is")
    view = _bulk.GpuView(address or 0, math.prod(shape) * item_bytes, not read_only, array)
    stream = interface.get("stream")
    if stream == 0:
        raise ValueError("__cuda_array_interface__ may not name stream 0: 1 or 2 say which default stream")
    if stream is not None and view.bytes:
        _bulk.synchronize_stream(view.address, int(stream))
    return view


def _is_contiguous(shape: Sequence[int], strides: Sequence[int] | None, item_bytes: int) -> bool:
    if strides is None or 0 in shape:
        return True
    expected = item_bytes
    for extent, stride in zip(reversed(shape), reversed(strides), strict=True):
        if extent > 1 and stride != expected:
            return False
        expected *= extent
    return True


def device_index(device: str) -> int | None:
    """Returns the number of the GPU that ``"cuda"`` or ``"cuda:1"`` names; None for ``"cpu"``.

    >>> device_index("cuda:1"), device_index("cuda"), device_index("cpu")
    (1, 0, None)
    """
    if not isinstance(device, str):
        raise TypeError(f'device is a str such as "cpu" or "cuda:0", not {type(device).__name__}')
    if device == "cpu":
        return None
    found = re.fullmatch(r"cuda(?::(\d+))?", device)
    if found is None:
        raise ValueError(f'device {device!r}: "cpu", "cuda" or "cuda:NUMBER"')
    return int(found[1] or 0)


class GpuArray:
    """An array in the memory of a GPU, freed with its last user.

    It only holds data: ``cupy.asarray``, ``torch.as_tensor(array, device="cuda")``, Numba and other
    users of ``__cuda_array_interface__`` use it in place.

    Attributes:
        shape: extents.
        dtype: NumPy's type of the elements.
        device: as in ``"cuda:0"``.
        nbytes: bytes of all elements.
    """

    def __init__(
        self,
        shape: Sequence[int],
        dtype: Any,
        device: str = "cuda",
        *,
        fortran_order: bool = False,
        memory: _bulk.GpuAllocation | None = None,
        offset: int = 0,
    ) -> None:
        """Allocates an uninitialised array, or views ``memory`` from ``offset`` bytes on.

        Raises:
            OSError: there is no such GPU (ENODEV), or not enough memory (ENOMEM).
        """
        index = device_index(device)
        if index is None:
            raise ValueError('a GpuArray is in the memory of a GPU: device="cuda:NUMBER"')
        self.shape = tuple(shape)
        self.dtype = numpy.dtype(dtype)
        if self.dtype.hasobject:
            raise ValueError("a GPU's memory holds no Python objects")
        self.device = f"cuda:{index}"
        self.nbytes = math.prod(self.shape) * self.dtype.itemsize
        self.fortran_order = fortran_order
        self._memory = _bulk.GpuAllocation(index, self.nbytes) if memory is None else memory
        self._offset = offset
        if offset + self.nbytes > self._memory.bytes:
            raise ValueError(f"{self.nbytes} bytes from {offset} on are more than the memory has")

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        """The array for other packages; no stream has pending work on it."""
        strides = None
        if self.fortran_order:
            extents = [self.dtype.itemsize, *self.shape[:-1]]
            strides = tuple(math.prod(extents[: i + 1]) for i in range(len(self.shape)))
        return {
            "shape": self.shape,
            "typestr": self.dtype.str,
            "data": (self._memory.address + self._offset if self.nbytes else 0, False),
            "strides": strides,
            "stream": None,
            "version": 3,
        }

    def flat_bytes(self) -> GpuArray:
        """Returns the memory of all elements as an array of bytes, in storage order."""
        return GpuArray((self.nbytes,), "u1", self.device, memory=self._memory, offset=self._offset)

    def copy_to_host(self) -> numpy.ndarray:
        """Returns a copy in host memory; waits for it. Raises OSError when the GPU fails."""
        copy = numpy.empty(self.shape, self.dtype, "F" if self.fortran_order else "C")
        flat = copy.reshape(-1, order="A").view("u1")
        self._memory.copy_to_host(flat, self._offset)
        return copy

    def __repr__(self) -> str:
        """Shape, type and device; the contents would need a copy."""
        return f"GpuArray(shape={self.shape}, dtype={self.dtype.str!r}, device={self.device!r})"
