"""GPU memory, and the host side of file calls in kernels, with the tests' mock of the CUDA driver."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from pathlib import Path

import numpy
import pytest

import ferry
from ferry import _bulk, gpu_runtime
from support import Command, built, run_program, run_python


def gpudirect(words: str) -> dict[str, str]:
    """Returns the environment that uses the mock cuFile, with these answers."""
    library = built("ferry_mock_cufile")
    return {"FERRY_GPUDIRECT": "on", "FERRY_CUFILE_LIBRARY": library, "FERRY_MOCK_CUFILE": words}


def run(program: str, *arguments: object, driver: str = "", **environment: str) -> subprocess.CompletedProcess[str]:
    """Runs a program on the mock, or another driver: each process looks for one only once."""
    environment["FERRY_CUDA_LIBRARY"] = driver or built("ferry_mock_cuda")
    return run_python(f"import errno, os, sys, ferry\n{program}", *arguments, **environment)


def passes(program: str, *arguments: object, **options: str) -> str:
    """Runs a program that must succeed; returns what it printed."""
    done = run(program, *arguments, **options)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_memory_on_the_mock_driver(tmp_path: Path) -> None:
    """All of ``on_mock_gpu.py``."""
    options = ("-q", "-p", "no:cacheprovider", "--basetemp", tmp_path / "inner")
    environment = {**os.environ, "FERRY_CUDA_LIBRARY": built("ferry_mock_cuda")}
    here = Path(__file__).parent
    done = run_program(
        sys.executable, "-m", "pytest", *options, "on_mock_gpu.py", env=environment, cwd=here, timeout=250
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert " passed" in done.stdout and "skipped" not in done.stdout


# Ends with the engine, the file and an array still there, as programs do.
PAST_THE_HOST = """
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
    passes(PAST_THE_HOST, path, outcome, **gpudirect(words))


NO_DRIVER = """
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
    passes(NO_DRIVER, tmp_path / "array.npy", driver="libno-such-cuda.so")


@pytest.mark.parametrize("device", ["gpu", "cuda:", "cuda:x", "cuda:-1"])
def test_devices_that_cannot_be(tmp_path: Path, device: str) -> None:
    with pytest.raises(ValueError, match="cuda:NUMBER"):
        ferry.load_safetensors(tmp_path / "none", device=device)


@pytest.mark.parametrize(
    ("driver", "answer", "wanted"),
    [
        ("", None, "cuda:1: mock GPU 1 of Ferry's tests, 16 GiB, compute capability 9.0"),
        ("", None, "bulk copies by pinned staging; no GPUDirect: "),
        (
            "",
            "p2p",
            "bulk copies by GPUDirect Storage where a transfer bypasses the page cache; cuFile works with the kernel's",
        ),
        ("", "compatibility", "bulk copies by pinned staging; no GPUDirect: cuFile runs in compatibility mode only"),
        ("libno-such-cuda.so", None, "GPU none: libno-such-cuda.so cannot be loaded"),
    ],
)
def test_info_shows_gpus_and_the_way_of_bulk_copies(
    command: Command, driver: str, answer: str | None, wanted: str
) -> None:
    command.environment["FERRY_CUDA_LIBRARY"] = driver or built("ferry_mock_cuda")
    if answer is not None:
        command.environment |= gpudirect(answer)
    assert wanted in " ".join(command.succeeds("info").split())


def test_a_runtime_is_made_and_ends() -> None:
    said = passes("""
with ferry.GpuRuntime(arena_bytes=1 << 20, cache_bytes=1 << 20, page_bytes=4096, groups=8) as runtime:
    assert isinstance(runtime.context, int) and runtime.context != 0
    assert runtime.own_group == 8
    assert runtime.dirty_pages == 0
    stats = runtime.stats()
    assert stats["calls"] == 0 and stats["cache_hits"] == 0 and stats["bytes_read"] == 0
