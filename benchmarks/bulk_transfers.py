"""Bulk transfers beside what else reads files into memory: benchmarks/bulk_transfers.py [--dir DIR] [--only WORD]

Rivals are measured where their packages can be imported: safetensors, fastsafetensors, kvikio,
runai_model_streamer and torch are no dependencies of Ferry. Every pair of series is interleaved
(A B B A); ratios are judged by ferry.judge, and what was read is compared once. One JSON line per
measure with --json.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import contextlib
import importlib
import json
import mmap
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy

import ferry
from ferry import judge

MIB = 1 << 20
Block = Callable[[], float]
# Where the target is 1, how much noise the question bears.
NOISE_BORNE = 0.05


@dataclass
class Measure:
    """A comparison: our seconds and theirs, and the ratio theirs / ours that is wanted."""

    name: str
    ours: Block
    theirs: Block
    wanted: float | None


def seconds(work: Callable[[], Any]) -> float:
    """Returns how long ``work`` takes."""
    begin = time.perf_counter()
    work()
    return time.perf_counter() - begin


def drop(paths: list[Path]) -> None:
    """Writes files back and takes them out of the page cache; ends the program if they stay."""
    for path in paths:
        with path.open("rb") as file:
            os.fsync(file.fileno())
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        there = ferry.explain(path)["resident_bytes"]
        if there is None or there > path.stat().st_size // 100:
            sys.exit(f"bulk_transfers: {path} stays in the page cache ({there} bytes)")


def make_file(path: Path, size: int) -> None:
    """Writes a file that no layer can compress away."""
    block = os.urandom(MIB)
    with path.open("wb") as file:
        for number in range(size // MIB):
            file.write(number.to_bytes(8, "little") + block[8:])


def hot_reads(folder: Path, size: int) -> Iterator[Measure]:
    """A file in the page cache, into one NumPy array that is there already."""
    path = folder / "large"
    if not path.exists():
        make_file(path, size)
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

    def ours() -> float:
        return seconds(lambda: file.read_at(target, 0))

    def bare() -> None:
        # What the kernel's copies alone take: one system call for each thread.
        def read(bound: tuple[int, int]) -> None:
            assert os.preadv(plain.fileno(), [target[bound[0] : bound[1]]], bound[0]) == bound[1] - bound[0]

        list(pool.map(read, bounds))

    ours()
    assert numpy.array_equal(target, source)
    yield Measure("hot: bare preads by threads / ferry", ours, lambda: seconds(bare), 0.95)
    yield Measure(
        "hot: memcpy by threads / bare preads by threads", lambda: seconds(bare),
        lambda: seconds(lambda: list(pool.map(copy, bounds))), None,
    )  # fmt: skip
    yield Measure("hot: readinto / ferry", ours, lambda: seconds(readinto), 0.95)
    yield Measure(
        "hot: memcpy by threads / ferry", ours, lambda: seconds(lambda: list(pool.map(copy, bounds))), 0.95
    )
    yield from kvikio_reads(path, target, ours)
    yield from bare_copies(path)


def bare_copies(path: Path) -> Iterator[Measure]:
    """Whether a mapping of the file, copied past the core's caches, would be a better way than preadv."""
    program = Path(os.environ.get("FERRY_BUILD_DIR", "build/release")) / "bench_bare_copies"

    def times() -> list[float]:
        command = [program, path, str(os.cpu_count() or 1), "1"]
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
        return [float(word) for word in done.stdout.split()]

    for way, name in ((1, "mapping and streaming stores"), (2, "mapping alone"), (3, "memory by streaming stores")):
        yield Measure(f"hot: bare preads / {name}", lambda way=way: times()[way], lambda: times()[0], None)


