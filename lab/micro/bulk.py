"""Compares bulk transfers with other ways of reading files into memory.

Series are interleaved (A B B A), ferry_lab.stats.judge judges the ratios, and data is verified
once. Prints a table, and writes JSON with --json.

The peers (safetensors, fastsafetensors, runai-model-streamer and KvikIO, and PyTorch, which some
need) are no dependencies of Ferry. --peers names a folder outside the repository for a Python
environment with them; lab/micro/requirements-peers.txt is installed there first, about 8 GB.
Without --peers, this interpreter is searched. Missing or failing peers are reported with the
reason. KvikIO always asks the CUDA driver about memory: without a driver it needs a stand-in, a
libcuda.so.1 in LD_LIBRARY_PATH with the functions it looks up, whose cuPointerGetAttribute returns
CUDA_ERROR_INVALID_VALUE for every address.

--quick takes a file of 256 MiB and a model of 1 GiB, with as many pairs. --only 'hot:
fastsafetensors' and the like measure one peer at a time.
"""

from __future__ import annotations

import concurrent.futures
import contextlib
import os
import subprocess
import sys
import tempfile
import venv
from collections.abc import Iterator
from pathlib import Path

import numpy
from bulk_models import Measure, dropped, models, peaks_mib, peer
from common import MIB, Block, Json, Results, fio, in_turn, make_file, micro, parser, seconds, timed

import ferry
from ferry_lab.stats import judge

REQUIREMENTS = Path(__file__).with_name("requirements-peers.txt")
# Where the target is 1, how much noise the question bears.
NOISE_BORNE = 0.05
KVIKIO_PASSES = 5
# Of the sweeps.
TASKS_MIB = (0.125, 0.25, 1, 4)
WORKERS = (1, 2, 4)
DEPTHS = (2, 8, 32)


def file_of(folder: Path, size: int) -> Path:
    """Returns the large file, which is made when it is first needed."""
    path = folder / "large"
    if not path.exists():
        make_file(path, size)
    return path


def hot_reads(folder: Path, size: int) -> Iterator[Measure]:
    """A file in the page cache, into one NumPy array that is there already."""
    path = file_of(folder, size)
    target = numpy.ones(size, numpy.uint8)
    source = numpy.fromfile(path, numpy.uint8)
    file = ferry.open(path)
    plain = path.open("rb", buffering=0)
    threads = os.cpu_count() or 1
    pool = concurrent.futures.ThreadPoolExecutor(threads)
    pieces = numpy.array_split(numpy.arange(0, size + 1), threads)
    bounds = [(int(p[0]), int(p[-1]) + (1 if i + 1 < threads else 0)) for i, p in enumerate(pieces)]

    def readinto() -> None:
        plain.seek(0)
        view, at = memoryview(target), 0
        while at < size:
            at += plain.readinto(view[at:])

    def copy(bound: tuple[int, int]) -> None:
        numpy.copyto(target[bound[0] : bound[1]], source[bound[0] : bound[1]])

    def read(bound: tuple[int, int]) -> None:
        assert os.preadv(plain.fileno(), [target[bound[0] : bound[1]]], bound[0]) == bound[1] - bound[0]

    ours = timed(lambda: file.read_at(target, 0))
    # What the kernel's copies alone take: one system call for each thread.
    bare = timed(lambda: list(pool.map(read, bounds)))
    memcpy = timed(lambda: list(pool.map(copy, bounds)))
    ours()
    assert numpy.array_equal(target, source)
    yield Measure("hot: bare preads by threads / ferry", ours, bare, 0.95)
    yield Measure("hot: memcpy by threads / bare preads by threads", bare, memcpy, None)
    yield Measure("hot: readinto / ferry", ours, timed(readinto), 0.95)
    yield Measure("hot: memcpy by threads / ferry", ours, memcpy, 0.95)
    yield from kvikio_reads(path, target, ours)
    yield from bare_copies(path)


