"""The stored help pages are what the parser says."""

from pathlib import Path

import pytest

from conftest import Command
from ferry import help_texts

STORED = Path(__file__).resolve().parents[2] / "scripts" / "help"
AGAIN = "make them anew: python -m ferry.help_texts scripts/help"


def test_there_is_one_page_for_each_command() -> None:
    stored = {path.stem for path in STORED.glob("*.txt")}
    assert stored == set(help_texts.pages()), AGAIN


@pytest.mark.parametrize(("name", "text"), help_texts.pages().items())
def test_stored_pages_are_up_to_date(name: str, text: str) -> None:
    assert (STORED / f"{name}.txt").read_text() == text, AGAIN
    assert max(len(line) for line in text.splitlines()) <= 80


@pytest.mark.parametrize("arguments", [[], ["--help"], ["bench", "--help"], ["study", "-h"]])
def test_the_command_prints_the_same(command: Command, arguments: list[str]) -> None:
    name = arguments[0] if arguments and arguments[0].isalpha() else "ferry"
    for columns in ("40", "200"):
        done = command.run(*arguments, env={**command.environment, "COLUMNS": columns})
        assert done.returncode == 0
        assert done.stdout == (STORED / f"{name}.txt").read_text()
