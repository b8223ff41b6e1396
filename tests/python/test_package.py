"""The package as a whole: without the laboratory, its types and examples, what is packed and locked."""

from __future__ import annotations

import ast
import doctest
import importlib
import os
import re
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path

import pytest

import ferry
import file_system_checks  # noqa: F401  # registers the file systems
from ferry import _bulk, laboratory
from support import BUILD, ROOT, Command, run_program, run_python

LAB = ROOT / "lab"
PACKAGE = Path(ferry.__file__).parent


@pytest.fixture
def alone(command: Command) -> Command:
    """The command without the laboratory."""
    command.environment["PYTHONPATH"] = str(ROOT / "python")
    return command


@pytest.mark.parametrize("name", laboratory.NAMES)
@pytest.mark.parametrize("arguments", [[], ["--help"], ["some", "thing"]])
def test_a_command_of_the_laboratory_says_how_to_get_it(alone: Command, name: str, arguments: list[str]) -> None:
    said = alone.fails(name, *arguments, says="and so has ./ferry in a checkout", status=2)
    assert said.startswith(f"ferry: ferry {name} ")


def test_help_lists_what_can_be_used(alone: Command) -> None:
    commands = alone.succeeds("--help").partition("Commands:")[2]
    listed = re.findall(r"^  ([a-z]+)  ", commands, re.MULTILINE)
    assert listed == ["completion", "cp", "daemon", "help", "info", "layout", "rig", "run"]


def test_its_own_commands_work(alone: Command) -> None:
    (alone.scratch / "from").write_bytes(b"carried over")
    alone.succeeds("cp", "from", "to")
    assert (alone.scratch / "to").read_bytes() == b"carried over"
    assert "file system" in alone.succeeds("info", "to")
    assert "path" in alone.succeeds("layout", "--help").lower()


def test_a_build_folder_is_found_from_any_folder() -> None:
    program = "import os, sys; os.chdir(sys.argv[1]); import ferry; os.chdir('/'); print(ferry.load.__name__)"
    done = run_python(program, ROOT, FERRY_BUILD_DIR=os.path.relpath(BUILD, ROOT))
    assert (done.returncode, done.stdout, done.stderr) == (0, "load\n", "")


def test_the_version(command: Command) -> None:
    facts = ROOT / "build" / "release" / "ferry-build.txt"
    said = f"ferry {ferry.__version__}\n" + (facts.read_text() if facts.exists() else "")
    script = run_program(ROOT / "ferry", "--version")
    assert (script.returncode, script.stdout) == (0, said)
    said = command.succeeds("--version")
    assert re.fullmatch(r"ferry [\d.]+\ncommit (\w+)\ncompiler .+\nbuilt in: devices cpu, cuda; .*\n", said)


@pytest.mark.parametrize(("package", "first"), [("0.1.0-1", "package 0.1.0-1"), ("", "commit unknown")])
def test_what_is_built_elsewhere_has_the_packages_version(tmp_path: Path, package: str, first: str) -> None:
    script = ROOT / "cmake" / "write_build_facts.cmake"
    facts = tmp_path / "facts"
    given = {"package": package, "git": "", "source": tmp_path, "output": facts, "compiler": "c", "built_in": "x | y"}
    done = run_program("cmake", *(f"-D{name}={value}" for name, value in given.items()), "-P", script)
    assert done.returncode == 0, done.stderr
    assert facts.read_text() == f"{first}\ncompiler c\nbuilt in: x; y\n"


@pytest.mark.parametrize(
    ("arguments", "unused"),
    [
        (["--version"], {"numpy", "matplotlib", "ferry_lab"}),
        (["--help"], {"numpy", "matplotlib"}),
        (["info"], {"numpy", "matplotlib", "ferry_lab"}),
        (["bench", "--help"], {"numpy", "matplotlib", "ferry_lab.studies", "ferry_lab.tune"}),
    ],
)
def test_a_command_imports_what_it_uses(command: Command, arguments: list[str], unused: set[str]) -> None:
    program = "import sys; from ferry.cli import main; main(sys.argv[1:]); print(*sys.modules)"
    done = run_python(program, *arguments, **command.environment)
    assert done.returncode == 0, done.stderr
    assert unused.isdisjoint(done.stdout.split())


def test_run_starts_without_what_draws_tables(command: Command) -> None:
    done = run_python("import sys, ferry.cli, ferry.run; print(*sys.modules)", **command.environment)
    assert done.returncode == 0, done.stderr
    assert {"numpy", "rich"}.isdisjoint(done.stdout.split())


@pytest.mark.parametrize(
    "name",
    [
        "ferry", "ferry.arrays", "ferry.engine", "ferry.file_objects", "ferry.filesystem",
        "ferry.gpu_runtime", "ferry.remote_filesystem", "ferry.transfers",
    ],
)  # fmt: skip
def test_examples_in_docstrings(name: str) -> None:
    results = doctest.testmod(importlib.import_module(name))
    assert results.attempted > 0
    assert results.failed == 0


def test_every_name_of_the_package_is_exported() -> None:
    """A name that is imported without "as" is none of the package's to a strict type checker."""
    tree = ast.parse((PACKAGE / "__init__.py").read_text())
    exported = {
        alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and str(node.module).startswith("ferry.")
        for alias in node.names
        if alias.asname == alias.name
    }
    assert exported == set(ferry.__all__)
    for name in ferry.__all__:
        assert getattr(ferry, name) is not None


