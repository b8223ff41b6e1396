"""Standard streams that are closed or full, Ctrl-C at any time, and odd names on the terminal."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
from pathlib import Path

import pytest
from ferry import streams
from support import SOURCES, TIMEOUT_S, Command, run_python
from processes import run_on_terminal, run_unread, started

NOT_UTF_8 = os.fsdecode(b"odd \xff name")
ESCAPES = "a\x1b[31mred\x1b]0;title\x07\x9b1m\u202eb"


def in_shell(command: Command, redirection: str, *arguments: object) -> tuple[int, str, str]:
    """Runs the command like a shell with such a redirection."""
    done = subprocess.run(
        ["bash", "-c", f'"$@" {redirection}', "bash", *command.arguments(*arguments)],
        env=command.environment,
        cwd=command.scratch,
        capture_output=True,
        text=True,
        timeout=60,
    )
    return done.returncode, done.stdout, done.stderr


@pytest.mark.parametrize("arguments", [["info"], ["--help"], ["bench", "-b", "64k", "-t", "64k", "f"]])
def test_a_closed_standard_output_is_one_line(command: Command, arguments: list[str]) -> None:
    status, out, errors = in_shell(command, ">&-", *arguments)
    assert (status, out) == (1, "")
    assert errors == ("ferry: standard output is closed; send it to /dev/null if you do not want it\n")
    assert list(command.scratch.iterdir()) == []


def test_a_closed_standard_error_is_no_crash(command: Command, scratch: Path) -> None:
    status, out, errors = in_shell(command, "2>&-", "info", "nothing-here")
    assert (status, out, errors) == (1, "", "")
    status, out, errors = in_shell(command, "<&- 2>&-", "bench", "-b", "64k", "-t", "64k", "-i", "1", "f")
    assert status == 0
    assert "contents verified" in out
    assert list(scratch.iterdir()) == []


@pytest.mark.parametrize("more", [[], ["--json", "-"]])
def test_a_full_device_for_output_is_named(command: Command, more: list[str]) -> None:
    status, _, errors = in_shell(command, ">/dev/full", "info", *more)
    assert status == 1
    assert errors == "ferry: standard output: No space left on device; send it to another place\n"


def test_one_line_of_the_output_is_enough(command: Command) -> None:
    for _ in range(5):
        status, out, errors = in_shell(command, "| head -n 1", "info")
        assert (status, errors) == (0, "")
        assert out.startswith("machine ")


@pytest.mark.parametrize(
    ("arguments", "result"),
    [
        (["study", "placements", "--quick", "--repeats", "2", "--file", "data", "--out", "out"], "out/results.csv"),
        (["bench", "-b", "64k", "-t", "64k", "-i", "1", "--json", "r.json", "f"], "r.json"),
    ],
)
def test_results_are_written_when_nobody_reads_the_output(
    command: Command, scratch: Path, data: Path, arguments: list[str], result: str
) -> None:
    data.rename(scratch / "data")
    assert run_unread(command, *arguments) == ""
    assert (scratch / result).stat().st_size > 0


def test_ctrl_c_while_modules_load_is_no_traceback(command: Command, tmp_path: Path) -> None:
    # A slow module of the command, which reports that it has started.
    (tmp_path / "sitecustomize.py").write_text(
        "import sys, time\n"
        "class Slow:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name == 'click':\n"
        "            print('loading', flush=True)\n"
        "            time.sleep(60)\n"
        "sys.meta_path.insert(0, Slow())\n"
    )
    command.environment["PYTHONPATH"] = f"{tmp_path}:{SOURCES}"
    with started(command, "info") as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "loading\n"
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=TIMEOUT_S)
    assert errors == ""
    assert process.returncode == -signal.SIGINT


# ---- names ---------------------------------------------------------------------------------------


def test_printable_escapes_what_is_no_character() -> None:
    assert streams.printable("plain ±é─ 文\n\t") == "plain ±é─ 文\n\t"
    assert streams.printable(NOT_UTF_8) == r"odd \xff name"
    assert streams.printable(ESCAPES) == r"a\x1b[31mred\x1b]0;title\x07\x9b1m\u202eb"


@pytest.mark.parametrize(
    "arguments",
    [
        ["info", "NAME"],
        ["bench", "-r", "-b", "64k", "-t", "64k", "-i", "1", "NAME"],
        ["bench", "-r", "-b", "1g", "-t", "64k", "NAME"],
        ["import", "NAME"],
        ["compare", "NAME", "NAME"],
        ["cp", "NAME", "NAME"],
        ["layout", "get", "NAME"],
        ["study", "NAME"],
        ["NAME"],
    ],
)
@pytest.mark.parametrize("name", [ESCAPES, NOT_UTF_8])
def test_no_name_reaches_the_terminal_raw(command: Command, name: str, arguments: list[str]) -> None:
    (command.scratch / name).write_bytes(bytes(65536))
    done = command.run(*(name if word == "NAME" else word for word in arguments), encoding="utf-8")
    shown = done.stdout + done.stderr
    assert "Traceback" not in shown
    assert streams.printable(shown) == shown
    assert "JSON" not in shown or arguments[0] in ("compare", "import")


def test_bench_says_that_a_name_is_not_utf_8(command: Command, scratch: Path) -> None:
    why = (
        f"ferry: {scratch}/odd \\xff name is not UTF-8, and what is measured needs a path that is; "
        "choose another name or folder, or make a link to it\n"
    )
    assert command.fails("bench", "-b", "64k", "-t", "64k", "-i", "1", NOT_UTF_8, says="UTF-8") == why
    assert list(scratch.iterdir()) == []


def test_json_keeps_a_name_that_is_not_utf_8(command: Command, scratch: Path) -> None:
    (scratch / "plain").write_bytes(b"x")
    assert command.json("cp", "plain", NOT_UTF_8)["to"] == NOT_UTF_8
    command.succeeds("cp", "--overwrite", "--json", "r.json", "plain", NOT_UTF_8)
    assert json.loads((scratch / "r.json").read_text(encoding="utf-8"))["to"] == NOT_UTF_8


def test_info_shows_a_name_that_is_not_utf_8(command: Command, scratch: Path) -> None:
    (scratch / NOT_UTF_8).write_bytes(b"x")
    assert "odd \\xff name (file, 1 byte)" in command.succeeds("info", NOT_UTF_8)
    assert command.json("info", NOT_UTF_8)["path"]["path"] == NOT_UTF_8


@pytest.mark.parametrize(
    "name", [NOT_UTF_8, "é文\U0001f600", "cut \udcc3", "long \udce0\udc80\udc80", "\udced\udca0\udc80"]
)
def test_an_error_names_what_was_typed(command: Command, name: str) -> None:
    why = f"ferry: {streams.printable(name)}: No such file or directory; name a path that is there\n"
    assert command.fails("cp", name, "copy", says="No such file") == why


def test_a_name_is_no_markup(command: Command, scratch: Path) -> None:
    name = "[bold]x[red]"
    (scratch / name).write_bytes(bytes(65536))
    lines = run_on_terminal(command, 200, "bench", "-r", "-b", "64k", "-t", "64k", "-i", "1", name)
    assert lines[0].startswith(f"{name} on ")


def bar_of(program: str) -> str:
    """What a program shows that has a progress bar."""
    start = "from ferry import streams, terminal\nstreams.shows_progress = lambda: True\n"
    done = run_python(start + program, PYTHONPATH=SOURCES, TERM="xterm", TTY_COMPATIBLE="1", COLUMNS="200")
    assert done.returncode == 0, done.stderr
    return done.stderr


def test_a_progress_bar_shows_names_as_they_are() -> None:
    program = "with terminal.progress('[/]a\\x1b[31mb', 2) as bar:\n    bar.advance()\n    bar.label('[/]c\\x9bd')\n"
    shown = bar_of(program)
    assert "[/]c\\x9bd" in shown
    assert "\x1b[31m" not in shown


def test_the_progress_of_a_copy_has_one_kind_of_unit() -> None:
    program = (
        "import time\n"
        "with terminal.byte_progress() as show:\n"
        "    for step in range(5):\n"
        "        show('copy', step << 20, 8 << 20)\n"
        "        time.sleep(0.02)\n"
        "    show('copy', 8 << 20, 8 << 20)\n"
    )
    shown = bar_of(program)
    assert "8.0/8.0 MiB" in shown
    assert re.search(r"\d+ MiB/s", shown)
    assert not re.search(r"\d [kMG]B", shown)
