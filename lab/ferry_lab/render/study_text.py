"""What the reports of all studies say alike, on the terminal and on the page."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import Any

from rich.console import Console

from ferry import file_systems

Json = dict[str, Any]

_WIDTH = 100
_ANSWER_LINES_MAX = 8  # on a terminal of at least that width:
_ANSWER_WIDTH_MIN = 80


def describe_file_system(system: Json) -> str:
    """Returns "ext4 on /dev/vda"; a file system whose mount was not found has neither name."""
    return file_systems.on_source(system)


def describe_place(document: Json) -> str:
    """Returns the same of the document's first file system."""
    systems = document["environment"]["file_systems"]
    return describe_file_system(systems[0]) if systems else file_systems.UNKNOWN


def runtime_notes(document: Json) -> list[str]:
    """Returns what is degraded, each once."""
    runtimes = document["environment"]["runtimes"]
    return list(dict.fromkeys(note for runtime in runtimes for note in runtime["notes"]))


def print_wrapped(console: Console, text: str, indent: str = "") -> None:
    """Prints at most 100 columns: what is said under a table is not wider than tables are."""
    for line in _lines_of(text, console.width, indent):
        console.print(line, soft_wrap=True)


def print_answer(console: Console, sentences: Sequence[str]) -> None:
    """Prints what the study found, in a few lines: those sentences that fit, in their order."""
    lines: list[str] = []
    for sentence in sentences:
        more = _lines_of(sentence, max(console.width, _ANSWER_WIDTH_MIN))
        if len(lines) + len(more) <= _ANSWER_LINES_MAX:
            lines += more
            print_wrapped(console, sentence, "  ")
    console.print()


def _lines_of(text: str, width: int, indent: str = "  ") -> list[str]:
    width = min(width, _WIDTH)
    return textwrap.wrap(text, width, subsequent_indent=indent, break_on_hyphens=False)


def format_bandwidth(summary: Json) -> str:
    """Returns the median in MiB/s, ± half the width of its bounds."""
    median = summary["median"]
    half = (summary["median_high_95"] - summary["median_low_95"]) / 2
    number = f"{median:.0f}" if median >= 100 else f"{median:.1f}"
    return f"{number} ±{min(half / median * 100, 999):.0f}%"
