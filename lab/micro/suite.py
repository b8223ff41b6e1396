"""Runs the benchmarks and judges every ratio against its target.

The rule is the one of ferry.judge: at least 20 pairs in the order A B B A, the 95 % bootstrap bound
of the median ratio must reach the target, and an A/A run as long tells what noise alone does.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from measures import measures
from rich.console import Console
from rich.table import Table
from targets import LIMITS, TARGETS

from ferry_lab.stats import judge


def pairs_of(line: dict, key: str) -> Sequence[float]:
    """Returns the ratios of a measure's pairs."""
    return judge.pair_ratios([p["ours"] for p in line[key]], [p["baseline"] for p in line[key]])


def ratios_of(line: dict) -> Sequence[float]:
    """Returns the ratios to judge: of the pairs, or of speeds, the best placement's time over `automatic`'s."""
    if "times" not in line:
        return pairs_of(line, "pairs")
    times = dict(line["times"])
    automatic = times.pop("automatic")
    best = times[judge.pick_best(times)]
    return judge.pair_ratios(judge.odd_and_even(best)[1], judge.odd_and_even(automatic)[1])


def row_of(line: dict) -> tuple[str, ...]:
    """Returns the table row for one measure, with its verdict."""
    name = line["measure"]
    if "samples" in line:
        bounds = judge.median_bounds(line["samples"])
        limit = LIMITS.get(name)
        verdict = "" if limit is None else "reached" if bounds.high <= limit else "missed"
        wanted = "" if limit is None else f"at most {limit:g}"
        figure = f"{bounds.median:.3g} {line['unit']}"
        return name, figure, f"{bounds.low:.3g} to {bounds.high:.3g}", wanted, "", verdict
    ratios, same = ratios_of(line), pairs_of(line, "same")
    target = TARGETS.get(name)
    if target is None:
        bounds, aa = judge.median_bounds(ratios), judge.median_bounds(same)
        return (
            name, f"{bounds.median:.3f}", f"{bounds.low:.3f} to {bounds.high:.3f}", "",
            f"{aa.low:.3f} to {aa.high:.3f}", "",
        )  # fmt: skip
    result = judge.judge(ratios, same, target.value, target.direction, target.margin)
    return (
        name,
        f"{result.ratio.median:.3f}",
        f"{result.ratio.low:.3f} to {result.ratio.high:.3f}",
        f"{target.direction} {target.value:g}",
        f"{result.aa.low:.3f} to {result.aa.high:.3f}",
        result.verdict,
    )


def main() -> None:
    """Measures, prints the table, and writes the raw pairs where asked."""
    parser = argparse.ArgumentParser(prog="lab/micro/run", description=__doc__.splitlines()[0])
    parser.add_argument("--dir", type=Path, default=Path(tempfile.gettempdir()), help="where the file is made")
    parser.add_argument("--only", default="", help="measures whose name contains this")
    parser.add_argument("--json", type=Path, help="write all raw numbers here")
    arguments = parser.parse_args()
    console = Console(width=None if sys.stdout.isatty() else 140)
    table = Table("measure", "median", "95 % bounds", "wanted", "A/A bounds", "verdict")
    lines = []
    for line in measures(arguments.dir, [*TARGETS, *LIMITS], arguments.only):
        if arguments.only not in line["measure"]:
            continue
        lines.append(line)
        table.add_row(*row_of(line))
        if sys.stderr.isatty():
            print(f"measured: {line['measure']}", file=sys.stderr)
    console.print(table)
    if arguments.json:
        arguments.json.write_text(json.dumps(lines, indent=1) + "\n")


if __name__ == "__main__":
    main()
