"""The stored copies of the help pages, which ./ferry prints before anything is built.

``python -m ferry.help_texts FOLDER`` writes them anew; a test compares them with the parser.
"""

from __future__ import annotations

import sys
from pathlib import Path

import click

from ferry.cli import ferry


def pages() -> dict[str, str]:
    """Returns the help page of the command itself (``ferry``) and of each of its commands."""
    context = click.Context(ferry, info_name="ferry", **ferry.context_settings)
    texts = {"ferry": ferry.get_help(context)}
    for name, command in ferry.commands.items():
        settings = {**ferry.context_settings, **command.context_settings}
        inner = click.Context(command, parent=context, info_name=name, **settings)
        texts[name] = command.get_help(inner)
    return {name: text + "\n" for name, text in texts.items()}


def write(folder: Path) -> None:
    """Writes ``NAME.txt`` for each page into ``folder``."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in pages().items():
        (folder / f"{name}.txt").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: python -m ferry.help_texts FOLDER")
    write(Path(sys.argv[1]))
