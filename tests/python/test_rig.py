"""What the rigs take for a server that runs."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from support import ROOT, TIMEOUT_S, run_program

# The number of the system call that ends one thread.
EXIT = {"x86_64": 60, "aarch64": 93}
PROGRAM = """import ctypes, sys, threading, time
threading.Thread(target=time.sleep, args=(600,)).start()
ctypes.CDLL(None).syscall(int(sys.argv[1]), 0)"""


def fields(process: int) -> list[str]:
    """Those of /proc/PID/stat behind the name: the state, and others."""
    return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()


@pytest.mark.skipif(platform.machine() not in EXIT, reason="the number of a system call is not known here")
def test_a_server_runs_until_its_last_thread_ends(tmp_path: Path) -> None:
    """A killed one keeps its ports while one of its threads is in a system call, and its first may end before."""
    shutil.copytree(ROOT / "rigs", tmp_path / "rigs")
    state = tmp_path / ".ferry" / "rig" / "nfs"
    state.mkdir(parents=True)
    (state / "port").write_text("1\n")

    def shown() -> str:
        return run_program(tmp_path / "rigs" / "rig", "status", check=True).stdout

    with subprocess.Popen([sys.executable, "-c", PROGRAM, str(EXIT[platform.machine()])]) as server:
        try:
            deadline = time.monotonic() + TIMEOUT_S
            while fields(server.pid)[0] != "Z":
                assert time.monotonic() < deadline
                time.sleep(0.01)
            (state / "ganesha.process").write_text(f"{server.pid} {fields(server.pid)[19]}\n")
            assert shown().startswith("nfs   up ")
            run_program(tmp_path / "rigs" / "rig", "kill", "nfs", check=True)
            assert os.listdir(f"/proc/{server.pid}/task") == [str(server.pid)]
            assert shown().startswith("nfs   down ")
        finally:
            server.kill()
