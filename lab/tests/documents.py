"""Documents of the schema ``ferry.results``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from ferry_lab.results.schema import make_schema

SCHEMA = make_schema()


def validated(path: Path) -> dict[str, Any]:
    """The document, once the schema accepts it and finds nothing that JSON has not."""
    document: dict[str, Any] = json.loads(path.read_text(), parse_constant=pytest.fail)
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    jsonschema.Draft202012Validator(SCHEMA).validate(document)
    return document
