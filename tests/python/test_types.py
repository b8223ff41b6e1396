"""The type stubs match the extension."""

from __future__ import annotations

import ast
from pathlib import Path

import ferry
from ferry import _bulk

PACKAGE = Path(ferry.__file__).parent


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
