"""Reads documents of results from files."""

from __future__ import annotations

import json
import math

import msgspec

from ferry.errors import FerryError
from ferry.native import Json
from ferry_lab.results.records import SCHEMA, Document, read_document


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
    try:
        return read_document(parsed)
    except msgspec.ValidationError as error:
        raise FerryError(f"{path} is not as it should be ({error}); {how}") from None
