"""``ferry compare`` as text, Markdown or LaTeX."""

from __future__ import annotations

import shlex
from typing import Any

from rich.console import Console

from ferry.streams import printable
from ferry_lab.render.tables import Table, latex_text
from ferry_lab.results import latencies
from ferry_lab.results.comparison import ComparedFile, ComparedRow, ResultsComparison
from ferry_lab.stats.limits import FINDING_PAIRS_MIN
from ferry_lab.stats.two_results import LATENCY, is_too_short

_METRICS = {
    "bandwidth_mib_per_s": "MiB/s, transfers",
    "bandwidth_with_sync_mib_per_s": "MiB/s, with fsync",
    "bandwidth_open_to_close_mib_per_s": "MiB/s, open to close",
    "operations_per_s": "calls/s",
    "files_per_s": "files/s",
    **{LATENCY.format(name): f"µs, {latencies.words(name)}" for name in latencies.PERCENTILES},
}
_FINDINGS = {"within_5_percent": "within 5 %", "no_difference": "no difference beyond noise"}


def show(console: Console, comparison: ResultsComparison, form: str) -> None:
    """Prints the two files, the ratios, and what else differs."""
    tables = [_ratios(comparison)]
    if comparison.differences:
        tables.append(_differences(comparison))
    lines = [_describe("A", comparison.a), _describe("B", comparison.b), *_notes(comparison)]
    if form == "text":
        for line in lines[:2]:
            console.print(line, soft_wrap=True)
        for table in tables:
            console.print(table.shown())
        for line in lines[2:]:
            console.print(f"note: {line}", soft_wrap=True)
        return
    blocks = [*lines[:2], *(table.markdown() for table in tables), *lines[2:]]
    if form == "latex":
        texts = [latex_text(printable(line)) for line in lines]
        blocks = [*texts[:2], *(table.latex() for table in tables), *texts[2:]]
    console.print("\n\n".join(blocks), soft_wrap=True)


def _describe(side: str, file: ComparedFile) -> str:
    return f"{side}: {file.file}, {file.started}: {shlex.join(file.command)}"


def _ratios(comparison: ResultsComparison) -> Table:
    rows = [
        [
            row.row,
            _METRICS[row.metric],
            _number(row, row.a_median),
            _number(row, row.b_median),
            f"{row.ratio_median:.3f}",
            f"{row.ratio_low_95:.3f} to {row.ratio_high_95:.3f}",
            f"{row.noise:.3f}",
            "too few repeats" if is_too_short(row) else _FINDINGS.get(row.finding, row.finding),
        ]
        for row in comparison.rows
    ]
    return Table("", ["row", "median of", "A", "B", "B / A", "95 % bounds", "noise", "B is"], rows, 2)


def _number(row: ComparedRow, value: float) -> str:
    return f"{value * 1e-3 if row.metric.endswith('_ns') else value:.2f}"


def _differences(comparison: ResultsComparison) -> Table:
    rows = [[one.what, _text(one.a), _text(one.b)] for one in comparison.differences]
    return Table("", ["not the same", "A", "B"], rows, 3)


def _text(value: Any) -> str:
    if isinstance(value, list):
        return "; ".join(map(_text, value)) or "-"
    words = {None: "-", True: "yes", False: "no"}
    return words[value] if value is None or isinstance(value, bool) else str(value)


def _notes(comparison: ResultsComparison) -> list[str]:
    notes = [
        "A and B were measured one after the other and not in turn, so what changed on the machine meanwhile "
        "counts as a difference; measure A twice and compare the two to see how much that is"
    ]
    if any(map(is_too_short, comparison.rows)):
        notes.append(f"fewer than {FINDING_PAIRS_MIN} repeats show no difference; measure with -i {FINDING_PAIRS_MIN}")
    for side, only in (("A", comparison.only_in_a), ("B", comparison.only_in_b)):
        if only:
            notes.append(f"only {side} has {', '.join(only)}")
    return notes
