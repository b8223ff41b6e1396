"""The sizes of files that studies sweep, and how often they repeat what takes seconds."""

from __future__ import annotations

from ferry.sizes import GIB, MIB
from ferry_lab.run.study import StudyOptions
from ferry_lab.stats import judge

SIZES = [4 * MIB, 16 * MIB, 64 * MIB, 256 * MIB, GIB]
QUICK_SIZES = [4 * MIB, 16 * MIB, 64 * MIB]
REPEATS = judge.PAIRS_MIN
QUICK_REPEATS = judge.FINDING_PAIRS_MIN
_LARGE_REPEATS = {256 * MIB: 8, GIB: 6}


def repeats_of(options: StudyOptions, file_bytes: int = 0) -> int:
    """Returns how often to measure on a file of that size."""
    usual = QUICK_REPEATS if options.quick else REPEATS
    return options.repeats or min(usual, _LARGE_REPEATS.get(file_bytes, usual))
