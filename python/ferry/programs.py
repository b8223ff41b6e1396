"""Finds the programs built beside the package."""

from __future__ import annotations

import contextlib
import os
import shutil
from pathlib import Path

from ferry import laboratory
from ferry.errors import FerryError

PROGRAM = "ferry-bench"


def _places() -> list[Path]:
    """The folders that have programs: ``$FERRY_BUILD_DIR`` if set; else those around the package."""
    build_dir = os.environ.get("FERRY_BUILD_DIR")
    if build_dir:
        return [Path(build_dir)]
    package = Path(__file__).resolve().parent
    places = [package, *laboratory.folders(), package.parents[1] / "build" / "release"]
    if prefix := installed_prefix():
        places += [prefix / "bin", prefix / "libexec" / "ferry"]
    return places


_FACTS = "ferry-build.txt"


def installed_prefix() -> Path | None:
    """Returns the prefix of the installation that the package is part of, like /usr; None in a checkout."""
    folders = Path(__file__).resolve().parents
    return next((one for one in folders if (one / "share" / "ferry" / _FACTS).is_file()), None)


def is_checkout() -> bool:
    """Whether the package lies in a checkout, beside what it is built from."""
    return (Path(__file__).resolve().parents[2] / "CMakeLists.txt").is_file()


def find_program(name: str = PROGRAM) -> Path:
    """Returns the path of ``ferry-bench``, or of another program built with it.

    Searches ``$FERRY_BUILD_DIR`` if set; else the folders of the package and the laboratory, the
    checkout or the installation around them, and PATH. Raises FerryError.
    """
    build_dir = os.environ.get("FERRY_BUILD_DIR")
    for place in _places():
        program = place / name
        if program.is_file() and os.access(program, os.X_OK):
            return program
    found = None if build_dir else shutil.which(name)
    if found:
        return Path(found)
    where = f"in {build_dir} (FERRY_BUILD_DIR)" if build_dir else "beside the package or in PATH"
    raise FerryError(f"{name} is not {where}; ./ferry from the checkout builds it")


def build_facts() -> str:
    """Returns the lines on the commit, the compiler and what is built in; "" where nothing is built.

    Searches where ``find_program`` does, but not in PATH.
    """
    prefix = installed_prefix()
    for place in [*_places(), *([prefix / "share" / "ferry"] if prefix else [])]:
        with contextlib.suppress(OSError, UnicodeDecodeError):
            return (place / _FACTS).read_text()
    return ""


def find_library(name: str) -> Path:
    """Returns the absolute path of a library built with the programs, for LD_PRELOAD.

    Searches where ``find_program`` does, and in ``lib`` beside the folder of PATH that has ``ferryd``:
    there ``cmake --install`` puts it. Raises FerryError.
    """
    build_dir = os.environ.get("FERRY_BUILD_DIR")
    places = _places()
    installed = None if build_dir else shutil.which("ferryd")
    prefix = installed_prefix() or (Path(installed).resolve().parents[1] if installed else None)
    if prefix and not build_dir:
        folders = [prefix / "lib", prefix / "lib64", *sorted(prefix.glob("lib/*-linux-gnu*"))]
        places += [place for folder in folders for place in (folder / "ferry", folder)]
    for place in places:
        if (place / name).is_file():
            return (place / name).resolve()
    where = f"in {build_dir} (FERRY_BUILD_DIR)" if build_dir else "beside the package or ferryd"
    raise FerryError(f"{name} is not {where}; ./ferry from the checkout builds it")
