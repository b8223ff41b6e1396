"""What the paper of the study ``placements`` (001) says, and what is found here."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ferry.sizes import format_size
from ferry_lab.render.tables import Table
from ferry_lab.stats.crossings import describe_finding
from ferry_lab.studies.placements_findings import (
    PROGRAM_VIEWS,
    READ_VIEWS,
    WRITE_VIEWS,
    View,
    points_of,
)

Json = dict[str, Any]

_SMALLEST: Callable[[Sequence[int]], int] = min
_LARGEST: Callable[[Sequence[int]], int] = max


def paper_table(document: Json) -> Table:
    """Returns the paper's statements beside the findings that bear on them.

    Each is about compute beside host, so that one finding answers it.
    """
    small = "small data: better inside the device (compute) than by the host"
    large = "large data: better by the host"
    statements = [
        *((view, small, "faster", _SMALLEST) for view in (*READ_VIEWS, WRITE_VIEWS[2])),
        *((view, large, "slower", _LARGEST) for view in (READ_VIEWS[0], WRITE_VIEWS[2])),
        *((view, *_program_statement(view), _LARGEST) for view in PROGRAM_VIEWS),
    ]
    rows = []
    for view, statement, expected, pick in statements:
        points = points_of(view, document["comparisons"], "two_placements", "compute", "host")
        if not points:
            continue
        size = pick([point["transfer_bytes"] for point in points])
        (point,) = [point for point in points if point["transfer_bytes"] == size]
        quantity = "speed" if view.program else "bandwidth"
        found = describe_finding("compute", "host", [point], quantity)
        where = "" if view.program else f", {format_size(size)}"
        rows.append([f"{view.name}{where}", statement, found, _agreement(point, expected)])
    heads = ["measured", "the paper says", "found here", "agrees"]
    return Table("What the paper says about compute and host", heads, rows, left=4)


def _program_statement(view: View) -> tuple[str, str]:
    """The paper's ranking over both programs: host in once, then compute in iterative."""
    if view.head.startswith("once"):
        return "once: host is best", "slower"
    return "iterative: compute is best", "faster"


def _agreement(point: Json, expected: str) -> str:
    if point["finding"] == expected:
        return "yes"
    return "no" if point["finding"] in ("faster", "slower") else "not measurable"
