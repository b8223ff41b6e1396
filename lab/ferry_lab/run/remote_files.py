"""Checks files of a URI before measuring, and removes them afterwards.

Scratch files share a prefix there, because storages are not asked to make folders.
"""

from __future__ import annotations

import errno
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from ferry.errors import FerryError
from ferry.files import scratch_folder, scratch_names_hidden, signals_ignored
from ferry.native import Json, read_info
from ferry.uris import folder_of, in_folder, is_uri, shown
from ferry_lab.run.measuring import remove


def status(uri: str) -> Json | None:
    """Returns the storage's answer for a path (``kind``, ``size_bytes``); None if it is missing.

    Raises a FerryError of one line if the storage does not work or answer: missing client library,
    no server, or a path through a file.
    """
    facts: Json = read_info(uri)["storage"]
    if facts["problem"] is None:
        return facts
    if facts["errno"] == errno.ENOENT:
        return None
    raise FerryError(shown(facts["problem"]))


def check_new_file(uri: str, overwrite: bool) -> None:
    """Checks that a file can be created. Raises FerryError."""
    facts = status(uri)
    if facts is None:
        check_folder(folder_of(uri))
        return
    if facts["kind"] == "directory":
        raise FerryError(f"{shown(uri)} is a directory; name a file in it")
    if not overwrite:
        raise FerryError(f"{shown(uri)} exists; --overwrite replaces it, another name keeps it")
    if facts["kind"] != "file":
        raise FerryError(f"{shown(uri)} is not a regular file; name another")


def check_folder(uri: str) -> None:
    """Checks that a folder is there. Raises FerryError."""
    facts = status(uri)
    if facts is None:
        raise FerryError(f"the folder {shown(uri)} does not exist; make it or name another")
    if facts["kind"] != "directory":
        raise FerryError(f"{shown(uri)} is no folder; name one")


def check_readable_file(uri: str) -> int:
    """Returns the size in bytes of a regular file. Raises FerryError."""
    facts = status(uri)
    if facts is None:
        raise FerryError(f"{shown(uri)} does not exist; name a path that does")
    if facts["kind"] == "directory":
        raise FerryError(f"{shown(uri)} is a directory; name a file in it")
    if facts["kind"] != "file":
        raise FerryError(f"{shown(uri)} is not a regular file; name one")
    return int(facts["size_bytes"])


# ---- places for scratch files --------------------------------------------------------------------


@dataclass
class Place:
    """A folder for scratch files, or their common prefix on another storage."""

    label: str
    beginning: str
    handed_out: list[str] = field(default_factory=list)
    query: str = ""  # for a URI, the part after the path

    def path(self, name: str) -> str:
        """Returns the path of a file in it."""
        return f"{self.beginning}{name}{self.query}"


@contextmanager
def scratch_place(where: str, size_bytes: int) -> Iterator[Place]:
    """Gives space for that much data in a folder or on a storage; removes leftovers there.

    Raises FerryError.
    """
    if not is_uri(where):
        with scratch_folder(where, size_bytes) as folder:
            yield Place("", f"{folder}{os.sep}")
        return
    beginning, question, rest = in_folder(where, f"ferry-{secrets.token_hex(4)}.").partition("?")
    place = Place(where, beginning, query=f"{question}{rest}")
    try:
        with scratch_names_hidden(beginning, shown(where)):
            yield place
    finally:
        if place.handed_out:
            with signals_ignored():
                remove(place.handed_out)
