"""The stored help pages match the parser."""

from __future__ import annotations

import os
import shlex
import subprocess
from pathlib import Path
from typing import IO

import pytest
from ferry import help_texts
from processes import write_program
from support import ROOT, Command

STORED = ROOT / "scripts" / "help"
NO_OUTPUT = "standard output cannot be written; send it to another place"
AGAIN = "make them anew: python -m ferry.help_texts scripts/help"


def test_there_is_one_page_for_each_command() -> None:
    stored = {str(path.relative_to(STORED).with_suffix("")) for path in STORED.rglob("*.txt")}
    assert stored == set(help_texts.pages()), AGAIN


@pytest.mark.parametrize(("name", "text"), help_texts.pages().items())
def test_stored_pages_are_up_to_date(name: str, text: str) -> None:
    assert (STORED / f"{name}.txt").read_text() == text, AGAIN
    assert max(len(line) for line in text.splitlines()) <= 80


@pytest.mark.parametrize(
    ("arguments", "name"),
    [
        ([], "ferry"),
        (["--help"], "ferry"),
        (["bench", "--help"], "bench"),
        (["study", "-h"], "study"),
        (["layout"], "layout"),
        (["daemon"], "daemon"),
        (["rig"], "rig"),
        (["layout", "--help"], "layout"),
        (["layout", "set", "--help"], "layout/set"),
        (["layout", "set", "file", "--pool", "x", "--help"], "layout/set"),
        (["rig", "up", "-h"], "rig/up"),
        (["rig", "up", "nfs", "--help"], "rig/up"),
        (["help"], "ferry"),
        (["help", "bench"], "bench"),
        (["help", "layout"], "layout"),
        (["help", "layout", "get"], "layout/get"),
        (["help", "help"], "help"),
        (["help", "--help"], "help"),
        (["run", "--help"], "run"),
        (["run", "--map", "x", "--help"], "run"),
        (["daemon", "status", "-h"], "daemon/status"),
    ],
)
def test_the_command_prints_the_same(command: Command, arguments: list[str], name: str) -> None:
    text = (STORED / f"{name}.txt").read_text()
    for columns in ("40", "200"):
        assert command.succeeds(*arguments, env={**command.environment, "COLUMNS": columns}) == text
    done = run_checkout(*arguments)
    assert (done.returncode, done.stdout, done.stderr) == (0, text, "")


def run_checkout(*arguments: str, stdout: int | IO[str] = subprocess.PIPE) -> subprocess.CompletedProcess[str]:
    """Runs ./ferry with arguments that need no set-up."""
    return subprocess.run(
        [ROOT / "ferry", *arguments],
        env={"PATH": "/usr/bin:/bin"},
        stdout=stdout,
        stderr=subprocess.PIPE,
        text=True,
        timeout=60,
    )


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["nope"], "no command 'nope'; ./ferry --help lists them"),
        (["-x"], "no option '-x'; ./ferry --help lists them"),
        (["layout", "nope"], "no command 'layout nope'; ./ferry layout --help lists them"),
        (["layout", "nope", "--help"], "no command 'layout nope'; ./ferry layout --help lists them"),
        (["layout/set"], "no command 'layout/set'; ./ferry --help lists them"),
        (["help", "nope"], "no command 'nope'; ./ferry --help lists them"),
        (["help", "../packages-run"], "no command '../packages-run'; ./ferry --help lists them"),
        (["help", "layout", "nope"], "no command 'layout nope'; ./ferry layout --help lists them"),
        (["a\x1b[31mb"], "no command $'a\\E[31mb'; ./ferry --help lists them"),
    ],
)
def test_the_checkout_refuses_what_is_no_command(arguments: list[str], words: str) -> None:
    done = run_checkout(*arguments)
    assert (done.returncode, done.stdout, done.stderr) == (2, "", f"ferry: {words}\n")


@pytest.mark.parametrize("arguments", [["--help"], ["help", "bench"], ["--version"]])
def test_the_checkout_says_that_its_output_is_full(arguments: list[str]) -> None:
    with open("/dev/full", "w") as full:
        done = run_checkout(*arguments, stdout=full)
    assert (done.returncode, done.stderr) == (1, f"ferry: {NO_OUTPUT}\n")


@pytest.mark.parametrize(
    ("arguments", "page"),
    [
        (["layout", "set"], "ferry layout set --help explains"),
        (["layout", "set", "x", "--nope"], "ferry layout set --help explains"),
        (["rig", "up", "nope"], "ferry rig up --help explains"),
        (["rig", "up", "nfs", "--osd-mbps"], "ferry rig up --help explains"),
        (["bench", "-o"], "ferry bench --help explains"),
        (["info", "--json"], "ferry info --help explains"),
        (["infos"], "No such command 'infos'. Did you mean 'info'? ferry --help explains"),
        (["help", "nope"], "No such command 'nope'; ferry --help explains"),
        (["help", "layout", "x"], "No such command 'layout x'; ferry --help explains"),
        (["help", "info", "x"], "No such command 'info x'; ferry --help explains"),
    ],
)
def test_errors_send_to_the_page_of_the_command(command: Command, arguments: list[str], page: str) -> None:
    command.fails(*arguments, says=f"{page}\n", status=2)


# ---- completion ----------------------------------------------------------------------------------


def completed(command: Command, *words: str) -> list[str]:
    """Returns bash's completions of the last word: kind and value."""
    done = command.run(
        env={
            **command.environment,
            "_FERRY_COMPLETE": "bash_complete",
            "COMP_WORDS": " ".join(("ferry", *words)),
            "COMP_CWORD": str(len(words)),
        }
    )
    assert done.stderr == ""
    return done.stdout.split()


def test_shells_complete_commands_flags_values_and_paths(command: Command) -> None:
    assert "plain,layout" in completed(command, "la")
    assert completed(command, "layout", "s") == ["plain,set"]
    assert "plain,--transfer-size" in completed(command, "bench", "--tr")
    assert completed(command, "bench", "--placement", "c") == ["plain,compute"]
    assert completed(command, "bench", "-a", "u") == ["plain,uring"]
    assert completed(command, "info", "da") == ["file,da"]
    assert completed(command, "run", "--map", "da") == ["dir,da"]
    assert completed(command, "run", "--", "./da") == ["file,./da"]
    assert completed(command, "study", "placements", "--dir", "da") == ["file,da"]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_there_is_a_completion_for_each_shell(command: Command, shell: str) -> None:
    done = command.run("completion", shell)
    assert (done.returncode, done.stderr) == (0, "")
    assert f"_FERRY_COMPLETE={shell}_complete" in done.stdout


def test_bash_takes_the_completion_and_asks_the_command(command: Command, tmp_path: Path) -> None:
    write_program(tmp_path / "ferry", f'exec {shlex.join(command.arguments())} "$@"\n')
    script = (
        'eval "$(ferry completion bash)"; COMP_WORDS=(ferry layout g); COMP_CWORD=2; '
        '_ferry_completion ferry; printf "%s\\n" "${COMPREPLY[@]}"; complete -p ferry'
    )
    path = f"{tmp_path}:{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "--norc", "-c", script],
        env={**command.environment, "PATH": path},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[0] == "get"
    assert "_ferry_completion" in done.stdout.splitlines()[1]
