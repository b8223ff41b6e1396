"""Runs the command as people do: on a terminal, into a pipe that nobody reads, until a signal."""

from __future__ import annotations

import contextlib
import fcntl
import os
import pty
import struct
import subprocess
import termios
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from support import TIMEOUT_S, Command


@contextmanager
def on_terminal(
    command: Command, columns: int, *arguments: object, stream: str = "stdout", kind: str = "dumb"
) -> Iterator[tuple[subprocess.Popen[bytes], Iterator[bytes]]]:
    """Starts it with one of its streams on a terminal; gives what it shows there, piece by piece."""
    environment = {k: v for k, v in command.environment.items() if k not in ("COLUMNS", "LINES")}
    ours, theirs = pty.openpty()
    try:
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
        streams = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, stream: theirs}
        process = subprocess.Popen(
            command.arguments(*arguments),
            env={**environment, "TERM": kind, "NO_COLOR": "1"},
            cwd=command.scratch,
            stdin=subprocess.DEVNULL,
            **streams,
        )
        os.close(theirs)
        yield process, _pieces(ours)
    finally:
        os.close(ours)


def _pieces(terminal: int) -> Iterator[bytes]:
    with contextlib.suppress(OSError):  # the other end is closed
        while piece := os.read(terminal, 65536):
            yield piece


def run_on_terminal(command: Command, columns: int, *arguments: object) -> list[str]:
    """Runs it, which must succeed in silence; returns the lines of standard output, a terminal."""
    with on_terminal(command, columns, *arguments) as (process, pieces):
        shown = b"".join(pieces)
        _, errors = process.communicate(timeout=TIMEOUT_S)
    assert (process.returncode, errors.decode()) == (0, "")
    return shown.decode().replace("\r\n", "\n").split("\n")


def run_unread(command: Command, *arguments: object) -> str:
    """Runs it with an output that nobody reads; returns what it wrote to standard error."""
    reader, writer = os.pipe()
    os.close(reader)
    try:
        done = subprocess.run(
            command.arguments(*arguments),
            env=command.environment,
            cwd=command.scratch,
            stdout=writer,
            stderr=subprocess.PIPE,
            text=True,
            timeout=TIMEOUT_S,
        )
    finally:
        os.close(writer)
    return done.stderr


@contextmanager
def started(command: Command, *arguments: object) -> Iterator[subprocess.Popen[str]]:
    """Starts it in a process group of its own; does not outlive the block."""
    process = command.start(*arguments)
    try:
        yield process
    finally:
        process.kill()


def wait_until(condition: Callable[[], bool]) -> None:
    """Waits for it, TIMEOUT_S at most."""
    deadline = time.monotonic() + TIMEOUT_S
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def is_measuring(command: Command) -> bool:
    """Whether a measured process of the command runs."""
    return any("--plan" in line for line in command.processes())


def write_program(path: Path, text: str) -> None:
    """Makes a shell program."""
    path.parent.mkdir(exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}")
    path.chmod(0o755)
