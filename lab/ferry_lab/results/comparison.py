"""The records of ``ferry compare`` (``ferry.comparison/1``)."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from msgspec import Meta

from ferry_lab.results.records import Positive, Record, about

SCHEMA = "ferry.comparison/1"


class ComparedFile(Record):
    file: str
    ferry_version: str
    command: list[str]
    started: str


class Difference(Record):
    """Something else that is not the same in both."""

    what: Annotated[str, about("where it stands in the two documents")]
    a: Any
    b: Any


class ComparedRow(Record):
    """One quantity of a row that both have."""

    row: Annotated[str, about("the row's id")]
    metric: Annotated[str, about("as in the metrics of results; latency_p50_ns and so on: of the repeats' latency_ns")]
    a_median: float
    b_median: float
    a_repeats: Positive
    b_repeats: Positive
    ratio_median: Annotated[float, about("B's median over A's")]
    ratio_low_95: float
    ratio_high_95: float
    noise: Annotated[float, Meta(ge=0, description="what neighbouring repeats differ by, the larger of both")]
    finding: Annotated[
        Literal["within_5_percent", "slower", "faster", "no_difference"],
        about("B beside A; a shorter latency is faster"),
    ]


class ResultsComparison(Record):
    """Two documents of results side by side."""

    schema: Literal["ferry.comparison/1"]
    a: ComparedFile
    b: ComparedFile
    rows: Annotated[list[ComparedRow], Meta(min_length=1)]
    only_in_a: Annotated[list[str], about("ids of rows")]
    only_in_b: list[str]
    differences: list[Difference]
