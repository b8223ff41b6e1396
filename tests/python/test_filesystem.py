"""The fsspec file system, used by fsspec itself and by zarr."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import fsspec
import numpy
import pytest
import zarr

from file_system_checks import CHECKS  # registers the file systems


def test_opening_by_url(tmp_path: Path) -> None:
    with fsspec.open(f"ferry://{tmp_path}/a", "wb") as file:
        file.write(b"hello\nworld\n")
    with fsspec.open(f"ferry://{tmp_path}/a", "rt") as file:
        assert file.readlines() == ["hello\n", "world\n"]
    with fsspec.open(f"ferry://{tmp_path}/a.gz", "wt", compression="gzip") as file:
        file.write("text")
    with fsspec.open(f"ferry://{tmp_path}/a.gz", "rt", compression="gzip") as file:
        assert file.read() == "text"


def test_what_a_file_system_does(tmp_path: Path) -> None:
    fs = fsspec.filesystem("ferry")
    root = f"ferry://{tmp_path}"
    fs.pipe({f"{root}/x": b"0123456789", f"{root}/y": b"abc"})
    assert sorted(os.path.basename(name) for name in fs.ls(root, detail=False)) == ["x", "y"]
    assert fs.info(f"{root}/x")["size"] == 10
    assert fs.cat_file(f"{root}/x", 2, 5) == b"234"
    assert fs.cat_file(f"{root}/x", -3) == b"789"
    assert fs.cat_file(f"{root}/x", 8, 100) == b"89"
    assert fs.cat(f"{root}/y") == b"abc"
    many = fs.cat([f"{root}/x", f"{root}/y"])
    assert sorted(many.values()) == [b"0123456789", b"abc"]
    assert fs.cat_ranges([f"{root}/x", f"{root}/y"], [1, 0], [4, 2], on_error="raise") == [b"123", b"ab"]
    assert fs.cat_ranges([f"{root}/x"], [-3], [None]) == [b"789"]
    assert fs.unstrip_protocol(f"{tmp_path}/x") == f"{root}/x"
    with pytest.raises(FileNotFoundError):
        fs.cat_file(f"{root}/missing")
    with pytest.raises(FileNotFoundError):
        fs.cat([f"{root}/x", f"{root}/missing"])
    fs.mv(f"{root}/x", f"{root}/z")
    fs.rm(f"{root}/z")
    assert os.listdir(tmp_path) == ["y"]


def test_zarr_through_it(tmp_path: Path) -> None:
    data = numpy.random.default_rng(1).standard_normal((500, 300))
    array = zarr.create_array(f"ferry://{tmp_path}/a.zarr", shape=data.shape, chunks=(100, 100), dtype=data.dtype)
    array[:] = data
    again = zarr.open_array(f"ferry://{tmp_path}/a.zarr", mode="r")
    numpy.testing.assert_array_equal(again[:], data)
    numpy.testing.assert_array_equal(again[37:180, 99:201], data[37:180, 99:201])
    # And what zarr's own store wrote is read too.
    zarr.save_array(str(tmp_path / "b.zarr"), data)
    numpy.testing.assert_array_equal(zarr.open_array(f"ferry://{tmp_path}/b.zarr", mode="r")[:], data)


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_programs_through_it(tmp_path: Path, check: Callable[[str], None]) -> None:
    check(f"ferry://{tmp_path}")