def kvikio_reads(path: Path, target: numpy.ndarray, ours: Block) -> Iterator[Measure]:
    """KvikIO's path for host memory, with several thread counts."""
    try:
        kvikio = importlib.import_module("kvikio")
        defaults = importlib.import_module("kvikio.defaults")
        with kvikio.CuFile(path, "r") as file:
            file.read(target[: 1 << 20])
    except Exception as error:  # noqa: BLE001  a rival may fail in any way
        print(f"kvikio: not measured: {error}", file=sys.stderr)
        return
    for threads in (1, 2, 4, 8):

        def theirs(threads: int = threads) -> float:
            with defaults.set({"num_threads": threads}), kvikio.CuFile(path, "r") as file:
                return seconds(lambda: file.read(target))

        yield Measure(f"hot: kvikio, {threads} threads / ferry", ours, theirs, 1.0)


def cold_reads(folder: Path, size: int) -> Iterator[Measure]:
    """A file that is not in the page cache; fio reads it directly, through io_uring."""
    path = folder / "large"
    if not path.exists():
        make_file(path, size)
    target = numpy.ones(size, numpy.uint8)

    def read_with(engine: ferry.Engine | None) -> float:
        drop([path])
        with ferry.open(path, engine=engine) as file:
            return seconds(lambda: file.read_at(target, 0))

    def fio() -> float:
        drop([path])
        command = [
            "fio", "--name=cold", f"--filename={path}", "--readonly", "--direct=1", "--ioengine=io_uring",
            "--registerfiles=1", "--fixedbufs=1", "--rw=read", "--bs=1m", "--iodepth=8", "--output-format=json",
        ]  # fmt: skip
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
        return size / json.loads(done.stdout)["jobs"][0]["read"]["bw_bytes"]

    yield Measure("cold: fio io_uring direct / ferry", lambda: read_with(None), fio, 0.95)


def sweeps(folder: Path, size: int) -> Iterator[Measure]:
    """What the engine chooses beside the best point of a sweep, which is found first and then measured anew."""
    path = folder / "large"
    if not path.exists():
        make_file(path, size)
    target = numpy.ones(size, numpy.uint8)
    chosen = ferry.Engine()
    tasks, workers = (0.125, 0.25, 1, 4), (1, 2, 4)
    hot = [
        (f"tasks of {t:g} MiB, {w} workers", ferry.Engine(task_bytes=int(t * MIB), workers=w))
        for t in tasks for w in workers
    ]  # fmt: skip
    cold = [
        (f"tasks of {t:g} MiB, {w} workers, depth {d}", ferry.Engine(task_bytes=int(t * MIB), workers=w, depth=d))
        for t in tasks[1:] for w in workers for d in (2, 8, 32)
    ]  # fmt: skip

    def read(engine: ferry.Engine, state: str, size_bytes: int) -> float:
        if state == "cold":
            drop([path])
        with ferry.open(path, engine=engine) as file:
            return seconds(lambda: file.read_at(target[:size_bytes], 0))

    for state, points, rounds in (("hot", hot, 5), ("cold", cold, 3)):
        for size_bytes in (1 * MIB, 8 * MIB, 64 * MIB, size):
            if state == "hot":
                read(ferry.Engine(route="buffered"), state, size)
            times: dict[str, list[float]] = {name: [] for name, _ in points}
            for _ in range(rounds):
                for name, engine in points:
                    times[name].append(read(engine, state, size_bytes))
            best, engine = min(points, key=lambda point: numpy.median(times[point[0]]))
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

    def loop() -> None:
        for name in names:
            read(name)

    def bare() -> float:
        program = Path(os.environ.get("FERRY_BUILD_DIR", "build/release")) / "bench_bare_files"
        command = [program, folder, str(len(paths)), str(os.cpu_count() or 1), "2"]
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
        return float(done.stdout.split()[1])

    assert [bytes(c) for c in ferry.read_files(names)] == [read(name) for name in names]
    pool = concurrent.futures.ThreadPoolExecutor(16)

    def ours() -> float:
        return seconds(lambda: ferry.read_files(names))

    yield Measure("10,000 files: loop of open/read / ferry", ours, lambda: seconds(loop), 5.0)
    yield Measure(
        "10,000 files: pool of 16 threads / ferry", ours, lambda: seconds(lambda: list(pool.map(read, names))), 1.0
    )
    yield Measure("10,000 files: loop of open/read / bare system calls", bare, lambda: seconds(loop), None)


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

    def ours() -> float:
        return seconds(lambda: ferry.read_batch(parts))

    yield Measure("10,000 random 4 KiB: 2 us each / ferry", ours, lambda: 10_000 * 2e-6, 1.0)
    yield Measure("10,000 random 4 KiB: loop of os.preadv / ferry", ours, lambda: seconds(plain), None)


