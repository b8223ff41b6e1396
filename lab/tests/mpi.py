"""Shared by the tests of ferry-bench-mpi and its studies."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from documents import validated
from ferry.errors import FerryError
from ferry.programs import find_program
from ferry.sizes import KIB
from ferry_lab.results import results
from ferry_lab.results.records import (
    Document,
    MachineUsage,
    Phases,
    RanksRepeat,
    RanksRow,
    RanksUsage,
    TimeSplit,
    TransferCounts,
)
from ferry_lab.run.measuring import MPI_PROGRAM, mpiexec
from ferry_lab.run.plan import SCHEMA, RanksCell
from ferry_lab.run.study import Study, StudyOptions, run
from made_up import document_of
from support import TIMEOUT_S

Json = dict[str, Any]


def why_absent() -> str:
    """Why it cannot be tested here; empty if it can."""
    try:
        mpiexec()
    except FerryError as error:
        return str(error)
    return ""


# For Open MPI's mpiexec, version 4 and 5: more ranks than CPUs.
OVERSUBSCRIBED = {"OMPI_MCA_rmaps_base_oversubscribe": "1", "PRTE_MCA_rmaps_default_mapping_policy": ":oversubscribe"}

needs_mpi = pytest.mark.skipif(bool(why_absent()), reason=why_absent() or "is there")


def cell(path: Path, **changes: Any) -> Json:
    """A small cell with overrides: 64 KiB by each of two ranks."""
    return {
        "id": "a",
        "interface": "ferry",
        "operation": "write",
        "path": str(path),
        "ranks": 2,
        "transfer_bytes": 64 * KIB,
        "total_bytes": 128 * KIB,
        **changes,
    }


def run_plan(plan: Json, ranks: int, **options: Any) -> tuple[int, list[Json]]:
    """Runs ``ferry-bench-mpi`` on a plan: exit status and lines."""
    done = subprocess.run(
        [*(*mpiexec(), "-n", str(ranks)), *(str(find_program(MPI_PROGRAM)), "--plan", "-")],
        input=json.dumps({"schema": SCHEMA, "runtime": {"device": "ranks"}, **plan}),
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        env={**os.environ, **OVERSUBSCRIBED},
        **options,
    )
    lines = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    return done.returncode, lines


def samples_of(plan: Json, ranks: int) -> dict[str, list[Json]]:
    """Runs a plan that must succeed; returns the samples by cell."""
    status, lines = run_plan(plan, ranks)
    assert status == 0, lines
    assert lines[-1] == {"type": "done"}
    found: dict[str, list[Json]] = {}
    for line in lines:
        if line["type"] == "sample":
            found.setdefault(line["cell"], []).append(line)
    return found


def made_up_rows(cells: list[RanksCell], time_ms: Callable[[RanksCell], float]) -> list[RanksRow]:
    """Rows whose every repeat takes the time in ``time_ms``; writes have no fsync time."""
    return [results.make_row(one, "made up", [sample(one, n, time_ms(one) * 1e6) for n in range(20)]) for one in cells]


def sample(one: RanksCell, repeat: int, time_ns: float) -> RanksRepeat:
    """One repeat that took so long."""
    phases = Phases(*[1_000_000] * len(Phases.__struct_fields__))
    told = one.interface != "mpiio"
    return RanksRepeat(
        repeat=repeat,
        elapsed_ns=int(time_ns),
        open_ns=10_000,
        io_ns=int(time_ns),
        sync_ns=0,
        close_ns=0,
        bytes=one.total_bytes,
        operations=1,
        writers=one.writers or None,
        method=None,
        reason=None,
        oversubscribed=one.ranks > 2,
        ranks_usage=RanksUsage(10**6, 2 * 10**6, 3, 4, 5, 6),
        machine_usage=MachineUsage(10**6, 2 * 10**6, 9, 0, 0),
        counts=TransferCounts(*[7] * len(TransferCounts.__struct_fields__)) if told else None,
        time_split=TimeSplit(phases, phases) if told else None,
        stripes=None,
        layout=None,
        cache_state=None if one.operation == "write" else "cold",
        verified=True,
        pattern_seed=1,
    )


def made_up_document(study: Study, rows: list[RanksRow], settings: Json) -> Document:
    """A complete document of such rows, as written by a study."""
    return document_of(study, {"repeats": {"made up": 20}, **settings}, rows)


def run_small(study: Study, folder: Path, **options: Any) -> Json:
    """Measures a study in ``folder`` twice per point; checks all its files."""
    out = folder / "out"
    scratch = folder / "scratch"
    scratch.mkdir()
    asked = StudyOptions(str(scratch), None, True, 2, str(out), None, False, **options)
    run(study, asked)
    document = validated(out / "results.json")
    assert list(scratch.iterdir()) == []
    repeats = sum(len(row["repeats"]) for row in document["rows"])
    assert len((out / "results.csv").read_text().splitlines()) == repeats + 1
    assert {path.name for path in out.iterdir()} == {*("results.json", "results.csv", "report.html", "plots")}
    assert list((out / "plots").glob("*.png")) and list((out / "plots").glob("*.svg"))
    return document
