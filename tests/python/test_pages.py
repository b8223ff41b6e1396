"""The pages beside the documentation match the tree."""

from __future__ import annotations

import fnmatch
import os
import re
from pathlib import Path

import ferry
import pytest
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


FILE_NAME = re.compile(r"`((?:[\w.*-]+/)*[\w.*-]+\.(?:cpp|hpp|cu|py|pml|sh|toml|in|md|css))`")
FULL_PATH = re.compile(
    r"\b(?:docs|examples|include|lab|python|rigs|scripts|src|tests|verification)"
    r"/(?:[\w-]+/)*[\w-]+\.(?:cpp|hpp|cu|py|pml|sh|toml|md)\b"
)
MODULE = re.compile(r"`(ferry(?:_lab)?(?:\.\w+)+)(?:\(\))?`")
MADE = {"ferry/profile.toml"}  # by commands, or by you


def tree_files() -> list[str]:
    """All files of the checkout but those that builds and tools make, as paths in it."""
    found = []
    for folder, below, names in os.walk(ROOT):
        below[:] = [name for name in below if name not in ("build", "__pycache__") and name[0] != "."]
        found += [os.path.relpath(os.path.join(folder, name), ROOT) for name in names]
    return found


@pytest.fixture(scope="module")
def files() -> list[str]:
    return tree_files()


def is_named_like(name: str, files: list[str]) -> bool:
    return any(fnmatch.fnmatch(f"/{file}", f"*/{name}") for file in files)


def test_pages_name_files_that_are_there(files: list[str]) -> None:
    """By their path, or by the end of it; ``*`` stands for any."""
    pages = [file for file in files if file.endswith(".md")]
    assert len(pages) > 30
    named = [(page, name) for page in pages for name in FILE_NAME.findall((ROOT / page).read_text())]
    assert len(named) > 150
    missing = [(page, name) for page, name in named if name not in MADE and not is_named_like(name, files)]
    assert missing == []


def test_comments_name_files_that_are_there(files: list[str]) -> None:
    sources = [file for file in files if file.endswith((".cpp", ".hpp", ".cu", ".py", ".txt", ".sh"))]
    named = [
        (source, name)
        for source in sources
        if not source.startswith(("tests/", "lab/tests/"))  # which make files up
        for name in FULL_PATH.findall((ROOT / source).read_text())
    ]
    assert len(named) > 50
    assert [(source, name) for source, name in named if not is_named_like(name, files)] == []


def test_pages_name_python_objects_that_are_there(files: list[str]) -> None:
    for page in (file for file in files if file.endswith(".md")):
        for name in MODULE.findall((ROOT / page).read_text()):
            package, *parts = name.split(".")
            folder = ROOT / ("lab" if package == "ferry_lab" else "python") / package
            while parts and (folder / parts[0]).is_dir():
                folder /= parts.pop(0)
            module = folder / f"{parts[0]}.py"
            text = (folder / "__init__.py").read_text()
            if module.exists():
                text = module.read_text()
                parts.pop(0)
            assert not parts or re.search(rf"\b{parts[0]}\b", text), (page, name)


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
