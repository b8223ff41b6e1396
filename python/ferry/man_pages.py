"""Writes what a shell needs of the command: manual pages, and completion for bash, zsh and fish.

``python -m ferry.man_pages FOLDER`` writes ``man1/NAME.1`` and ``completions/SHELL`` into FOLDER. The
build does so with the commands' own definitions.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterator
from pathlib import Path

import click

from ferry import __version__
from ferry.cli import SHELLS, completion, ferry
from ferry.help_texts import write_texts


def pages() -> dict[str, str]:
    """Returns the manual pages of ``ferry`` and of each command, by names like ``ferry-layout-set``."""
    context = click.Context(ferry, info_name="ferry", **ferry.context_settings)
    return dict(_pages(context))


def _pages(context: click.Context) -> Iterator[tuple[str, str]]:
    below = list(_commands_of(context))
    yield _name(context), _page(context, below)
    for name, inner in below:
        settings = {**ferry.context_settings, **inner.context_settings}
        yield from _pages(click.Context(inner, parent=context, info_name=name, **settings))


def _commands_of(context: click.Context) -> Iterator[tuple[str, click.Command]]:
    if isinstance(context.command, click.Group):
        for name in context.command.list_commands(context):
            inner = context.command.get_command(context, name)
            assert inner is not None
            yield name, inner


def _name(context: click.Context) -> str:
    return context.command_path.replace(" ", "-")


def escaped(text: str) -> str:
    """Returns the text as roff prints it: no escapes, no requests."""
    lines = text.replace("\\", "\\e").replace("-", "\\-").split("\n")
    return "\n".join(f"\\&{line}" if line[:1] in (".", "'") else line for line in lines)


def _page(context: click.Context, below: list[tuple[str, click.Command]]) -> str:
    name, command = _name(context), context.command
    usage = " ".join(command.collect_usage_pieces(context))
    parts = [
        f'.TH {name.upper()} 1 "" "Ferry {__version__}" "Ferry"',
        f".SH NAME\n{escaped(name)} \\- {escaped(command.get_short_help_str(200).rstrip('.'))}",
        f".SH SYNOPSIS\n\\fB{escaped(context.command_path)}\\fR {escaped(usage)}",
        ".SH DESCRIPTION",
        *_paragraphs(command.help or ""),
    ]
    options = [
        record
        for one in command.get_params(context)
        if isinstance(one, click.Option) and (record := one.get_help_record(context))
    ]
    if options:
        parts.append(".SH OPTIONS")
        parts += [f".TP\n\\fB{escaped(flags)}\\fR\n{escaped(text)}" for flags, text in options]
    if below:
        parts.append(".SH COMMANDS")
        parts += [_reference(f"{name}-{word}", one.get_short_help_str(200)) for word, one in below]
    if context.parent is not None:
        parts.append(f".SH SEE ALSO\n\\fB{escaped(_name(context.parent))}\\fR(1)")
    return "\n".join(parts) + "\n"


def _paragraphs(text: str) -> Iterator[str]:
    """Fills paragraphs; keeps the lines of those that click is asked to keep."""
    for paragraph in inspect.cleandoc(text).split("\n\n"):
        if paragraph.startswith("\b\n"):
            yield f".PP\n.nf\n{escaped(paragraph[2:])}\n.fi"
        elif paragraph.strip():
            yield f".PP\n{escaped(paragraph.strip())}"


def _reference(page: str, text: str) -> str:
    return f".TP\n\\fB{escaped(page)}\\fR(1)\n{escaped(text)}"


def write(folder: Path) -> None:
    """Writes all pages and completions into ``folder``."""
    files = {f"man1/{name}.1": text for name, text in pages().items()}
    files |= {f"completions/{shell}": completion(shell) + "\n" for shell in SHELLS}
    write_texts(folder, files)


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: python -m ferry.man_pages FOLDER")
    write(Path(sys.argv[1]))
