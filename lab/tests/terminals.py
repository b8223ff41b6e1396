"""Runs the command on a terminal of a given width."""

from __future__ import annotations

import fcntl
import os
import pty
import struct
import subprocess
import termios

from support import TIMEOUT_S, Command


def run_on_terminal(command: Command, columns: int, *arguments: object) -> tuple[int, list[str]]:
    """Returns the exit status and the lines of standard output, a terminal."""
    environment = {k: v for k, v in command.environment.items() if k not in ("COLUMNS", "LINES")}
    ours, theirs = pty.openpty()
    try:
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
        process = subprocess.Popen(
            command.arguments(*arguments),
            env={**environment, "TERM": "dumb", "NO_COLOR": "1"},
            cwd=command.scratch,
            stdin=subprocess.DEVNULL,
            stdout=theirs,
            stderr=subprocess.PIPE,
        )
        os.close(theirs)
        shown = b""
        try:
            while chunk := os.read(ours, 65536):
                shown += chunk
        except OSError:
            pass  # the other end is closed
        _, errors = process.communicate(timeout=TIMEOUT_S)
    finally:
        os.close(ours)
    assert errors == b"", errors.decode()
    return process.returncode, shown.decode().replace("\r\n", "\n").split("\n")
