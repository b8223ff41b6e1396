"""Writes a command's documents to files."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ferry import streams
from ferry.errors import FerryError
from ferry.files import check_folder
from ferry.replacing import left_over, replacement

if TYPE_CHECKING:
    from rich.console import Console

Json = dict[str, Any]


def check_output(path: str | None, overwrite: bool) -> None:
    """Checks, before measuring, that a file can be written; ``-`` is standard output."""
    if path is None or path == "-":
        return
    if os.path.isdir(path):
        raise FerryError(f"{path} is a directory; name a file in it")
    if os.path.lexists(path) and not overwrite:  # a dangling link, too, as in replacement()
        raise FerryError(f"{path} exists; --overwrite replaces it, another name keeps it")
    folder = os.path.dirname(os.path.abspath(path))
    check_folder(folder, 0)
    name_left_over(folder)


def name_left_over(folder: str) -> None:
    """Names temporary files of commands that were cut off, on standard error, in one line."""
    names = left_over(folder)
    if names:
        more = f" and {len(names) - 3} more" if len(names) > 3 else ""
        streams.say(
            f"{folder} has {', '.join(names[:3])}{more} from a command that was cut off; remove what you do not need"
        )


def report(
    json_path: str | None, overwrite: bool, answer: Callable[[], Json], show: Callable[[Console, Json], None]
) -> Json:
    """Returns a command's answer, after ``show`` printed it and the JSON file was written.

    Where JSON goes to standard output, it goes alone. Raises FerryError.
    """
    check_output(json_path, overwrite)
    document = answer()
    if json_path != "-":
        from ferry import terminal  # slow to import, and most commands need no table

        show(terminal.output_console(), document)
    if json_path is not None:
        write_json(json_path, document, overwrite)
    return document


def to_json(document: Json) -> str:
    """Returns a document as text. Raises ValueError for numbers that JSON does not have."""
    return json.dumps(document, indent=1, ensure_ascii=False, allow_nan=False) + "\n"


def encode(text: str) -> bytes:
    """Returns JSON as text for a file.

    Bytes of a name that are not UTF-8 become surrogate escapes, which os.fsencode turns back.
    """
    return text.encode("utf-8", errors="backslashreplace")


def write_json(path: str, document: Json, overwrite: bool) -> None:
    """Writes a document; ``-`` is standard output. Raises FerryError."""
    content = encode(to_json(document))
    if path == "-":
        sys.stdout.flush()
        sys.stdout.buffer.write(content)
        return
    write_bytes(path, content, overwrite)


def write_bytes(path: str, content: bytes, overwrite: bool) -> None:
    """Writes a file durably; an existing one only with ``overwrite``. Raises FerryError.

    The name leads to nothing, the older file or the whole new one at any time, a crash included.
    """
    try:
        with replacement(path, only_new=not overwrite) as (place, durable), open(place, "wb") as file:
            file.write(content)
            if durable:
                file.flush()
                os.fsync(file.fileno())
    except FileExistsError:
        raise FerryError(f"{path} exists; --overwrite replaces it, another name keeps it") from None
    except OSError as error:
        raise FerryError(f"{path}: {error.strerror}; choose another place") from None
