"""Text shared by all studies, on the terminal and in HTML."""

from __future__ import annotations

import re

from ferry import file_systems
from ferry_lab.results.records import Document, Summary
from ferry_lab.results.simulation import Simulation

NO_BREAK = "\N{NO-BREAK SPACE}"


def runtime_notes(document: Document | Simulation) -> list[str]:
    """Returns what is degraded, each once."""
    runtimes = document.environment.runtimes if isinstance(document, Document) else []
    return list(dict.fromkeys(note for runtime in runtimes for note in runtime.notes))


def describe_run(document: Document | Simulation) -> str:
    """Returns the line that names the study and what it ran on."""
    head = f"Study {document.study}"
    if isinstance(document, Simulation):
        return f"{head}: a model, computed; nothing was measured"
    storage = document.settings.get("storage")
    systems = document.environment.file_systems
    places = [str(systems[0])] if systems else [] if storage else [file_systems.UNKNOWN]
    places += [storage] if storage else []
    where = f"{head} on {' and '.join(places)}"
    for runtime in document.environment.runtimes[:1]:
        where += f": device CPUs {runtime.device_cpus}, server CPUs {runtime.server_cpus}, {runtime.storage_engine}"
    return where


def format_bandwidth(summary: Summary) -> str:
    """Returns the median in MiB/s, ± half the width of its bounds."""
    median = summary.median
    half = (summary.median_high_95 - summary.median_low_95) / 2
    number = f"{median:.0f}" if median >= 100 else f"{median:.1f}"
    return f"{number} ±{min(half / median * 100, 999):.0f}%"


def format_time(ns: float) -> str:
    """Returns the time with three digits, in ns, µs, ms or s."""
    for unit_ns, unit in ((1e9, "s"), (1e6, "ms"), (1e3, "µs")):
        if ns >= 0.9995 * unit_ns:
            number = ns / unit_ns
            return f"{number:.{2 if number < 9.995 else 1 if number < 99.95 else 0}f} {unit}"
    return f"{ns:.0f} ns"


def keep_units(text: str) -> str:
    """Returns the text with numbers that are not parted from their units at the end of a line."""
    parted = r"(?<=[0-9>]) (?=[0-9%]|[KMGT]iB|bytes?\b|[mnµ]?s\b)| (?=> [0-9])"
    return re.sub(parted, NO_BREAK, text)
