"""What the reports of all studies say alike, on the terminal and on the page."""

from __future__ import annotations

import textwrap
from typing import Any

from rich.console import Console

Json = dict[str, Any]

_WIDTH = 100


def describe_file_system(system: Json) -> str:
    """Returns "ext4 on /dev/vda"; a file system whose mount was not found has neither name."""
    kind = system["type"] or "an unknown file system"
    return f"{kind} on {system['source']}" if system["source"] else kind


def describe_place(document: Json) -> str:
    """Returns the same of the document's first file system."""
    systems = document["environment"]["file_systems"]
    return describe_file_system(systems[0]) if systems else "an unknown file system"


def runtime_notes(document: Json) -> list[str]:
    """Returns what is degraded, each once."""
    runtimes = document["environment"]["runtimes"]
    return list(dict.fromkeys(note for runtime in runtimes for note in runtime["notes"]))


def print_wrapped(console: Console, text: str, indent: str = "") -> None:
    """Prints at most 100 columns: what is said under a table is not wider than tables are."""
    width = min(console.width, _WIDTH)
    for line in textwrap.wrap(text, width, subsequent_indent=indent, break_on_hyphens=False):
        console.print(line, soft_wrap=True)


def format_bandwidth(summary: Json) -> str:
    """Returns the median in MiB/s, ± half the width of its bounds."""
    median = summary["median"]
    half = (summary["median_high_95"] - summary["median_low_95"]) / 2
    number = f"{median:.0f}" if median >= 100 else f"{median:.1f}"
    return f"{number} ±{min(half / median * 100, 999):.0f}%"
