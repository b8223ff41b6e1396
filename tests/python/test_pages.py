"""The pages beside the documentation match the tree."""

from __future__ import annotations

import re
from pathlib import Path

import ferry
import yaml

ROOT = Path(__file__).parents[2]
CONTRIBUTING = (ROOT / "CONTRIBUTING.md").read_text()
EXAMPLES = (ROOT / "examples" / "README.md").read_text()
PATH = re.compile(r"`((?:[\w.-]+/)+[\w.-]+|CMake\w+\.\w+|pyproject\.toml)`")


def named_files(text: str) -> set[str]:
    made = ("build/", ".ferry/")
    return {name for name in PATH.findall(text) if not name.startswith(made)}


def test_contributing_names_files_that_are_there() -> None:
    named = named_files(CONTRIBUTING)
    assert len(named) > 40
    assert [name for name in sorted(named) if not (ROOT / name).exists()] == []


def test_contributing_names_functions_that_are_there() -> None:
    """`name()` and `name` after a file's name, in the numbered steps."""
    for step in re.findall(r"^\d\. (.*)$", CONTRIBUTING, re.MULTILINE):
        files = [ROOT / name for name in named_files(step) if (ROOT / name).is_file()]
        texts = "".join(file.read_text() for file in files)
        for name in re.findall(r"`(?:\w+::)?(\w+)\(\)`", step):
            assert re.search(rf"\b{name}\(", texts), (name, step)


def test_every_example_is_named() -> None:
    folders = {path.name for path in (ROOT / "examples").iterdir() if path.is_dir()}
    assert folders >= {"grep", "search", "gather", "checkpoint", "python"}
    for folder in sorted(folders):
        assert re.search(rf"^\| \[`{folder}/`\]", EXAMPLES, re.MULTILINE), folder


def test_every_example_program_is_named() -> None:
    """By the name that CMake builds it under, or as a Python program with a main part."""
    programs = re.findall(r"ferry_program\(ferry-(\w+)", (ROOT / "examples/CMakeLists.txt").read_text())
    assert "grep" in programs
    for name in programs:
        assert f"ferry-{name}" in EXAMPLES
    for path in (ROOT / "examples").glob("*/*.py"):
        if "__main__" in path.read_text():
            assert path.name in EXAMPLES, path


def test_the_citation_is_of_this_version() -> None:
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert citation["cff-version"] == "1.2.0"
    assert citation["title"] and citation["message"] and citation["authors"]
    assert citation["version"] == ferry.__version__
    assert citation["license"] == "Apache-2.0"
