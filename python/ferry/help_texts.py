"""The stored help pages, which ./ferry prints before anything is built.

``python -m ferry.help_texts FOLDER`` regenerates them; a test compares them with the parser.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path

import click

from ferry.cli import ferry


def pages() -> dict[str, str]:
    """Returns the help pages of ``ferry`` and of each command.

    A slash separates a group from its command: ``layout/set``.
    """
    context = click.Context(ferry, info_name="ferry", **ferry.context_settings)
    return {"ferry": ferry.get_help(context) + "\n", **_pages_of(ferry, context, "")}


def _pages_of(group: click.Group, context: click.Context, place: str) -> dict[str, str]:
    texts = {}
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        settings = {**ferry.context_settings, **command.context_settings}
        inner = click.Context(command, parent=context, info_name=name, **settings)
        texts[place + name] = command.get_help(inner) + "\n"
        if isinstance(command, click.Group):
            texts |= _pages_of(command, inner, f"{place}{name}/")
    return texts


def write_texts(folder: Path, texts: Mapping[str, str]) -> None:
    """Writes each text into the file of its name in ``folder``."""
    for name, text in texts.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: python -m ferry.help_texts FOLDER")
    write_texts(Path(sys.argv[1]), {f"{name}.txt": text for name, text in pages().items()})
