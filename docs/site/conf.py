"""Sphinx's settings for `make docs`: the pages of docs/, the interfaces and the commands.

The folder of the sources is the whole checkout, so that links between the pages hold as they stand.
"""

from __future__ import annotations

import sys
from pathlib import Path

import click

ROOT = Path(__file__).resolve().parents[2]
MADE = ROOT / "build" / "docs"
sys.path[:0] = [str(ROOT / "python"), str(ROOT / "lab")]

import ferry  # noqa: E402
from ferry.cli import ferry as command  # noqa: E402

project = "Ferry"
author = copyright = "the Ferry maintainers"
version = release = ferry.__version__

extensions = ["breathe", "myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinx_click"]
root_doc = "docs/site/index"
include_patterns = ["*.md", "docs/**.md", "docs/site/*.rst", "examples/README.md", "build/docs/commands/*.rst"]
exclude_patterns = [".ferry", ".git", "results"]

html_theme = "furo"
html_title = f"Ferry {version}"
html_show_sourcelink = False

myst_heading_anchors = 4
# Pages link to sources, too, which are no pages; tests/python/test_documentation.py finds dead links.
suppress_warnings = [
    "duplicate_declaration.cpp",  # a namespace is declared by every header
    "misc.highlighting_failure",
    "myst.header",
    "myst.xref_missing",
]

# Needs an MPI library, which the documentation does not.
autodoc_mock_imports = ["mpi4py", "ferry._collective"]
autodoc_member_order = "bysource"
autodoc_typehints = "description"

breathe_projects = {"ferry": str(MADE / "doxygen" / "xml")}
breathe_default_project = "ferry"
breathe_default_members = ("members",)


def walk(name: str, one: click.Command) -> dict[str, click.Command]:
    """The command and all below it, by their whole names."""
    found = {name: one}
    if isinstance(one, click.Group):
        context = click.Context(one)
        for word in one.list_commands(context):
            below = one.get_command(context, word)
            if below is not None:
                found |= walk(f"{name} {word}", below)
    return found


def reference(name: str) -> str:
    """Where Sphinx finds the command: a group's own, or the attribute of a module below."""
    return f"commands:{name.replace(' ', '_').replace('-', '_')}"


COMMANDS = walk("ferry", command)


def write_commands() -> None:
    """A page for each command."""
    folder = MADE / "commands"
    folder.mkdir(parents=True, exist_ok=True)
    for name, command_ in COMMANDS.items():
        for option in command_.params:
            if isinstance(option, click.Option) and isinstance(option.to_info_dict()["default"], bool | None):
                option.show_default = False  # sphinx_click would show click's mark for none
        text = f".. click:: {reference(name)}\n   :prog: {name}\n"
        if isinstance(command_, click.Group):
            below = [other for other in COMMANDS if other.startswith(f"{name} ")]
            pages = (f":manpage:`{other.replace(' ', '-')}(1)`" for other in below)
            text += "\nSee also " + ", ".join(pages)
        (folder / f"{name.replace(' ', '-')}.rst").write_text(text + "\n")


class _Commands:
    """The module `commands` that sphinx_click looks into."""

    __name__ = "commands"

    def __getattr__(self, name: str) -> click.Command:
        for one, found in COMMANDS.items():
            if reference(one) == f"commands:{name}":
                return found
        raise AttributeError(name)


sys.modules["commands"] = _Commands()  # type: ignore[assignment]
write_commands()
