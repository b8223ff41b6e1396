"""The files of debian/ that repeat what the project says elsewhere."""

from __future__ import annotations

import re
import tomllib

import pytest
from support import ROOT

import ferry
from ferry import laboratory

DEBIAN = ROOT / "debian"
# Not in Debian 12: a copy lies in ferry-lab.
INCLUDED = {"msgspec"}


def package(name: str) -> str:
    """The fields of a package in debian/control."""
    fields = (DEBIAN / "control").read_text().split("\n\n")
    return next(one for one in fields if one.startswith(f"Package: {name}\n"))


def depends(name: str) -> set[str]:
    found = re.search(r"^Depends:((?:.*\n .*)*.*)$", package(name), re.MULTILINE)
    assert found is not None
    return {one.split()[0] for one in found[1].replace("\n", " ").split(",")}


def test_the_version_is_the_projects() -> None:
    first = (DEBIAN / "changelog").read_text().splitlines()[0]
    assert first.startswith(f"ferry ({ferry.__version__}) ")


@pytest.mark.parametrize(
    ("symbols", "library", "abi"),
    [
        ("libferry0.symbols", "libferry.so.0", "src/bindings/c/abi.txt"),
        ("libferry-mpi0.symbols", "libferry_mpi.so.0", "src/bindings/c/mpi/abi.txt"),
    ],
)
def test_the_symbols_are_those_of_the_listed_abi(symbols: str, library: str, abi: str) -> None:
    lines = (ROOT / abi).read_text().splitlines()
    assert lines[0] == f"soname {library}"
    functions = re.findall(r"^(FERRY_\S+) .*?\b(ferry_\w+)\(", "\n".join(lines), re.MULTILINE)
    wanted = {f"{name}@{version}" for version, name in functions} | {f"{one}@{one}" for one, _ in functions}
    section = (DEBIAN / symbols).read_text().split(f"{library} ", 1)[1].split("\nlib", 1)[0]
    assert {line.split()[0] for line in section.splitlines()[1:] if line.startswith(" ")} == wanted


def test_the_laboratory_depends_on_what_it_declares() -> None:
    project = tomllib.loads((ROOT / "lab/pyproject.toml").read_text())["project"]
    below = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    names = {re.split(r"[=><\[]", one)[0] for one in project["dependencies"]} - INCLUDED - {below["name"]}
    names -= {re.split(r"[=><\[]", one)[0] for one in below["dependencies"]}  # come with ferry-tools
    assert "ferry-tools" in depends("ferry-lab")
    assert {f"python3-{name}" for name in names} <= depends("ferry-lab")


def test_the_laboratorys_manual_pages_are_in_its_package() -> None:
    rules = (ROOT / "cmake/FerryInstall.cmake").read_text()
    found = re.search(r'^ *set\(laboratory_pages "/ferry-\(([^)]*)\)', rules, re.MULTILINE)
    assert found is not None
    assert tuple(found[1].split("|")) == laboratory.NAMES


def test_no_storages_client_library_is_depended_on() -> None:
    text = (DEBIAN / "control").read_text()
    for field in re.findall(r"^(?:Build-Depends|Depends|Recommends):(?:.*\n )*.*", text, re.MULTILINE):
        assert not re.search(r"libnfs|libcephfs|pvfs|orangefs|cuda|cufile", field)
