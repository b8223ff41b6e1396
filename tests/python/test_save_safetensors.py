"""``ferry.save_safetensors``, compared with what the safetensors package reads."""

from __future__ import annotations

import json
import os
import random
from pathlib import Path
from typing import Any

import numpy
import pytest
import safetensors
import safetensors.numpy

import ferry
from ferry.safetensors_files import TYPES
from support import run_python

DTYPES = [numpy.dtype(name) for _, name, _ in TYPES.values() if name]


def header_of(path: Path) -> tuple[dict[str, Any], int]:
    """The header of a file, and where its data begins."""
    data = path.read_bytes()
    length = int.from_bytes(data[:8], "little")
    return json.loads(data[8 : 8 + length]), 8 + length


def random_tensor(draw: random.Random) -> numpy.ndarray:
    dtype = draw.choice(DTYPES)
    shape = [draw.choice((0, 1, 2, 3, 5, 17)) for _ in range(draw.randrange(4))]
    data = numpy.frombuffer(draw.randbytes(int(numpy.prod(shape)) * dtype.itemsize), dtype).reshape(shape)
    if dtype.kind == "b":
        data = data.view("u1") % 2 == 1
    if draw.random() < 0.2:
        data = data.T
    if draw.random() < 0.2 and shape:
        data = data[::2]
    if draw.random() < 0.2:
        data = data.astype(dtype.newbyteorder(">"))
    return data


