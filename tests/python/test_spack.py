"""The recipe for Spack names what the build and the package know."""

from __future__ import annotations

import ast
import re
import tomllib

from support import ROOT

RECIPE = ROOT / "spack/spack_repo/ferry/packages/ferry/package.py"
CALLS = [one for one in ast.walk(ast.parse(RECIPE.read_text())) if isinstance(one, ast.Call)]


def words_of(*functions: str) -> list[list[str]]:
    """The words that each call of these functions begins with."""
    return [
        [one.value for one in call.args if isinstance(one, ast.Constant)]
        for call in CALLS
        if (call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")) in functions
    ]


def test_every_option_is_one_of_the_builds() -> None:
    texts = [path.read_text() for path in (ROOT / "CMakeLists.txt", *(ROOT / "cmake").glob("*.cmake"))]
    known = set(re.findall(r"(?:option\(|set\()(FERRY_\w+)", "\n".join(texts)))
    wanted = {words[0] for words in words_of("define", "define_from_variant")}
    assert len(wanted) >= 8 and wanted - {"Python_EXECUTABLE"} <= known


def test_the_packages_of_python_are_those_that_the_project_needs() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    needed = project["project"]["dependencies"] + project["build-system"]["requires"]
    wanted = {one.replace(">=", "@") + ":" for one in needed if not one.startswith("scikit-build-core")}
    assert {words[0].removeprefix("py-") for words in words_of("depends_on") if words[0].startswith("py-")} == wanted


def test_the_guide_has_every_variant() -> None:
    guide = (ROOT / "docs" / "guide" / "install.md").read_text().split("\n## Spack\n")[1].split("\n## ")[0]
    assert re.findall(r"^\| `(\w+)` \| o", guide, re.MULTILINE) == [words[0] for words in words_of("variant")]
