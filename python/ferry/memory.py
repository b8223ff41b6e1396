"""Finds the memory of objects that do not have the buffer protocol."""

from __future__ import annotations

import sys
from typing import Any

import numpy

from ferry import _bulk


def as_buffer(array: Any, writable: bool, gpu_too: bool = False) -> Any:
    """Returns an object with the buffer protocol that shows the memory of ``array``.

    For arrays that the protocol itself cannot show: with ``__array_interface__``, DLPack tensors of
    any type, NumPy types without a buffer format. With ``gpu_too`` the memory may be a GPU's: use
    such a buffer for transfers only.

    Raises:
        NotImplementedError: the memory is a GPU's, and this call takes host memory only.
        ValueError: it is not contiguous, or is read-only and to be written.
        TypeError: no memory was found, or it holds Python objects.
    """
    if isinstance(array, (str, int, float, list, tuple, dict)) or array is None:
        raise TypeError(f"a {type(array).__name__} has no memory to transfer; use an array or bytes")
    if (torch := sys.modules.get("torch")) is not None and isinstance(array, torch.Tensor):
        array = _torch_bytes(torch, array, writable)
    if hasattr(array, "__dlpack_device__") or has_cuda_interface(array):
        from ferry.gpu import view_of

        if not isinstance(array, numpy.ndarray) and (view := view_of(array, writable)) is not None:
            if not gpu_too:
                raise NotImplementedError(
                    "this array is in the memory of a GPU, and this call takes the host's only; copy it there first"
                )
            return view
    found = _as_numpy(array, writable)
    if isinstance(found, _bulk.HostTensor):
        _check_writable(writable, found.writable)
        return found
    if found.dtype.hasobject:
        raise TypeError("the array holds Python objects, whose bytes mean nothing in a file; use pickle")
    if not found.flags.c_contiguous:
        instead = _instead("numpy.ascontiguousarray(array)", writable)
        raise ValueError(f"the array is not contiguous (C order); {instead}")
    _check_writable(writable, found.flags.writeable)
    return found.reshape(-1).view(numpy.uint8)


def _check_writable(wanted: bool, may: bool) -> None:
    if wanted and not may:
        raise ValueError("the array is read-only; give one that may be written")


def has_cuda_interface(array: Any) -> bool:
    """Whether ``array`` reports GPU memory."""
    try:
        return hasattr(array, "__cuda_array_interface__")
    except (TypeError, KeyError, RuntimeError):  # PyTorch: a type that the interface cannot express
        return True


def _as_numpy(array: Any, writable: bool) -> numpy.ndarray | _bulk.HostTensor:
    if isinstance(array, numpy.ndarray):
        return array
    if hasattr(array, "__dlpack__"):
        return _from_dlpack(array)
    if hasattr(array, "__array_interface__"):
        return numpy.asarray(array)
    try:
        view = memoryview(array)
    except TypeError:
        raise TypeError(
            f"a {type(array).__name__} has no memory to transfer; give something with the buffer "
            "protocol, DLPack or __array_interface__"
        ) from None
    if "O" in view.format:  # NumPy knows, also in a field's name
        return numpy.asarray(view)
    if not view.c_contiguous:
        raise ValueError(f"the buffer is not contiguous; {_instead('bytes(buffer)', writable)}")
    return numpy.frombuffer(view, dtype=numpy.uint8)


def _from_dlpack(array: Any) -> numpy.ndarray | _bulk.HostTensor:
    device = array.__dlpack_device__()[0]
    if device not in (1, 3):  # kDLCPU, kDLCUDAHost
        raise NotImplementedError(
            "this tensor is neither in the host's nor in an NVIDIA GPU's memory; copy it to the host first"
        )
    if numpy.lib.NumpyVersion(numpy.__version__) >= "2.1.0":  # older versions take all for read-only
        try:
            return numpy.from_dlpack(array)
        except (BufferError, RuntimeError, TypeError):
            pass  # a type unknown to NumPy, such as bfloat16: show its bytes
    try:
        capsule = array.__dlpack__(max_version=(1, 0))
    except TypeError:  # from before DLPack 1.0
        capsule = array.__dlpack__()
    return _bulk.HostTensor(capsule)


def _instead(copy: str, writable: bool) -> str:
    """Says what to do: data read into a copy would be lost with it."""
    if writable:
        return "read into a new contiguous one, then assign that to it: array[...] = new"
    return f"copy it with {copy}"


def _torch_bytes(torch: Any, tensor: Any, writable: bool) -> Any:
    """The same memory as a tensor of bytes, which all protocols can show."""
    into_new = "read into a new one, then copy it there: tensor.copy_(new)"
    if tensor.layout != torch.strided or not tensor.is_contiguous():
        raise ValueError(f"the tensor is not contiguous; {into_new if writable else 'call .contiguous() first'}")
    if tensor.is_conj() or tensor.is_neg():
        advice = into_new if writable else "call .resolve_conj().resolve_neg() first"
        raise ValueError(f"the tensor's memory is not its value; {advice}")
    return tensor.detach().reshape(-1).view(torch.uint8)
