"""The study ``stripes`` as a report: the short answer, a plot for each axis, the paper."""

from __future__ import annotations

from typing import Any

from ferry.sizes import format_size
from ferry_lab.render.bars import Bar, BarPanel, Bars
from ferry_lab.render.report import Figure, Page, Section, Shown, Word
from ferry_lab.studies import published
from ferry_lab.studies.stripes_report import (
    BUFFER,
    COUNT,
    DEFAULT,
    METRIC,
    SIZE,
    axes_of,
    axis_table,
    counts_table,
    how_to_read,
    paper_table,
    points_of,
    row_of,
    sentences_of,
    value_label,
)

Json = dict[str, Any]


def make_page(document: Json) -> Page:
    """Returns the study's part of its report."""
    settings = document["settings"]
    words = [Word(DEFAULT, "default", "the storage’s own layout, and the writers’ usual buffer")]
    meanings = {
        COUNT: f"stripes of {format_size(settings['stripe_bytes_of_counts'])} over so many servers",
        SIZE: f"stripes of that size over {settings['stripe_count_of_sizes']} servers",
        BUFFER: "of each writer; the layout is the default",
    }
    words += [Word(axis, axis, meanings[axis]) for axis in axes_of(document)]
    return Page(
        question="What do stripes and buffers change?",
        conclusion=[_sentence(document, writers) for writers in settings["writers"]],
        lead="The same data, through one writer and through all ranks as writers.",
        words=words,
        text=[how_to_read(document).replace("'", "’")],
        sections=[
            *(_section(document, axis) for axis in axes_of(document)),
            Section("What was counted", tables=[counts_table(document)]),
            Section(
                "Beside the paper",
                text=[
                    f"The study follows {published.SOURCES['004']}, where one writer on Lustre got "
                    "no more from more stripes."
                ],
                tables=[paper_table(document)],
            ),
        ],
    )


def _sentence(document: Json, writers: int) -> str:
    """The best point with so many writers, if it is better than the default by more than noise."""
    who = f"{writers} writer{'s' if writers > 1 else ''}"
    better = [
        (point["ratio_median"], axis, int(point["row"].split("/")[1]))
        for axis in axes_of(document)
        for point in points_of(document["comparisons"], axis, writers)
        if point["finding"] == "faster"
    ]
    worse = sum(
        point["finding"] == "slower"
        for axis in axes_of(document)
        for point in points_of(document["comparisons"], axis, writers)
    )
    slower = f"{worse} point{'s are' if worse != 1 else ' is'} slower"
    if not better:
        return f"{who}: no point is faster than the default by more than the noise; {slower}."
    ratio, axis, value = max(better)
    return (
        f"{who}: fastest beside the default is {axis} {value_label(axis, value)}, {ratio:.2f} times "
        f"its bandwidth; {slower}."
    )


def _section(document: Json, axis: str) -> Section:
    settings, panels = document["settings"], []
    for writers in settings["writers"]:
        bars = []
        places = [(DEFAULT, 0), *((axis, value) for value in settings["axes"][axis])]
        for name, value in places:
            summary = row_of(document, name, value, writers)["metrics"][METRIC]
            low, high = summary["median_low_95"], summary["median_high_95"]
            label = "default" if name == DEFAULT else value_label(axis, value)
            bars.append(
                Bar(
                    name,
                    label,
                    [summary["median"]],
                    low,
                    high,
                    text=f"{summary['median']:.0f} MiB/s",
                    tip=f"{label}, {writers} writers: {low:.0f} to {high:.0f} MiB/s",
                )
            )
        panels.append(BarPanel(f"{writers} writer{'s' if writers > 1 else ''}", bars))
    figure = Figure(
        axis.replace(" ", "-"),
        Bars(panels, common_scale=True, label_width=80.0),
        f"Bars of bandwidth by {axis}; the table below has the numbers.",
        f"Bandwidth of all ranks together by {axis}, beside the default. The line across the end is "
        "the median’s 95 % bounds.",
    )
    shown = [sentence.split(", ", 1)[1].split(": ", 1) for sentence in sentences_of(document, axis)]
    title = "Buffer size" if axis == BUFFER else axis.capitalize()
    return Section(
        title,
        figure=figure,
        findings=[Shown(about, [text]) for about, text in shown],
        tables=[axis_table(document, axis)],
    )
