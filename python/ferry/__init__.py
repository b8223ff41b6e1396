"""Ferry: file I/O for arrays, and the ``ferry`` command.

The package reads and writes files in bulk, many ranges and many files at once, into your arrays::

    >>> import ferry, numpy, os, tempfile
    >>> path = os.path.join(tempfile.mkdtemp(), "squares.npy")
    >>> ferry.save(path, numpy.arange(5) ** 2)
    >>> ferry.load(path)
    array([ 0,  1,  4,  9, 16])
    >>> with ferry.open(path, "rb") as file:
    ...     target = numpy.zeros(5, dtype=numpy.int64)
    ...     file.read_at(target, 128)
    40
    >>> target
    array([ 0,  1,  4,  9, 16])

The command shows how this machine serves files, copies them and sets their layout. It also runs the
laboratory's commands (bench, study, tune, import) where the ferry-lab distribution is installed.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

# In a checkout, the extension module is in the build folder.
_BUILD_DIR = os.path.abspath(
    os.environ.get("FERRY_BUILD_DIR") or os.path.join(os.path.dirname(__file__), "..", "..", "build", "release")
)
__path__.append(os.path.join(_BUILD_DIR, "python", "ferry"))

# Imported on first use: the command needs none of it.
_MODULES = {
    "arrays": ("load", "save"),
    "engine": ("Engine", "explain", "stats"),
    "file_objects": ("File", "open"),
    "gpu": ("GpuArray",),
    "gpu_runtime": ("WRITE_BACK_KERNEL", "GpuRuntime", "device_include", "nvrtc_options"),
    "safetensors_files": ("load_safetensors",),
    "safetensors_saving": ("save_safetensors",),
    "transfers": (
        *("Future", "TransferError", "read_batch", "read_batch_async", "read_files"),
        *("write_batch", "write_batch_async"),
    ),
}
_LAZY = {name: module for module, names in _MODULES.items() for name in names}

__all__ = sorted(_LAZY)

if TYPE_CHECKING:
    # "as" the same name: type checkers treat it as exported.
    from ferry.arrays import load as load
    from ferry.arrays import save as save
    from ferry.engine import Engine as Engine
    from ferry.engine import explain as explain
    from ferry.engine import stats as stats
    from ferry.file_objects import File as File
    from ferry.file_objects import open as open
    from ferry.gpu import GpuArray as GpuArray
    from ferry.gpu_runtime import WRITE_BACK_KERNEL as WRITE_BACK_KERNEL
    from ferry.gpu_runtime import GpuRuntime as GpuRuntime
    from ferry.gpu_runtime import device_include as device_include
    from ferry.gpu_runtime import nvrtc_options as nvrtc_options
    from ferry.safetensors_files import load_safetensors as load_safetensors
    from ferry.safetensors_saving import save_safetensors as save_safetensors
    from ferry.transfers import Future as Future
    from ferry.transfers import TransferError as TransferError
    from ferry.transfers import read_batch as read_batch
    from ferry.transfers import read_batch_async as read_batch_async
    from ferry.transfers import read_files as read_files
    from ferry.transfers import write_batch as write_batch
    from ferry.transfers import write_batch_async as write_batch_async
else:  # Keeps a type checker from taking every name for one of these.

    def __getattr__(name: str) -> Any:
        if name not in _LAZY:
            raise AttributeError(f"module 'ferry' has no attribute {name!r}")
        import importlib

        value = getattr(importlib.import_module(f"ferry.{_LAZY[name]}"), name)
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    return sorted([*globals(), *_LAZY])
