"""Published numbers of the papers: ``data/published.csv``; ``data/README.md`` names the sources."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from functools import cache
from pathlib import Path

import msgspec

from ferry.sizes import MIB
from ferry_lab.render.sections import Section
from ferry_lab.render.tables import Table

FILE = Path(__file__).resolve().parent / "data" / "published.csv"

# By the number that the file has: authors, title and year, and how texts cite some.
SOURCES = {
    "000": "Vladimirov, Karpusenko, Yoo: File I/O on Intel Xeon Phi Coprocessors, Colfax 2014",
    "001": "Matsuo, Shimosawa, Ishikawa: A File I/O System for Many-core Based Clusters, ROSS 2012",
    "002": "Tirupati Nagaraj: Measurement of PVFS2 performance on InfiniBand, 2009",
    "003": "Murty, Sudarsan: Improving File IO performance on Intel Xeon Phi Coprocessors, Intel",
    "004": "Fahey: XT Parallel IO, NCCS Users Meeting 2007",
}
CITED = {"002": "Tirupati Nagaraj (2009)", "004": "Fahey (2007)"}


class Number(msgspec.Struct, frozen=True, rename={"paper_and_key": "paper", "threads": "threads_or_clients"}):
    """One published number; ``threads`` is a count of threads or clients, or "best"."""

    paper_and_key: str
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
    def paper(self) -> str:
        """Returns which of SOURCES it is from."""
        return self.paper_and_key.split("_")[0]

    @property
    def mib_per_s(self) -> float:
        """Returns a rate in the unit of our tables."""
        assert self.unit == "MB/s", self.unit
        return self.value * 1e6 / MIB


@cache
def numbers() -> tuple[Number, ...]:
    """Returns all of them, in the file's order."""
    with FILE.open(encoding="utf-8", newline="") as file:
        return tuple(msgspec.convert(line, Number, strict=False) for line in csv.DictReader(file))


def beside_the_paper(paper: str, text: str, tables: Sequence[Table]) -> Section:
    """Returns the section that ends a study; ``text`` goes on after the title, which ends openly."""
    return Section("Beside the paper", [f"The study follows {SOURCES[paper]}{text}"], tables=tables)


def of_study(study: str, **wanted: str) -> list[Number]:
    """Returns those that belong beside a study's own, there may be none; ``wanted``: of such fields."""
    return [
        number
        for number in numbers()
        if number.study == study and all(getattr(number, name) == value for name, value in wanted.items())
    ]
