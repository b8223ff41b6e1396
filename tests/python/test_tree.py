"""scripts/check_tree.py finds violations of the tree's shape."""

from __future__ import annotations

import importlib
import re
import sys
import tomllib
from pathlib import Path

import pytest

from support import ROOT

sys.path.append(str(ROOT / "scripts"))
check = importlib.import_module("check_tree")


def make_tree(root: Path, **files: str) -> object:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return check.Tree(root, set(files))


FUTEX = {"src/base/futex.hpp": "#pragma once\n"}
UPWARDS = {
    "src/base/futex.cpp": '#include "base/futex.hpp"\n#include "server/loop.hpp"\n',
    "src/server/loop.hpp": '#include "base/futex.hpp"\n',
}
SHARED = [
    (
        {
            "src/bulk/plan.hpp": "struct Plan {\n  struct Part {};\n};\n",
            "src/collective/plan.hpp": "class Plan final : Base {\n};\nclass Future;\nstruct Part {};\n",
        },
        ["src/collective/plan.hpp: Plan is also a type in src/bulk/plan.hpp; name one of them otherwise"],
    ),
    (
        {"python/ferry/a.py": "class Bar(Base):\n    pass\n", "lab/ferry_lab/b.py": "class Bar:\n    pass\n"},
        ["python/ferry/a.py: Bar is also a type in lab/ferry_lab/b.py; name one of them otherwise"],
    ),
    ({"src/bulk/a.hpp": "class File {\n};\n", "src/storage/b.hpp": "class File {\n};\n"}, []),
    ({"src/bulk/a.cpp": "class Plan {\n};\n", "src/storage/b.cpp": "class Plan {\n};\n"}, []),
]
AGAINST = [
    (UPWARDS, 'src/base/futex.cpp:2: "server/loop.hpp": src/base does not use src/server'),
    (
        {"src/bulk/worker.cpp": "#include <ferry/runtime.hpp>\n", "include/ferry/runtime.hpp": "#include <string>\n"},
        'src/bulk/worker.cpp:1: "ferry/runtime.hpp": src/bulk does not use src/runtime',
    ),
    (
        {
            "src/server/loop.cpp": ('#include "storage/nfs/rpc.hpp"\n#include "storage/storage.hpp"\n'),
            "src/storage/nfs/rpc.hpp": "",
            "src/storage/storage.hpp": "",
        },
        'src/server/loop.cpp:1: "storage/nfs/rpc.hpp": that is private to one storage; '
        "use the interface of src/storage",
    ),
    (
        {"include/ferry/device/ring.hpp": "#include <cstdint>\n#include <unistd.h>\n"},
        'include/ferry/device/ring.hpp:2: "unistd.h": device code may include no more of the system '
        "than DEVICE_HEADERS lists",
    ),
    (
        {"include/ferry/device/ring.hpp": '#include "base/futex.hpp"\n'},
        'include/ferry/device/ring.hpp:1: "base/futex.hpp": include/ferry/device does not use src/base',
    ),
    (
        {"scripts/help.py": "def main():\n    import ferry\n"},
        'scripts/help.py:2: "ferry": scripts does not use python/ferry',
    ),
    (
        {"python/ferry/cli.py": "import os\nimport numpy as np\nfrom jinja2 import Template\n"},
        'python/ferry/cli.py:3: "jinja2.Template": python/ferry does not declare it; '
        "THIRD_PARTY lists what it may import",
    ),
]


@pytest.mark.parametrize(("files", "line"), AGAINST, ids=[line for _, line in AGAINST])
def test_a_use_against_the_arrows(tmp_path: Path, files: dict[str, str], line: str) -> None:
    tree = make_tree(tmp_path, **FUTEX, **files)
    assert list(check.arrows(tree, {})) == [line]


def test_an_exception_is_named_and_needed(tmp_path: Path) -> None:
    tree = make_tree(tmp_path, **FUTEX, **UPWARDS)
    named = {("src/base/futex.cpp", "server/loop.hpp"): "the reason"}
    assert list(check.arrows(tree, named)) == []
    named["src/base/futex.cpp", "base/futex.hpp"] = "not needed"
    assert list(check.arrows(tree, named)) == [
        'src/base/futex.cpp: "base/futex.hpp": this exception is no longer needed'
    ]


@pytest.mark.parametrize(("room", "project"), [("python/ferry", "."), ("lab/ferry_lab", "lab")])
def test_what_is_imported_is_declared(room: str, project: str) -> None:
    described = tomllib.loads((ROOT / project / "pyproject.toml").read_text())["project"]
    extras = described.get("optional-dependencies", {}).values()
    names = {re.split(r"[^\w-]", one)[0] for one in sum(extras, described["dependencies"])}
    modules = {name.replace("-", "_") for name in names}
    brought = {"cupy", "mpi4py", "torch"}  # by users, for what they hand over or ask for
    below = {"markupsafe"}  # by jinja2
    assert check.THIRD_PARTY[room] - brought - below <= modules
    assert modules - check.THIRD_PARTY[room] <= {"ferry_io", "ferry_lab"}


