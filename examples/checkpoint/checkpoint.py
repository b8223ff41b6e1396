"""checkpoint.cpp in Python: any number of ranks writes the field, any number reads it.

mpiexec -n 16 python checkpoint.py write /data/field
mpiexec -n 9 python checkpoint.py read /data/field

Both programs use the same file format.
"""

from __future__ import annotations

import json
import sys

import numpy as np
from mpi4py import MPI

from ferry import collective

SIZE_Z, SIZE_Y, SIZE_X = 20, 180, 240


def main(operation: str, path: str) -> int:
    """Writes or reads this rank's block; returns the exit status."""
    comm = MPI.COMM_WORLD
    rows, columns = MPI.Compute_dims(comm.size, 2)
    row, column = divmod(comm.rank, columns)
    x, x_end = column * SIZE_X // columns, (column + 1) * SIZE_X // columns
    y, y_end = row * SIZE_Y // rows, (row + 1) * SIZE_Y // rows
    # No two values of the field are alike.
    z_index, y_index, x_index = np.ogrid[0:SIZE_Z, y:y_end, x:x_end]
    field = ((z_index * SIZE_Y + y_index) * SIZE_X + x_index).astype(np.float64)
    view = collective.TypeMap.subarray([SIZE_Z, SIZE_Y, SIZE_X], field.shape, [0, y, x], field.itemsize)
    # As many writers as the decomposition has rows, like checkpoint.cpp.
    with collective.open(comm, path, "w" if operation == "write" else "r", writers=rows) as file:
        file.set_view(0, view)
        right = True
        if operation == "write":
            file.write_all(field)
            file.sync()
        else:
            got = np.empty_like(field)
            right = file.read_all(got) == got.nbytes and bool((got == field).all())
            if not right:
                print(f"checkpoint.py: rank {comm.rank} has read something else", file=sys.stderr)
        statistics = file.statistics()
    if comm.rank == 0:
        print(f"method {statistics['method']} with {statistics['writers']} writers: {statistics['reason']}")
        print(json.dumps(statistics))
    return 0 if comm.allreduce(right, MPI.LAND) else 1


if __name__ == "__main__":
    if len(sys.argv) != 3 or sys.argv[1] not in ("write", "read"):
        sys.exit("usage: checkpoint.py write|read FILE")
    try:
        sys.exit(main(sys.argv[1], sys.argv[2]))
    except OSError as error:  # the same on all ranks
        if MPI.COMM_WORLD.rank == 0:
            print(f"checkpoint.py: {error}", file=sys.stderr)
        sys.exit(1)
