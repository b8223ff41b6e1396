"""The examples in the docstrings of the package run as they stand."""

from __future__ import annotations

import doctest
import importlib

import pytest

MODULES = [
    "ferry", "ferry.arrays", "ferry.engine", "ferry.file_objects", "ferry.filesystem",
    "ferry.gpu_runtime", "ferry.remote_filesystem", "ferry.transfers",
]  # fmt: skip


@pytest.mark.parametrize("name", MODULES)
def test_examples(name: str) -> None:
    if name == "ferry.filesystem":
        import fsspec

        from ferry.filesystem import FerryFileSystem

        # An installed package says so in its metadata; a checkout has none.
        fsspec.register_implementation("ferry", FerryFileSystem, clobber=True)
    results = doctest.testmod(importlib.import_module(name))
    assert results.attempted > 0
    assert results.failed == 0
