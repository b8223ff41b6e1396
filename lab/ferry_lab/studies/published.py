"""Published numbers of the papers: ``data/published.csv``; ``data/README.md`` names the sources."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from ferry_lab.render.sections import Section
from ferry_lab.render.tables import Table

FILE = Path(__file__).resolve().parent / "data" / "published.csv"

# By the number that the file has: how texts cite it, and the whole title.
CITED = {
    "000": "Vladimirov, Karpusenko, Yoo (2014)",
    "001": "Matsuo, Shimosawa, Ishikawa (2012)",
    "002": "Tirupati Nagaraj (2009)",
    "003": "Murty, Sudarsan",
    "004": "Fahey (2007)",
}
SOURCES = {
    "000": "Vladimirov, Karpusenko, Yoo: File I/O on Intel Xeon Phi Coprocessors, Colfax 2014",
    "001": "Matsuo, Shimosawa, Ishikawa: A File I/O System for Many-core Based Clusters, ROSS 2012",
    "002": "Tirupati Nagaraj: Measurement of PVFS2 performance on InfiniBand, 2009",
    "003": "Murty, Sudarsan: Improving File IO performance on Intel Xeon Phi Coprocessors, Intel",
    "004": "Fahey: XT Parallel IO, NCCS Users Meeting 2007",
}


@dataclass(frozen=True)
class Number:
    """One published number; ``threads`` is a count of threads or clients, or "best"."""

    paper: str  # of SOURCES
    study: str
    system: str
    operation: str
    x_name: str
    x: float
    threads: str
    value: float
    unit: str
    note: str

    @property
    def source(self) -> str:
        """Returns authors, title and year."""
        return SOURCES[self.paper]


@cache
def numbers() -> tuple[Number, ...]:
    """Returns all of them, in the file's order."""
    with FILE.open(encoding="utf-8", newline="") as file:
        return tuple(
            Number(
                paper=line["paper"].split("_")[0],
                study=line["study"],
                system=line["system"],
                operation=line["operation"],
                x_name=line["x_name"],
                x=float(line["x"]),
                threads=line["threads_or_clients"],
                value=float(line["value"]),
                unit=line["unit"],
                note=line["note"],
            )
            for line in csv.DictReader(file)
        )


def beside_the_paper(paper: str, text: str, tables: Sequence[Table]) -> Section:
    """Returns the section that ends a study; ``text`` goes on after the title, which ends openly."""
    return Section("Beside the paper", [f"The study follows {SOURCES[paper]}{text}"], tables=tables)


def of_study(study: str) -> list[Number]:
    """Returns those that belong beside a study's own; there may be none."""
    return [number for number in numbers() if number.study == study]
