"""An h5py program that knows nothing of Ferry; hdf5.py runs it with HDF5's own driver and with Ferry's.

FILE write|read CHUNK_BYTES row|once MIB: writes or reads a dataset in chunks of one row, by a call
for each row or by one call. Prints the seconds from opening to closing the file; what was read is
compared afterwards.
"""

from __future__ import annotations

import sys
import time

import h5py
import numpy


def values(rows: int, columns: int) -> numpy.ndarray:
    """Returns what the dataset holds: no two rows alike."""
    return numpy.arange(rows * columns, dtype=numpy.float64).reshape(rows, columns)


def main() -> None:
    """Does it."""
    path, operation, chunk_bytes, call, mib = sys.argv[1:]
    columns = int(chunk_bytes) // 8
    rows = (int(mib) << 20) // int(chunk_bytes)
    wanted = values(rows, columns)
    data = wanted if operation == "write" else numpy.zeros_like(wanted)
    begin = time.perf_counter()
    with h5py.File(path, "w" if operation == "write" else "r") as file:
        if operation == "write":
            dataset = file.create_dataset("x", data.shape, data.dtype, chunks=(1, columns))
        else:
            dataset = file["x"]
        for row in range(rows) if call == "row" else (slice(None),):
            if operation == "write":
                dataset[row] = data[row]
            else:
                dataset.read_direct(data, row, row)
    elapsed_s = time.perf_counter() - begin
    if not numpy.array_equal(data, wanted):
        sys.exit(f"{path} holds something else")
    print(f"{elapsed_s:.6f}")


if __name__ == "__main__":
    main()
