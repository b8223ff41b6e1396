"""Changes to files and processes during transfers, and their end."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy
import pytest
import safetensors.numpy

import ferry
from ferry import safetensors_files
from support import run_python

MIB = 1 << 20
SIZE = 24 * MIB
SHORT = 5 * MIB + 77


@pytest.fixture
def data() -> bytes:
    return numpy.random.default_rng(3).integers(1, 256, SIZE, numpy.uint8).tobytes()


@pytest.fixture
def shrinking(path: Path, data: bytes) -> Iterator[Path]:
    """A file that another process repeatedly truncates and fills."""
    ends = threading.Event()

    def cut() -> None:
        with path.open("r+b", buffering=0) as file:
            while not ends.is_set():
                file.truncate(SHORT)
                file.seek(SHORT)
                file.write(data[SHORT:])

    thread = threading.Thread(target=cut)
    thread.start()
    yield path
    ends.set()
    thread.join()


@pytest.mark.parametrize("route", ["automatic", "buffered", "direct"])
def test_a_file_that_shrinks_meanwhile(shrinking: Path, data: bytes, route: str) -> None:
    """Reads are short, or have the file's old data or zeros where it was cut; the rest is right."""
    wanted = numpy.frombuffer(data, numpy.uint8)
    with ferry.open(shrinking, engine=ferry.Engine(route=route, task_bytes=256 << 10)) as file:
        for _ in range(12):
            target = numpy.zeros(SIZE + 4096, numpy.uint8)
            got = file.read_at(target, 0)
            assert SHORT <= got <= SIZE
            numpy.testing.assert_array_equal(target[:SHORT], wanted[:SHORT])
            rest = target[SHORT:got]
            assert numpy.all((rest == wanted[SHORT:got]) | (rest == 0))
            assert not target[SIZE:].any()


def change_after_the_header(monkeypatch: pytest.MonkeyPatch, change: Callable[[], object]) -> None:
    """Lets ``change`` happen when the header of a file of tensors was read."""
    really = safetensors_files.read_layout

    def read_and_change(file: ferry.File) -> object:
        layout = really(file)
        change()
        return layout

    monkeypatch.setattr(safetensors_files, "read_layout", read_and_change)


def test_a_model_that_shrinks_after_its_header_was_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "model.safetensors"
    safetensors.numpy.save_file({"x": numpy.arange(1_000_000, dtype=numpy.int64)}, path)
    change_after_the_header(monkeypatch, lambda: os.truncate(path, 4_000_000))
    with pytest.raises(ValueError, match="became shorter"):
        ferry.load_safetensors(path)
    for descriptor in Path("/proc/self/fd").iterdir():
        assert not (descriptor.exists() and descriptor.samefile(path))


def test_a_checkpoint_that_is_replaced_after_its_header_was_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Tensors are those of one file, of that whose header was read."""
    path, new = tmp_path / "model.safetensors", tmp_path / "new"
    old = {name: numpy.full(1_000_000, 1, numpy.int64) for name in "xy"}
    safetensors.numpy.save_file(old, path)
    safetensors.numpy.save_file({name: 2 * tensor for name, tensor in old.items()}, new)
    for one in (path, new):
        with one.open("rb") as file:
            os.fsync(file.fileno())
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    change_after_the_header(monkeypatch, lambda: new.rename(path))
    loaded = ferry.load_safetensors(path)
    for name, tensor in old.items():
        numpy.testing.assert_array_equal(loaded[name], tensor)


def test_forks_with_transfers_under_way(path: Path, data: bytes) -> None:
    """Neither the parent's transfers nor the children's are hurt, and both leave in the usual way."""
    program = """
import os, sys, warnings
import ferry, numpy
warnings.filterwarnings("ignore", "This process .* is multi-threaded")  # Python 3.12 and newer warn of it
file = ferry.open(sys.argv[1])
wanted = open(sys.argv[1], "rb").read()
children = []
for _ in range(4):
    targets = [numpy.zeros(len(wanted), numpy.uint8) for _ in range(4)]
    futures = [file.read_at_async(target, 0) for target in targets]
    child = os.fork()
    if child == 0:
        again = numpy.zeros(len(wanted), numpy.uint8)
        future = file.read_at_async(again, 0)
        assert file.read_at(bytearray(100), 0) == 100
        assert future.result(60) == len(wanted)
        assert again.tobytes() == wanted
        file.read_at_async(again, 0)  # is under way when the child ends
        sys.exit(7)
    children.append(child)
    for future, target in zip(futures, targets):
        assert future.result(60) == len(wanted)
        assert target.tobytes() == wanted
for child in children:
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
"""
    done = run_python(program, path)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


# How programs end: what they do, and what they print.
EXIT_PROGRAM = """
import sys, threading
import ferry, numpy
with ferry.open(sys.argv[1]) as probe:
    size = probe.size()
file = ferry.open(sys.argv[1])
buffers = [numpy.empty(size, numpy.uint8) for _ in range(8)]
futures = [file.read_at_async(buffer, 0) for buffer in buffers]
futures[0].add_done_callback(lambda future: None)
def forever():
    while True:
        try:
            file.read_at(buffers[0], 0)
        except (OSError, ValueError):
            return
