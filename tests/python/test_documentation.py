"""The documentation is consistent, names what is there, and its programs do what it says.

Also the filter through which Doxygen reads the headers, and the pages that the site is made of.
"""

from __future__ import annotations

import fnmatch
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import unquote

import ferry
import numpy
import pytest
import safetensors.numpy
import yaml
from ferry import programs

from support import ROOT, run_program

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


def links_of(page: Path) -> Iterator[tuple[int, str, Path, str]]:
    """The links to files: their line, their text, and the file and the anchor that they lead to."""
    for number, line in enumerate(prose_of(page), 1):
        for target in LINK.findall(re.sub(r"(`+).+?\1", "", line)):
            if not re.match(r"[a-z][a-z0-9+.-]*:", target):
                path, _, anchor = unquote(target).partition("#")
                yield number, target, (page.parent / path).resolve() if path else page, anchor


def dead_links_of(page: Path) -> list[str]:
    dead = []
    for number, target, to, anchor in links_of(page):
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
    reached: set[Path] = set()
    new = {ROOT / "README.md"}
    while new:
        reached |= new
        new = {to for page in new for _, _, to, _ in links_of(page) if to in PAGES} - reached
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
MODULE = re.compile(r"`(?!ferry\.(?:h|pc)`)(ferry(?:_lab)?(?:\.\w+)+)(?:\(\))?`")
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
    built = re.findall(r"ferry_program\(ferry-(\w+)", (ROOT / "examples/CMakeLists.txt").read_text())
    assert "grep" in built
    for name in built:
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
    sources = "\n".join(path.read_text() for path in (ROOT / "tests").rglob("*.cpp"))
    there = set(re.findall(r"^(?:TYPED_)?TEST(?:_F|_P)?\((\w+),\s*(\w+)\)", sources, re.MULTILINE))
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


