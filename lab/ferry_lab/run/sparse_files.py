"""Makes large files that hold ferry-bench's verifiable pattern at a few places and nothing between."""

from __future__ import annotations

import os

import numpy as np

from ferry.errors import FerryError

BLOCK_BYTES = 4096
_MASK = (1 << 64) - 1


def make_sparse_file(path: str, places: int, apart_bytes: int, seed: int) -> None:
    """Makes a file with one block of the pattern at each multiple of ``apart_bytes``.

    Raises FerryError where the file system has no files of that size, or no room.
    """
    block = _block(seed)
    try:
        with open(path, "xb", buffering=0) as file:
            file.truncate(places * apart_bytes)
            for place in range(places):
                offset = place * apart_bytes
                block[0] = _mix(_mix(seed) ^ (offset // BLOCK_BYTES))
                os.pwrite(file.fileno(), block.tobytes(), offset)
            os.fsync(file.fileno())
    except OSError as error:
        raise FerryError(f"{path}: {error.strerror}") from None


def _block(seed: int) -> np.ndarray:
    """Returns a block whose first word is still missing (lab/harness/pattern_words.hpp)."""
    later = _mix(~seed & _MASK)
    words = [0, *(_mix(later + index) for index in range(1, BLOCK_BYTES // 8))]
    return np.array(words, dtype="<u8")


def _mix(value: int) -> int:
    value = (value + 0x9E3779B97F4A7C15) & _MASK
    value = (value ^ (value >> 30)) * 0xBF58476D1CE4E5B9 & _MASK
    value = (value ^ (value >> 27)) * 0x94D049BB133111EB & _MASK
    return value ^ (value >> 31)
