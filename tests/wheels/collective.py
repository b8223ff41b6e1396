"""Writes, reads and fails with all ranks of MPI: in the folder that is given, over the library that is named."""

import os
import sys

import numpy as np
from mpi4py import MPI

from ferry import collective

folder, library = sys.argv[1:]
comm = MPI.COMM_WORLD
assert MPI.Get_library_version().startswith(library), MPI.Get_library_version()
mine = np.arange(1000, dtype=np.int32) + 1000 * comm.rank
rows = collective.TypeMap.subarray([comm.size, 1000], [1, 1000], [comm.rank, 0], 4)
with collective.open(comm, f"{folder}/rows", "w+", method="aggregate", writers=1) as file:
    file.set_view(0, rows)
    assert file.write_all(mine) == 4000
    back = np.zeros(1000, dtype=np.int32)
    assert file.read_at_all(0, back) == 4000 and (back == mine).all()
    assert file.writers == [0] and file.hints["cb_nodes"] == "1"
if comm.rank == 0:
    assert (np.fromfile(f"{folder}/rows", dtype=np.int32) == np.arange(1000 * comm.size)).all()
column = MPI.INT.Create_vector(10, 1, 2)
assert collective.TypeMap.of(column).data_bytes == 40
column.Free()
try:
    # Only this rank asks for what is not there.
    collective.open(comm, f"{folder}/rows", "r" if comm.rank else "nonsense")
except (OSError, ValueError) as error:
    assert "mode is one of" in str(error), error
else:
    raise AssertionError("a wrong mode of one rank was no error")
# MPI_Finalize completes what is under way; the file stays open.
left = collective.open(comm, f"{folder}/left", "w")
left.set_view(8_000_000 * comm.rank, collective.TypeMap())
left.iwrite_all(np.full(2_000_000, comm.rank + 1, dtype=np.int32))
if comm.rank == 0:
    print(os.path.dirname(collective._collective.__file__))
