"""Models in safetensors files, loaded by Ferry and by others; and what they share with bulk.py."""

from __future__ import annotations

import importlib
import json
import mmap
import os
import resource
import sys
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy
from common import MIB, Block, drop, seconds

import ferry


@dataclass
class Measure:
    """A comparison: our seconds and theirs, and the ratio theirs / ours that is wanted."""

    name: str
    ours: Block
    theirs: Block
    wanted: float | None


def dropped(paths: list[Path]) -> None:
    """Takes files out of the page cache; ends the program if they stay."""
    for path in paths:
        drop(path)
        there = ferry.explain(path)["resident_bytes"]
        if there is None or there > path.stat().st_size // 100:
            sys.exit(f"bulk: {path} stays in the page cache ({there} bytes)")


def peer(module: str) -> Any:
    """Imports a peer's package, or says why it cannot be measured and returns None."""
    try:
        return importlib.import_module(module)
    except Exception as error:  # noqa: BLE001  a peer may fail in any way
        print(f"absent: {module} cannot be imported: {error}", flush=True)
        return None


def peak_mib() -> int:
    """Returns the largest memory of this process so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024


def in_child(name: str, work: Callable[[], Any]) -> float:
    """Runs ``work`` in a child, so that it starts with no memory of its own; its seconds.

    Raises RuntimeError when it fails.
    """
    read_end, write_end = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            before_mib = peak_mib()
            took = seconds(work)
            os.write(write_end, json.dumps([took, peak_mib(), before_mib]).encode())
        except BaseException:  # noqa: BLE001  a peer may fail in any way
            traceback.print_exc()
        finally:
            os._exit(0)
    os.close(write_end)
    with os.fdopen(read_end, "rb") as pipe:
        text = pipe.read()
    os.waitpid(child, 0)
    if not text:
        raise RuntimeError(f"{name} failed")
    took, *peaks_mib[name] = json.loads(text)
    return took


# The largest memory of the last process that loaded so, and what it had before, as its parent's child.
peaks_mib: dict[str, list[int]] = {}


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


def make_model(folder: Path, size: int) -> list[Path]:
    """Makes a model in four shards of tensors of 16 MiB."""
    numpy_safetensors = importlib.import_module("safetensors.numpy")
    shards = [folder / f"model-{i}.safetensors" for i in range(4)]
    count = size // len(shards) // (16 * MIB)
    for number, shard in enumerate(shards):
        if shard.exists():
            continue

        def make(number: int = number, shard: Path = shard) -> None:
            rng = numpy.random.default_rng(number)
            numpy_safetensors.save_file(
                {f"s{number}.t{i}": rng.integers(0, 2**32, (4096, 1024), numpy.uint32) for i in range(count)}, shard
            )

        # What a shard leaves in this process's memory would be in the peaks of all loads.
        in_child("making the model", make)
    peaks_mib.clear()
    return shards


def ways_of_peers(names: list[str]) -> dict[str, Callable[[], Any]]:
    """Every way to load all tensors into host memory of the packages that are here."""
    numpy_safetensors = peer("safetensors.numpy")
    torch_safetensors, fast = peer("safetensors.torch"), peer("fastsafetensors")
    streamers = peer("runai_model_streamer")

    def safetensors_numpy() -> Any:
        return [numpy_safetensors.load_file(name) for name in names]

    def safetensors_torch() -> Any:
        # It maps the file: touch what was loaded, as its user will.
        return [t.sum() for name in names for t in torch_safetensors.load_file(name).values()]

    def runai() -> Any:
        with streamers.SafetensorsStreamer() as streamer:
            streamer.stream_files(names)
            # What it yields is in a buffer that it uses again.
            return [(name, tensor.clone()) for name, tensor in streamer.get_tensors()]

    def fastsafetensors() -> Any:
        loader = fast.SafeTensorsFileLoader(fast.SingleGroup(), "cpu", nogds=True)
        loader.add_filenames({0: names})
        buffer = loader.copy_files_to_device()
        return [buffer.get_tensor(key) for key in loader.get_keys()]

    ways = {
        "safetensors": (numpy_safetensors, safetensors_numpy),
        "safetensors for PyTorch, each tensor looked at": (torch_safetensors, safetensors_torch),
        "runai-model-streamer": (streamers, runai),
        "fastsafetensors": (fast, fastsafetensors),
    }
    return {name: work for name, (module, work) in ways.items() if module is not None}


def models(folder: Path, size: int) -> Iterator[Measure]:
    """A model in four shards, in the page cache and not."""
    shards = make_model(folder, size)
    names = [os.fspath(shard) for shard in shards]

    def ferry_numpy() -> Any:
        return ferry.load_safetensors(names)

    def ferry_torch() -> Any:
        return [t.sum() for t in ferry.load_safetensors(names, framework="torch").values()]

    ways = ways_of_peers(names)
    for state in ("hot", "cold"):
        for name, work in ways.items():

            def prepared(name: str, work: Callable[[], Any], state: str = state) -> float:
                if state == "cold":
                    dropped(shards)
                back_memory(size + size // 4)
                return in_child(name, work)

            looks = "PyTorch" in name
            mine = ("ferry for PyTorch, looked at", ferry_torch) if looks else ("ferry", ferry_numpy)
            yield Measure(
                f"model of {size // MIB} MiB, {state}: {name} / ferry",
                lambda mine=mine, prepared=prepared: prepared(*mine),
                lambda name=name, work=work, prepared=prepared: prepared(name, work), 1.0,
            )  # fmt: skip
