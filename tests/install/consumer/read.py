"""Reads the given file through an installed ferry and prints it."""

import os
import sys

import numpy

import ferry

there = os.path.dirname(ferry.__file__)
assert there.startswith(sys.prefix), f"not the installed package: {there}"
with ferry.open(sys.argv[1]) as file:
    target = numpy.empty(file.size(), numpy.uint8)
    assert file.read_at_async(target, 0).result() == target.nbytes
print(target.tobytes().decode(), end="")
