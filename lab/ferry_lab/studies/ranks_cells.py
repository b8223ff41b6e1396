"""The cells of the studies of many ranks, and what their rows are set beside: what all of them say alike."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ferry_lab.results.records import Comparison, Row
from ferry_lab.run.plan import Axes, RanksCell, at
from ferry_lab.run.remote_files import Place
from ferry_lab.stats.comparing import make_comparison, row_at

_SEED = 1


def ranks_cell(place: Place, name: str, axes: Axes, interface: str = "ferry", **fields: Any) -> RanksCell:
    """Returns a cell on a file that the place removes; without an axis for the operation it writes.

    A write has an fsync after it.
    """
    operation = axes.get("operation", "write")
    fields |= {"operation": operation, "sync": "fsync" if operation == "write" else "none", "seed": _SEED}
    cell = RanksCell(**at(**axes), interface=interface, path=place.path(name), **fields)
    place.handed_out += [path for path in cell.paths if path not in place.handed_out]
    return cell


def beside(
    question: str, metric: str, row: Row, rows: Sequence[Row], there: Axes, axis: str, twins: tuple[str, str]
) -> Comparison:
    """Sets a row beside the first of two equal ones, which are the noise: ``axis`` has their values."""
    base, again = (row_at(rows, **{**there, axis: name}) for name in twins)
    return make_comparison(question, metric, row, base, (base, again))
