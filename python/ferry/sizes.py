"""Sizes as people read and write them: ``64k`` is 65536 bytes, shown as ``64 KiB``."""

import re

KIB = 1 << 10
MIB = 1 << 20
GIB = 1 << 30

_SUFFIX_BYTES = {"": 1, "k": KIB, "m": MIB, "g": GIB, "t": 1 << 40}
_PATTERN = re.compile(r"([0-9]+)\s*([kmgt]?)(?:i?b)?", re.IGNORECASE)
LIMIT_BYTES = 1 << 62


def parse_size(text: str) -> int:
    """Returns the bytes that ``text`` stands for.

    Takes whole numbers with k, m, g or t (powers of 1024), also as ``KiB`` and in either case.
    Raises ValueError for anything else, for zero, and for 4 EiB or more.
    """
    match = _PATTERN.fullmatch(text.strip())
    if match is None:
        raise ValueError(f"'{text}' is no size; write a whole number with k, m, g or t, like 64k")
    size_bytes = int(match.group(1)) * _SUFFIX_BYTES[match.group(2).lower()]
    if size_bytes == 0:
        raise ValueError(f"'{text}' is no size; it must be more than zero")
    if size_bytes >= LIMIT_BYTES:
        raise ValueError(f"'{text}' is too large")
    return size_bytes


def format_size(size_bytes: int) -> str:
    """Returns ``64 KiB`` for 65536: the largest unit of at least 1, with one decimal."""
    for unit_bytes, unit in ((1 << 40, "TiB"), (GIB, "GiB"), (MIB, "MiB"), (KIB, "KiB")):
        if size_bytes >= unit_bytes:
            number = f"{size_bytes / unit_bytes:.1f}"
            return f"{number[:-2] if number.endswith('.0') else number} {unit}"
    return f"{size_bytes} bytes" if size_bytes != 1 else "1 byte"


def largest_power_of_two(limit: int) -> int:
    """Returns the largest power of two up to ``limit``, which is at least 1."""
    return 1 << (limit.bit_length() - 1)