def test_a_public_header_belongs_to_its_room(tmp_path: Path) -> None:
    tree = make_tree(
        tmp_path,
        **{
            "include/ferry/error.hpp": "",
            "include/ferry/ferry.hpp": "#include <ferry/runtime.hpp>\n",
            "include/ferry/runtime.hpp": "#include <ferry/error.hpp>\n",
            "src/base/byte_swap.cpp": "#include <ferry/error.hpp>\n",
            "lab/harness/main.cpp": "#include <ferry/ferry.hpp>\n",
        },
    )
    assert list(check.arrows(tree, {})) == []


def test_sizes(tmp_path: Path) -> None:
    tree = make_tree(tmp_path, **{"docs/small": "x" * (512 << 10), "docs/large": "x" * ((512 << 10) + 1)})
    (line,) = check.sizes(tree)
    assert line.startswith("docs/large: 512 KiB; a tracked file may have 512 KiB.")


def test_a_source_outside_every_room(tmp_path: Path) -> None:
    tree = make_tree(tmp_path, **{"source/main.cpp": ""})
    assert "source/main.cpp: lies in no room that ARROWS lists" in check.rooms(tree)
    assert "src/base: a room without files; take it out of ARROWS" in check.rooms(tree)


def test_arrows_in_a_circle(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(check, "ARROWS", {"a": {"b"}, "b": {"c"}, "c": {"a"}, "d": {"a"}})
    assert check.way_back("a") == ["a", "b", "c", "a"]
    assert check.way_back("d") is None


def test_the_page_says_what_every_room_uses(tmp_path: Path) -> None:
    rows = {}
    for room, uses in check.ARROWS.items():
        names = ", ".join(f"`{used}`" for used in sorted(uses - {"*"}))
        rows[room] = f"| `{room}` | {names or 'nothing'} |"
    tree = make_tree(tmp_path, **{check.ARCHITECTURE: "\n".join(rows.values())})
    assert list(check.page(tree)) == []
    del rows["include/ferry/device"]
    rows["src/storage"] = "| `src/storage` | `src/base`, `src/server` |"
    make_tree(tmp_path, **{check.ARCHITECTURE: "\n".join(rows.values())})
    assert list(check.page(tree)) == [
        f"{check.ARCHITECTURE}: has no row that says what include/ferry/device uses",
        f"{check.ARCHITECTURE}: says otherwise than ARROWS what src/storage uses: src/base",
    ]


def test_the_list_is_that_of_git(tmp_path: Path) -> None:
    with pytest.raises((OSError, check.subprocess.CalledProcessError)):
        check.Tree.of(tmp_path)
    for words in (["init", "-q"], ["add", "."]):
        if words[0] == "add":
            make_tree(tmp_path, **{".gitignore": "*.o\n", "a/b.hpp": "", "a/b.o": ""})
        check.subprocess.run(["git", *words], cwd=tmp_path, check=True)
    (tmp_path / "new").write_text("not added yet")
    tree = check.Tree.of(tmp_path)
    assert tree.files == {".gitignore", "a/b.hpp", "new"}


@pytest.mark.parametrize(("files", "wrong"), SHARED)
def test_types_that_share_a_name(tmp_path: Path, files: dict[str, str], wrong: list[str]) -> None:
    assert list(check.names(make_tree(tmp_path, **files))) == wrong


def test_a_using_declaration_without_a_use(tmp_path: Path) -> None:
    source = """using std::max;
  using device::Arena;
using device::Page;
using namespace other;
struct Own : Base {
  using Base::Base;
};
// max
int f(Page page) { return std::max(page.Arena(), text("Arena")); }
"""
    tree = make_tree(tmp_path, **{"src/a.cpp": source, "src/a.hpp": "using std::min;\n"})
    assert list(check.usings(tree)) == [
        "src/a.cpp: declares Arena by using and does not use it",
        "src/a.cpp: declares max by using and does not use it",
    ]


def test_a_slow_test_that_is_not_there(tmp_path: Path) -> None:
    tree = make_tree(
        tmp_path,
        **{
            "tests/slow.txt": (
                "# Some.\ncollective.mpi.5\nruntime.OnDisk/Handles.See\nruntime.Handles.Hear\n"
                "tests/python/test_a.py::test_b[x]\ntests/python/test_a.py::test_c\n"
            ),
            "tests/runtime/handles_test.cpp": "TEST_P(Handles, See) {\n}\n",
            "tests/python/test_a.py": "def test_b(x: int) -> None:\n    pass\n",
        },
    )
    assert list(check.slow_tests(tree)) == [
        "tests/slow.txt: there is no test runtime.Handles.Hear",
        "tests/slow.txt: there is no test tests/python/test_a.py::test_c",
    ]
