"""The pages beside the documentation say what is there."""

from __future__ import annotations

import re
from pathlib import Path

import ferry
import yaml

ROOT = Path(__file__).parents[2]
EXAMPLES = (ROOT / "examples" / "README.md").read_text()


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
