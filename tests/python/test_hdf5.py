"""HDF5's files by Ferry's driver: h5py programs that know nothing of Ferry, compared with themselves."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from pathlib import Path

import pytest
from ferry import programs
from ferry.errors import FerryError

from served import Node, Server
from support import BUILD, mock_of_pvfs2, run_program

h5py = pytest.importorskip("h5py", reason="absent: h5py")
DRIVER = "ferry-hdf5/libferry_hdf5.so"


def why_absent() -> str:
    try:
        programs.find_library(DRIVER)
    except FerryError as error:
        return f"absent: {error}"
    return ""


pytestmark = pytest.mark.skipif(bool(why_absent()), reason=why_absent())
SEED = int(os.environ.get("FERRY_TEST_SEED", random.randrange(1 << 32)))
DRIVEN = {"HDF5_DRIVER": "ferry", "HDF5_PLUGIN_PATH": str((BUILD / DRIVER).parent)}


def environment(**more: str) -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if not name.startswith("HDF5_")} | more


def h5py_program(text: str, *words: object, **variables: str) -> subprocess.CompletedProcess[str]:
    return run_program(sys.executable, "-c", text, *words, env=environment(**variables))


# Datasets of every layout, written, changed, extended, deleted and read at random; then all of it is
# read again by a new handle. Prints a hash for each step.
RANDOM = """
import hashlib, json, random, sys
import h5py
import numpy as np

path, seed, steps = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
made, opened = json.loads(sys.argv[4])
chance = random.Random(seed)
values = np.random.default_rng(seed)
kinds = {
    "plain": dict(),
    "chunked": dict(chunks=(16, 32)),
    "large": dict(chunks=(300, 700)),
    "packed": dict(chunks=(64, 64), compression="gzip", compression_opts=1),
    "growing": dict(chunks=(32, 128), maxshape=(None, 1000)),
}

def rows(count, length):
    first = chance.randrange(length)
    step = chance.choice([1, 1, 1, 2, 7])
    return slice(first, min(length, first + count * step), step)

def show(*found):
    whole = hashlib.sha256()
    for one in found:
        whole.update(repr(one).encode() if not isinstance(one, np.ndarray) else one.tobytes())
    print(whole.hexdigest()[:16])

def everything(file):
    names = []
    file.visit(names.append)
    for name in names:
        show(name, dict(file[name].attrs), file[name][()] if isinstance(file[name], h5py.Dataset) else "")

file = h5py.File(path, "w", **made, **opened)
for name, how in kinds.items():
    file.create_dataset(name, shape=(600, 1000), dtype=chance.choice(["i8", ">f4", "u2"]), **how)
for step in range(steps):
    data = file[chance.choice(list(kinds))]
    what = chance.randrange(12)
    window = rows(chance.choice([1, 40, 300]), data.shape[0]), rows(chance.choice([1, 100, 1000]), data.shape[1])
    if what < 3:
        data[window] = values.integers(0, 60000, data[window].shape)
    elif what < 6:
        show(data[window])
    elif what == 6:
        file["growing"].resize(chance.randrange(1, 900), 0)
    elif what == 7:
        name = f"group/{chance.randrange(20)}"
        if name in file:
            del file[name]
        else:
            file[name] = "text" * chance.randrange(1, 5000)
            file[name].attrs["number"] = step
    elif what == 8:
        file.flush()
    elif what == 9:
        show(data[sorted(chance.sample(range(data.shape[0]), min(9, data.shape[0]))), window[1]])
    elif what == 10:
        points = values.random(data.shape) < 0.002
        show(data[points])
        data[points] = values.integers(0, 60000, np.count_nonzero(points))
    else:
        file.close()
        file = h5py.File(path, "r+", **opened)
everything(file)
file.close()
with h5py.File(path, "r", **opened) as file:
    everything(file)
