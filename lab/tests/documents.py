"""Documents of the schema ``ferry.results``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import msgspec
import pytest
from ferry import output_files
from ferry_lab.results.records import Document, read_document
from ferry_lab.results.schema import make_schema
from support import Command

SCHEMA = make_schema()
jsonschema.Draft202012Validator.check_schema(SCHEMA)
VALIDATOR = jsonschema.Draft202012Validator(SCHEMA)


def validated(path: Path) -> dict[str, Any]:
    """The document, once the schema accepts it and finds nothing that JSON has not."""
    document: dict[str, Any] = json.loads(path.read_text(), parse_constant=pytest.fail)
    VALIDATOR.validate(document)
    return document


def measured(command: Command, *arguments: object, **options: Any) -> tuple[dict[str, Any], str]:
    """Runs what writes a document, in silence; returns that, and what it printed."""
    path = command.scratch.parent / "r.json"
    done = command.run(*arguments, "--json", path, **options)
    assert (done.returncode, done.stderr) == (0, "")
    return validated(path), done.stdout


def check_both(document: Document) -> None:
    """Sees that the schema accepts what is written of a document, and that it reads back equal."""
    parsed = json.loads(output_files.to_json(msgspec.to_builtins(document)))
    VALIDATOR.validate(parsed)
    assert read_document(parsed) == document