def described(nodes: list[ast.stmt]) -> set[str]:
    return {
        node.name
        for node in nodes
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)) and not node.name.startswith("_")
    }


def public(thing: object) -> set[str]:
    return {name for name in dir(thing) if not name.startswith("_")}


def test_the_extension_has_what_its_stub_says() -> None:
    tree = ast.parse((PACKAGE / "_bulk.pyi").read_text())
    assert described(tree.body) == public(_bulk)
    for node in tree.body:
        if isinstance(node, ast.ClassDef):
            assert described(node.body) == public(getattr(_bulk, node.name)), node.name


def test_the_two_distributions_have_one_version() -> None:
    package = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    lab = tomllib.loads((LAB / "pyproject.toml").read_text())["project"]
    assert package["optional-dependencies"]["lab"] == [f"{lab['name']}=={ferry.__version__}"]
    assert f"{package['name']}=={ferry.__version__}" in lab["dependencies"]
    stated = re.search(r'^__version__ = "(.*)"$', (LAB / "ferry_lab/__init__.py").read_text(), re.M)
    assert stated is not None and stated[1] == ferry.__version__


def source_package(folder: Path) -> dict[str, int]:
    """The files of the source package, by their paths in it, with their sizes."""
    program = "import sys, scikit_build_core.build as b; print(b.build_sdist(sys.argv[1]))"
    done = run_program(sys.executable, "-c", program, folder, cwd=ROOT, check=True)
    with tarfile.open(folder / done.stdout.splitlines()[-1]) as archive:
        return {one.name.partition("/")[2]: one.size for one in archive if not one.isdir()}


def test_the_source_package_holds_what_a_wheel_is_built_from(tmp_path: Path) -> None:
    held = source_package(tmp_path)
    assert {name.split("/")[0] for name in held} == {
        *("CMakeLists.txt", "LICENSE", "PKG-INFO", "README.md", "cmake", "include"),
        *("pyproject.toml", "python", "src"),
    }
    assert {"src/programs/info_main.cpp", "python/ferry/py.typed"} <= held.keys()
    assert not [name for name in held if name.endswith((".pyc", ".so", ".o"))]
    assert sum(held.values()) < 16 << 20


def test_the_laboratorys_wheel_has_its_data_and_no_tests(tmp_path: Path) -> None:
    """But for ferry-bench, which this does not build: tests/install/run does, and measures with it."""
    program = "import sys, scikit_build_core.build as b; print(b.build_wheel(sys.argv[1], {'wheel.cmake': 'false'}))"
    done = run_program(sys.executable, "-c", program, tmp_path, cwd=LAB, check=True)
    with zipfile.ZipFile(tmp_path / done.stdout.splitlines()[-1]) as archive:
        held = set(archive.namelist())
    assert {name.split("/")[0] for name in held} == {"ferry_lab", f"ferry_lab-{ferry.__version__}.dist-info"}
    assert {"ferry_lab/render/templates/report.html", "ferry_lab/studies/data/published.csv"} <= held


# The locked requirements match their sources; scripts/lock.sh updates them.
REQUIREMENTS = [
    "requirements",
    "requirements-test",
    "requirements-coverage",
    "requirements-cuda",
    "requirements-wheels",
    "requirements-wheels-mpi",
]


def normalized(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def asked(name: str) -> dict[str, str]:
    """The requirements of an .in file, with their versions; empty for any version."""
    found: dict[str, str] = {}
    for line in (ROOT / "python" / f"{name}.in").read_text().splitlines():
        words = line.split("#")[0].strip()
        if words.startswith("-r "):
            found |= asked(words.removeprefix("-r ").removesuffix(".in"))
        elif words:
            package, _, version = words.partition("==")
            found[normalized(package)] = version
    return found


def locked(name: str) -> dict[str, str]:
    pairs = re.findall(r"^([\w.-]+)==(\S+)", (ROOT / "python" / f"{name}.txt").read_text(), re.MULTILINE)
    return {normalized(package): version for package, version in pairs}


@pytest.mark.parametrize("name", REQUIREMENTS)
def test_what_is_asked_for_is_locked(name: str) -> None:
    versions = locked(name)
    for package, version in asked(name).items():
        assert package in versions, f"scripts/lock.sh brings {package}"
        assert version in ("", versions[package]), f"scripts/lock.sh brings {package}=={version}"


@pytest.mark.parametrize("name", REQUIREMENTS)
def test_what_is_locked_is_asked_for(name: str) -> None:
    """Each by an .in file, or by another package: "via" says which."""
    via = re.findall(r"^([\w.-]+)==\S+\n((?: +#.*\n)+)", (ROOT / "python" / f"{name}.txt").read_text(), re.MULTILINE)
    assert {normalized(package) for package, _ in via} == set(locked(name))
    for package, reasons in via:
        if "-r requirements" in reasons:
            assert normalized(package) in asked(name), package


def test_tests_run_on_what_the_command_runs_on() -> None:
    assert locked("requirements").items() <= locked("requirements-test").items()
