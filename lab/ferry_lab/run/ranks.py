"""``ferry bench`` under mpiexec: rank 0 measures for all, the others become ranks of ``ferry-bench-mpi``.

Rank 0 stays what mpiexec has started, and has ``ferry-bench-mpi`` as a child, which takes its place
among the ranks: it inherits what the MPI library needs for that, variables and descriptors.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from ferry.errors import FerryError
from ferry.programs import find_program

MPI_PROGRAM = "ferry-bench-mpi"
_RELEASE_TIMEOUT_S = 60.0
_INTERRUPTED_TIMEOUT_S = 5.0  # then mpiexec has passed the signal on to the others, as a rule

# How launchers say which rank this is, of how many.
_VARIABLES = (
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),
    ("PMI_RANK", "PMI_SIZE"),
    ("PMIX_RANK", "SLURM_STEP_NUM_TASKS"),
)


@dataclass(frozen=True)
class Launched:
    """One of the processes that mpiexec has started."""

    rank: int
    size: int  # 0: the launcher does not say
    by_open_mpi: bool


def find() -> Launched | None:
    """Returns what mpiexec has made of this process, None without mpiexec."""
    for rank, size in _VARIABLES:
        if os.environ.get(rank, "").isdecimal():
            known = os.environ.get(size, "")
            return Launched(int(os.environ[rank]), int(known) if known.isdecimal() else 0, rank.startswith("OMPI_"))
    return None


def join() -> None:
    """Rank 0 returns, as does a process without mpiexec. The others become ranks of the measured program."""
    launched = find()
    if launched is None or launched.rank == 0:
        return
    try:
        program = str(find_program(MPI_PROGRAM))
    except FerryError:  # which rank 0 reports; some launchers end it where another rank fails
        raise SystemExit(0) from None
    os.execv(program, [program, "--other"])


_is_started = False


def command() -> list[str]:
    """Returns the command by which rank 0 takes its place and reads a plan. Raises FerryError."""
    global _is_started
    words = [str(find_program(MPI_PROGRAM)), "--child", "--plan", "-"]
    _is_started = True  # it releases the others
    return words


@contextmanager
def released_on_error() -> Iterator[None]:
    """If rank 0 ends before it measures, the others end, too."""
    try:
        yield
    except BaseException as problem:
        if find() is not None and not _is_started:
            with contextlib.suppress(FerryError, OSError, subprocess.TimeoutExpired):
                subprocess.run(
                    [str(find_program(MPI_PROGRAM)), "--child"],
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                    close_fds=False,
                    timeout=_INTERRUPTED_TIMEOUT_S if isinstance(problem, KeyboardInterrupt) else _RELEASE_TIMEOUT_S,
                )
        raise
