"""Artificial tensors that only DLPack shows."""

from __future__ import annotations

import ctypes
import math
from typing import Any


class DLTensor(ctypes.Structure):
    _fields_ = [
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    ]


class DLManagedTensor(ctypes.Structure):
    _fields_ = [("tensor", DLTensor), ("context", ctypes.c_void_p), ("deleter", ctypes.c_void_p)]


class DLManagedTensorVersioned(ctypes.Structure):
    _fields_ = [
        ("major", ctypes.c_uint32),
        ("minor", ctypes.c_uint32),
        ("context", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p),
        ("flags", ctypes.c_uint64),
        ("tensor", DLTensor),
    ]


FLOAT32 = (2, 32, 1)  # code, bits and lanes of an element
HOST, CUDA = 1, 2


class Dlpack:
    """A tensor of some element type at an address; its maker keeps the memory.

    ``old`` has no version, as before DLPack 1.0: then it is unknown whether the memory is writable.
    """

    def __init__(
        self,
        address: int,
        shape: tuple[int, ...],
        element: tuple[int, int, int] = FLOAT32,
        strides: tuple[int, ...] | None = None,
        device_type: int = HOST,
        read_only: bool = False,
        old: bool = False,
    ) -> None:
        self.device_type, self.old = device_type, old
        self.streams: list[Any] = []
        extents = (ctypes.c_int64 * len(shape))(*shape)
        if strides is None:
            strides = tuple(math.prod(shape[i + 1 :]) for i in range(len(shape)))
        steps = (ctypes.c_int64 * len(shape))(*strides)
        tensor = DLTensor(address, device_type, 0, len(shape), *element, extents, steps, 0)
        self.unversioned = DLManagedTensor(tensor)
        self.versioned = DLManagedTensorVersioned(1, 0, None, None, int(read_only), tensor)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.device_type, 0

    def __dlpack__(self, *, stream: int | None = None, **options: Any) -> Any:
        self.streams.append(stream)
        if self.old and options:
            raise TypeError("__dlpack__() got an unexpected keyword argument")
        new = ctypes.pythonapi.PyCapsule_New
        new.restype, new.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
        if options.get("max_version") is None:
            return new(ctypes.addressof(self.unversioned), b"dltensor", None)
        return new(ctypes.addressof(self.versioned), b"dltensor_versioned", None)
