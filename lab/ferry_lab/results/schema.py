"""The JSON Schemas of the laboratory's documents, generated from its records.

``python -m ferry_lab.results.schema`` prints that of ``ferry.results/3``; with the argument
``simulation``, that of ``ferry.simulation/1``, with ``comparison`` that of ``ferry.comparison/1``,
with ``metadata`` that of ``ferry.metadata/1``.
"""

from __future__ import annotations

import json
import sys
from typing import Any

import msgspec

from ferry_lab.results import records
from ferry_lab.results.comparison import ResultsComparison
from ferry_lab.results.metadata import MetadataResults
from ferry_lab.results.simulation import Simulation

_OF_GROUPS = (records.JobRow, records.GroupRow)
_ROWS = (records.MeasuredRow, records.ImportedRow, records.RanksRow, *_OF_GROUPS)
_DOCUMENTS = {
    "results": records.Document,
    "simulation": Simulation,
    "comparison": ResultsComparison,
    "metadata": MetadataResults,
}


def make_schema(name: str = "results") -> dict[str, Any]:
    """Returns one: ``results``, ``simulation``, ``comparison`` or ``metadata``."""
    document = _DOCUMENTS[name]
    rows = _ROWS if document is records.Document else ()
    _, parts = msgspec.json.schema_components(
        [document, *rows], schema_hook=_schema_of_row, ref_template="#/$defs/{name}"
    )
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        **parts.pop(document.__name__),
        **(_rows_of_kinds() if rows else {}),
        "$defs": parts,
    }


def _schema_of_row(_kind: type) -> dict[str, Any]:
    return {"oneOf": [_reference(row) for row in _ROWS]}


def _reference(row: type) -> dict[str, str]:
    return {"$ref": f"#/$defs/{row.__name__}"}


def _rows_of_kinds() -> dict[str, Any]:
    """Returns which rows and environments the kinds of documents have; imports have any."""
    return {
        "if": {"properties": {"kind": {"const": "import"}}},
        "else": {
            "properties": {"environment": {"properties": {"machine": {"type": "object"}}}},
            "if": {"properties": {"study": {"enum": list(records.RANKS_STUDIES)}}},
            "then": {"properties": {"rows": {"items": _reference(records.RanksRow)}}},
            "else": {
                "anyOf": [
                    {
                        "properties": {
                            "environment": {"properties": {"runtimes": {"minItems": 1}}},
                            "rows": {"items": _reference(records.MeasuredRow)},
                        }
                    },
                    {
                        "properties": {
                            "kind": {"const": "bench"},
                            "rows": {"items": {"oneOf": [_reference(row) for row in _OF_GROUPS]}},
                        }
                    },
                    # Under mpiexec.
                    {"properties": {"kind": {"const": "bench"}, "rows": {"items": _reference(records.RanksRow)}}},
                ]
            },
        },
    }


if __name__ == "__main__":
    print(json.dumps(make_schema(*sys.argv[1:]), indent=2))