"""
PAGED = {"fs_strategy": "page", "fs_persist": True, "fs_page_size": 4096}
# How the file is made, and how it is opened, then and later.
FORMS = {
    "usual": ({}, {}),
    "paged": (PAGED, {}),
    "page buffer": (PAGED | {"fs_page_size": 16384}, {"page_buf_size": 1 << 18}),
    "user block": ({"userblock_size": 1024, "fs_strategy": "fsm", "fs_persist": True}, {}),
    "latest": ({}, {"libver": "latest"}),
}


def holds(file: Path, form: str) -> bytes:
    return b"" if form == "latest" else file.read_bytes()  # that form has the time in it


def without_the_driver(
    file: Path, steps: int, form: str
) -> tuple[tuple[object, ...], subprocess.CompletedProcess[str]]:
    """The words of the random program, and what it does with them. HDF5 1.14 fails by itself with its page buffer
    at some seeds: then another one is taken."""
    for seed in range(SEED, SEED + 20):
        words = seed, steps, json.dumps(FORMS[form])
        plain = h5py_program(RANDOM, file, *words)
        if plain.returncode == 0:
            return words, plain
        assert form == "page buffer", plain.stderr
    raise AssertionError(f"HDF5 fails at all seeds from {SEED} on: {plain.stderr}")


@pytest.mark.parametrize("form", FORMS)
def test_a_program_does_the_same(tmp_path: Path, form: str) -> None:
    words, plain = without_the_driver(tmp_path / "plain", 150, form)
    driven = h5py_program(RANDOM, tmp_path / "driven", *words, **DRIVEN)
    assert (driven.returncode, driven.stdout, driven.stderr) == (0, plain.stdout, plain.stderr), words
    assert holds(tmp_path / "driven", form) == holds(tmp_path / "plain", form), words


@pytest.mark.parametrize("form", FORMS)
def test_a_program_does_the_same_on_a_server(server: Server, tmp_path: Path, form: str) -> None:
    words, plain = without_the_driver(tmp_path / "plain", 80, form)
    driven = h5py_program(RANDOM, server.named("driven"), *words, **DRIVEN)
    assert (driven.returncode, driven.stdout, driven.stderr) == (0, plain.stdout, ""), words
    assert holds(server.folder / "driven", form) == holds(tmp_path / "plain", form), words


def test_what_a_program_leaves_open_is_written_at_its_end(server: Server) -> None:
    text = "import h5py, sys; file = h5py.File(sys.argv[1], 'w'); file['x'] = range(5000); kept = file['x']"
    done = h5py_program(text, server.named("open"), **DRIVEN)
    assert (done.returncode, done.stderr) == (0, "")
    with h5py.File(server.folder / "open") as file:
        assert list(file["x"]) == list(range(5000))
    # Its client has said goodbye: the next one need not wait.
    text = "import h5py, sys; print(h5py.File(sys.argv[1], 'r+')['x'][4999])"
    assert h5py_program(text, server.named("open"), **DRIVEN).stdout == "4999\n"


def test_what_cannot_be_written_at_the_end_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in mock_of_pvfs2(tmp_path).items():
        monkeypatch.setenv(name, value)
    text = """
import ctypes, h5py, resource, sys
file = h5py.File(sys.argv[1], "w")
resource.setrlimit(resource.RLIMIT_FSIZE, (100000, 100000))
for i in range(2000):
    file.create_group(f"group {i}")
ctypes.pythonapi.Py_IncRef(ctypes.py_object(file.id))  # Python does not close it
"""
    done = h5py_program(text, "pvfs2:/mock/open", **DRIVEN)
    assert "ferry-hdf5: pvfs2:/mock/open was not written: " in done.stderr, done.stderr[-500:]
    assert "File too large" in done.stderr


# Names in a file are those of other files beside it.
LINKS = """
import sys
import h5py
import numpy as np
path, other, name = sys.argv[1:]
with h5py.File(other, "w") as file:
    file["data"] = np.arange(100)
with h5py.File(path, "w") as file:
    file["link"] = h5py.ExternalLink(name, "/data")
    layout = h5py.VirtualLayout(shape=(50,), dtype="i8")
    layout[:] = h5py.VirtualSource(name, "data", shape=(100,))[::2]
    file.create_virtual_dataset("virtual", layout)
with h5py.File(path) as file:
    print(file["link"][::9].tolist(), file["virtual"][:].tolist())
"""


def test_links_to_other_files(tmp_path: Path) -> None:
    plain = h5py_program(LINKS, tmp_path / "plain", tmp_path / "other", "other")
    driven = h5py_program(LINKS, tmp_path / "driven", tmp_path / "other", "other", **DRIVEN)
    assert driven.stdout == plain.stdout
    assert plain.stdout.startswith("[0, 9, ")


def test_links_to_files_of_a_server(server: Server, tmp_path: Path) -> None:
    plain = h5py_program(LINKS, tmp_path / "plain", tmp_path / "other", "other")
    other = server.named("other")
    driven = h5py_program(LINKS, server.named("links"), other, other, **DRIVEN)
    assert driven.stdout == plain.stdout, driven.stderr


def test_errors_are_those_of_python(server: Server) -> None:
    text = """
