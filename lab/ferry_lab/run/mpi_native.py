"""Starts ``mpiexec -n RANKS ferry-bench-mpi``."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from ferry.errors import FerryError
from ferry.programs import find_program
from ferry_lab.run.mpi_plan import MpiPlan

PROGRAM = "ferry-bench-mpi"
_TIMEOUT_S = 60.0

Json = dict[str, Any]


def read_info() -> Json:
    """Returns the MPI library of the build and its mpiexec. Raises FerryError without one."""
    try:
        program = find_program(PROGRAM)
    except FerryError as error:
        raise FerryError(f"{error}; {what_it_needs()}") from None
    done = subprocess.run(
        [str(program), "--info"], capture_output=True, text=True, timeout=_TIMEOUT_S
    )
    try:
        answer: Json = json.loads(done.stdout)
    except ValueError:
        last = (done.stderr.strip().splitlines() or [f"exit status {done.returncode}"])[-1]
        raise FerryError(f"{PROGRAM} does not start: {last}; build it again") from None
    return answer


def what_it_needs() -> str:
    """Says what measuring with ranks lacks: an MPI library, or a build with it."""
    compiler = next(filter(None, map(shutil.which, ("mpicxx", "mpic++"))), None)
    if compiler is not None:
        return f"the MPI library of {compiler} is here, and a build from now on uses it"
    return (
        "it needs an MPI library (Debian: mpich and libmpich-dev), without which the studies "
        "interfaces, stripes, writers and endian do not run"
    )


def mpiexec() -> list[str]:
    """Returns the launcher: ``$FERRY_MPIEXEC``, or the library's own. Raises FerryError."""
    own = os.environ.get("FERRY_MPIEXEC")
    command = shlex.split(own) if own else [read_info()["mpiexec"]]
    if not command or shutil.which(command[0]) is None:
        raise FerryError(
            f"{' '.join(command) or 'FERRY_MPIEXEC'} cannot be run; install it (Debian: mpich), or "
            "name another in FERRY_MPIEXEC"
        )
    return command


@contextmanager
def plan_command(plan: MpiPlan) -> Iterator[list[str]]:
    """Gives the command that measures a plan, which is in a temporary file meanwhile."""
    start = mpiexec()
    with tempfile.NamedTemporaryFile("w", suffix=".json", prefix="ferry-plan-") as file:
        json.dump(plan.to_json(), file)
        file.flush()
        yield [*start, "-n", str(plan.ranks), str(find_program(PROGRAM)), "--plan", file.name]
