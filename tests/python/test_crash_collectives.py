"""What a loss of power may leave of files that MPI ranks write together, and sync as they go on."""

from __future__ import annotations

from pathlib import Path

import pytest

from recorded_writers import Records, check
from served import Node
from test_collective import MPIEXEC, environment

pytestmark = pytest.mark.skipif(MPIEXEC is None, reason="there is no mpiexec")
__all__ = ["environment"]  # a fixture

# Every rank writes its share of the records between two syncs, all together.
HEAD = """
import os, sys
from mpi4py import MPI
comm = MPI.COMM_WORLD
folder, path, how, records, size, often = *sys.argv[1:4], *map(int, sys.argv[4:])
def write_all(write, sync):
    for begin in range(0, 2 * records, often):
        for number in range(begin + comm.rank, begin + often, comm.size):
            slot = number % records * STEP % records
            write(slot * size, bytes([1 + (number // records * 101 + slot * 7) % 255]) * size)
        sync()
        comm.Barrier()
        if comm.rank == 0:
            os.access(f"{folder}/MARK{begin + often}", os.F_OK)
        comm.Barrier()
"""
COLLECTIVE = (
    HEAD
    + """
from ferry import collective
with collective.open(comm, path, "r+") as file:
    write_all(file.write_at_all, file.sync)
"""
)
MPI_IO = (
    HEAD
    + """
file = MPI.File.Open(comm, path, MPI.MODE_RDWR)
write_all(file.Write_at_all, file.Sync)
file.Close()
"""
)

WRITERS = [Records(), Records(size=5000, step=1)]


@pytest.mark.parametrize("records", WRITERS, ids=lambda one: f"{one.size}-{one.step}")
@pytest.mark.parametrize("fails", [False, True], ids=["", "without-syncs"])
def test_collective_files(environment: dict[str, str], scratch: Path, records: Records, fails: bool) -> None:
    words = ["timeout", 100, MPIEXEC, "-n", 2, *records.words(program=COLLECTIVE)]
    check(scratch, environment, records, words, points=20, fails=fails)


@pytest.mark.parametrize("records", WRITERS, ids=lambda one: f"{one.size}-{one.step}")
@pytest.mark.parametrize("fails", [False, True], ids=["", "without-syncs"])
def test_mpi_io(environment: dict[str, str], node: Node, scratch: Path, records: Records, fails: bool) -> None:
    """Unmodified programs under ``ferry run --mpi-io``."""
    ranks = ["timeout", 100, MPIEXEC, "-n", 2, *records.words(program=MPI_IO)]
    variables = {**environment, **node.command.environment, "LD_LIBRARY_PATH": environment["LD_LIBRARY_PATH"]}
    check(scratch, variables, records, node.command.arguments("run", "--mpi-io", "--", *ranks), points=20, fails=fails)
