"""The only link to the laboratory: finds the commands of the distribution ferry-lab."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import TYPE_CHECKING

from ferry.errors import FerryError

if TYPE_CHECKING:
    import click

NAMES = ("bench", "compare", "import", "metadata", "study", "tune")


class MissingError(FerryError):
    """A laboratory command was given, but ferry-lab is not installed."""

    exit_status = 2

    def __init__(self, name: str) -> None:
        super().__init__(
            f"ferry {name} is not installed; Debian's package ferry-lab and the wheel ferry_lab have it, "
            "and so has ./ferry in a checkout"
        )


def folders() -> list[Path]:
    """Returns the folder of its package, which has ferry-bench where pip has installed it; else none."""
    found = importlib.util.find_spec("ferry_lab")
    return [Path(place) for place in (found.submodule_search_locations or ())] if found else []


def is_installed() -> bool:
    """Whether the laboratory can be imported."""
    return bool(folders())


def names() -> tuple[str, ...]:
    """Returns the names of its commands; none if it is not installed."""
    return NAMES if is_installed() else ()


def command(name: str) -> click.Command | None:
    """Returns one of its commands, or None. Raises MissingError."""
    if name not in NAMES:
        return None
    if not is_installed():
        raise MissingError(name)
    from ferry_lab.commands import load

    found: click.Command | None = load(name)
    return found
