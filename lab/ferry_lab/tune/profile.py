"""The profile: the best settings that ``ferry tune`` found on this machine.

TOML, schema ``ferry.profile/1``, with one entry per tuned storage of one machine. The library reads
it (src/runtime/profile.cpp); docs/guide/tuning.md describes it.
"""

from __future__ import annotations

import os
import tomllib
from pathlib import Path

import tomli_w

from ferry import output_files
from ferry.errors import FerryError
from ferry.files import check_folder, signals_ignored
from ferry.native import Json
from ferry.replacing import make_folders

SCHEMA = "ferry.profile/1"
_HEAD = (
    "# Written by ferry tune. The library decides from it; ferry info PATH says how.\n"
    "# docs/guide/tuning.md explains every key. Without this file the built-in settings hold.\n\n"
)


def default_path() -> str:
    """Returns where the library looks: ``$FERRY_PROFILE``, else the user's configuration folder.

    Raises FerryError if it looks nowhere.
    """
    given = os.environ.get("FERRY_PROFILE")
    if given == "":
        raise FerryError("FERRY_PROFILE is empty, so no profile is used; unset it or give --out")
    if given is not None:
        return given
    folder = os.environ.get("XDG_CONFIG_HOME", "")
    if folder.startswith("/"):
        return f"{folder}/ferry/profile.toml"
    home = os.environ.get("HOME")
    if not home:
        raise FerryError("there is no home folder ($HOME) for the profile; give --out")
    return f"{home}/.config/ferry/profile.toml"


def check_target(path: str, overwrite: bool) -> None:
    """Checks in advance that a profile can be written there. Raises FerryError."""
    if os.path.isdir(path):
        raise FerryError(f"{path} is a directory; name a file in it")
    if os.path.lexists(path) and not os.path.isfile(path):
        raise FerryError(f"{path} is not a regular file; name another")
    if os.path.exists(path) and not overwrite:
        read(path)
    parent = Path(os.path.abspath(path)).parent
    while not parent.exists():
        parent = parent.parent
    check_folder(str(parent), 0)
    output_files.name_left_over(str(parent))


def read(path: str) -> Json:
    """Reads a profile. Raises FerryError for other contents or another version."""
    try:
        with open(path, "rb") as file:
            document = tomllib.load(file)
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        reason = " ".join(str(error).split())
        raise FerryError(f"{path} is no profile ({reason}); --overwrite replaces it") from None
    except OSError as error:
        raise FerryError(f"{path}: {error.strerror}; name another file") from None
    if document.get("schema") != SCHEMA or not isinstance(document.get("storages", []), list):
        raise FerryError(f"{path} is no profile of schema {SCHEMA}; --overwrite replaces it")
    return document


def merge(before: Json | None, machine: Json, entry: Json) -> Json:
    """Returns a profile with ``entry`` and the other entries of ``before`` for this machine."""
    kept = []
    if before is not None and before.get("machine") == machine:
        kept = [old for old in before.get("storages", []) if not _is_same_storage(old, entry)]
    return {"schema": SCHEMA, "machine": machine, "storages": [*kept, entry]}


def collective_of(before: Json | None, entry: Json) -> Json:
    """Returns an earlier profile's settings for collective transfers on the entry's storage."""
    for old in (before or {}).get("storages", []):
        if _is_same_storage(old, entry):
            return dict(old.get("collective", {}))
    return {}


def _is_same_storage(one: Json, other: Json) -> bool:
    keys = ["device", "file_system", "block_device"]
    if not other.get("block_device"):
        keys.append("mount_point")
    return all(one.get(key) == other.get(key) for key in keys)


def write(path: str, document: Json) -> None:
    """Replaces the profile durably: readers see the old one or the new one, also after a crash.

    Creates the folder. Raises FerryError.
    """
    with signals_ignored():
        try:
            make_folders(os.path.dirname(os.path.realpath(path)))
        except OSError as error:
            raise FerryError(f"{path}: {error.strerror}; choose another place with --out") from None
        output_files.write_bytes(path, (_HEAD + tomli_w.dumps(document)).encode(), overwrite=True)
