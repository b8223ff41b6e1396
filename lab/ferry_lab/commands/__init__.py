"""The laboratory's commands, each in a module of its own that loads when it is used."""

from __future__ import annotations

import importlib

import click

# By their names; the module of each has it as ``command``.
COMMANDS = {"bench": "bench", "import": "importing", "study": "study", "tune": "tune"}


def load(name: str) -> click.Command:
    """Returns the command of that name. Raises KeyError where there is none."""
    module = importlib.import_module(f"{__name__}.{COMMANDS[name]}")
    found: click.Command = module.command
    return found
