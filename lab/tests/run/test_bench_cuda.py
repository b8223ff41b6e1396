"""``ferry bench --device cuda``, with its kernel on threads of the mock CUDA driver."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import pytest
from documents import measured
from ferry import programs
from measured import Lines, corrupt, failure, of_type
from processes import is_measuring, started, wait_until
from support import TIMEOUT_S, Command, cell, run_bench

BUILD = programs.find_program().parent
MOCK = BUILD / "libferry_mock_cuda.so"
KERNELS = BUILD / "libferry_mock_kernels.so"
ON_MOCK = {"FERRY_CUDA_LIBRARY": str(MOCK), "FERRY_MOCK_KERNELS": str(KERNELS)}
WRITE = {"operation": "write", "seed": 3}


def has_kernels() -> bool:
    """Whether nvcc was available when this ferry-bench was built."""
    plan = {"runtime": {"device": "cuda"}, "cells": [cell(Path("/dev/null"))]}
    _, lines = run_bench(plan, env={**os.environ, "FERRY_CUDA_LIBRARY": "/none"})
    return not any("has no kernels" in line.get("message", "") for line in lines)


with_kernels = pytest.mark.skipif(
    not has_kernels(), reason="this ferry-bench was built without nvcc, so it has no kernels"
)


def on_mock(command: Command, lanes: int = 1) -> dict[str, str]:
    assert MOCK.exists() and KERNELS.exists(), "build ferry_mock_cuda and ferry_mock_kernels"
    return {**command.environment, **ON_MOCK, "FERRY_MOCK_LANES": str(lanes)}


def run_on_mock(cells: Lines, device: str = "cuda") -> tuple[int, Lines]:
    return run_bench({"cells": cells, "runtime": {"device": device}}, env={**os.environ, **ON_MOCK})


def failure_on_mock(cells: Lines, status: int = 1) -> dict[str, Any]:
    return failure(cells, status, {"env": {**os.environ, **ON_MOCK}}, runtime={"device": "cuda"})


@with_kernels
@pytest.mark.parametrize("placement", ["host", "compute", "automatic"])
@pytest.mark.parametrize("lanes", [1, 4])
def test_every_placement_writes_and_reads(command: Command, scratch: Path, placement: str, lanes: int) -> None:
    flags = ["--placement", placement, "-b", "128k", "-t", "16k", "-i", "2", "-e", "-W", "-R"]
    bench = ["bench", "--device", "cuda", "--threads", "2", *flags, "file"]
    document, shown = measured(command, *bench, env=on_mock(command, lanes))
    assert list(scratch.iterdir()) == []
    assert "device cuda, server CPUs" in shown
    assert document["settings"]["device"] == "cuda"
    assert {runtime["device"] for runtime in document["environment"]["runtimes"]} == {"cuda"}
    for row in document["rows"]:
        cached = placement != "host"
        for sample in row["repeats"]:
            assert sample["verified"] and sample["bytes"] == 256 << 10
            assert sample["operations"] == 16 and sample["counters"]["calls"] > 0
            assert sample["elapsed_ns"] >= sample["io_ns"] > 0
            assert (sample["sync_ns"] > 0) == (row["operation"] == "write")
            assert (sample["cache"] is not None) == cached


@with_kernels
@pytest.mark.parametrize(
    "flags",
    [
        ["-F", "--threads", "3"],
        ["-z", "-s", "2", "--threads", "2"],
        ["-z", "--queue-depth", "5"],
        ["--distribution", "zipf:1.1", "--queue-depth", "5"],
        ["--distribution", "hotspot:20/80", "--threads", "2", "--placement", "compute"],
        ["-t", "5000", "-b", "50000", "--queue-depth", "3", "--threads", "2", "-C"],
        ["-g", "--threads", "2"],
        ["--latency", "--threads", "2", "-t", "1k"],
        ["--cold", "--direct"],
        ["--placement", "compute", "--warm", "--threads", "2", "-Z"],
        ["--placement", "automatic", "--page-size", "4k", "-t", "1000", "-b", "10000"],
    ],
    ids=" ".join,
)
def test_flags_are_those_of_the_cpu_device(command: Command, scratch: Path, flags: list[str]) -> None:
    sizes = [] if "-b" in flags else ["-b", "64k", "-t", "4k"]
    done = command.run("bench", "--device", "cuda", *sizes, *flags, "-W", "-R", "file", env=on_mock(command))
    assert done.stderr == ""
    assert done.returncode == 0
    assert list(scratch.iterdir()) == []


@with_kernels
@pytest.mark.parametrize("at", [0, 4095, 33333, 65535])
@pytest.mark.parametrize("known", [True, False])
def test_a_corrupted_byte_is_caught(data: Path, at: int, known: bool) -> None:
    corrupt(data, at)
    if known:
        error = failure_on_mock([cell(data, expect_pattern_seed=5)])
        assert f"wrong at byte {at}," in error["message"]
    else:  # pread's result is right
        assert run_on_mock([cell(data)])[0] == 0


@with_kernels
def test_what_device_and_cpu_write_is_the_same(tmp_path: Path) -> None:
    made = []
    for device in ("cpu", "cuda"):
        made.append(tmp_path / device)
        status, _ = run_on_mock([cell(made[-1], threads=2, keep=True, **WRITE)], device)
        assert status == 0
    assert made[0].read_bytes() == made[1].read_bytes()


@with_kernels
def test_a_warm_cache_is_read_without_the_storage(data: Path) -> None:
    way = {"placement": "compute", "expect_pattern_seed": 5, "threads": 2}
    cells = [cell(data, id="warm", warm=True, **way), cell(data, id="cold", **way)]
    status, lines = run_on_mock(cells)
    assert status == 0
    states = {s["cell"]: (s["device_cache_state"], s["counters"]["bytes_read"] > 0) for s in of_type(lines, "sample")}
    assert states == {"warm": ("warm", False), "cold": ("cold", True)}


@with_kernels
def test_what_fails_in_the_kernel_names_the_file(tmp_path: Path) -> None:
    missing = tmp_path / "no" / "file"
    error = failure_on_mock([cell(missing, **WRITE, threads=2)])
    assert error["errno"] == 2 and str(missing) in error["message"]


@with_kernels
@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"interface": "posix"}, "interface must be ferry"),
        ({"program": "once"}, "program must be stream"),
        ({"placement": "service"}, "placement cannot be service"),
        ({"operation": "mixed", "read_percent": 50}, "operation cannot be mixed"),
        ({"time_ms": 5}, "time_ms cannot be chosen"),
        ({"rate_bytes_per_s": 5}, "rate_bytes_per_s cannot be chosen"),
        ({"placement": "compute", "cache_switches": []}, "cache_switches cannot be chosen"),
    ],
)
def test_plans_that_kernels_cannot_do_are_refused(data: Path, changes: dict[str, Any], why: str) -> None:
    assert why in failure_on_mock([cell(data, **changes)], status=2)["message"]


@pytest.mark.parametrize("driver", ["/none/libcuda.so.1", ""])
def test_without_a_gpu_one_line_says_what_to_do(command: Command, scratch: Path, driver: str) -> None:
    environment = {**command.environment, "FERRY_CUDA_LIBRARY": driver}
    if not driver and Path("/dev/nvidiactl").exists():
        pytest.skip("there is a GPU")
    bench = ["bench", "--device", "cuda", "-b", "64k", "-t", "4k", "f"]
    message = command.fails(*bench, says="--device cpu", env=environment)
    assert "install NVIDIA's driver" in message or "put CUDA's nvcc on the PATH" in message
    assert list(scratch.iterdir()) == []


@with_kernels
def test_interrupted(command: Command, scratch: Path) -> None:
    command.environment = on_mock(command)
    with started(command, "bench", "--device", "cuda", "-b", "1m", "-i", "100000", "-w", "file") as process:
        wait_until(lambda: any(scratch.rglob("*")) and is_measuring(command))
        os.killpg(process.pid, signal.SIGINT)
        _, message = process.communicate(timeout=TIMEOUT_S)
    assert process.returncode == 130
    assert list(scratch.iterdir()) == []
    assert message.strip() == "ferry: interrupted; scratch files are removed"