def block(page: str, language: str) -> str:
    """The first code block of a page in that language."""
    text = (ROOT / page).read_text(encoding="utf-8")
    found = re.search(rf"^```{language}\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)
    assert found is not None, f"{page} has no {language}"
    return found[1]


def test_the_device_program_prints_the_file(tmp_path: Path) -> None:
    program = block("README.md", "cpp")
    assert block("docs/guide/first-device-program.md", "cpp") == program
    build = programs.find_program().parent
    libraries = re.search(r"^Libs: \S*/libferry.a (.*)$", (build / "ferry-cxx.pc").read_text(), re.MULTILINE)
    assert libraries is not None
    text = tmp_path / "text"
    text.write_text("what is in the file\n" * 100)
    assert program.count('"/etc/os-release"') == 1
    source = tmp_path / "program.cpp"
    source.write_text(program.replace("/etc/os-release", str(text)))
    command = [os.environ.get("CXX", "c++"), "-std=c++20", f"-I{ROOT}/include", str(source)]
    command += ["-o", str(tmp_path / "program"), str(build / "libferry.a"), *libraries[1].split()]
    subprocess.run(command, check=True)
    assert run_program(tmp_path / "program", check=True).stdout == text.read_text()


def test_the_c_program_prints_what_the_guide_shows(tmp_path: Path) -> None:
    folder = programs.find_program().parent / "c"
    page = (ROOT / "docs/guide/c.md").read_text()
    source = tmp_path / "read.c"
    source.write_text(block("docs/guide/c.md", "c"))
    command = [os.environ.get("CC", "cc"), "-std=c11", f"-I{ROOT}/include", str(source), f"-L{folder}", "-lferry"]
    command += [f"-Wl,-rpath,{folder}", "-o", str(tmp_path / "read")]
    subprocess.run(command, check=True)
    (tmp_path / "input").write_text("".join(f"{i}\n" for i in range(1, 20001)))
    for file in ("input", "absent"):
        done = run_program(tmp_path / "read", file, cwd=tmp_path)
        assert f"$ ./read {file}\n{done.stdout}{done.stderr}" in page


def test_the_python_program_reads_what_is_there(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shards = {f"part-{i}.safetensors": {f"tensor{i}": numpy.arange(i + 3.0)} for i in range(3)}
    for name, tensors in shards.items():
        safetensors.numpy.save_file(tensors, tmp_path / name)
    names = {tensor: name for name, tensors in shards.items() for tensor in tensors}
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps({"weight_map": names}))
    matrices = numpy.arange(2 * 1024 * 1024, dtype=float)
    matrices.tofile(tmp_path / "matrix")
    program = block("README.md", "python")
    for path in ("model.safetensors.index.json", "/data/matrix"):
        assert program.count(f'"{path}"') == 1
        program = program.replace(path, str(tmp_path / Path(path).name))
    shown: dict[str, object] = {}
    exec(compile(program, "README.md", "exec"), shown)
    weights = shown["weights"]
    assert isinstance(weights, dict)
    assert weights.keys() == names.keys()
    for tensors in shards.values():
        for name, tensor in tensors.items():
            numpy.testing.assert_array_equal(weights[name], tensor)
    target = shown["target"]
    assert isinstance(target, numpy.ndarray)
    numpy.testing.assert_array_equal(target.ravel(), matrices[1024 * 1024 :])
    assert capsys.readouterr().out == f"{target.nbytes}\n"


SITE = ROOT / "docs" / "site"


def documented(tmp_path: Path, *lines: str) -> list[str]:
    header = tmp_path / "header.hpp"
    header.write_text("\n".join(lines) + "\n")
    return run_program(sys.executable, SITE / "comments.py", header, check=True).stdout.splitlines()


def test_the_first_comment_is_about_the_file(tmp_path: Path) -> None:
    found = documented(tmp_path, "// What it is.", "//", "// More.", "#pragma once", "// Of f.", "void f();")
    assert found == [
        *("/// \\file", "/// What it is.", "///", "/// More.", ""),
        *("#pragma once", "/// Of f.", "void f();"),
    ]


def test_a_comment_behind_a_member_is_about_that(tmp_path: Path) -> None:
    found = documented(tmp_path, "#pragma once", "int a = 0;  // in bytes", 'auto u = "http://x";')
    assert found == ["#pragma once", "int a = 0;  ///< in bytes", 'auto u = "http://x";']


def test_what_is_indented_is_code(tmp_path: Path) -> None:
    found = documented(tmp_path, "#pragma once", "// So:", "//   f(1);", "// Done.", "//   -EIO  why")
    assert found[1:] == [
        *("/// So:", "/// \\code{.unparsed}", "///   f(1);", "/// \\endcode", "/// Done."),
        *("/// \\code{.unparsed}", "///   -EIO  why", "/// \\endcode"),
    ]


def test_rulers_document_nothing(tmp_path: Path) -> None:
    found = documented(tmp_path, "#pragma once", "// ---- parts ------", "", "int a;")
    assert found == ["#pragma once", "", "", "int a;"]


def test_every_public_header_is_on_the_site() -> None:
    """Those that do more than include others."""
    named = set(re.findall(r"doxygenfile:: (\S+)", (SITE / "cpp.rst").read_text()))
    collections = {"device.hpp", "ferry.hpp"}
    headers = {path.name for path in (ROOT / "include" / "ferry").glob("*.hpp")}
    assert headers - collections == named - {"file_calls.hpp"}


def test_every_page_is_on_the_site() -> None:
    """Sphinx warns otherwise, and `make docs` fails."""
    entries = re.findall(r"^   /(\S+)$", (SITE / "index.rst").read_text(), re.MULTILINE)
    named = {path for entry in entries for path in ROOT.glob(f"{entry}.md")}
    assert set((ROOT / "docs").glob("**/*.md")) <= named


def test_the_parts_of_a_class_that_the_site_shows() -> None:
    """Breathe knows no patterns: it shows no members by one, and says nothing."""
    for page in ("cpp.rst", "c.rst"):
        shown = re.findall(r":sections: (.*)", (SITE / page).read_text())
        for kinds in shown:
            assert {"public-type", "public-func", "public-attrib", "public-static-func"} <= set(kinds.split())
        assert shown


def test_the_header_of_c_is_on_the_site() -> None:
    assert "doxygenfile:: ferry.h\n" in (SITE / "c.rst").read_text()


def test_the_environment_is_locked() -> None:
    asked = re.findall(r"^([\w-]+)$", (SITE / "requirements.in").read_text(), re.MULTILINE)
    locked = re.findall(r"^([\w-]+)==", (SITE / "requirements.txt").read_text(), re.MULTILINE)
    assert "sphinx" in asked
    assert set(asked) <= set(locked)