def bare_copies(path: Path) -> Iterator[Measure]:
    """Whether a mapping of the file, copied past the core's caches, would be a better way than preadv."""

    def times() -> dict[str, float]:
        lines = micro("bare-copies", path, "--threads", os.cpu_count() or 1, "--repeats", 1)
        return {line["measure"]: line["samples"][0] for line in lines}

    for name in ("mapping and streaming stores", "mapping alone", "memory by streaming stores"):
        yield Measure(
            f"hot: bare preads / {name}", lambda name=name: times()[name], lambda: times()["preads of 256 KiB"], None
        )


def kvikio_reads(path: Path, target: numpy.ndarray, ours: Block) -> Iterator[Measure]:
    """KvikIO's path for host memory, with the thread count and task size that are its fastest here."""
    kvikio, defaults = peer("kvikio"), peer("kvikio.defaults")
    if kvikio is None or defaults is None:
        return

    def theirs(threads: int, task_mib: int) -> float:
        settings = {"num_threads": threads, "task_size": task_mib * MIB}
        with defaults.set(settings), kvikio.CuFile(path, "r") as file:
            return seconds(lambda: file.read(target))

    target[:] = 0
    try:
        theirs(1, 4)
    except Exception as error:  # noqa: BLE001  a peer may fail in any way
        print(f"absent: kvikio does not run here: {error}", flush=True)
        return
    assert numpy.array_equal(target, numpy.fromfile(path, numpy.uint8))
    points = [(threads, task_mib) for threads in (1, 2, 4, 8, 16) for task_mib in (1, 4, 16)]
    # Chosen by passes of their own, so that luck in them does not count in the pairs.
    passes = [[theirs(*point) for point in points] for _ in range(KVIKIO_PASSES)]
    medians = numpy.median(passes, axis=0)
    for point, median in zip(points, medians, strict=True):
        print(f"kvikio, {point[0]} threads, tasks of {point[1]} MiB: {median * 1e3:.1f} ms", flush=True)
    threads, task_mib = points[int(numpy.argmin(medians))]
    yield Measure(
        f"hot: kvikio, its best ({threads} threads, tasks of {task_mib} MiB) / ferry", ours,
        lambda: theirs(threads, task_mib), 1.0,
    )  # fmt: skip
    # Beside other work, more threads get more of the CPUs: this tells whether that was it.
    cpus = os.cpu_count() or 1
    yield Measure(f"hot: kvikio, a thread for each CPU ({cpus}) / ferry", ours, lambda: theirs(cpus, 4), None)


def cold_reads(folder: Path, size: int) -> Iterator[Measure]:
    """A file that is not in the page cache; fio reads it directly, through io_uring."""
    path = file_of(folder, size)
    target = numpy.ones(size, numpy.uint8)

    def read_with(engine: ferry.Engine | None) -> float:
        dropped([path])
        with ferry.open(path, engine=engine) as file:
            return seconds(lambda: file.read_at(target, 0))

    def by_fio() -> float:
        dropped([path])
        return size / fio(path, "sequential", MIB, 8)

    yield Measure("cold: fio io_uring direct / ferry", lambda: read_with(None), by_fio, 0.95)


def points(state: str) -> list[tuple[str, ferry.Engine]]:
    """Every combination of settings that is tried, with its name.

    Copies from the page cache have no depth. The route that is not the usual one for this state has a few
    points, one for each number of workers.
    """
    found = []

    def add(route: str, task_mib: float, workers: int, depth: int) -> None:
        engine = ferry.Engine(task_bytes=int(task_mib * MIB), workers=workers, depth=depth, route=route)
        of_depth = f", depth {depth}" if depth else ""
        found.append((f"{route}, tasks of {task_mib:g} MiB, {workers} workers{of_depth}", engine))

    for workers in WORKERS:
        if state == "hot":
            for task in TASKS_MIB:
                add("buffered", task, workers, 0)
            add("direct", 0.25, workers, 8)
        else:
            for task in TASKS_MIB[1:]:
                for depth in DEPTHS:
                    add("direct", task, workers, depth)
            add("buffered", 1, workers, 8)
    return found


