#!/usr/bin/env python3
"""Checks the tree: which room may use which, the size of tracked files, that no two types share a name,
that the architecture page names every room, that sources use what they declare by using, and that the
slow tests that are left out exist.

The tables below define the rooms and their arrows. An include or import against them fails, and so
does an unused exception.
"""

from __future__ import annotations

import ast
import posixpath
import re
import subprocess
import sys
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

MAX_FILE_BYTES = 512 << 10
ARCHITECTURE = "docs/internals/architecture.md"

# Room: the rooms it uses. Unlisted rooms fail the check.
ARROWS: dict[str, set[str]] = {
    "include": set(),
    "include/ferry/device": set(),
    "src/base": set(),
    "src/storage": {"src/base"},
    "src/backend": {"include/ferry/device", "src/base", "src/storage"},
    "src/server": {"include/ferry/device", "src/base", "src/storage"},
    "src/runtime": {"include/ferry/device", "src/backend", "src/base", "src/server", "src/storage"},
    "src/bulk": {"src/backend", "src/base", "src/storage"},
    "src/collective": {"src/backend", "src/base", "src/storage"},
    "src/mpiio": {"src/base", "src/collective", "src/storage"},
    "src/hdf5": {"src/base", "src/bulk"},
    "src/daemon": {"include/ferry/device", "src/base", "src/runtime"},
    "src/fuse": {"src/base", "src/storage"},
    "src/interpose": {"src/base", "src/daemon"},
    "src/bindings": {
        *("include/ferry/device", "src/backend", "src/base", "src/bulk", "src/collective", "src/runtime", "src/storage")
    },
    "src/programs": {
        *("include", "include/ferry/device", "src/backend", "src/base", "src/daemon", "src/fuse", "src/storage")
    },
    "python/ferry": set(),
    "lab/harness": {*("include", "include/ferry/device", "src/backend", "src/base", "src/programs", "src/storage")},
    "lab/ferry_lab": {"python/ferry"},
    "lab/micro": {*("include", "lab/ferry_lab", "lab/harness", "python/ferry", "src/base", "src/storage")},
    "lab/tests": {"*"},
    "docs/site": {"python/ferry"},
    "examples": {"include", "python/ferry"},
    "rigs": set(),
    "scripts": set(),
    "spack": set(),
    "tests": {"*"},
    "verification": set(),
}

# A public header belongs to the room that implements it: it is visible to that room's users and may
# use what the room uses. The other public headers are above all rooms.
HEADERS = {
    "include/ferry.h": "src/bindings",
    "include/ferry_mpi.h": "src/bindings",
    "include/ferry/buffered_file.hpp": "src/interpose",
    "include/ferry/bulk.hpp": "src/bulk",
    "include/ferry/byte_order.hpp": "src/base",
    "include/ferry/collective.hpp": "src/collective",
    "include/ferry/cuda.hpp": "src/runtime",
    "include/ferry/device.hpp": "include/ferry/device",
    "include/ferry/error.hpp": "src/base",
    "include/ferry/fortran_records.hpp": "src/interpose",
    "include/ferry/gpu.hpp": "src/runtime",
    "include/ferry/nvrtc/": "include/ferry/device",
    "include/ferry/runtime.hpp": "src/runtime",
    "include/ferry/signals.hpp": "src/runtime",
    "include/ferry/storage_engine.hpp": "src/storage",
    "include/ferry/typemap.hpp": "src/collective",
}

# All that device code may include besides itself: it also runs without an operating system.
DEVICE_HEADERS = {"atomic", "cerrno", "cstddef", "cstdint", "cuda/atomic", "emmintrin.h"}

# What a distribution may import besides Python's own modules and its rooms: the dependencies in its
# pyproject.toml, and in the package the libraries its users bring (cupy, mpi4py, torch).
THIRD_PARTY = {
    "python/ferry": {"click", "cupy", "fsspec", "mpi4py", "numpy", "rich", "torch"},
    "lab/ferry_lab": {"click", "jinja2", "markupsafe", "matplotlib", "msgspec", "numpy", "rich", "tomli_w"},
}

# Headers of one storage; code outside src/storage must use the interface.
PRIVATE = re.compile(r"src/storage/(ceph|lustre|nfs|posix|pvfs2)/")

# (file, what it includes or imports): why this exception to the arrows exists.
EXCEPTIONS = {
    ("python/ferry/laboratory.py", "ferry_lab.commands.load"): "finds commands that are installed",
    ("src/collective/hints.cpp", "runtime/tuning.hpp"): "hints come from the profile as well",
}

# Types that may share a name: users always write the namespace or module in front of it.
SHARED_NAMES = {"File"}

SLOW_TESTS = "tests/slow.txt"
MPI_TEST = re.compile(r"collective\.mpi\.")  # CMake gives these their names

# A type of a header, outside of other types: the formatter begins its line in the first column.
HEADER_TYPE = re.compile(
    r"^(?:struct|union|class|enum(?: class)?) (?:alignas\(.*?\) )?(\w+)(?: final)?(?: :[^;]*)? *\{", re.M
)
MODULE_TYPE = re.compile(r"^class (\w+)", re.M)

