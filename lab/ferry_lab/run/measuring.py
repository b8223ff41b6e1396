"""Runs plans: starts ``ferry-bench`` or its ranks, and reads their samples."""

from __future__ import annotations

import contextlib
import json
import os
import shlex
import shutil
import subprocess
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

import msgspec

from ferry.errors import FerryError
from ferry.native import Json, check, lines, running
from ferry.programs import PROGRAM, find_program
from ferry_lab.results.records import (
    Environment,
    GroupRepeat,
    JobRepeat,
    MetadataRepeat,
    RanksRepeat,
    Repeat,
    read_repeat,
)
from ferry_lab.run.plan import Plan
from ferry_lab.run.ranks import MPI_PROGRAM

_REMOVE_TIMEOUT_S = 60.0
_INFO_TIMEOUT_S = 60.0


@dataclass
class Measurement:
    """The result of one invocation: its environment, and each cell's and group's samples by repeat."""

    environment: Environment | None = None
    samples: dict[
        str, list[Repeat] | list[RanksRepeat] | list[MetadataRepeat] | list[JobRepeat] | list[GroupRepeat]
    ] = field(default_factory=dict)


def run_plan(
    plan: Plan,
    on_sample: Callable[[str], None] | None = None,
    into: Measurement | None = None,
    command: Sequence[str] = (),
) -> Measurement:
    """Measures a plan; calls ``on_sample`` with the cell's id after each sample.

    Fills and returns ``into``, so that the samples survive an error. ``command``: what measures, if it
    is not that of the plan. Raises MeasuringError,
    FerryError. An interruption (KeyboardInterrupt) first ends the measured process, which removes
    its files.
    """
    _check_names(plan)
    measurement = Measurement() if into is None else into
    measurement.samples.update({name: [] for cell in plan.cells for name in (cell.id, *plan.group_of(cell))})
    problem: Json | None = None
    stdin = json.dumps(plan.to_json())
    with running(list(command) or command_of(plan), stdin, program_of(plan)) as process, _of_this_version():
        for line in lines(process):
            if line["type"] == "environment":
                known = {name: line[name] for name in Environment.__struct_fields__ if name in line}
                measurement.environment = msgspec.convert(known, Environment)
            elif line["type"] == "sample":
                facts = {name: value for name, value in line.items() if name not in ("type", "cell")}
                measurement.samples[line["cell"]].append(read_repeat(facts))
                if on_sample is not None:
                    on_sample(line["cell"])
            elif line["type"] == "error":
                problem = line
    check(process, problem)
    for samples in measurement.samples.values():
        samples.sort(key=lambda sample: sample.repeat)
    return measurement


@contextmanager
def _of_this_version() -> Iterator[None]:
    try:
        yield
    except msgspec.ValidationError as error:
        raise FerryError(f"the measured program is of another version of Ferry ({error}); build it again") from None


def _check_names(plan: Plan) -> None:
    """Plans are JSON, which cannot hold arbitrary bytes. Raises FerryError."""
    for cell in plan.cells:
        try:
            cell.path.encode()
        except UnicodeEncodeError:
            raise FerryError(
                f"{cell.path} is not UTF-8, and what is measured needs a path that is; choose "
                "another name or folder, or make a link to it"
            ) from None


def program_of(plan: Plan) -> str:
    """Returns the name of the program that measures a plan."""
    return MPI_PROGRAM if plan.ranks else PROGRAM


def command_of(plan: Plan) -> list[str]:
    """Returns its command, which reads the plan from standard input. Raises FerryError."""
    launch = [*mpiexec(), "-n", str(plan.ranks)] if plan.ranks else []
    return [*launch, str(find_program(program_of(plan))), "--plan", "-"]


def read_mpi_info() -> Json:
    """Returns the MPI library of the build and its mpiexec. Raises FerryError without one."""
    try:
        program = find_program(MPI_PROGRAM)
    except FerryError as error:
        raise FerryError(f"{error}; {_what_it_needs()}") from None
    done = subprocess.run([str(program), "--info"], capture_output=True, text=True, timeout=_INFO_TIMEOUT_S)
    try:
        answer: Json = json.loads(done.stdout)
    except ValueError:
        last = (done.stderr.strip().splitlines() or [f"exit status {done.returncode}"])[-1]
        raise FerryError(f"{MPI_PROGRAM} does not start: {last}; build it again") from None
    return answer


def _what_it_needs() -> str:
    """Says what measuring with ranks lacks: an MPI library, or a build with it."""
    compiler = next(filter(None, map(shutil.which, ("mpicxx", "mpic++"))), None)
    if compiler is not None:
        return f"the MPI library of {compiler} is here, and a build from now on uses it"
    return (
        "it needs an MPI library (Debian: mpich and libmpich-dev), without which the studies "
        "interfaces, stripes, writers and endian do not run, nor ferry bench under mpiexec"
    )


def mpiexec() -> list[str]:
    """Returns the launcher: ``$FERRY_MPIEXEC``, or the library's own. Raises FerryError."""
    own = os.environ.get("FERRY_MPIEXEC")
    command = shlex.split(own) if own else [read_mpi_info()["mpiexec"]]
    if not command or shutil.which(command[0]) is None:
        raise FerryError(
            f"{' '.join(command) or 'FERRY_MPIEXEC'} cannot be run; install it (Debian: mpich), or "
            "name another in FERRY_MPIEXEC"
        )
    return command


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
