"""Runs plans: starts ``ferry-bench`` or its ranks, and reads their samples."""

from __future__ import annotations

import contextlib
import json
import subprocess
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import msgspec

from ferry.errors import FerryError
from ferry.native import Process, check, lines, process_of, running
from ferry.programs import find_program
from ferry_lab.results.records import Environment, RanksRepeat, Repeat, read_repeat
from ferry_lab.run import mpi_native
from ferry_lab.run.mpi_plan import MpiPlan
from ferry_lab.run.plan import Plan

_REMOVE_TIMEOUT_S = 60.0

Json = dict[str, Any]


@dataclass
class Measurement:
    """The result of one invocation: its environment, and each cell's samples by repeat."""

    environment: Environment | None = None
    samples: dict[str, list[Repeat] | list[RanksRepeat]] = field(default_factory=dict)


def run_plan(
    plan: Plan | MpiPlan,
    on_sample: Callable[[str], None] | None = None,
    into: Measurement | None = None,
) -> Measurement:
    """Measures a plan; calls ``on_sample`` with the cell's id after each sample.

    Fills and returns ``into``, so that the samples survive an error. Raises MeasuringError,
    FerryError. An interruption (KeyboardInterrupt) first ends the measured process, which removes
    its files.
    """
    _check_names(plan)
    measurement = Measurement() if into is None else into
    measurement.samples.update({cell.id: [] for cell in plan.cells})
    problem: Json | None = None
    with _measuring(plan) as process:
        for line in lines(process):
            if line["type"] == "environment":
                measurement.environment = _read_environment(line)
            elif line["type"] == "sample":
                cell = line["cell"]
                measurement.samples[cell].append(_read_sample(line))
                if on_sample is not None:
                    on_sample(cell)
            elif line["type"] == "error":
                problem = line
    check(process, problem)
    for samples in measurement.samples.values():
        samples.sort(key=lambda sample: sample.repeat)
    return measurement


def _read_environment(line: Json) -> Environment:
    known = {name: line[name] for name in Environment.__struct_fields__ if name in line}
    return msgspec.convert(known, Environment)


def _read_sample(line: Json) -> Repeat | RanksRepeat:
    try:
        return read_repeat({k: v for k, v in line.items() if k not in ("type", "cell")})
    except msgspec.ValidationError as error:
        raise FerryError(
            f"the measured program is of another version of Ferry ({error}); build it again"
        ) from None


def _check_names(plan: Plan | MpiPlan) -> None:
    """Plans are JSON, which cannot hold arbitrary bytes. Raises FerryError."""
    for cell in plan.cells:
        try:
            cell.path.encode()
        except UnicodeEncodeError:
            raise FerryError(
                f"{cell.path} is not UTF-8, and what is measured needs a path that is; choose "
                "another name or folder, or make a link to it"
            ) from None


@contextmanager
def _measuring(plan: Plan | MpiPlan) -> Iterator[Process]:
    if isinstance(plan, Plan):
        with process_of("--plan", "-", stdin=json.dumps(plan.to_json())) as process:
            yield process
        return

    with (
        mpi_native.plan_command(plan) as command,
        running(command, None, mpi_native.PROGRAM) as process,
    ):
        yield process


def remove(paths: Sequence[str]) -> None:
    """Removes existing files of any storage that answers."""
    with contextlib.suppress(subprocess.TimeoutExpired):
        subprocess.run(
            [str(find_program()), "--remove", *dict.fromkeys(paths)],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_REMOVE_TIMEOUT_S,
            start_new_session=True,
            check=False,
        )