import h5py, sys
for mode in ("r", "r+", "x", "x"):
    try:
        h5py.File(sys.argv[1], mode)
    except OSError as error:
        print(type(error).__name__, "HDF5" in str(error))
"""
    done = h5py_program(text, server.named("none"), **DRIVEN)
    assert done.stdout.split("\n") == [
        "FileNotFoundError False",
        "FileNotFoundError False",
        "FileExistsError False",
        "",
    ]


def test_options_are_refused(tmp_path: Path) -> None:
    text = "import h5py, sys; h5py.File(sys.argv[1], 'w')"
    done = h5py_program(text, tmp_path / "file", HDF5_DRIVER_CONFIG="fast", **DRIVEN)
    assert done.returncode == 1
    assert "this driver takes no options: unset HDF5_DRIVER_CONFIG" in done.stderr


# HDF5 decides by its drivers' features how it lays a file out.
FEATURES = """
import ctypes, sys
import h5py
lines = open("/proc/self/maps").read().splitlines()
hdf5 = ctypes.CDLL(next(line.split()[-1] for line in lines if "/libhdf5-" in line or "/libhdf5." in line))
hdf5.H5FDopen.restype = ctypes.c_void_p
hdf5.H5FDopen.argtypes = [ctypes.c_char_p, ctypes.c_uint, ctypes.c_int64, ctypes.c_uint64]
access = h5py.h5p.create(h5py.h5p.FILE_ACCESS)
file = hdf5.H5FDopen(sys.argv[1].encode(), 0, access.id, 1 << 40)
features = ctypes.c_ulong()
hdf5.H5FDquery(ctypes.c_void_p(file), ctypes.byref(features))
print(hex(features.value))
hdf5.H5FDclose(ctypes.c_void_p(file))
"""


def test_mounted_files_have_the_features_of_hdf5s_own_driver(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(bytes(100))
    plain = h5py_program(FEATURES, tmp_path / "file")
    driven = h5py_program(FEATURES, tmp_path / "file", **DRIVEN)
    assert (plain.returncode, driven.stdout) == (0, plain.stdout), plain.stderr


def test_h5pys_own_tests_pass(tmp_path: Path) -> None:
    # As root, a file can be opened whatever its permissions say.
    wrong_for_root = ["--deselect", "tests/test_file.py::TestFileOpen::test_append_permissions"]
    done = run_program(
        *(sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", "-W", "ignore"),
        *("-k", "not TestMPI"),
        *(wrong_for_root if os.geteuid() == 0 else []),
        *("--rootdir", Path(h5py.__file__).parent, "--pyargs", "h5py"),
        env=environment(TMPDIR=str(tmp_path), **DRIVEN),
        cwd=tmp_path,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-3000:]
    passed = int(done.stdout.splitlines()[-1].split(" passed")[0].split()[-1])
    assert passed > 500, done.stdout[-3000:]


# ---- the command -----------------------------------------------------------------------------------

SHOWN = "import json, os; print(json.dumps({k: v for k, v in os.environ.items() if k.startswith('HDF5_')}))"


def test_the_command(node: Node) -> None:
    node.command.environment = environment(**node.command.environment)
    text = "import h5py, sys; f = h5py.File(sys.argv[1], 'w'); f['x'] = 5; print(f['x'][()], f.driver)"
    shown = node.command.succeeds("run", "--hdf5", "--", sys.executable, "-c", text, node.folder / "file")
    assert shown == "5 unknown\n"  # h5py names its own drivers only
    plain = node.command.succeeds("run", "--", sys.executable, "-c", text, node.folder / "file")
    assert plain == "5 sec2\n"
    assert "HDF5's files: by Ferry" in node.command.run("run", "--hdf5", "--explain", "--", "true").stderr


def test_the_command_keeps_other_plugins(node: Node) -> None:
    node.command.environment = environment(**node.command.environment)
    words = ["run", "--hdf5", "--", sys.executable, "-c", SHOWN]
    folder = str((BUILD / DRIVER).parent.resolve())
    found = json.loads(node.command.succeeds(*words))
    assert found == {
        "HDF5_DRIVER": "ferry",
        "HDF5_PLUGIN_PATH": f"{folder}:/usr/local/lib/plugin:/usr/local/hdf5/lib/plugin",
    }
    node.command.environment["HDF5_PLUGIN_PATH"] = f"/filters:{folder}"
    assert json.loads(node.command.succeeds(*words))["HDF5_PLUGIN_PATH"] == f"{folder}:/filters"
