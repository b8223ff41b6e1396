"""Measures whether a program computes while its MPI-IO is under way.

Two ranks make steps that compute for a fixed amount of work and write or read a file: one after the
other, by nonblocking transfers with and without tests between parts of the work, and by split ones,
all collective; `alone`, by calls that are not, each rank's data in one piece. They run under ferry
run --mpi-io, with and without MPI_THREAD_MULTIPLE. The ways take turns. `hidden` is the share of the
shorter one of computing and transferring that a step saves.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics

from common import BUILD, console, mpiexec_of, output, parser, write_json
from rich.table import Table


def steps(arguments: argparse.Namespace, thread: str) -> dict[str, list[float]]:
    """Returns the seconds of each step by the name of its way."""
    environment = {**os.environ, "LD_PRELOAD": str(BUILD / "libferry_mpiio.so")}
    words = [arguments.file, arguments.mib, arguments.ms, arguments.repeats, thread]
    printed = output(mpiexec_of(BUILD), "-n", arguments.ranks, BUILD / "ferry-overlap", *words, environment=environment)
    return {line["way"]: line["seconds"] for line in map(json.loads, printed.splitlines())}


def main() -> None:
    """Measures, and prints a table."""
    made = parser("overlap", __doc__)
    made.add_argument("--file", required=True, help="a path or a URI; is made and stays")
    made.add_argument("--mib", type=int, default=16, help="of each rank")
    made.add_argument("--ms", type=float, default=200, help="of computing on an idle CPU")
    made.add_argument("--ranks", type=int, default=2)
    made.add_argument("--repeats", type=int, default=20)
    arguments = made.parse_args()
    table = Table("thread level", "way", "median ms", "quartiles", "one after the other / this, median", "hidden")
    document = {}
    for thread in ("multiple", "single"):
        document[thread] = measured = steps(arguments, thread)
        for way, seconds in measured.items():
            direction = way.partition(",")[0]
            calls = f"{direction}, alone" if "alone" in way else direction
            serial = measured[f"{calls}, one after the other"]
            parts = (f"{direction}, compute", f"{calls}, transfer")
            shorter = min(statistics.median(measured[part]) for part in parts)
            saved = [before - now for before, now in zip(serial, seconds, strict=True)]
            ratio = statistics.median(before / now for before, now in zip(serial, seconds, strict=True))
            low, middle, high = (quartile * 1e3 for quartile in statistics.quantiles(seconds, n=4))
            cells = [thread, way, f"{middle:.0f}", f"{low:.0f} to {high:.0f}"]
            if "nonblocking" in way or "split" in way:
                cells += [f"{ratio:.2f}", f"{statistics.median(saved) / shorter:.2f}"]
            table.add_row(*cells)
    console().print(table)
    write_json(arguments.json, document)


if __name__ == "__main__":
    main()
