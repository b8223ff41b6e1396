"""Manual pages and completion that the build installs, made of the commands' own definitions."""

from __future__ import annotations

import subprocess
from pathlib import Path

import click
import pytest

from ferry import man_pages
from ferry.cli import SHELLS, ferry


def test_each_command_has_a_page_with_all_its_options() -> None:
    pages = man_pages.pages()
    assert {"ferry", "ferry-cp", "ferry-layout-set"} <= pages.keys()
    context = click.Context(ferry)
    for name in ferry.list_commands(context):
        command = ferry.get_command(context, name)
        assert command is not None
        page = pages[f"ferry-{name}"]
        for option in command.params:
            if isinstance(option, click.Option):
                assert all(man_pages.escaped(flag) in page for flag in option.opts), (name, option)
        assert f"\\fBferry\\-{name}\\fR(1)" in pages["ferry"]


def test_text_is_no_request_of_roff() -> None:
    assert man_pages.escaped(".so a\\b\n'x --y") == "\\&.so a\\eb\n\\&'x \\-\\-y"


@pytest.mark.parametrize("shell", SHELLS)
def test_files_are_written_where_they_are_installed_from(tmp_path: Path, shell: str) -> None:
    man_pages.write(tmp_path)
    assert (tmp_path / "man1" / "ferry-cp.1").read_text().startswith('.TH FERRY-CP 1 "" "Ferry ')
    assert "_FERRY_COMPLETE" in (tmp_path / "completions" / shell).read_text()


def test_bash_takes_the_completion(tmp_path: Path) -> None:
    man_pages.write(tmp_path)
    words = f"source {tmp_path}/completions/bash; complete -p ferry"
    done = subprocess.run(["bash", "-c", words], check=True, capture_output=True, text=True)
    assert "_ferry_completion" in done.stdout
