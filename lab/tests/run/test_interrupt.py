"""Ctrl-C and SIGTERM: no stray files, no process left, one line, the right exit status."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import pytest
from mpi import why_absent
from processes import is_measuring, started, wait_until
from support import TIMEOUT_S, Command

LONG = [
    ["study", "placements"],
    ["study", "optimizations"],
    ["study", "storages"],
    *([] if why_absent() else [["study", "writers", "--quick"]]),
    ["tune", "--dir", ".", "--out", "profile.toml"],
    ["bench", "-b", "4m", "-i", "100000", "-w", "file"],
    ["bench", "--placement", "compute", "-b", "4m", "-i", "100000", "-w", "file"],
    ["bench", "-F", "--threads", "3", "-b", "1m", "-i", "100000", "-w", "file"],
    ["bench", "-a", "uring", "--queue-depth", "8", "-b", "4m", "-i", "100000", "-w", "file"],
    ["bench", "-a", "posix", "-b", "4m", "-i", "100000", "-w", "file"],
    ["bench", "-a", "mmap", "-b", "4m", "-i", "100000", "-w", "file"],
]


@pytest.mark.parametrize("arguments", LONG, ids=" ".join)
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_interrupted(command: Command, scratch: Path, arguments: list[str], number: signal.Signals) -> None:
    with started(command, *arguments) as process:
        wait_until(lambda: any(scratch.rglob("*")) and is_measuring(command))
        time.sleep(0.2)
        os.killpg(process.pid, number)  # as a terminal does it
        output, message = process.communicate(timeout=TIMEOUT_S)
    assert process.returncode == 128 + number
    assert list(scratch.iterdir()) == []
    assert command.processes() == []
    assert message.strip() == "ferry: interrupted; scratch files are removed"
    assert "Traceback" not in output


def test_interrupted_while_reading_a_file(command: Command, scratch: Path, data: Path) -> None:
    before = data.read_bytes()
    with started(command, "bench", "-r", "-b", "2m", "-i", "100000", data) as process:
        wait_until(lambda: is_measuring(command))
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=TIMEOUT_S)
    assert process.returncode == 130
    assert data.read_bytes() == before
    assert command.processes() == []


def test_a_measurement_ends_with_a_command_that_is_killed(command: Command, scratch: Path) -> None:
    with started(command, "bench", "-a", "posix", "-b", "4m", "--time", "3600", "-i", "1", "-w", "file") as process:
        wait_until(lambda: any(scratch.iterdir()) and is_measuring(command))
        process.kill()
        process.communicate(timeout=TIMEOUT_S)
    wait_until(lambda: command.processes() == [] and list(scratch.iterdir()) == [])


def test_an_interrupted_study_keeps_its_rounds_and_goes_on(
    command: Command, scratch: Path, tmp_path: Path, data: Path
) -> None:
    out = tmp_path / "out"

    def arguments(repeats: int) -> list[object]:
        start = ["study", "placements", "--quick", "--file", data]
        return [*start, "--repeats", repeats, "--out", out]

    with started(command, *arguments(16)) as process:
        # The second group: then the first is kept at any machine speed.
        wait_until(lambda: (out / "unfinished.json").exists() and is_measuring(command))
        os.killpg(process.pid, signal.SIGINT)
        _, message = process.communicate(timeout=TIMEOUT_S)
    assert process.returncode == 130
    assert message.strip() == (
        f"ferry: interrupted; scratch files are removed; the same command continues from {out}/unfinished.json"
    )
    assert list(scratch.iterdir()) == []
    assert [path.name for path in out.iterdir()] == ["unfinished.json"]
    command.fails(*arguments(7), says="differs in what is measured")
    done = command.run(*arguments(16))
    assert done.returncode == 0
    assert "continuing from" in done.stderr
    assert "are from the interrupted run" in done.stdout
    assert not (out / "unfinished.json").exists()
