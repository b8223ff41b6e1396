"""GPU memory: all of ``on_mock_gpu.py`` in a process whose CUDA driver is the tests' mock."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

HERE = Path(__file__).resolve().parent
MOCK = Path(os.environ.get("FERRY_BUILD_DIR", HERE.parents[1] / "build" / "release")) / "libferry_mock_cuda.so"


def run_python(*arguments: str, driver: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *arguments],
        env={**os.environ, "FERRY_CUDA_LIBRARY": driver},
        cwd=HERE,
        capture_output=True,
        text=True,
        timeout=250,
    )


def test_on_the_mock_driver(tmp_path: Path) -> None:
    assert MOCK.exists(), f"{MOCK} is missing: build the target ferry_mock_cuda"
    done = run_python(
        "-m", "pytest", "-q", "-p", "no:cacheprovider", "--basetemp", str(tmp_path / "inner"),
        "on_mock_gpu.py", driver=str(MOCK),
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert " passed" in done.stdout and "skipped" not in done.stdout


NO_DRIVER = """
import errno, numpy, ferry
for make in (lambda: ferry.GpuArray((3,), "u1"), lambda: ferry.load({path!r}, device="cuda")):
    try:
        make()
    except OSError as error:
        assert error.errno == errno.ENODEV, error
        assert "libno-such-cuda.so cannot be loaded" in str(error), error
    else:
        raise AssertionError("a GPU without a driver")
ferry.load({path!r})
"""


def test_without_a_driver_it_is_said(tmp_path: Path) -> None:
    import numpy

    import ferry

    ferry.save(tmp_path / "array.npy", numpy.arange(4))
    script = NO_DRIVER.format(path=str(tmp_path / "array.npy"))
    done = run_python("-c", script, driver="libno-such-cuda.so")
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("device", ["gpu", "cuda:", "cuda:x", "cuda:-1"])
def test_devices_that_cannot_be(tmp_path: Path, device: str) -> None:
    import ferry

    with pytest.raises(ValueError, match="cuda:NUMBER"):
        ferry.load_safetensors(tmp_path / "none", device=device)


def test_info_shows_gpus_and_the_way_of_bulk_copies(command: Any) -> None:
    there = command.run("info", env={**command.environment, "FERRY_CUDA_LIBRARY": str(MOCK)})
    assert there.returncode == 0, there.stderr
    words = " ".join(there.stdout.split())
    assert "cuda:1: mock GPU 1 of Ferry's tests, 16 GiB, compute capability 9.0" in words
    assert "bulk copies by pinned staging; " in words
    absent = command.run("info", env={**command.environment, "FERRY_CUDA_LIBRARY": "libno-such-cuda.so"})
    assert absent.returncode == 0, absent.stderr
    assert "GPU none: libno-such-cuda.so cannot be loaded" in " ".join(absent.stdout.split())
