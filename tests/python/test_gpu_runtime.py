"""The host side of file calls in kernels, with the mock CUDA driver."""

from __future__ import annotations

import errno
import os
import subprocess
from pathlib import Path

import pytest

import ferry
from ferry import gpu_runtime
from support import run_python

CHECKOUT = Path(gpu_runtime.__file__).resolve().parents[2]
MOCK = Path(os.environ.get("FERRY_BUILD_DIR", CHECKOUT / "build" / "release"), "libferry_mock_cuda.so")


def run(source: str, driver: object) -> subprocess.CompletedProcess[str]:
    """Runs a program in its own process, because each looks for a driver only once."""
    package = str(Path(ferry.__file__).resolve().parents[1])
    return run_python(f"import errno, os, ferry\n{source}", PYTHONPATH=package, FERRY_CUDA_LIBRARY=str(driver))


def passes(source: str) -> str:
    """Runs a program on the mock; returns what it printed."""
    done = run(source, MOCK)
    assert done.returncode == 0, done.stderr
    return done.stdout


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
    done = run(LOSES_PAGES, MOCK)
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
    done = run("ferry.GpuRuntime()", "/nowhere/libcuda.so.1")
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


def test_an_installed_package_has_its_own_headers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "site" / "ferry"
    headers = package / "include" / "ferry"
    headers.mkdir(parents=True)
    monkeypatch.setattr(gpu_runtime, "__file__", str(package / "gpu_runtime.py"))
    with pytest.raises(FileNotFoundError, match=r"ferry/cuda\.hpp"):
        ferry.device_include()
    (headers / "cuda.hpp").touch()
    assert ferry.device_include() == str(package / "include")