def sweeps(folder: Path, size: int) -> Iterator[Measure]:
    """What the engine chooses beside the best point of a sweep, which is found first and then measured anew.

    The file is in the page cache or not; the memory is a NumPy array's, so direct reads have to be staged.
    """
    path = file_of(folder, size)
    target = numpy.ones(size, numpy.uint8)
    chosen = ferry.Engine()

    def read(engine: ferry.Engine, state: str, size_bytes: int) -> float:
        if state == "cold":
            dropped([path])
        with ferry.open(path, engine=engine) as file:
            return seconds(lambda: file.read_at(target[:size_bytes], 0))

    for state, rounds in (("hot", 5), ("cold", 3)):
        for size_bytes in (1 * MIB, 64 * MIB, size):
            if state == "hot":
                read(ferry.Engine(route="buffered"), state, size)
            tried = points(state)
            times: dict[str, list[float]] = {name: [] for name, _ in tried}
            for _ in range(rounds):
                for name, engine in tried:
                    times[name].append(read(engine, state, size_bytes))
            best, engine = min(tried, key=lambda point: numpy.median(times[point[0]]))
            yield Measure(
                f"sweep, {state} {size_bytes // MIB} MiB: best ({best}) / chosen",
                lambda state=state, size_bytes=size_bytes: read(chosen, state, size_bytes),
                lambda state=state, size_bytes=size_bytes, engine=engine: read(engine, state, size_bytes), 0.9,
            )  # fmt: skip


def small_files(folder: Path, _: int) -> Iterator[Measure]:
    """10,000 files of 16 KiB."""
    paths = [folder / f"small{i}" for i in range(10_000)]
    for path in paths:
        if not path.exists():
            path.write_bytes(os.urandom(16 << 10))
    names = [os.fspath(path) for path in paths]

    def read(name: str) -> bytes:
        with open(name, "rb") as file:
            return file.read()

    def read_each() -> None:
        for name in names:
            read(name)

    def bare() -> float:
        numbers = ("--count", len(paths), "--threads", os.cpu_count() or 1, "--repeats", 2)
        [line] = micro("bare-files", folder, "all", *numbers)
        return float(line["samples"][1])

    assert [bytes(c) for c in ferry.read_files(names)] == [read(name) for name in names]
    pool = concurrent.futures.ThreadPoolExecutor(16)
    ours, loop = timed(lambda: ferry.read_files(names)), timed(read_each)
    yield Measure("10,000 files: loop of open/read / ferry", ours, loop, 5.0)
    # Like ours: the loop above lets each file go before it reads the next, into the same memory.
    keeping = timed(lambda: list(map(read, names)))
    yield Measure("10,000 files: loop that keeps the contents / ferry", ours, keeping, None)
    yield Measure("10,000 files: pool of 16 threads / ferry", ours, timed(lambda: list(pool.map(read, names))), 1.0)
    yield Measure("10,000 files: loop of open/read / bare system calls", bare, loop, None)


def random_reads(folder: Path, _: int) -> Iterator[Measure]:
    """A batch of 10,000 reads of 4 KiB, against 2 us each."""
    path = folder / "random"
    make_file(path, 256 * MIB)
    offsets = numpy.random.default_rng(1).integers(0, 256 * MIB - 4096, 10_000).tolist()
    targets = list(numpy.ones((10_000, 4096), numpy.uint8))
    file = ferry.open(path)
    parts = [(file, target, offset) for target, offset in zip(targets, offsets, strict=True)]
    descriptor = os.open(path, os.O_RDONLY)

    def plain() -> None:
        for target, offset in zip(targets, offsets, strict=True):
            os.preadv(descriptor, [target], offset)

    ours = timed(lambda: ferry.read_batch(parts))
    yield Measure("10,000 random 4 KiB: 2 us each / ferry", ours, lambda: 10_000 * 2e-6, 1.0)
    yield Measure("10,000 random 4 KiB: loop of os.preadv / ferry", ours, timed(plain), None)


GROUPS = {
    "hot": hot_reads, "cold": cold_reads, "sweeps": sweeps, "files": small_files, "random": random_reads,
    "models": models,
}  # fmt: skip


class PeerFailed(Exception):
    """What Ferry is to be compared with does not run here."""


