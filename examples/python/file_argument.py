"""The command line of the examples that sum a file's bytes."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable


def print_sum(sum_bytes: Callable[[str], int]) -> int:
    """Prints the sum for the given file; returns the exit status."""
    program = os.path.basename(sys.argv[0])
    if len(sys.argv) != 2:
        print(f"usage: {program} FILE", file=sys.stderr)
        return 2
    try:
        print(sum_bytes(sys.argv[1]))
    except OSError as error:
        print(f"{program}: {error}", file=sys.stderr)
        return 1
    return 0