# "using a::b;" in a source, but for inherited constructors; a header's is there for those who include it.
USING = re.compile(r"^ *using (?:\w+::)*(\w+)::(?!\1;)(\w+);$", re.M)
COMMENT_OR_TEXT = re.compile(r'//[^\n]*|/\*.*?\*/|"(?:[^"\\\n]|\\.)*"', re.S)

SOURCE = re.compile(r"\.(c|cpp|cu|h|hpp|py|pyi)$")
INCLUDE = re.compile(r'\s*#\s*include\s*(?:"([^"]+)"|<([^>]+)>)')
PACKAGES = {"ferry": "python/ferry", "ferry_lab": "lab/ferry_lab"}


@dataclass
class Tree:
    """The tracked files, and new ones that git does not ignore."""

    root: Path
    files: set[str]

    @classmethod
    def of(cls, root: Path) -> Tree:
        listed = subprocess.run(
            ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
            cwd=root, check=True, capture_output=True, text=True,
        ).stdout.split("\0")  # fmt: skip
        return cls(root, {name for name in listed if (root / name).is_file()})

    def find(self, name: str) -> str | None:
        """The file that a path names."""
        name = posixpath.normpath(name)
        return name if name in self.files else None


@dataclass(frozen=True)
class Use:
    """One include or import."""

    file: str
    line: int
    word: str  # as written
    target: str | None  # the file it names; None: outside this repository


def room_of(name: str) -> str | None:
    """The room of a file: the longest matching folder."""
    parts = name.split("/")[:-1]
    while parts:
        if "/".join(parts) in ARROWS:
            return "/".join(parts)
        parts.pop()
    return None


def owner(name: str) -> str | None:
    """The room of a file; for a public header, the room that implements it."""
    for header, room in HEADERS.items():
        if name == header or (header.endswith("/") and name.startswith(header)):
            return room
    return room_of(name)


def includes(tree: Tree, name: str) -> Iterator[Use]:
    text = (tree.root / name).read_text(errors="replace")
    here = posixpath.dirname(name)
    room = room_of(name) or ""
    for number, line in enumerate(text.splitlines(), 1):
        if found := INCLUDE.match(line):
            word = found[1] or found[2]
            folders = [here] if found[1] else []
            folders += ["include", "src", "lab", room, *(["tests"] if room.endswith("tests") else []), "."]
            hits = (tree.find(posixpath.join(folder, word)) for folder in folders)
            yield Use(name, number, word, next(filter(None, hits), None))


def imports(tree: Tree, name: str) -> Iterator[Use]:
    """Imports from outside Python's own modules, also inside functions."""
    for node in ast.walk(ast.parse((tree.root / name).read_text())):
        words: list[str] = []
        if isinstance(node, ast.Import):
            words = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            words = [f"{node.module}.{alias.name}" for alias in node.names]
        for word in words:
            top = word.split(".")[0]
            folder = PACKAGES.get(top)
            if folder is not None:
                yield Use(name, node.lineno, word, f"{folder}/__init__.py")
            elif top not in sys.stdlib_module_names:
                yield Use(name, node.lineno, word, None)


def uses(tree: Tree) -> Iterator[Use]:
    for name in sorted(tree.files):
        if SOURCE.search(name):
            yield from (imports if name.endswith((".py", ".pyi")) else includes)(tree, name)


def complaint(use: Use) -> str | None:
    """The problem with it, if any."""
    mine = owner(use.file)
    if mine is None:
        return None  # rooms() reports the file
    if use.target is None:
        if mine == "include/ferry/device" and use.word not in DEVICE_HEADERS:
            return "device code may include no more of the system than DEVICE_HEADERS lists"
        if mine in THIRD_PARTY and use.word.split(".")[0] not in THIRD_PARTY[mine]:
            return f"{mine} does not declare it; THIRD_PARTY lists what it may import"
        return None
    theirs = owner(use.target)
    if mine == theirs or "*" in ARROWS[mine]:
        return None
    if room_of(use.target) == "include" and "include" in {mine, *ARROWS[mine]}:
        return None  # the public interface
    if theirs is None or theirs not in ARROWS[mine]:
        return f"{mine} does not use {theirs}"
    if PRIVATE.match(use.target) and mine != "src/storage":
        return "that is private to one storage; use the interface of src/storage"
    return None


def arrows(tree: Tree, exceptions: dict[tuple[str, str], str]) -> Iterator[str]:
    needed = set()
    for use in uses(tree):
        if (wrong := complaint(use)) is None:
            continue
        if (use.file, use.word) in exceptions:
            needed.add((use.file, use.word))
        else:
            yield f'{use.file}:{use.line}: "{use.word}": {wrong}'
    for name, word in sorted(exceptions.keys() - needed):
        yield f'{name}: "{word}": this exception is no longer needed'