report = runtime.shutdown(0)
print(report.finished, report.files_closed, report.errors)
""")
    assert said == "True 0 []\n"


def test_the_end_of_the_interpreter_ends_it() -> None:
    assert passes("runtime = ferry.GpuRuntime(groups=8); print('made')") == "made\n"


LOSES_PAGES = """
class Losing:
    def shut_down(self, timeout_s):
        return True, 0, ["3 pages were never written back"]
runtime = ferry.GpuRuntime(groups=8)
runtime._native.shut_down(0)
runtime._native = Losing()
"""


def test_close_raises_for_pages_that_are_lost() -> None:
    said = passes(f"""{LOSES_PAGES}
try:
    runtime.close()
except OSError as error:
    print(error.errno == errno.EIO, error.strerror)
try:
    with runtime:
        raise KeyError("the program's own")
except KeyError:
    print("own")
""")
    assert said == "True 3 pages were never written back\nown\n"


def test_the_end_of_the_interpreter_says_what_is_lost() -> None:
    done = run(LOSES_PAGES)
    assert done.returncode == 0
    assert done.stderr == "ferry: at exit: 3 pages were never written back\n"


def test_close_without_losses_is_silent_and_may_be_repeated() -> None:
    assert passes("runtime = ferry.GpuRuntime(groups=8); runtime.close(); runtime.close()") == ""


def test_a_child_of_fork_has_none() -> None:
    passes("""
runtime = ferry.GpuRuntime(groups=8)
child = os.fork()
if child == 0:
    try:
        runtime.stats()
    except OSError as error:
        os._exit(0 if error.errno == errno.EINVAL and "fork" in str(error) else 3)
    os._exit(4)
assert os.waitpid(child, 0)[1] == 0
assert runtime.shutdown().finished
""")


@pytest.mark.parametrize(
    ("settings", "error_number", "text"),
    [
        ("groups=0", errno.EINVAL, "groups"),
        ("groups=8, cache_bytes=100", errno.EINVAL, "cache"),
        ("groups=8, staging_bytes=1", errno.EINVAL, "staging_bytes"),
        ("groups=8, device=99", errno.ENODEV, "no GPU 99"),
    ],
)
def test_settings_that_cannot_be(settings: str, error_number: int, text: str) -> None:
    said = passes(f"""
try:
    ferry.GpuRuntime({settings})
except OSError as error:
    print(error.errno, error)
""")
    assert said.startswith(f"{error_number} ")
    assert text in said


def test_other_bad_arguments() -> None:
    passes("""
for settings in ({"placement": "nowhere"}, {"timeout_s": -1.0}, {"timeout_s": float("nan")}):
    try:
        timeout_s = settings.pop("timeout_s", None)
        runtime = ferry.GpuRuntime(groups=8, **settings)
        runtime.shutdown(timeout_s)
    except ValueError:
        continue
    raise SystemExit(f"{settings} were taken")
""")


def test_without_a_driver_it_says_what_to_do() -> None:
    done = run("ferry.GpuRuntime()", driver="/nowhere/libcuda.so.1")
    assert done.returncode != 0
    last = done.stderr.strip().splitlines()[-1]
    assert f"[Errno {errno.ENODEV}]" in last
    assert "install NVIDIA's driver" in last


def test_the_headers_are_found() -> None:
    include = Path(ferry.device_include())
    assert (include / "ferry" / "device" / "file_calls.hpp").is_file()
    for option in ferry.nvrtc_options():
        if option.startswith("-I"):
            assert Path(option[2:]).is_dir()


def test_kernels_are_compiled_for_the_same_cache_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_bulk, "cache_line_bytes", lambda: 128)
    assert "-DFERRY_CACHE_LINE_BYTES=128" in ferry.nvrtc_options()


def test_an_installed_package_has_its_own_headers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "site" / "ferry"
    headers = package / "include" / "ferry"
    headers.mkdir(parents=True)
    monkeypatch.setattr(gpu_runtime, "__file__", str(package / "gpu_runtime.py"))
    with pytest.raises(FileNotFoundError, match=r"ferry/cuda\.hpp"):
        ferry.device_include()
    (headers / "cuda.hpp").touch()
    assert ferry.device_include() == str(package / "include")
