"""GPU memory: all of ``on_mock_gpu.py`` in a process whose CUDA driver is the tests' mock."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy
import pytest

import ferry
from support import Command, run_python

HERE = Path(__file__).resolve().parent
BUILD = Path(os.environ.get("FERRY_BUILD_DIR", HERE.parents[1] / "build" / "release"))
MOCK = BUILD / "libferry_mock_cuda.so"
MOCK_CUFILE = BUILD / "libferry_mock_cufile.so"


def gpudirect(words: str) -> dict[str, str]:
    """Returns the environment that uses the mock cuFile, with these answers."""
    assert MOCK_CUFILE.exists(), f"{MOCK_CUFILE} is missing: build the target ferry_mock_cufile"
    return {"FERRY_GPUDIRECT": "on", "FERRY_CUFILE_LIBRARY": str(MOCK_CUFILE), "FERRY_MOCK_CUFILE": words}


def test_on_the_mock_driver(tmp_path: Path) -> None:
    assert MOCK.exists(), f"{MOCK} is missing: build the target ferry_mock_cuda"
    done = subprocess.run(
        [
            *(sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"),
            *("--basetemp", tmp_path / "inner", "on_mock_gpu.py"),
        ],
        env={**os.environ, "FERRY_CUDA_LIBRARY": str(MOCK)},
        cwd=HERE,
        capture_output=True,
        text=True,
        timeout=250,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert " passed" in done.stdout and "skipped" not in done.stdout


# Ends with the engine, the file and an array still there, as programs do.
PAST_THE_HOST = """
import sys, ferry
path, works = sys.argv[1], sys.argv[2] == "works"
engine = ferry.Engine(route="direct")
with open(path, "rb") as plain:
    wanted = plain.read()
array = ferry.GpuArray((len(wanted),), "u1")
file = ferry.open(path, engine=engine)
assert file.read_at(array, 0) == len(wanted)
assert array.copy_to_host().tobytes() == wanted
stats = ferry.stats(engine)
assert stats["gpu_direct_bytes"] == (len(wanted) if works else 0), stats
assert stats["gpu_direct_tasks"] == (3 if works else 0), stats
assert (stats["pinned_bytes"] == 0) == works, stats
reasons = ferry.explain(path, engine=engine)["reasons"]
told = [reason for reason in reasons if reason.startswith("a GPU's memory: ")]
assert told[0].startswith("a GPU's memory: GPUDirect Storage (cuFile with nvidia-fs 2.24)") == works, told
assert ("compatibility mode only" in told[0]) != works, told
"""


@pytest.mark.parametrize(("words", "outcome"), [("nvidia-fs", "works"), ("compatibility", "does not")])
def test_gpudirect_past_the_host_or_not(tmp_path: Path, words: str, outcome: str) -> None:
    path = tmp_path / "file"
    path.write_bytes(os.urandom(3 << 20))
    environment = {"FERRY_CUDA_LIBRARY": str(MOCK), **gpudirect(words)}
    done = run_python(PAST_THE_HOST, path, outcome, **environment)
    assert done.returncode == 0, done.stdout + done.stderr


NO_DRIVER = """
import errno, sys, ferry
for make in (lambda: ferry.GpuArray((3,), "u1"), lambda: ferry.load(sys.argv[1], device="cuda")):
    try:
        make()
    except OSError as error:
        assert error.errno == errno.ENODEV, error
        assert "libno-such-cuda.so cannot be loaded" in str(error), error
    else:
        raise AssertionError("a GPU without a driver")
ferry.load(sys.argv[1])
"""


def test_without_a_driver_it_is_said(tmp_path: Path) -> None:
    ferry.save(tmp_path / "array.npy", numpy.arange(4))
    done = run_python(NO_DRIVER, tmp_path / "array.npy", FERRY_CUDA_LIBRARY="libno-such-cuda.so")
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("device", ["gpu", "cuda:", "cuda:x", "cuda:-1"])
def test_devices_that_cannot_be(tmp_path: Path, device: str) -> None:
    with pytest.raises(ValueError, match="cuda:NUMBER"):
        ferry.load_safetensors(tmp_path / "none", device=device)


@pytest.mark.parametrize(
    ("driver", "answer", "wanted"),
    [
        (MOCK, None, "cuda:1: mock GPU 1 of Ferry's tests, 16 GiB, compute capability 9.0"),
        (MOCK, None, "bulk copies by pinned staging; no GPUDirect: "),
        (
            MOCK,
            "p2p",
            "bulk copies by GPUDirect Storage where a transfer bypasses the page cache; cuFile works with the kernel's",
        ),
        (MOCK, "compatibility", "bulk copies by pinned staging; no GPUDirect: cuFile runs in compatibility mode only"),
        ("libno-such-cuda.so", None, "GPU none: libno-such-cuda.so cannot be loaded"),
    ],
)
def test_info_shows_gpus_and_the_way_of_bulk_copies(
    command: Command, driver: object, answer: str | None, wanted: str
) -> None:
    command.environment["FERRY_CUDA_LIBRARY"] = str(driver)
    if answer is not None:
        command.environment |= gpudirect(answer)
    assert wanted in " ".join(command.succeeds("info").split())
