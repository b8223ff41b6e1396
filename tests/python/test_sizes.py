"""Sizes as they are read and shown."""

import pytest

from ferry.sizes import format_size, largest_power_of_two, parse_size


@pytest.mark.parametrize(
    ("text", "size_bytes"),
    [
        ("1", 1),
        ("512", 512),
        ("4k", 4096),
        ("4K", 4096),
        ("64KiB", 65536),
        ("16m", 16 << 20),
        ("3 g", 3 << 30),
        ("2t", 2 << 40),
        (" 8M ", 8 << 20),
    ],
)
def test_sizes_are_powers_of_1024(text: str, size_bytes: int) -> None:
    assert parse_size(text) == size_bytes


@pytest.mark.parametrize("text", ["", "k", "-1", "1.5m", "4x", "0", "0k", "1e6", "4kk", "9999999t"])
def test_anything_else_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"is no size|is too large"):
        parse_size(text)


@pytest.mark.parametrize(
    ("size_bytes", "text"),
    [
        (0, "0 bytes"),
        (1, "1 byte"),
        (1023, "1023 bytes"),
        (4096, "4 KiB"),
        (1536, "1.5 KiB"),
        (16 << 20, "16 MiB"),
        (5 << 30, "5 GiB"),
    ],
)
def test_shown_sizes(size_bytes: int, text: str) -> None:
    assert format_size(size_bytes) == text


def test_largest_power_of_two() -> None:
    assert [largest_power_of_two(n) for n in (1, 2, 3, 4, 5, 1023, 1024)] == [*(1, 2, 2, 4, 4, 512, 1024)]
