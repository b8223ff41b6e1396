"""Reads documents of results from files."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from typing import TypeVar

import msgspec

from ferry.errors import FerryError
from ferry.native import Json
from ferry_lab.results import metadata
from ferry_lab.results.metadata import MetadataResults
from ferry_lab.results.records import SCHEMA, Document, read_document

T = TypeVar("T")


def _finite(text: str) -> float:
    """A number of a document. JSON has no infinite ones, but Python's reader takes them."""
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"{text} is no number of JSON")
    return number


def _whole(text: str) -> int:
    """A whole number of at most 64 bits: no tool counts further."""
    number = int(text)
    if abs(number) >= 1 << 64:
        raise ValueError(f"a number of {len(text)} digits")
    return number


def load(path: str, how: str) -> Json:
    """Returns the object in a file; skips lines before it, like fio's warnings.

    Raises FerryError, which ends with ``how``: what to do.
    """
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            text = file.read()
    except FileNotFoundError:
        raise FerryError(f"{path} does not exist; {how}") from None
    except OSError as error:
        raise FerryError(f"{path}: {error.strerror}; {how}") from None
    lines = text.splitlines(keepends=True)
    first = next((i for i, line in enumerate(lines) if line.startswith("{")), None)
    try:
        whole = "".join(lines[first:]) if first is not None else text
        document = json.loads(whole, parse_float=_finite, parse_int=_whole, parse_constant=_finite)
    except (ValueError, RecursionError):
        raise FerryError(f"{path} is no JSON; {how}") from None
    if not isinstance(document, dict):
        raise FerryError(f"{path} holds no JSON object; {how}")
    return document


def own(path: str, parsed: Json, how: str) -> Document | None:
    """Returns ferry's results, None where another tool wrote the file. Raises FerryError."""
    schema = str(parsed.get("schema", ""))
    if schema != SCHEMA:
        if schema.startswith("ferry.results/"):
            raise FerryError(f"{path} is {schema}, and this is about {SCHEMA}; measure again")
        if schema.startswith("ferry."):
            raise FerryError(f"{path} is {schema}, and this is about {SCHEMA}; {how}")
        return None
    return _checked(path, lambda: read_document(parsed), how)


def comparable(path: str, how: str) -> Document | MetadataResults | None:
    """Returns what ``ferry bench``, a study or ``ferry metadata`` wrote, None where another tool did.

    Raises FerryError.
    """
    parsed = load(path, how)
    if parsed.get("schema") == metadata.SCHEMA:
        return _checked(path, lambda: msgspec.convert(parsed, MetadataResults), how)
    return own(path, parsed, how)


def _checked(path: str, read: Callable[[], T], how: str) -> T:
    try:
        return read()
    except msgspec.ValidationError as error:
        raise FerryError(f"{path} is not as it should be ({error}); {how}") from None
