"""The documentation is consistent, and names what is there: pages, headings, files, objects, tests."""

from __future__ import annotations

import fnmatch
import os
import re
from pathlib import Path
from urllib.parse import unquote

import ferry
import pytest
import yaml

from support import ROOT

PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
OTHERS = [
    *sorted(page for page in ROOT.glob("*.md") if page.name != "README.md"),
    *sorted(page for room in ("examples", "lab", "python") for page in (ROOT / room).rglob("*.md")),
]
ROOMS = set("cmake docs examples include lab python rigs scripts src tests verification".split())
TEXT = set(".c .cmake .cpp .cu .f90 .hpp .in .json .md .pml .py .sh .toml .txt".split())
LINK = re.compile(r"\[(?:[^\[\]]|\[[^\]]*\])*\]\(([^)\s]+)(?:\s+\"[^\"]*\")?\)")


def prose_of(page: Path) -> list[str]:
    """The lines of a page, those of code blocks left empty."""
    lines = []
    fenced = False
    for line in page.read_text(encoding="utf-8").splitlines():
        fence = line.lstrip().startswith("```")
        lines.append("" if fenced or fence else line)
        fenced ^= fence
    assert not fenced, f"{page}: a code block without an end"
    return lines


def without_code(line: str) -> str:
    return re.sub(r"(`+).+?\1", "", line)


def anchors_of(page: Path) -> set[str]:
    """The anchors that GitHub gives the headings of a page."""
    anchors: dict[str, int] = {}
    for line in prose_of(page):
        if heading := re.match(r"#{1,6} +(.*)", line):
            text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading[1]).replace("`", "")
            anchor = re.sub(r"[^\w\- ]", "", text.strip().lower()).replace(" ", "-")
            number = anchors[anchor] = anchors.get(anchor, -1) + 1
            if number:
                anchors[f"{anchor}-{number}"] = 0
    return set(anchors)


def dead_links_of(page: Path) -> list[str]:
    dead = []
    for number, line in enumerate(prose_of(page), 1):
        for target in LINK.findall(without_code(line)):
            if re.match(r"[a-z][a-z0-9+.-]*:", target):
                continue
            path, _, anchor = unquote(target).partition("#")
            to = (page.parent / path).resolve() if path else page
            if not to.exists():
                dead.append(f"line {number}: {target}: no such file")
            elif anchor and to.suffix == ".md" and anchor not in anchors_of(to):
                dead.append(f"line {number}: {target}: no such heading")
    return dead


@pytest.mark.parametrize("page", PAGES + OTHERS, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_relative_link_leads_somewhere(page: Path) -> None:
    assert dead_links_of(page) == []


def test_dead_links_are_found(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("# A `page`\n\n[here](#a-page) [not](#nowhere) [gone](gone.md) `[code](c)`\n")
    assert dead_links_of(page) == ["line 3: #nowhere: no such heading", "line 3: gone.md: no such file"]


def test_every_page_can_be_reached_from_the_readme() -> None:
    reached = {ROOT / "README.md"}
    new = set(reached)
    while new:
        page = new.pop()
        for line in prose_of(page):
            for target in LINK.findall(without_code(line)):
                to = (page.parent / unquote(target).partition("#")[0]).resolve()
                if to in PAGES and to not in reached:
                    reached.add(to)
                    new.add(to)
    assert set(PAGES) - reached == set()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_tables_are_whole(page: Path) -> None:
    """Every table has a head and a rule, and as many cells in every row."""
    above: list[int] = []
    for number, line in enumerate([*prose_of(page), ""], 1):
        if not line.lstrip().startswith("|"):
            assert len(above) != 1, f"line {number - 1}: a row that belongs to no table"
            above = []
            continue
        cells = re.sub(r"\\\|", "", re.sub(r"(`+).+?\1", "x", line)).strip().count("|") - 1
        if len(above) == 1:
            assert re.fullmatch(r"\s*\|(\s*:?-+:?\s*\|)+\s*", line), f"line {number}: not a rule"
        assert not above or cells == above[0], f"line {number}: {cells} cells, not {above[0]}"
        above.append(cells)


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


@pytest.fixture(scope="module")
def files() -> list[str]:
    """All files of the checkout but those that builds and tools make, as paths in it."""
    found = []
    for folder, below, names in os.walk(ROOT):
        below[:] = [name for name in below if name not in ("build", "__pycache__") and name[0] != "."]
        found += [os.path.relpath(os.path.join(folder, name), ROOT) for name in names]
    return found


def is_named_like(name: str, files: list[str]) -> bool:
    return any(fnmatch.fnmatch(f"/{file}", f"*/{name}") for file in files)


def test_what_points_to_a_page_finds_it(files: list[str]) -> None:
    """Sources, tests and messages name pages by their path from the root."""
    texts = [file for file in files if file.split("/")[0] in ROOMS and Path(file).suffix in TEXT]
    assert len(texts) > 500
    named = [
        (file, page)
        for file in texts
        for page in re.findall(r"\bdocs/(?:[\w-]+/)*[\w-]+\.md\b", (ROOT / file).read_text(errors="replace"))
    ]
    assert [(file, page) for file, page in named if not (ROOT / page).is_file()] == []


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


def test_the_tests_that_the_table_names_exist() -> None:
    table = (ROOT / "docs/reference/bounds.md").read_text()
    rows = "\n".join(line for line in table.splitlines() if line.startswith("|"))
    programs = "\n".join(path.read_text() for path in (ROOT / "tests").rglob("*.cpp"))
    there = set(re.findall(r"^(?:TYPED_)?TEST(?:_F|_P)?\((\w+),\s*(\w+)\)", programs, re.MULTILINE))
    suites = {suite for suite, _ in there}
    named = re.findall(r"`([A-Z]\w+)\.([A-Z]\w+|\*)`", rows)
    assert len(named) > 50
    missing = [
        f"{suite}.{name}"
        for suite, name in named
        if ((suite, name) not in there if name != "*" else suite not in suites)
    ]
    assert missing == []
    tests = [*(ROOT / "tests/python").glob("*.py"), *(ROOT / "lab/tests").rglob("*.py")]
    for name in re.findall(r"`(test_\w+\.py)`", rows):
        assert any(path.name == name for path in tests), name
