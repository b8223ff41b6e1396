"""Compares an unmodified MPI program, plain, with the same program under ferry run --mpi-io.

The program is mpi_program.c, which is compiled here. Its ranks open one file, set a view, and move
their data by one collective call (MPI_File_write_at_all, MPI_File_read_at_all); open and close
count, but not a first open of another file there. Every byte that was read is compared, and so is
every file that was written. Each pair is in the order A B B A. `bare` does only the irreducible
work: each rank moves its share of the same file as one contiguous part, by pwrite or pread of 4 MiB,
without MPI-IO and in no order.

interleaved  pieces of --pieces KiB of all ranks in turn
blocks       one part for each rank
subarray     a square of each rank in an array of two dimensions, in pieces of 1 KiB
chunks       HDF5: a dataset in chunks, of which each rank has every other column (where Debian's
             parallel HDF5 is installed)
records      PnetCDF: records of two variables in turn, buffered collectively (where it is installed)

Writes make a new file. Reads are of a file in the page cache, or, with `cold`, of one that the
kernel was asked to drop. With --uri the program opens that under Ferry, and a file in --dir, where
the same storage is mounted, plain. The mount may then have all that is read in memory, and Ferry
has nothing; for a cold read on the rig's CephFS, plain programs get a new ceph-fuse. That one reads
ahead, as by default; the rig's mount does not.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import storages
from collective import ENVIRONMENT
from common import AGAIN, BUILD, MIB, Results, Target, drop, environment_of_run, in_turn, mpiexec_of, output, parser

from ferry_lab.stats import judge

SOURCE = Path(__file__).with_name("mpi_program.c")
PATTERNS = ("interleaved", "blocks", "subarray", "chunks", "records")
OPERATIONS = ("write", "read", "cold read")
TARGETS: dict[str, Target] = {
    "write": ("at least", 1.3), "read": ("at least", 1.5), "cold read": ("at least", 1.3),
}  # fmt: skip
PACKAGES = {"chunks": ("WITH_HDF5", "hdf5-mpich"), "records": ("WITH_PNETCDF", "pnetcdf")}


@dataclass(frozen=True)
class Case:
    """One measure: what the ranks do."""

    ranks: int
    pattern: str
    operation: str
    piece: int

    @property
    def name(self) -> str:
        """Names it in the table."""
        of = f" of {self.piece >> 10} KiB" if self.pattern == "interleaved" else ""
        return f"{self.ranks} ranks, {self.pattern}{of}, {self.operation}"


class Program:
    """The compiled program, what it takes to run it, and its files."""

    def __init__(self, folder: Path, arguments: argparse.Namespace) -> None:
        self.mpiexec = mpiexec_of(arguments.build)
        self.compiled = folder / "program"
        self.total_bytes = arguments.mib * MIB
        self.there = Path(arguments.dir) / f"{folder.name}.data"
        self.first = self.there.with_suffix(".first")
        self.uri = arguments.uri
        self.missing: list[str] = []
        words: list[str] = []
        for pattern, (macro, package) in PACKAGES.items():
            found = subprocess.run(
                ["pkg-config", "--cflags", "--libs", package], capture_output=True, text=True, check=False
            )
            if found.returncode == 0:
                words += [f"-D{macro}", *found.stdout.split()]
            else:
                self.missing.append(pattern)
        compiler = Path(self.mpiexec).with_name(Path(self.mpiexec).name.replace("mpiexec", "mpicc"))
        output(compiler, "-O2", "-o", self.compiled, SOURCE, *words)
        self.environments = {
            "plain": {**ENVIRONMENT, **os.environ},
            "run": {**ENVIRONMENT, **environment_of_run("--mpi-io")},
        }

    def named(self, way: str, file: Path, mount: Path) -> str:
        """Returns a file as a way opens it."""
        if way != "run" or not self.uri:
            return os.fspath(mount / file.name)
        base, mark, settings = self.uri.partition("?")
        return f"{base.rstrip('/')}/{file.name}{mark}{settings}"

    def seconds(self, way: str, case: Case) -> float:
        """Runs the program once; a file that it writes is made anew."""
        if case.operation == "write":
            self.there.unlink(missing_ok=True)
        elif case.operation == "cold read" and not self.uri:
            drop(self.there)
        elif case.operation == "cold read" and way != "run":
            with storages.fuse() as mount:
                return self.run(way, "read", case, mount / self.uri.partition("?")[0].removeprefix("ceph:").strip("/"))
        return self.run(way, case.operation.split()[-1], case)

    def run(self, way: str, operation: str, case: Case, mount: Path | None = None) -> float:
        """Runs the program once and returns the time of its slowest rank."""
        environment = self.environments["run" if way == "run" else "plain"]
        path, first = (self.named(way, file, mount or file.parent) for file in (self.there, self.first))
        words = (way, operation, case.pattern, path, self.total_bytes // case.ranks, case.piece, first)
        return float(output(self.mpiexec, "-n", case.ranks, self.compiled, *words, environment=environment))


def cases(arguments: argparse.Namespace, program: Program) -> Iterator[Case]:
    """Gives what is asked for."""
    for pattern in PATTERNS:
        pieces = {"interleaved": [int(kib) << 10 for kib in arguments.pieces.split(",")], "subarray": [1024]}
        for piece in pieces.get(pattern, [MIB]):
            for ranks in map(int, arguments.ranks.split(",")):
                for operation in OPERATIONS:
                    case = Case(ranks, pattern, operation, piece)
                    cannot_be_cold = operation == "cold read" and arguments.uri.startswith(("nfs:", "pvfs2:"))
                    if arguments.only not in case.name or cannot_be_cold:
                        continue
                    if pattern in program.missing:
                        print(f"left out: {case.name} ({PACKAGES[pattern][1]} is not installed)", file=sys.stderr)
                        continue
                    yield case


def measure(case: Case, program: Program, pairs: int, results: Results) -> None:
    """Measures one case, checks what both wrote, and judges the ratios."""
    program.there.unlink(missing_ok=True)
    if case.operation == "write":
        program.run("run", "write", case)
        program.run("plain", "read", case)  # which compares every byte
    else:
        program.run("plain", "write", case)
    ways = {
        way: lambda way=way: program.seconds("plain" if way == AGAIN else way, case)
        for way in ("plain", "run", "bare", AGAIN)
    }
    samples = in_turn(ways, pairs)
    program.there.unlink(missing_ok=True)
    ratios = judge.pair_ratios(samples["plain"], samples["run"])
    same = judge.pair_ratios(samples["plain"], samples[AGAIN])
    results.lines.append({"name": case.name, "samples": samples})
    results.add_ratio(f"{case.name}: plain / run", ratios, same, TARGETS[case.operation])
    results.add_ratio(f"{case.name}: plain / bare", judge.pair_ratios(samples["plain"], samples["bare"]), same, None)


def main() -> None:
    """Measures what is asked for."""
    made = parser("mpi_programs", __doc__)
    made.add_argument("--ranks", default="2,4,8", help="with commas between them")
    made.add_argument("--pieces", default="4,64", help="of interleaved, in KiB, with commas between them")
    made.add_argument("--mib", type=int, default=64, help="size of the file")
    made.add_argument("--pairs", type=int, default=judge.PAIRS_MIN)
    made.add_argument("--uri", default="", help="a folder, which Ferry reaches without a mount; --dir is its mount")
    made.add_argument("--build", type=Path, default=BUILD, help="a build directory; of the checkout: build/release")
    arguments = made.parse_args()
    with tempfile.TemporaryDirectory(prefix="ferry-mpi-programs-") as scratch:
        program = Program(Path(scratch), arguments)
        program.first.touch()
        try:
            with Results(arguments.json) as results:
                for case in cases(arguments, program):
                    measure(case, program, arguments.pairs, results)
        finally:
            for file in program.there, program.first:
                file.unlink(missing_ok=True)
            shutil.rmtree(scratch, ignore_errors=True)


if __name__ == "__main__":
    main()
