"""Compares HDF5's files by Ferry's driver with the same files by HDF5's own, sec2.

The program is hdf5_program.py: h5py, a dataset in chunks of one row, whole in memory. Each pair is
in the order A B B A. Storages:

local  a file in --dir by both; `cold` is read when the kernel was asked to drop it
nfs    the rig's server, by URI and, with sec2, through the mount of ferry run --map
ceph   the rig's cluster, by URI and, with sec2, through ceph-fuse

Reads of a server follow a drop of the kernel's caches, and reading through a mount begins with a
new one. Ferry's writes to a server end with a sync, as closing a file does; sec2's do not. Servers
are started and stopped; that needs root.
"""

from __future__ import annotations

import contextlib
import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from common import AGAIN, BUILD, Results, drop, in_turn, output, parser
from storages import fuse, rig

from ferry_lab.stats import judge

PROGRAM = Path(__file__).with_name("hdf5_program.py")
FERRY = {"HDF5_DRIVER": "ferry", "HDF5_PLUGIN_PATH": os.fspath(BUILD / "ferry-hdf5")}
CHUNKS = {"1 MiB": 1 << 20, "64 KiB": 64 << 10}
TARGETS = {"local": 0.98, "nfs": 1.5, "ceph": 1.5}


@dataclass(frozen=True)
class Place:
    """Where the file is: for Ferry, for sec2, and what comes before each reading."""

    ours: str
    mounted: Callable[[], contextlib.AbstractContextManager[tuple[Path, list[str]]]]
    forget: Callable[[], None]


def forget_all() -> None:
    """Has the kernel drop what it keeps of all files."""
    os.sync()
    Path("/proc/sys/vm/drop_caches").write_text("3\n")


@contextlib.contextmanager
def place_of(storage: str, folder: Path) -> Iterator[Place]:
    """Gives the file of a storage."""
    name = "hdf5.h5"
    if storage == "local":
        file = folder / name
        yield Place(os.fspath(file), lambda: contextlib.nullcontext((file, [])), lambda: drop(file))
        return
    with rig(storage) as uri:
        if storage == "ceph":

            @contextlib.contextmanager
            def mounted() -> Iterator[tuple[Path, list[str]]]:
                with fuse() as mount:
                    yield mount / name, []
        else:

            @contextlib.contextmanager
            def mounted() -> Iterator[tuple[Path, list[str]]]:
                words = [sys.executable, "-P", "-m", "ferry", "run", "--map", f"{folder}={uri('')}", "--"]
                yield folder / name, words

        yield Place(uri(name), mounted, forget_all)


def seconds(place: Place, is_ours: bool, words: tuple[object, ...]) -> float:
    """Runs the program once."""
    command = [sys.executable, "-P", PROGRAM]
    if is_ours:
        return float(output(*command, place.ours, *words, environment={**os.environ, **FERRY}))
    with place.mounted() as (file, prefix):
        return float(output(*prefix, *command, file, *words))


def main() -> None:
    """Measures what is asked for."""
    made = parser("hdf5", __doc__)
    made.add_argument("storage", choices=TARGETS)
    made.add_argument("--mib", type=int, default=256, help="of the dataset")
    made.add_argument("--pairs", type=int, default=judge.PAIRS_MIN)
    made.add_argument("--chunks", choices=CHUNKS, help="only these (%(choices)s)")
    options = made.parse_args()
    target = ("at least", TARGETS[options.storage])
    with (
        tempfile.TemporaryDirectory(dir=options.dir, prefix="ferry-hdf5-") as folder,
        place_of(options.storage, Path(folder)) as place,
        Results(options.json) as results,
    ):
        kinds = [("write", "row", False), ("read", "row", True), ("read", "once", True)]
        if options.storage == "local":
            kinds += [("read", "row", False), ("read", "once", False)]
        for label, chunk_bytes in CHUNKS.items():
            if options.chunks not in (None, label):
                continue
            seconds(place, True, ("write", chunk_bytes, "row", options.mib))  # what is read
            for operation, call, is_cold in kinds:
                cold = " cold" if is_cold and operation == "read" else ""
                name = f"{options.storage}, chunks of {label}, {operation} {call}{cold}"
                if options.only not in name:
                    continue
                words = (operation, chunk_bytes, call, options.mib)
                ways = {
                    way: lambda ours=way == "ferry", words=words: seconds(place, ours, words)
                    for way in ("sec2", "ferry", AGAIN)
                }
                samples = in_turn(ways, options.pairs, place.forget if cold else None)
                results.lines.append({"name": name, "mib": options.mib, "samples": samples})
                ratios = judge.pair_ratios(samples["sec2"], samples["ferry"])
                same = judge.pair_ratios(samples["sec2"], samples[AGAIN])
                results.add_ratio(f"{name}: sec2 / Ferry", ratios, same, target)


if __name__ == "__main__":
    main()
