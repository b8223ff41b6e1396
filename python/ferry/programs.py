"""Finds the programs built beside the package."""

from __future__ import annotations

import contextlib
import os
import shutil
from pathlib import Path

from ferry.errors import FerryError

PROGRAM = "ferry-bench"


def find_program(name: str = PROGRAM) -> Path:
    """Returns the path of ``ferry-bench``, or of another program built with it.

    Searches ``$FERRY_BUILD_DIR`` if set; else the package's folder, the checkout around it, and
    PATH. Raises FerryError.
    """
    build_dir = os.environ.get("FERRY_BUILD_DIR")
    package = Path(__file__).resolve().parent
    beside = [package, package.parents[1] / "build" / "release"]
    places = [Path(build_dir)] if build_dir else beside
    for place in places:
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
    build_dir = os.environ.get("FERRY_BUILD_DIR")
    package = Path(__file__).resolve().parent
    places = [Path(build_dir)] if build_dir else [package, package.parents[1] / "build" / "release"]
    for place in places:
        with contextlib.suppress(OSError, UnicodeDecodeError):
            return (place / "ferry-build.txt").read_text()
    return ""


def find_library(name: str) -> Path:
    """Returns the absolute path of a library built with the programs, for LD_PRELOAD.

    Searches where ``find_program`` does, and in ``lib`` beside the folder of PATH that has ``ferryd``:
    there ``cmake --install`` puts it. Raises FerryError.
    """
    build_dir = os.environ.get("FERRY_BUILD_DIR")
    package = Path(__file__).resolve().parent
    places = [Path(build_dir)] if build_dir else [package, package.parents[1] / "build" / "release"]
    installed = None if build_dir else shutil.which("ferryd")
    if installed:
        prefix = Path(installed).resolve().parents[1]
        places += [prefix / "lib", prefix / "lib64", *sorted(prefix.glob("lib/*-linux-gnu*"))]
    for place in places:
        if (place / name).is_file():
            return (place / name).resolve()
    where = f"in {build_dir} (FERRY_BUILD_DIR)" if build_dir else "beside the package or ferryd"
    raise FerryError(f"{name} is not {where}; ./ferry from the checkout builds it")