def run(measure: Measure, pairs: int) -> Json:
    """Measures pairs in the order A B B A; each of the two against itself is the A/A run.

    Raises PeerFailed when the other's first pass fails.
    """
    measure.ours()
    try:
        measure.theirs()
    except RuntimeError as error:
        raise PeerFailed(f"{measure.name}: {error}") from error
    times = in_turn({"ours_s": measure.ours, "theirs_s": measure.theirs}, max(pairs // 2 * 2, 2))
    return {
        "measure": measure.name, "wanted": measure.wanted, **times,
        "ratios": judge.pair_ratios(times["theirs_s"], times["ours_s"]).tolist(),
        "same": [a / b for one in times.values() for a, b in zip(one[::2], one[1::2], strict=True)],
    }  # fmt: skip


def add(results: Results, line: Json) -> None:
    """Judges one measure."""
    results.lines.append(line)
    wanted = line["wanted"]
    ours, theirs = (numpy.median(line[side]) * 1e3 for side in ("ours_s", "theirs_s"))
    results.add_ratio(
        line["measure"], line["ratios"], line["same"], wanted and ("at least", wanted),
        wanted and max(abs(1 - wanted), NOISE_BORNE), f" ({ours:.1f} ms against {theirs:.1f} ms)",
    )  # fmt: skip


def enter_peers(folder: Path) -> None:
    """Goes on in the interpreter of an environment that has the peers, which is made first if need be."""
    python = folder / "bin" / "python"
    if Path(sys.prefix).resolve() == folder.resolve():
        return
    installed = folder / "installed.txt"
    if not installed.exists() or installed.read_text() != REQUIREMENTS.read_text():
        print(f"installing the peers in {folder}", file=sys.stderr, flush=True)
        venv.create(folder, with_pip=True)
        subprocess.run([python, "-m", "pip", "install", "--quiet", "-r", REQUIREMENTS], check=True)
        installed.write_text(REQUIREMENTS.read_text())
    os.execv(python, [os.fspath(python), "-P", *sys.argv])


@contextlib.contextmanager
def scratch_folder(parent: str, keep: bool) -> Iterator[Path]:
    """Where files are made: a folder that goes again, or one that stays for the next run."""
    if keep:
        folder = Path(parent) / "ferry-bulk"
        folder.mkdir(exist_ok=True)
        yield folder
        return
    with tempfile.TemporaryDirectory(dir=parent, prefix="ferry-bulk-") as scratch:
        yield Path(scratch)


def main() -> None:
    """Measures what is asked for."""
    made = parser("bulk", __doc__)
    made.add_argument("groups", nargs="*", default=[*GROUPS], metavar="GROUP", help=", ".join(GROUPS))
    made.add_argument("--pairs", type=int, default=judge.PAIRS_MIN)
    made.add_argument("--quick", action="store_true", help="a smaller file and a smaller model")
    made.add_argument("--size-mib", type=int, help="of the large file; 1024, with --quick 256")
    made.add_argument("--model-mib", type=int, help="of the model; 4096, with --quick 1024")
    made.add_argument("--keep", action="store_true", help="leave the files in DIR/ferry-bulk, use those there")
    made.add_argument("--peers", type=Path, help="folder of an environment with the peers")
    arguments = made.parse_args()
    if unknown := set(arguments.groups) - set(GROUPS):
        made.error(f"no group {', '.join(sorted(unknown))}; there are {', '.join(GROUPS)}")
    if arguments.peers is not None:
        enter_peers(arguments.peers)
    file_mib = arguments.size_mib or (256 if arguments.quick else 1024)
    model_mib = arguments.model_mib or (1024 if arguments.quick else 4096)
    with Results(arguments.json) as results:
        for group in arguments.groups:
            size = (model_mib if group == "models" else file_mib) * MIB
            with scratch_folder(arguments.dir, arguments.keep) as scratch:
                for measure in GROUPS[group](scratch, size):
                    if arguments.only not in measure.name:
                        continue
                    try:
                        add(results, run(measure, arguments.pairs))
                    except PeerFailed as failed:
                        print(f"absent: {failed}; see above", flush=True)
    for name, (mib, before_mib) in peaks_mib.items():
        print(f"peak memory, {name}: {mib} MiB, {before_mib} of them before the load")


if __name__ == "__main__":
    main()