def peak_mib() -> int:
    """Returns the largest memory of this process so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024


def in_child(work: Callable[[], Any]) -> float:
    """Runs ``work`` in a child, so that it starts with no memory of its own; its seconds."""
    read_end, write_end = os.pipe()
    if os.fork() == 0:
        try:
            took = seconds(work)
            os.write(write_end, json.dumps([took, peak_mib()]).encode())
        finally:
            os._exit(0)
    os.close(write_end)
    with os.fdopen(read_end, "rb") as pipe:
        text = pipe.read()
    os.wait()
    took, peaks[work.__name__] = json.loads(text)
    return took


peaks: dict[str, int] = {}


def back_memory(size: int) -> None:
    """Has a child use that much memory once, so that a hypervisor that took free memory gives it back now."""
    if os.fork() == 0:
        try:
            memory = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
            memory.madvise(mmap.MADV_HUGEPAGE)
            for at in range(0, size, mmap.PAGESIZE):
                memory[at] = 1
        finally:
            os._exit(0)
    os.wait()


def models(folder: Path, size: int) -> Iterator[Measure]:
    """A model in four shards; every way loads all tensors into host memory."""
    numpy_safetensors = importlib.import_module("safetensors.numpy")
    shards = [folder / f"model-{i}.safetensors" for i in range(4)]
    for number, shard in enumerate(shards):
        if shard.exists():
            continue
        count = size // len(shards) // (16 * MIB)
        rng = numpy.random.default_rng(number)
        numpy_safetensors.save_file(
            {f"s{number}.t{i}": rng.integers(0, 2**32, (4096, 1024), numpy.uint32) for i in range(count)}, shard
        )
    names = [os.fspath(shard) for shard in shards]

    def ferry_load() -> Any:
        return ferry.load_safetensors(names)

    def safetensors_load() -> Any:
        return [numpy_safetensors.load_file(name) for name in names]

    ways: dict[str, Callable[[], Any]] = {"safetensors": safetensors_load}
    try:
        torch_safetensors = importlib.import_module("safetensors.torch")

        def safetensors_torch() -> Any:
            # It maps the file: touch what was loaded, as whoever uses it will.
            return [t.sum() for name in names for t in torch_safetensors.load_file(name).values()]

        def ferry_torch() -> Any:
            return [t.sum() for t in ferry.load_safetensors(names, framework="torch").values()]

        def runai() -> Any:
            streamer = importlib.import_module("runai_model_streamer").SafetensorsStreamer()
            with streamer:
                streamer.stream_files(names)
                return [(name, tensor.clone()) for name, tensor in streamer.get_tensors()]

        def fastsafetensors() -> Any:
            fast = importlib.import_module("fastsafetensors")
            loader = fast.SafeTensorsFileLoader(fast.SingleGroup(), "cpu", nogds=True)
            loader.add_filenames({0: names})
            buffer = loader.copy_files_to_device()
            return [buffer.get_tensor(key) for key in loader.get_keys()]

        for name, module, work in (
            ("safetensors.torch with a look at each", None, safetensors_torch),
            ("runai-model-streamer", "runai_model_streamer", runai),
            ("fastsafetensors", "fastsafetensors", fastsafetensors),
        ):
            try:
                if module is not None:
                    importlib.import_module(module)
                ways[name] = work
            except Exception as error:  # noqa: BLE001
                print(f"{name}: not measured: {error}", file=sys.stderr)
    except ImportError as error:
        print(f"torch: not measured: {error}", file=sys.stderr)
    for state in ("hot", "cold"):
        for name, work in ways.items():

            def prepared(work: Callable[[], Any], state: str = state) -> float:
                if state == "cold":
                    drop(shards)
                back_memory(size + size // 4)
                return in_child(work)

            mine = ferry_torch if name.startswith("safetensors.torch") else ferry_load
            yield Measure(
                f"model of {size // MIB} MiB, {state}: {name} / ferry",
                lambda mine=mine, prepared=prepared: prepared(mine),
                lambda work=work, prepared=prepared: prepared(work), 1.0,
            )  # fmt: skip


GROUPS = {
    "hot": hot_reads, "cold": cold_reads, "sweeps": sweeps, "files": small_files, "random": random_reads,
    "models": models,
}  # fmt: skip


def run(measure: Measure, pairs: int) -> dict[str, Any]:
    """Measures pairs in the order A B B A; each of the two against itself is the A/A run."""
    measure.ours()
    measure.theirs()
    ours, theirs, same = [], [], []
    for _ in range(max(pairs // 2, 1)):
        first, second = measure.ours(), measure.theirs()
        third, fourth = measure.theirs(), measure.ours()
        ours += [first, fourth]
        theirs += [second, third]
        same += [first / fourth, second / third]
    ratios = [b / a for a, b in zip(ours, theirs, strict=True)]
    return {
        "measure": measure.name, "wanted": measure.wanted, "ours_s": ours, "theirs_s": theirs,
        "ratios": ratios, "same": same,
    }  # fmt: skip


def verdict_of(line: dict[str, Any]) -> str:
    """Judges a measure by the rule of ferry.judge, where it has pairs enough for that."""
    if len(line["ratios"]) < judge.PAIRS_MIN:
        return f"(not judged: fewer than {judge.PAIRS_MIN} pairs)"
    margin = max(abs(1 - line["wanted"]), NOISE_BORNE)
    return judge.judge(line["ratios"], line["same"], line["wanted"], margin=margin).verdict


def show(line: dict[str, Any]) -> None:
    """Prints one measure as a row."""
    bounds = judge.median_bounds(line["ratios"])
    noise = judge.median_bounds(line["same"])
    wanted = line["wanted"]
    verdict = "" if wanted is None else verdict_of(line)
    ours, theirs = numpy.median(line["ours_s"]), numpy.median(line["theirs_s"])
    print(
        f"{line['measure']}: {bounds.median:.2f} ({bounds.low:.2f} to {bounds.high:.2f}), wanted "
        f"{wanted}, A/A {noise.low:.2f} to {noise.high:.2f}, {ours * 1e3:.1f} ms against "
        f"{theirs * 1e3:.1f} ms {verdict}",
        flush=True,
    )


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
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--dir", default=tempfile.gettempdir(), help="where files are made")
    parser.add_argument("--only", default="", help=f"groups, with commas: {', '.join(GROUPS)}")
    parser.add_argument("--match", default="", help="measures whose name contains this")
    parser.add_argument("--pairs", type=int, default=20)
    parser.add_argument("--size-mib", type=int, default=1024, help="of the large file")
    parser.add_argument("--model-mib", type=int, default=4096, help="of the model")
    parser.add_argument("--keep", action="store_true", help="leave the files in DIR/ferry-bulk, use those there")
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    lines = []
    for group in arguments.only.split(",") if arguments.only else GROUPS:
        size = (arguments.model_mib if group == "models" else arguments.size_mib) * MIB
        with scratch_folder(arguments.dir, arguments.keep) as scratch:
            for measure in GROUPS[group](scratch, size):
                if arguments.match not in measure.name:
                    continue
                lines.append(run(measure, arguments.pairs))
                show(lines[-1])
    if peaks:
        print("peak memory, MiB:", ", ".join(f"{name} {mib}" for name, mib in peaks.items()))
    if arguments.json:
        arguments.json.write_text(json.dumps(lines, indent=1) + "\n")


if __name__ == "__main__":
    main()
