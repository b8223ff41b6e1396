"""Runs the command in copies of an interpreter that has loaded what the command uses of others.

A run is a process of its own, with its own streams, variables and folder, and loads Ferry's modules
itself. What it saves is the start of the interpreter and the import of NumPy and the like, which take
longer than most commands. As a program, this module is that interpreter.
"""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import selectors
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

# What the interpreter or the loader reads when a process starts, by the names' beginnings.
_AT_START = ("PYTHON", "LD_", "LC_", "LANG", "TZ", "MALLOC_", "GLIBC_", "OPENBLAS_")
_MODULES = (
    "click.shell_completion",
    "msgspec",
    "numpy.ma",
    "numpy.random",
    "rich.console",
    "rich.progress",
    "rich.table",
)
_OWN = threading.local()  # each thread has an interpreter of its own


def _read_at_start(environment: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in environment.items() if name.startswith(_AT_START)}


class _Prepared:
    """An interpreter that waits for commands."""

    def __init__(self, search: str) -> None:
        environment = {**os.environ, "PYTHONPATH": search}
        self.at_start = _read_at_start(environment)
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self.process = subprocess.Popen(
                [sys.executable, "-P", __file__, str(theirs.fileno())],
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                pass_fds=[theirs.fileno()],
            )
        atexit.register(self.end)

    def end(self) -> None:
        self._socket.close()
        self.process.communicate()

    def run(
        self, arguments: list[str], environment: Mapping[str, str], folder: Path, timeout_s: float
    ) -> subprocess.CompletedProcess[str]:
        variables = {name: os.fspath(value) for name, value in environment.items()}
        asked = json.dumps({"arguments": arguments, "environment": variables, "folder": str(folder)}).encode()
        pipes = [os.pipe() for _ in range(2)]
        null = os.open(os.devnull, os.O_RDONLY)
        socket.send_fds(self._socket, [asked], [null, *(writing for _, writing in pipes)])
        for descriptor in (null, *(writing for _, writing in pipes)):
            os.close(descriptor)
        pid = int(self._socket.recv(64))
        try:
            shown = _read_all([reading for reading, _ in pipes], time.monotonic() + timeout_s)
        except BaseException as error:  # a signal's, too: the next run must not find this one's status
            os.kill(pid, signal.SIGKILL)
            self._socket.recv(64)
            if isinstance(error, TimeoutError):
                raise subprocess.TimeoutExpired(arguments, timeout_s) from None
            raise
        finally:
            for reading, _ in pipes:
                os.close(reading)
        status = os.waitstatus_to_exitcode(int(self._socket.recv(64)))
        output, errors = (text.decode().replace("\r\n", "\n").replace("\r", "\n") for text in shown)
        return subprocess.CompletedProcess(arguments, status, output, errors)


def _read_all(pipes: list[int], deadline: float) -> list[bytes]:
    """Everything from all pipes. Raises TimeoutError when that takes until the deadline."""
    found = {reading: bytearray() for reading in pipes}
    with selectors.DefaultSelector() as selector:
        for reading in pipes:
            selector.register(reading, selectors.EVENT_READ)
        while selector.get_map():
            ready = selector.select(max(deadline - time.monotonic(), 0))
            if not ready:
                raise TimeoutError
            for key, _ in ready:
                piece = os.read(key.fd, 65536)
                found[key.fd] += piece
                if not piece:
                    selector.unregister(key.fd)
    return [bytes(found[reading]) for reading in pipes]


def run(
    arguments: list[str], environment: Mapping[str, str], folder: Path, timeout_s: float
) -> subprocess.CompletedProcess[str] | None:
    """Runs ``ferry`` to its end, without input. None: this environment needs an interpreter of its own."""
    if not hasattr(_OWN, "prepared"):
        _OWN.prepared = _Prepared(environment["PYTHONPATH"])
    prepared: _Prepared = _OWN.prepared
    if prepared.at_start != _read_at_start(environment):
        return None
    return prepared.run(arguments, environment, folder, timeout_s)


# ---- the interpreter -------------------------------------------------------------------------------


def _next_command(ours: socket.socket) -> dict[str, Any]:
    """Runs what it is asked for in copies of this process; returns, in a copy, what that shall run."""
    while True:
        asked, streams, _, _ = socket.recv_fds(ours, 1 << 20, 3)
        if not asked:
            os._exit(0)
        pid = os.fork()
        if pid == 0:
            for number, descriptor in enumerate(streams):
                os.dup2(descriptor, number)
            os.closerange(3, max(ours.fileno(), *streams) + 1)
            ours.detach()
            return json.loads(asked)
        for descriptor in streams:
            os.close(descriptor)
        ours.send(str(pid).encode())
        _, status = os.waitpid(pid, 0)
        ours.send(str(status).encode())


def _main() -> None:
    import gc
    import importlib
    import runpy

    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # as ferry_lab does
    for name in _MODULES:
        with contextlib.suppress(ImportError):  # the laboratory's, where the package is tested without it
            importlib.import_module(name)
    gc.freeze()
    command = _next_command(socket.socket(fileno=int(sys.argv[1])))
    os.environ.clear()
    os.environ.update(command["environment"])
    os.chdir(command["folder"])
    sys.argv[1:] = command["arguments"]
    runpy.run_module("ferry", run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    _main()
