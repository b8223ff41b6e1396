"""The standard streams of the command: opened, written to and closed safely.

It imports little: every command needs it, and some must start fast.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import sys
from typing import Any

# Control characters, colours, bidirectional overrides, and bytes of a name that are not UTF-8. Line
# feeds and tabs are harmless.
_UNPRINTABLE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


def printable(text: str) -> str:
    """Returns a text, which may contain a file's name, made safe for a terminal."""

    def escaped(match: re.Match[str]) -> str:
        code = ord(match[0])
        if 0xDC80 <= code <= 0xDCFF:  # a byte of a name, from os.fsdecode
            code -= 0xDC00
        return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"

    return _UNPRINTABLE.sub(escaped, text)


def say(message: str) -> None:
    """Prints one line about the command itself on standard error, if that takes it."""
    line = printable(" ".join(message.split()))
    with contextlib.suppress(OSError):
        print(f"ferry: {line}", file=sys.stderr)


def shows_progress() -> bool:
    """Whether standard error is a terminal."""
    return sys.stderr.isatty()


class _Output(io.FileIO):
    """A descriptor whose errors name standard output."""

    def write(self, data: Any) -> int | None:  # type: ignore[override]  # its name is positional
        try:
            return super().write(data)
        except OSError as error:
            error.filename = "standard output"
            raise


def open_streams() -> bool:
    """Makes the standard streams usable; returns whether there is a standard output.

    Closed streams become /dev/null, so that no file gets their descriptors.
    """
    for number, flags in ((0, os.O_RDONLY), (1, os.O_WRONLY), (2, os.O_WRONLY)):
        try:
            os.fstat(number)
        except OSError:
            null = os.open(os.devnull, flags)  # gets the lowest free number: this one
            os.set_inheritable(null, True)
    if sys.stderr is None:
        sys.stderr = open(2, "w", closefd=False)  # noqa: SIM115
    if sys.stdout is None:
        sys.stdout = open(1, "w", closefd=False)  # noqa: SIM115
        return False
    if isinstance(sys.__stdout__, io.TextIOWrapper) and sys.stdout is sys.__stdout__:
        sys.stdout = io.TextIOWrapper(
            io.BufferedWriter(_Output(sys.stdout.fileno(), "w", closefd=False)),
            encoding=sys.stdout.encoding,
            errors="backslashreplace",
            line_buffering=sys.stdout.line_buffering,
        )
    return True


def close_output() -> None:
    """Keeps the interpreter from flushing to a closed pipe at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