threading.Thread(target=forever, daemon=True).start()
print("leaving")
"""

STUBBORN_PROGRAM = EXIT_PROGRAM.replace("(OSError, ValueError)", "ZeroDivisionError").replace(
    'print("leaving")', 'import time; time.sleep(0.1); print("leaving")'
)

# The file stays to the end: NumPy's arrays take no part in garbage collection.
HOLDING_PROGRAM = """
import sys
import ferry, numpy
file = ferry.open(sys.argv[1])
array = numpy.empty(2, object)
array[:] = [file, array]
del array
print("leaving")
"""

TIDY_PROGRAM = """
import sys
import ferry, numpy
with ferry.open(sys.argv[1]) as file:
    buffer = numpy.empty(file.size(), numpy.uint8)
    futures = [file.read_at_async(buffer, 0) for _ in range(3)]
    for future in futures:
        future.result()
    file.read_at(buffer, 0)
ferry.read_files([sys.argv[1]])
print("leaving")
"""

# Python aborts if a printing thread ends with stderr's lock: none may come to print.
PRINTING_PROGRAM = """
import sys, threading, time, traceback
import ferry, numpy
file = ferry.open(sys.argv[1])
def read_on():
    buffer = numpy.empty(1 << 20, numpy.uint8)
    while True:
        try:
            file.read_at(buffer, 0)
            file.read_at_async(buffer, 0).result()
        except OSError:
            traceback.print_exc()
for _ in range(2):
    threading.Thread(target=read_on, daemon=True).start()
time.sleep(0.05)
"""

# A function of atexit may wait for a thread that reads, which sees the end, and ends.
WAITED_FOR_PROGRAM = """
import atexit, sys, threading, time
ended = threading.Event()
def wait():
    assert ended.wait(60)
    print("waited")
atexit.register(wait)  # runs after what is registered later
import ferry, numpy
file = ferry.open(sys.argv[1])
def read_on():
    buffer = numpy.empty(1 << 20, numpy.uint8)
    try:
        while True:
            file.read_at(buffer, 0)
    except OSError:
        ended.set()
threading.Thread(target=read_on, daemon=True).start()
time.sleep(0.05)
"""

# An engine kept only by its transfer also ends before the interpreter.
FORGOTTEN_ENGINE_PROGRAM = """
import sys
import ferry, numpy
size = 16 << 20
buffers = [numpy.empty(size, numpy.uint8) for _ in range(4)]
file = ferry.open(sys.argv[1], direct=True)
futures = [
    ferry.read_batch_async([(file, buffer, 0)], engine=ferry.Engine(workers=1, task_bytes=4096, depth=1))
    for buffer in buffers
]
for future in futures:
    future.add_done_callback(lambda future: None)
"""


@pytest.mark.parametrize(
    ("program", "flags", "printed", "times"),
    [
        pytest.param(EXIT_PROGRAM, (), "leaving\n", 3, id="transfers under way"),
        pytest.param(HOLDING_PROGRAM, (), "leaving\n", 1, id="a file that is never freed"),
        pytest.param(TIDY_PROGRAM, ("-X", "dev"), "leaving\n", 1, id="development mode"),
        pytest.param(PRINTING_PROGRAM, (), "", 5, id="threads that print their errors"),
        pytest.param(WAITED_FOR_PROGRAM, (), "waited\n", 1, id="a thread that is waited for"),
        pytest.param(FORGOTTEN_ENGINE_PROGRAM, (), "", 3, id="transfers of forgotten engines"),
    ],
)
def test_leaving(path: Path, program: str, flags: tuple[str, ...], printed: str, times: int) -> None:
    for _ in range(times):
        done = run_python(program, path, flags=flags)
        assert (done.returncode, done.stdout, done.stderr) == (0, printed, "")


def test_leaving_beside_a_thread_that_goes_on(path: Path) -> None:
    """Objects that a daemon thread still holds are no leak and are not reported."""
    for _ in range(3):
        done = run_python(STUBBORN_PROGRAM, path)
        assert (done.returncode, done.stdout) == (0, "leaving\n")
        assert "leaked" not in done.stderr


def test_development_mode_looks_for_leaks(path: Path) -> None:
    held = run_python(HOLDING_PROGRAM, path, flags=("-X", "dev"))
    assert (held.returncode, held.stdout) == (0, "leaving\n")
    assert "leaked" in held.stderr


# Direct, with one small task after the other: long enough for a signal to come meanwhile.
CTRL_C_PROGRAM = """
import os, signal, sys, threading
import ferry, numpy
signal.signal(signal.SIGINT, signal.default_int_handler)  # whoever runs the tests may ignore it
path, kind = sys.argv[1:]
target = numpy.zeros(os.path.getsize(path), numpy.uint8)
engine = ferry.Engine(workers=1, task_bytes=4096, depth=1, route="direct")
file = ferry.open(path, engine=engine)
call = {
    "read_at": lambda: file.read_at(target, 0),
    "read_batch": lambda: ferry.read_batch([(file, target, 0)], engine=engine),
    "load": lambda: ferry.load(path, dtype="u1", engine=engine),
    "progress": lambda: file.read_at(target, 0, progress=lambda done, total: None),
}[kind]
while engine.stats()["cancelled_transfers"] == 0:
    timer = threading.Timer(0.05, os.kill, (os.getpid(), signal.SIGINT))
    try:
        timer.start()
        call()
        timer.join()
        signal.pause()
    except KeyboardInterrupt:
        pass  # before the call or after it: once more
print("heard")
"""


@pytest.mark.parametrize("kind", ["read_at", "read_batch", "load", "progress"])
def test_ctrl_c_ends_a_long_transfer(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "file"
    path.write_bytes(bytes(100 << 20))
    done = run_python(CTRL_C_PROGRAM, path, kind)
    assert (done.returncode, done.stdout, done.stderr) == (0, "heard\n", "")
