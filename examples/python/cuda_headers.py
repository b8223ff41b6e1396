"""Where the headers of CUDA's C++ library are, for NVRTC; shared by the examples."""

from __future__ import annotations

import importlib.util
import os
from pathlib import Path


def cuda_includes() -> tuple[str, ...]:
    """Returns ``-I`` options for ``<cuda/atomic>`` and what it includes.

    Raises:
        FileNotFoundError: they are neither in a toolkit nor in a wheel.
    """
    homes = [os.environ.get(name) for name in ("CUDA_PATH", "CUDA_HOME")]
    folders = [Path(home) / "include" for home in [*homes, "/usr/local/cuda"] if home]
    wheels = importlib.util.find_spec("nvidia")
    for place in (wheels.submodule_search_locations or []) if wheels else []:
        folders += sorted(Path(place).glob("*/include"))
    for folder in folders:
        # Since CUDA 13 the library has a folder of its own.
        for library in (folder / "cccl", folder):
            if (library / "cuda" / "atomic").is_file():
                return tuple(f"-I{each}" for each in dict.fromkeys((library, folder)))
    raise FileNotFoundError("no cuda/atomic: set CUDA_PATH to a CUDA toolkit, or pip install nvidia-cuda-cccl")
