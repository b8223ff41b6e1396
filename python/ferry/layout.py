"""``ferry layout``: how files are striped over a storage's servers."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from rich.console import Console

from ferry import output_files
from ferry.native import run_layout
from ferry.sizes import format_size, parse_size

Json = dict[str, Any]

# Lustre's switches: 1 when set.
_SWITCHES = {
    "overstriping": "overstriping",
    "all_servers": "all servers",
    "metadata_server": "on the metadata server",
    "foreign": "outside Lustre",
}

# A layout's settings by JSON key: the printed name, and whether it is a size.
_SETTINGS = {
    "stripe_bytes": ("stripe size", True),
    "stripe_count": ("stripe count", False),
    "object_bytes": ("object size", True),
    "first_server": ("first server", False),
    "pool": ("pool", False),
    "extension_bytes": ("room for the part before it, in steps of", True),
}

# A part's settings besides its end: the name in --part, and in a request to ``ferry-layout``.
_PART_SETTINGS = {"size": "stripe_bytes", "count": "stripe_count", "first": "first_server", "pool": "pool"}


@dataclass
class Part:
    """One part of a Lustre file with a composite layout; None lets Lustre choose."""

    end_bytes: int | None = None
    """None: the end of the file, however long it gets."""
    stripe_bytes: int | None = None
    stripe_count: int | str | None = None
    """A number, or ``all`` for however many servers there are."""
    first_server: int | None = None
    pool: str | None = None
    overstripe: bool = False

    def request(self) -> Json:
        """Returns the part as ``ferry-layout`` takes it."""
        settings = {key: getattr(self, key) for key in ("end_bytes", *_PART_SETTINGS.values())}
        if self.stripe_count == "all":
            settings |= {"stripe_count": None, "all_servers": 1}
        settings["overstriping"] = 1 if self.overstripe else None
        return {key: value for key, value in settings.items() if value is not None}


def part_of(text: str) -> Part:
    """Parses ``4m,size=1m,count=1`` or ``end,count=all,pool=fast,overstripe``.

    Raises ValueError.
    """
    end, *settings = text.split(",")
    part = Part(end_bytes=None if end == "end" else parse_size(end))
    for setting in settings:
        name, _, value = setting.partition("=")
        if setting == "overstripe":
            part.overstripe = True
        elif name not in _PART_SETTINGS or not value:
            raise ValueError(
                f"'{setting}' says nothing about a part; write size=, count=, first=, pool= or overstripe after its end"
            )
        elif name == "size":
            part.stripe_bytes = parse_size(value)
        elif name == "pool" or (name == "count" and value == "all"):
            setattr(part, _PART_SETTINGS[name], value)
        elif value.isdecimal() and (name == "first" or int(value) > 0) and int(value) < 1 << 16:
            setattr(part, _PART_SETTINGS[name], int(value))
        else:
            raise ValueError(f"'{setting}' is no number of servers")
    return part


@dataclass
class Wanted:
    """The layout to ask for; None lets the storage choose."""

    stripe_size: int | None = None
    stripe_count: int | None = None
    object_size: int | None = None
    first_server: int | None = None
    pool: str | None = None
    overstripe: bool = False
    at_most: bool = False
    parts: Sequence[Part] = ()

    def request(self) -> Json:
        """Returns the settings as ``ferry-layout set`` takes them."""
        settings = {
            "stripe_bytes": self.stripe_size,
            "stripe_count": self.stripe_count,
            "object_bytes": self.object_size,
            "first_server": self.first_server,
            "pool": self.pool,
            "overstriping": 1 if self.overstripe else None,
            "at_most": self.at_most or None,
            "parts": [part.request() for part in self.parts] or None,
        }
        return {key: value for key, value in settings.items() if value is not None}


def words(layout: Json) -> list[tuple[str, str]]:
    """Returns the settings that the storage reports, as pairs of a name and a text."""
    if parts := layout.get("parts"):
        return [("part", f"{_extent(part)}: {sentence(part)}") for part in parts]
    return [
        *(
            (name, format_size(layout[key]) if is_size else str(layout[key]))
            for key, (name, is_size) in _SETTINGS.items()
            if layout.get(key) is not None
        ),
        *((name, "yes") for key, name in _SWITCHES.items() if layout.get(key)),
    ]


def _extent(part: Json) -> str:
    end = part["end_bytes"]
    begin = format_size(part["begin_bytes"])
    mirror = f"mirror {part['mirror']}, " if part.get("mirror") else ""
    return f"{mirror}from {begin} on" if end is None else f"{mirror}{begin} to {format_size(end)}"


def sentence(layout: Json) -> str:
    """Returns the settings in one line."""
    return ", ".join(f"{name} {value}" for name, value in words(layout))


def get(path: str, json_path: str | None, overwrite: bool) -> None:
    """Prints the layout of a path and writes the JSON file (``ferry.layout/1``). Raises FerryError."""
    _finish(["get", path], json_path, overwrite)


def set_layout(path: str, wanted: Wanted, json_path: str | None, overwrite: bool) -> None:
    """Makes a file with a layout, or gives one to a directory; then like ``get``."""
    _finish(["set", path, json.dumps(wanted.request())], json_path, overwrite)


def _name_of(key: str) -> str:
    if of_part := re.fullmatch(r"parts\[(\d+)\]\.(.*)", key):
        return f"{_name_of(of_part[2])} of part {int(of_part[1]) + 1}"
    if key == "end_bytes":
        return "end"
    return _SETTINGS[key][0] if key in _SETTINGS else _SWITCHES.get(key, key)


def _finish(arguments: list[str], json_path: str | None, overwrite: bool) -> None:
    def answer() -> Json:
        facts = run_layout(arguments)
        del facts["type"]
        return {"schema": "ferry.layout/1", **facts}

    output_files.report(json_path, overwrite, answer, _show)


def _show(console: Console, answer: Json) -> None:
    made = ", made" if answer["made"] else ""
    lines = [("path", f"{answer['path']} ({answer['kind']}{made})"), *words(answer["layout"])]
    if answer["reduced"]:
        lines.append(("reduced", ", ".join(map(_name_of, answer["reduced"]))))
    for name, value in lines:
        console.print(f"{name:<13} {value}", soft_wrap=True)
