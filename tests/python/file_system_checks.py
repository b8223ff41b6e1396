"""What fsspec, zarr, pandas and xarray need of Ferry's fsspec file systems.

The same for every storage: each check takes the URL of an empty folder. As a program, runs all in
folders below the given URL, and prints the names of those that passed.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable

import fsspec
import numpy
import pandas
import pytest
import xarray
import zarr

from ferry.filesystem import FerryFileSystem
from ferry.remote_filesystem import CephFileSystem, NfsFileSystem, Pvfs2FileSystem

# What the metadata of an installed package does.
for _kind in (CephFileSystem, NfsFileSystem, Pvfs2FileSystem):
    fsspec.register_implementation(_kind.protocol, _kind, clobber=True)
fsspec.register_implementation("ferry", FerryFileSystem, clobber=True)


def below(url: str, name: str) -> str:
    """The URL of ``name`` in the folder at ``url``, with its settings."""
    path, question, settings = url.partition("?")
    return f"{path.rstrip('/')}/{name}{question}{settings}"


def listing(url: str) -> None:
    """``ls``, ``info``, ``find``, ``glob``, ``walk`` and ``du``."""
    fs, root = fsspec.url_to_fs(url)
    assert fs.ls(root) == []
    names = ["a.txt", "b.txt", "deep/er/c.txt", "deep/d.bin", "100% sure?"]
    for number, name in enumerate(names):
        fs.pipe_file(f"{root}/{name}", b"x" * (number + 1))
    assert sorted(fs.ls(root, detail=False)) == [f"{root}/{n}" for n in ("100% sure?", "a.txt", "b.txt", "deep")]
    found = {entry["name"]: entry for entry in fs.ls(root, detail=True)}
    assert (found[f"{root}/b.txt"]["size"], found[f"{root}/b.txt"]["type"]) == (2, "file")
    assert found[f"{root}/deep"]["type"] == "directory"
    assert found[f"{root}/b.txt"] == fs.info(f"{root}/b.txt")
    assert fs.ls(f"{root}/a.txt", detail=False) == [f"{root}/a.txt"]
    assert fs.find(root) == sorted(f"{root}/{name}" for name in names)
    assert fs.glob(f"{root}/*.txt") == [f"{root}/a.txt", f"{root}/b.txt"]
    assert fs.glob(f"{root}/?.txt") == [f"{root}/a.txt", f"{root}/b.txt"]
    assert fs.glob(f"{root}/**/*.txt") == [f"{root}/{n}" for n in ("a.txt", "b.txt", "deep/er/c.txt")]
    walked = [(os.path.basename(at), folders, files) for at, folders, files in fs.walk(f"{root}/deep")]
    assert walked == [("deep", ["er"], ["d.bin"]), ("er", [], ["c.txt"])]
    assert fs.du(root) == 15
    assert fs.cat_file(f"{root}/100% sure?") == b"xxxxx"
    with pytest.raises(FileNotFoundError):
        fs.ls(f"{root}/missing")
    with fsspec.open_files(below(url, "*.txt"), "rb")[1] as file:
        assert file.read() == b"xx"


def changing(url: str) -> None:
    """Folders are made, renamed, copied and removed."""
    fs, root = fsspec.url_to_fs(url)
    fs.makedirs(f"{root}/x/y/z")
    fs.makedirs(f"{root}/x/y/z", exist_ok=True)
    with pytest.raises(FileExistsError):
        fs.makedirs(f"{root}/x/y/z")
    with pytest.raises(FileExistsError):
        fs.mkdir(f"{root}/x")
    with pytest.raises(FileNotFoundError):
        fs.mkdir(f"{root}/missing/below", create_parents=False)
    fs.pipe_file(f"{root}/x/y/file", b"abc")
    with pytest.raises(OSError):
        fs.rmdir(f"{root}/x/y")
    with pytest.raises((OSError, ValueError)):
        fs.rm(f"{root}/x/y")
    fs.mv(f"{root}/x/y", f"{root}/x/w")
    assert fs.isdir(f"{root}/x/w/z")
    assert not fs.exists(f"{root}/x/y")
    fs.cp(f"{root}/x/w/file", f"{root}/x/copy")
    assert fs.cat_file(f"{root}/x/copy") == b"abc"
    fs.rmdir(f"{root}/x/w/z")
    fs.rm(f"{root}/x", recursive=True)
    assert fs.ls(root) == []


def arrays_of_zarr(url: str) -> None:
    """An array and a group, whose members are found by listing."""
    data = numpy.random.default_rng(1).standard_normal((300, 200))
    group = zarr.create_group(below(url, "group.zarr"))
    for name in ("one", "two"):
        group.create_array(name, shape=data.shape, chunks=(100, 100), dtype=data.dtype)[:] = data
    again = zarr.open_group(below(url, "group.zarr"), mode="r")
    assert sorted(again.array_keys()) == ["one", "two"]
    numpy.testing.assert_array_equal(again["two"][37:180, 99:], data[37:180, 99:])
    del zarr.open_group(below(url, "group.zarr"), mode="r+")["one"]
    assert list(zarr.open_group(below(url, "group.zarr"), mode="r").array_keys()) == ["two"]


def tables_of_pandas(url: str) -> None:
    """Tables as text and as pickles."""
    table = pandas.DataFrame({"x": [1.5, 2.5, 3.5], "name": ["a", "b", "ä"]})
    table.to_csv(below(url, "table.csv"), index=False)
    pandas.testing.assert_frame_equal(pandas.read_csv(below(url, "table.csv")), table)
    table.to_csv(below(url, "table.csv.gz"), index=False)
    pandas.testing.assert_frame_equal(pandas.read_csv(below(url, "table.csv.gz")), table)
    table.to_pickle(below(url, "new/table.pickle"))
    pandas.testing.assert_frame_equal(pandas.read_pickle(below(url, "new/table.pickle")), table)
    with pytest.raises(FileNotFoundError):
        pandas.read_csv(below(url, "missing.csv"))


def data_sets_of_xarray(url: str) -> None:
    """A data set with coordinates, written, appended to and read."""
    rng = numpy.random.default_rng(2)

    def days(first: int) -> xarray.Dataset:
        return xarray.Dataset(
            {"heat": (("day", "place"), rng.standard_normal((4, 3)))},
            coords={"day": numpy.arange(first, first + 4), "place": ["a", "b", "c"]},
        )

    first, second = days(0), days(4)
    store = below(url, "set.zarr")
    first.to_zarr(store, consolidated=False, zarr_format=3)
    second.to_zarr(store, append_dim="day", consolidated=False, zarr_format=3)
    with xarray.open_zarr(store, consolidated=False) as found:
        xarray.testing.assert_equal(found.load(), xarray.concat([first, second], "day"))


CHECKS: list[Callable[[str], None]] = [
    listing, changing, arrays_of_zarr, tables_of_pandas, data_sets_of_xarray,
]  # fmt: skip

if __name__ == "__main__":
    for check in CHECKS:
        folder = below(sys.argv[1], check.__name__)
        file_system, path = fsspec.url_to_fs(folder)
        file_system.makedirs(path)
        check(folder)
        print(check.__name__)
