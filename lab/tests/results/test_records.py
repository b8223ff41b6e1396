"""The records of results and the schema made from them: they accept and refuse the same."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import jsonschema
import msgspec
import pytest
from documents import SCHEMA, VALIDATOR, check_both
from ferry_lab.results import records
from ferry_lab.results.schema import make_schema
from made_up import DOCUMENTS, Json, placements_document

PARSED = msgspec.to_builtins(placements_document(writes=False))


def row(document: Json) -> Json:
    """The first row: of a read through the device's cache or beside it."""
    return document["rows"][0]


def sample(document: Json) -> Json:
    """Its first repeat."""
    return row(document)["repeats"][0]


def refused_by_schema(change: Callable[[Json], Any]) -> Json:
    """The changed document, which the schema refuses."""
    wrong: Json = json.loads(json.dumps(PARSED))
    change(wrong)
    with pytest.raises(jsonschema.ValidationError):
        VALIDATOR.validate(wrong)
    return wrong


@pytest.mark.parametrize("name", DOCUMENTS)
def test_documents_read_back_as_they_were(name: str) -> None:
    check_both(DOCUMENTS[name]())


@pytest.mark.parametrize(
    "change",
    [
        lambda d: d.update(more=1),
        lambda d: d.pop("notes"),
        lambda d: d.update(schema="ferry.results/2"),
        lambda d: d.update(study="another"),
        lambda d: d.update(rows=[]),
        lambda d: d["environment"]["machine"].update(cpus_usable=-1),
        lambda d: d["environment"]["runtimes"][1]["page_cache"].update(page_bytes=512),
        lambda d: row(d).update(interface="fuse"),
        lambda d: row(d).update(threads=0),
        lambda d: row(d).update(path=None),
        lambda d: row(d).update(repeats=[]),
        lambda d: row(d)["metrics"].update(of_nothing=row(d)["metrics"]["io_ns"]),
        lambda d: row(d)["metrics"].pop("io_ns"),
        lambda d: row(d)["metrics"]["io_ns"].update(count=0),
        lambda d: sample(d).update(io_ns=-1),
        lambda d: sample(d).update(io_ns=1.5),
        lambda d: sample(d).update(io_ns="1"),
        lambda d: sample(d).update(cache_state="warm"),
        lambda d: sample(d).pop("storage"),
        lambda d: sample(d).update(cache={"hits": 1}),
        lambda d: sample(d)["counters"].update(calls=-1),
        lambda d: d["comparisons"][0].update(finding="perhaps"),
        lambda d: d["comparisons"][0].update(noise=-0.1),
    ],
)
def test_what_is_wrong_is_refused_by_both(change: Callable[[Json], Any]) -> None:
    wrong = refused_by_schema(change)
    with pytest.raises(msgspec.ValidationError):
        records.read_document(wrong)


@pytest.mark.parametrize(
    "change",
    [
        lambda d: sample(d)["counters"].pop("calls"),
        lambda d: sample(d).update(verified=False),
        lambda d: d["environment"]["versions"].pop("compiler"),
        lambda d: d["environment"].update(runtimes=[]),
        lambda d: d["environment"].update(machine=None),
        lambda d: d.update(study="writers"),  # whose rows are of ranks
    ],
)
def test_the_schema_refuses_what_only_it_can_say(change: Callable[[Json], Any]) -> None:
    refused_by_schema(change)


def test_fields_that_older_documents_lack_stay_absent() -> None:
    old = json.loads(json.dumps(PARSED))
    for name in ("rewrite", "buffer_offset_bytes", "cache_switches"):
        del row(old)[name]
    VALIDATOR.validate(old)
    assert msgspec.to_builtins(records.read_document(old)) == old


def test_older_documents_have_no_axes() -> None:
    old = json.loads(json.dumps(PARSED))
    assert row(old).pop("axes")["part"] == "transfers"
    assert old["comparisons"][0].pop("baseline_axes")
    VALIDATOR.validate(old)
    document = records.read_document(old)
    assert (document.rows[0].axes, document.comparisons[0].baseline_axes) == ({}, {})


@pytest.mark.parametrize("name", ["results", "simulation"])
def test_the_schema_is_printed(name: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "ferry_lab.results.schema", name], capture_output=True, text=True, check=True
    )
    assert json.loads(done.stdout) == make_schema(name)
    assert (json.loads(done.stdout) == SCHEMA) == (name == "results")