@pytest.mark.parametrize("seed", range(40))
def test_random_models_are_read_by_the_package_and_by_us(tmp_path: Path, seed: int) -> None:
    draw = random.Random(seed)
    path = tmp_path / "model.safetensors"
    names = [f"{'layer' * draw.randrange(3)}.ä{i}" for i in range(draw.randrange(30))]
    wanted = {name: random_tensor(draw) for name in names}
    metadata = {"format": "np", "größe": "1"} if seed % 2 else None
    ferry.save_safetensors(path, wanted, metadata=metadata)
    with safetensors.safe_open(path, "numpy") as theirs:
        assert theirs.metadata() == metadata
    for got in (safetensors.numpy.load_file(path), ferry.load_safetensors(path)):
        assert got.keys() == wanted.keys()
        for name, tensor in wanted.items():
            assert (got[name].shape, got[name].dtype) == (tensor.shape, tensor.dtype.newbyteorder("<"))
            assert got[name].tobytes() == tensor.astype(got[name].dtype).tobytes()
    header, begin = header_of(path)
    assert begin % 8 == 0
    for name, entry in header.items():
        if name != "__metadata__":
            assert entry["data_offsets"][0] % (TYPES[entry["dtype"]][0] // 8) == 0


def test_large_data_begins_at_a_page(tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    wanted = {"small": numpy.arange(3, dtype="<u2"), "large": numpy.arange(1 << 18, dtype="<f4")}
    told: list[tuple[int, int]] = []
    ferry.save_safetensors(path, wanted, progress=lambda *now: told.append(now))
    assert header_of(path)[1] == 4096
    assert told[-1] == ((1 << 20) + 6,) * 2
    got = safetensors.numpy.load_file(path)
    assert all((got[name] == wanted[name]).all() for name in wanted)
    ferry.save_safetensors(path, {})
    assert safetensors.numpy.load_file(path) == {}


def test_types_that_numpy_has_no_name_for(tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    bits = numpy.arange(8, dtype="<u2").reshape(2, 4)
    bytes_of_six = numpy.arange(12, dtype="u1").reshape(2, 6)
    types = {"a": "BF16", "b": "F8_E4M3", "c": "F4", "d": "F6_E2M3"}
    wanted = {"a": bits, "b": bits.view("u1"), "c": bits.view("u1"), "d": bytes_of_six}
    ferry.save_safetensors(path, wanted, types=types)
    header, _ = header_of(path)
    assert {name: (entry["dtype"], entry["shape"]) for name, entry in header.items()} == {
        "a": ("BF16", [2, 4]), "b": ("F8_E4M3", [2, 8]), "c": ("F4", [2, 16]), "d": ("F6_E2M3", [2, 8])
    }  # fmt: skip
    got = ferry.load_safetensors(path)
    assert all(numpy.array_equal(got[name], wanted[name]) for name in wanted)
    ferry.save_safetensors(tmp_path / "again", got, types=types)
    assert (tmp_path / "again").read_bytes() == path.read_bytes()


def test_types_of_other_packages_are_known_by_name(tmp_path: Path) -> None:
    """As ml_dtypes makes them, which is not installed here: a type of NumPy with another name."""
    ml_dtypes = pytest.importorskip("ml_dtypes", reason="absent: ml_dtypes")
    wanted = numpy.arange(6).astype(ml_dtypes.bfloat16)
    ferry.save_safetensors(tmp_path / "x", {"x": wanted})
    assert header_of(tmp_path / "x")[0]["x"]["dtype"] == "BF16"
    assert ferry.load_safetensors(tmp_path / "x")["x"].tobytes() == wanted.tobytes()


def test_torch_tensors(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch", reason="absent: torch")
    from safetensors.torch import load_file

    path = tmp_path / "model.safetensors"
    wanted = {
        "plain": torch.arange(12, dtype=torch.float32).reshape(3, 4),
        "turned": torch.arange(12, dtype=torch.bfloat16).reshape(3, 4).T,
        "learnt": torch.ones(3, requires_grad=True),
        "conjugate": torch.tensor([1 + 2j, 3 - 4j], dtype=torch.complex64).conj(),
        "scalar": torch.tensor(5, dtype=torch.int8),
        "none": torch.zeros(0, 3),
        "eight": torch.ones(4, dtype=torch.float8_e4m3fn),
    }
    ferry.save_safetensors(path, wanted)
    for got in (load_file(path), ferry.load_safetensors(path, framework="torch")):
        for name, tensor in wanted.items():
            assert got[name].dtype == tensor.dtype
            assert torch.equal(got[name].to(torch.complex64), tensor.to(torch.complex64)), name
    with pytest.raises(ValueError, match="'x' is sparse"):
        ferry.save_safetensors(path, {"x": torch.zeros(4, 4).to_sparse()})


@pytest.mark.parametrize(
    ("tensors", "options", "error", "says"),
    [
        ({"x": numpy.zeros(2, "c16")}, {}, ValueError, "'x': the format has no type for complex128"),
        ({"x": numpy.array([{}])}, {}, ValueError, "'x' holds Python objects"),
        ({"x": numpy.array(["a"])}, {}, ValueError, "'x': the format has no type for <U1"),
        ([("x", numpy.zeros(2))], {}, TypeError, "a mapping of names to arrays, not list"),
        ({1: numpy.zeros(2)}, {}, TypeError, "name is a str, not int"),
        ({"__metadata__": numpy.zeros(2)}, {}, ValueError, "names no tensor"),
        ({"\ud800": numpy.zeros(2)}, {}, ValueError, "no Unicode text"),
        ({"x": numpy.zeros(2)}, {"metadata": {"a": 1}}, TypeError, "metadata is strings by strings"),
        ({"x": numpy.zeros(2)}, {"types": {"y": "F64"}}, ValueError, "'y', and there is no such tensor"),
        ({"x": numpy.zeros(2)}, {"types": {"x": "F128"}}, ValueError, "'x': the format has no type 'F128'"),
        ({"x": numpy.zeros(2)}, {"types": {"x": "BF16"}}, ValueError, "elements of 8 bytes are no BF16"),
        ({"x": numpy.uint8(1)}, {"types": {"x": "F4"}}, ValueError, "end within an element"),
        ({"x": numpy.zeros(2, "u1")}, {"types": {"x": "F6_E2M3"}}, ValueError, "end within an element"),
    ],
)
def test_what_cannot_be_written_leaves_the_old_file(
    tmp_path: Path, tensors: Any, options: dict[str, Any], error: type[Exception], says: str
) -> None:
    path = tmp_path / "model.safetensors"
    path.write_bytes(b"old")
    with pytest.raises(error, match=says):
        ferry.save_safetensors(path, tensors, **options)
    assert path.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["model.safetensors"]


# Files may not grow beyond 1 MiB: the disk is full, without one.
LIMITED = """
import resource, signal, sys
import numpy, ferry
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, 1 << 20))
try:
    ferry.save_safetensors(sys.argv[1], {str(i): numpy.arange(1 << 15) for i in range(8)})
except ferry.TransferError as error:
    print(error.errno, error.filename, {failure.path for failure in error.failures} == {sys.argv[1]})
"""


def test_a_full_disk_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    ferry.save_safetensors(path, {"old": numpy.arange(10)})
    before = path.read_bytes()
    done = run_python(LIMITED, path)
    assert (done.returncode, done.stdout, done.stderr) == (0, f"27 {path} True\n", "")
    assert path.read_bytes() == before
    assert os.listdir(tmp_path) == ["model.safetensors"]
