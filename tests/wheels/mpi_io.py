"""Writes and reads the file that is given by MPI-IO, with all ranks, and knows nothing of Ferry."""

import sys

import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD
count = 100_000
mine = np.arange(count, dtype=np.int32) + count * comm.rank
file = MPI.File.Open(comm, sys.argv[1], MPI.MODE_CREATE | MPI.MODE_RDWR)
columns = MPI.INT32_T.Create_vector(count, 1, comm.size).Commit()
file.Set_view(comm.rank * mine.itemsize, MPI.INT32_T, columns)
file.Write_all(mine)
file.Write_at_all(count // 2, mine[count // 2 :])
back = np.zeros_like(mine)
file.Read_at_all(0, back)
assert (back == mine).all()
again = np.zeros_like(mine)
file.Seek(0)
file.Read_all(again)
assert (again == mine).all()
file.Close()
columns.Free()
if comm.rank == 0:
    wanted = np.arange(count * comm.size, dtype=np.int32).reshape(comm.size, count).T
    assert (np.fromfile(sys.argv[1], dtype=np.int32).reshape(count, comm.size) == wanted).all()
