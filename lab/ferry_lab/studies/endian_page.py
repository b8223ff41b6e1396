"""The study ``endian`` as a report: the short answer, the bars, the paper."""

from __future__ import annotations

from typing import Any

from ferry_lab.render.bars import Bar, BarPanel, Bars
from ferry_lab.render.findings import range_of
from ferry_lab.render.report import Figure, Page, Section, Shown, Word
from ferry_lab.studies import published
from ferry_lab.studies.endian_report import (
    TESTS,
    Test,
    bandwidth_table,
    counts_table,
    how_to_read,
    order_label,
    orders,
    paper_table,
    points_of,
    row_of,
    sentences_of,
)

Json = dict[str, Any]


def make_page(document: Json) -> Page:
    """Returns the study's part of its report."""
    return Page(
        question="What does byte-swapped output cost?",
        conclusion=[_sentence(document, test) for test in TESTS],
        lead="The same data, as it lies in memory and with the bytes of its elements reversed.",
        words=[Word(order, order_label(order), _meaning(order)) for order in orders(document)],
        text=[how_to_read(document).replace("'", "’")],
        sections=[
            *(_section(document, test) for test in TESTS),
            Section("What was counted", tables=[counts_table(document)]),
            Section(
                "Beside the paper",
                text=[
                    f"The study follows {published.SOURCES['004']}: unformatted Fortran output on a "
                    "Cray XT, which the language’s library swapped, with one process and with many."
                ],
                tables=[paper_table(document)],
            ),
        ],
    )


def _meaning(order: str) -> str:
    if order == "native":
        return "written as it lies in memory"
    return f"elements of {order.removeprefix('swapped')} bytes, reversed on the way"


def _sentence(document: Json, test: Test) -> str:
    """What is left of the bandwidth, over ranks and element sizes, and whether that is shown."""
    points = [
        point
        for ranks in document["settings"]["ranks"]
        for point in points_of(document["comparisons"], test, ranks)
    ]
    ratios = [point["ratio_median"] for point in points]
    slower = sum(point["finding"] == "slower" for point in points)
    return (
        f"{test.name.capitalize()}: swapped data has {range_of(min(ratios), max(ratios))} of "
        f"native’s bandwidth; slower by more than the noise at {slower} of {len(points)} points."
    )


def _section(document: Json, test: Test) -> Section:
    panels = []
    for ranks in document["settings"]["ranks"]:
        bars = []
        for order in orders(document):
            summary = row_of(document, test.operation, order, ranks)["metrics"][test.metric]
            low, high = summary["median_low_95"], summary["median_high_95"]
            bars.append(
                Bar(
                    order,
                    order_label(order),
                    [summary["median"]],
                    low,
                    high,
                    text=f"{summary['median']:.0f} MiB/s",
                    tip=f"{order_label(order)}, {ranks} ranks: {low:.0f} to {high:.0f} MiB/s",
                )
            )
        panels.append(BarPanel(f"{ranks} rank{'s' if ranks > 1 else ''}", bars))
    figure = Figure(
        test.name.replace("+", "-and-"),
        Bars(panels, common_scale=False, label_width=140.0),
        "Bars of bandwidth, native and swapped, by the number of ranks; the table below has the "
        "numbers.",
        f"{test.name.capitalize()}: bandwidth of all ranks together. The line across the end is the "
        "median’s 95 % bounds. Each panel has a scale of its own.",
    )
    shown = [sentence.split(", ", 1)[1].split(": ", 1) for sentence in sentences_of(document, test)]
    return Section(
        test.name.capitalize(),
        figure=figure,
        findings=[Shown(about, [text]) for about, text in shown],
        tables=[bandwidth_table(document, test)],
    )
