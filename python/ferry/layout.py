"""``ferry layout``: how files are striped over a storage's servers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ferry import results, terminal
from ferry.native import run_layout
from ferry.sizes import format_size

Json = dict[str, Any]

# What a layout says, by its keys in JSON: the name for people, and whether it is a size.
_SETTINGS = {
    "stripe_bytes": ("stripe size", True),
    "stripe_count": ("stripe count", False),
    "object_bytes": ("object size", True),
    "first_server": ("first server", False),
    "pool": ("pool", False),
}


@dataclass
class Wanted:
    """What to ask for; None leaves the choice to the storage."""

    stripe_size: int | None = None
    stripe_count: int | None = None
    object_size: int | None = None
    first_server: int | None = None
    pool: str | None = None
    at_most: bool = False

    def arguments(self) -> list[str]:
        """Returns the arguments of ``ferry-layout set`` after the path."""
        values = {
            "--stripe-bytes": self.stripe_size,
            "--stripe-count": self.stripe_count,
            "--object-bytes": self.object_size,
            "--first-server": self.first_server,
            "--pool": self.pool,
        }
        words = [word for name, value in values.items() if value is not None
                 for word in (name, str(value))]
        return [*words, *(["--at-most"] if self.at_most else [])]


def words(layout: Json) -> list[tuple[str, str]]:
    """Returns the settings that the storage tells, as pairs of a name and a text."""
    return [
        (name, format_size(layout[key]) if is_size else str(layout[key]))
        for key, (name, is_size) in _SETTINGS.items()
        if layout.get(key) is not None
    ]


def sentence(layout: Json) -> str:
    """Returns the settings in one line."""
    return ", ".join(f"{name} {value}" for name, value in words(layout))


def get(path: str, json_path: str | None, overwrite: bool) -> None:
    """Prints the layout of a path, writes the JSON file (``ferry.layout/1``). Raises FerryError."""
    _finish(["get", path], json_path, overwrite)


def set_layout(path: str, wanted: Wanted, json_path: str | None, overwrite: bool) -> None:
    """Makes a file with a layout, or gives one to a directory; then as ``get``."""
    _finish(["set", path, *wanted.arguments()], json_path, overwrite)


def _finish(arguments: list[str], json_path: str | None, overwrite: bool) -> None:
    results.check_output(json_path, overwrite)
    answer = run_layout(arguments)
    if json_path != "-":
        console = terminal.output_console()
        made = ", made" if answer["made"] else ""
        console.print(f"{'path':<14}{answer['path']} ({answer['kind']}{made})", soft_wrap=True)
        for name, value in words(answer["layout"]):
            console.print(f"{name:<14}{value}", soft_wrap=True)
        if answer["reduced"]:
            names = ", ".join(_SETTINGS[key][0] for key in answer["reduced"])
            console.print(f"{'reduced':<14}{names}", soft_wrap=True)
    if json_path is not None:
        facts = {key: value for key, value in answer.items() if key != "type"}
        results.write_json(json_path, {"schema": "ferry.layout/1", **facts}, overwrite)