def rooms(tree: Tree) -> Iterator[str]:
    """Checks that every source file has a room, every room has files, and the arrows have no cycle."""
    lived_in = {room_of(name) for name in tree.files}
    for name in sorted(tree.files):
        if SOURCE.search(name) and room_of(name) is None:
            yield f"{name}: lies in no room that ARROWS lists"
    for room in sorted(ARROWS):
        if room not in lived_in:
            yield f"{room}: a room without files; take it out of ARROWS"
    for header in sorted(HEADERS):
        if not any(name == header or name.startswith(header) for name in tree.files):
            yield f"{header}: is listed in HEADERS and not there"
    for room in sorted(ARROWS):
        if circle := way_back(room):
            yield f"{room}: uses itself: {' -> '.join(circle)}"


def way_back(room: str) -> list[str] | None:
    """The shortest cycle of arrows through a room."""
    ways = deque([[room]])
    seen = set()
    while ways:
        way = ways.popleft()
        for following in sorted(ARROWS.get(way[-1], set())):
            if following == room:
                return [*way, room]
            if following not in seen:
                seen.add(following)
                ways.append([*way, following])
    return None


def page(tree: Tree) -> Iterator[str]:
    """Checks that the architecture page has a row "| `room` | `used`, `used` |" for each room."""
    text = (tree.root / ARCHITECTURE).read_text()
    rows = {
        name: set(re.findall(r"`([^`]+)`", used))
        for name, used in re.findall(r"^\| `([^`]+)` \| ([^|]*) \|$", text, re.MULTILINE)
    }
    for room, used in sorted(ARROWS.items()):
        wanted = used - {"*"}
        if room not in rows:
            yield f"{ARCHITECTURE}: has no row that says what {room} uses"
        elif rows[room] != wanted:
            names = ", ".join(sorted(wanted)) or "nothing"
            yield f"{ARCHITECTURE}: says otherwise than ARROWS what {room} uses: {names}"


def names(tree: Tree) -> Iterator[str]:
    """Checks that a type's name is its own among all headers, and among the modules of the packages."""
    for ending, pattern, folders in ((".hpp", HEADER_TYPE, ("",)), (".py", MODULE_TYPE, tuple(PACKAGES.values()))):
        places: dict[str, str] = {}
        for name in sorted(tree.files):
            if name.endswith(ending) and name.startswith(folders):
                for found in sorted(set(pattern.findall((tree.root / name).read_text())) - SHARED_NAMES):
                    if places.setdefault(found, name) != name:
                        yield f"{name}: {found} is also a type in {places[found]}; name one of them otherwise"


def sizes(tree: Tree) -> Iterator[str]:
    for name in sorted(tree.files):
        size = (tree.root / name).stat().st_size
        if size > MAX_FILE_BYTES:
            yield (
                f"{name}: {size >> 10} KiB; a tracked file may have {MAX_FILE_BYTES >> 10} KiB. "
                "Make it when it is needed, or list it in .gitignore"
            )


def usings(tree: Tree) -> Iterator[str]:
    """Checks that a source uses by its short name what it declares so."""
    for name in sorted(tree.files):
        if not name.endswith((".cpp", ".cu")):
            continue
        text = COMMENT_OR_TEXT.sub("", (tree.root / name).read_text())
        rest = USING.sub("", text)
        for short in sorted({short for _, short in USING.findall(text)}):
            if not re.search(rf"(?<![\w.:>]){short}\b", rest):
                yield f"{name}: declares {short} by using and does not use it"


def slow_tests(tree: Tree) -> Iterator[str]:
    """Checks that each test of the list of slow ones is there, so that a new name does not leave the list unseen."""
    if SLOW_TESTS not in tree.files:
        return
    sources = "\n".join(
        (tree.root / name).read_text()
        for name in sorted(tree.files)
        if name.startswith("tests/") and SOURCE.search(name)
    )
    for line in (tree.root / SLOW_TESTS).read_text().splitlines():
        if line.startswith("#") or MPI_TEST.match(line):
            continue
        if "::" in line:
            name, _, test = line.partition("::")
            there = name in tree.files and f"def {test.partition('[')[0]}(" in (tree.root / name).read_text()
        else:
            suite, _, test = line.partition(".")[2].partition(".")
            words = rf"\({re.escape(suite.rpartition('/')[2])}, {re.escape(test.partition('/')[0])}\)"
            there = re.search(words, sources) is not None
        if not there:
            yield f"{SLOW_TESTS}: there is no test {line}"


def main() -> int:
    root = Path(sys.argv[1] if len(sys.argv) > 1 else Path(__file__).parents[1])
    try:
        tree = Tree.of(root)
    except (OSError, subprocess.CalledProcessError):
        print(f"absent: git's list of files in {root}, so the shape of the tree is not checked")
        return 0
    wrong = [
        *sizes(tree),
        *rooms(tree),
        *arrows(tree, EXCEPTIONS),
        *names(tree),
        *page(tree),
        *usings(tree),
        *slow_tests(tree),
    ]
    for line in wrong:
        print(line)
    if not wrong:
        print(
            f"{len(tree.files)} files in {len(ARROWS)} rooms: sizes, arrows and names of types hold"
            + (f", with {len(EXCEPTIONS)} exceptions" if EXCEPTIONS else "")
        )
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
