"""``--map`` of ``ferry run``: folders to serve, and folders that hold the files of a URI."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable
from dataclasses import dataclass

from ferry.errors import FerryError
from ferry.programs import find_program
from ferry.uris import SCHEMES, is_uri

PROGRAM = "ferry-mount"

# A program needs what lies in these; a map in their place would hide it.
_NOT_REPLACED = ("/bin", "/dev", "/etc", "/lib", "/lib64", "/proc", "/run", "/sbin", "/sys", "/usr")
_FORM = re.compile(rf"(?P<folder>.*?)=(?P<target>(?:{'|'.join(map(re.escape, SCHEMES))}).*)", re.DOTALL)


@dataclass(frozen=True)
class Target:
    """A folder that holds the files of a URI, for one program."""

    folder: str
    uri: str


def targets(texts: Iterable[str]) -> list[Target]:
    """Returns what the maps onto URIs say. Raises FerryError."""
    found = [_target(text, form["folder"], form["target"]) for text in texts if (form := _form(text))]
    names = [target.folder for target in found]
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise FerryError(f"--map: {twice} is given twice; leave one out")
    return found


def served_folders(texts: Iterable[str]) -> list[str]:
    """Returns the other maps: folders to serve, as absolute paths without links. Raises FerryError."""
    return [_served(text) for text in texts if not _form(text)]


def command(targets: Iterable[Target], program: str, words: Iterable[str]) -> list[str]:
    """Returns the command that runs a program with these targets in place. Raises FerryError."""
    maps = [{"folder": target.folder, "target": target.uri} for target in targets]
    return [str(find_program(PROGRAM)), json.dumps(maps), program, *words]


def _form(text: str) -> re.Match[str] | None:
    return None if os.path.lexists(text) else _FORM.fullmatch(text)


def _folder(text: str, folder: str) -> str:
    try:
        resolved = os.path.realpath(folder, strict=True)
    except OSError as error:
        what = "" if folder == text else f"{folder}: "
        raise FerryError(f"--map {text}: {what}{error.strerror}; name a folder that is there") from None
    if not folder or not os.path.isdir(resolved):
        raise FerryError(f"--map {text}: no folder; name one")
    if resolved == "/":
        raise FerryError(f"--map {text}: / holds the system's own files; name a folder below it")
    return resolved


def _served(text: str) -> str:
    if not os.path.lexists(text):
        if is_uri(text):
            raise FerryError(f"--map {text}: name the folder for it, too: --map FOLDER={text}")
        if "=" in text:
            raise FerryError(f"--map {text}: what follows '=' is no URI; it begins with {', '.join(SCHEMES)}")
    folder = _folder(text, text)
    if ":" in folder:
        raise FerryError(f"--map {text}: a colon cannot be in the path of a folder; name another")
    return folder


def _target(text: str, folder: str, uri: str) -> Target:
    resolved = _folder(text, folder)
    if hides := next((name for name in _NOT_REPLACED if os.path.realpath(name) == resolved), None):
        raise FerryError(f"--map {text}: programs need what is in {hides}; name another folder")
    try:
        (resolved + uri).encode()
    except UnicodeEncodeError:
        raise FerryError(f"--map {text}: the name is not UTF-8; name another folder or path") from None
    return Target(resolved, uri)
