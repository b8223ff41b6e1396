"""Text shared by all studies, on the terminal and in HTML."""

from __future__ import annotations

import re
from typing import Any

from ferry import file_systems

Json = dict[str, Any]

NO_BREAK = "\N{NO-BREAK SPACE}"


def describe_file_system(system: Json) -> str:
    """Returns "ext4 on /dev/vda"; a file system whose mount was not found has neither name."""
    return file_systems.on_source(system)


def describe_place(document: Json) -> str:
    """Returns the same of the document's first file system."""
    systems = document["environment"]["file_systems"]
    return describe_file_system(systems[0]) if systems else file_systems.UNKNOWN


def runtime_notes(document: Json) -> list[str]:
    """Returns what is degraded, each once."""
    runtimes = document["environment"].get("runtimes", [])
    return list(dict.fromkeys(note for runtime in runtimes for note in runtime["notes"]))


def describe_run(document: Json) -> str:
    """Returns the line that names the study and what it ran on."""
    head = f"Study {document['study']}"
    if document["environment"]["machine"] is None:
        return f"{head}: a model, computed; nothing was measured"
    storage = document["settings"].get("storage")
    local = document["environment"]["file_systems"] or not storage
    places = ([describe_place(document)] if local else []) + ([storage] if storage else [])
    where = f"{head} on {' and '.join(places)}"
    for runtime in document["environment"]["runtimes"][:1]:
        where += (
            f": device CPUs {runtime['device_cpus']}, server CPUs {runtime['server_cpus']}, "
            f"{runtime['storage_engine']}"
        )
    return where


def format_bandwidth(summary: Json) -> str:
    """Returns the median in MiB/s, ± half the width of its bounds."""
    median = summary["median"]
    half = (summary["median_high_95"] - summary["median_low_95"]) / 2
    number = f"{median:.0f}" if median >= 100 else f"{median:.1f}"
    return f"{number} ±{min(half / median * 100, 999):.0f}%"


def keep_units(text: str) -> str:
    """Returns the text with numbers that are not parted from their units at the end of a line."""
    parted = r"(?<=[0-9>]) (?=[0-9%]|[KMGT]iB|bytes?\b|ms\b)| (?=> [0-9])"
    return re.sub(parted, NO_BREAK, text)
