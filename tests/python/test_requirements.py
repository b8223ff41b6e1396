"""The locked Python requirements match their sources; scripts/lock.sh updates them."""

from __future__ import annotations

import re

import pytest

from support import ROOT

FOLDER = ROOT / "python"
NAMES = ["requirements", "requirements-test", "requirements-cuda"]


def normalized(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def asked(name: str) -> dict[str, str]:
    """The requirements of an .in file, with their versions; empty for any version."""
    found: dict[str, str] = {}
    for line in (FOLDER / f"{name}.in").read_text().splitlines():
        words = line.split("#")[0].strip()
        if words.startswith("-r "):
            found |= asked(words.removeprefix("-r ").removesuffix(".in"))
        elif words:
            package, _, version = words.partition("==")
            found[normalized(package)] = version
    return found


def locked(name: str) -> dict[str, str]:
    pairs = re.findall(r"^([\w.-]+)==(\S+)", (FOLDER / f"{name}.txt").read_text(), re.MULTILINE)
    return {normalized(package): version for package, version in pairs}


@pytest.mark.parametrize("name", NAMES)
def test_what_is_asked_for_is_locked(name: str) -> None:
    versions = locked(name)
    for package, version in asked(name).items():
        assert package in versions, f"scripts/lock.sh brings {package}"
        assert version in ("", versions[package]), f"scripts/lock.sh brings {package}=={version}"


@pytest.mark.parametrize("name", NAMES)
def test_what_is_locked_is_asked_for(name: str) -> None:
    """Each by an .in file, or by another package: "via" says which."""
    via = re.findall(r"^([\w.-]+)==\S+\n((?: +#.*\n)+)", (FOLDER / f"{name}.txt").read_text(), re.MULTILINE)
    assert {normalized(package) for package, _ in via} == set(locked(name))
    for package, reasons in via:
        if "-r requirements" in reasons:
            assert normalized(package) in asked(name), package


def test_tests_run_on_what_the_command_runs_on() -> None:
    assert locked("requirements").items() <= locked("requirements-test").items()
