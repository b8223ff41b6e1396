"""Ferry: file I/O for arrays, and the ``ferry`` command.

The package reads and writes files in bulk, many ranges and many files at once, straight into
memory that is already there::

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

The command plans measurements, watches the measured process ``ferry-bench``, judges its numbers
and shows them. Neither part imports the other.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

# Where the extension module lies when the package is used from a checkout.
_BUILD_DIR = os.environ.get("FERRY_BUILD_DIR") or os.path.join(
    os.path.dirname(__file__), "..", "..", "build", "release"
)
__path__.append(os.path.join(_BUILD_DIR, "python", "ferry"))

# What is imported when it is first used: the command needs none of it.
_LAZY = {
    "Engine": "engine",
    "File": "file_objects",
    "Future": "transfers",
    "TransferError": "transfers",
    "explain": "engine",
    "load": "arrays",
    "load_safetensors": "safetensors_files",
    "open": "file_objects",
    "read_batch": "transfers",
    "read_batch_async": "transfers",
    "read_files": "transfers",
    "save": "arrays",
    "stats": "engine",
    "write_batch": "transfers",
    "write_batch_async": "transfers",
}

__all__ = sorted(_LAZY)

if TYPE_CHECKING:
    from ferry.arrays import load, save
    from ferry.engine import Engine, explain, stats
    from ferry.file_objects import File, open
    from ferry.safetensors_files import load_safetensors
    from ferry.transfers import (
        Future,
        TransferError,
        read_batch,
        read_batch_async,
        read_files,
        write_batch,
        write_batch_async,
    )


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module 'ferry' has no attribute {name!r}")
    import importlib

    value = getattr(importlib.import_module(f"ferry.{_LAZY[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*globals(), *_LAZY])
