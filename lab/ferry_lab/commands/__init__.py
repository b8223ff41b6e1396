"""The laboratory's commands; each module loads when its command runs."""

from __future__ import annotations

import importlib

import click

# Name to module, which has the command as ``command``.
COMMANDS = {
    "bench": "bench",
    "compare": "compare",
    "import": "importing",
    "metadata": "metadata",
    "study": "study",
    "tune": "tune",
}


def load(name: str) -> click.Command:
    """Returns the command of that name. Raises KeyError where there is none."""
    module = importlib.import_module(f"{__name__}.{COMMANDS[name]}")
    found: click.Command = module.command
    return found
