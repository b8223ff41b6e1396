"""The study ``interfaces`` as a report: the short answer, curves by transfer size, the paper."""

from __future__ import annotations

from typing import Any

from ferry.sizes import format_size
from ferry_lab.render.bars import Bar, BarPanel, Bars
from ferry_lab.render.curves import Curves, Panel, Series
from ferry_lab.render.report import Figure, Page, Section, Shown, Word
from ferry_lab.studies import published
from ferry_lab.studies.interfaces_cells import LABELS, MEANINGS, OPERATIONS
from ferry_lab.studies.interfaces_findings import METRIC, points_of, row_of
from ferry_lab.studies.interfaces_report import (
    absent_lines,
    bandwidth_table,
    counts_table,
    how_to_read,
    paper_table,
    paper_usage_table,
    sentences_of,
)

Json = dict[str, Any]


def make_page(document: Json) -> Page:
    """Returns the study's part of its report."""
    settings = document["settings"]
    texts = [how_to_read(document), *absent_lines(document)]
    return Page(
        question="Which interface is fastest for many clients and one shared file?",
        conclusion=_conclusion(document),
        lead="The same data through every interface that is here.",
        words=[Word(n, LABELS[n], MEANINGS[n]) for n in settings["interfaces"]],
        text=[text.replace("'", "’") for text in texts],
        sections=[
            *(_curves_section(document, operation) for operation in OPERATIONS),
            _switches_section(document),
            Section(
                "Beside the paper",
                text=[
                    f"The study follows {published.SOURCES['002']}: machines of their own for each "
                    "client, and data larger than all memories."
                ],
                tables=[paper_table(document), paper_usage_table()],
            ),
        ],
    )


def _conclusion(document: Json) -> list[str]:
    """One sentence for each operation: who is fastest with the most clients, and what is shown."""
    settings = document["settings"]
    clients, transfer = settings["clients"][-1], settings["transfers_bytes"][-1]
    first, *others = settings["interfaces"]
    sentences = []
    for operation in OPERATIONS:
        rates = {
            name: row_of(document["rows"], operation, name, clients, transfer)["metrics"][METRIC]
            for name in settings["interfaces"]
        }
        best = max(rates, key=lambda name: float(rates[name]["mean"]))
        decided = sum(
            point["finding"] in ("faster", "slower")
            for count in settings["clients"]
            for name in others
            for point in points_of(document["comparisons"], operation, name, count)
        )
        every = len(others) * len(settings["clients"]) * len(settings["transfers_bytes"])
        sentences.append(
            f"{operation.capitalize()}, {clients} clients, {format_size(transfer)}: the highest mean "
            f"is that of {LABELS[best]} ({rates[best]['mean']:.0f} MiB/s); at {decided} of {every} "
            f"points an interface differs from {LABELS[first]} by more than the noise."
        )
    return sentences


def _curves_section(document: Json, operation: str) -> Section:
    settings = document["settings"]
    transfers, panels = settings["transfers_bytes"], []
    for clients in settings["clients"]:
        series = []
        for name in settings["interfaces"]:
            summaries = [
                row_of(document["rows"], operation, name, clients, transfer)["metrics"][METRIC]
                for transfer in transfers
            ]
            series.append(
                Series(
                    name,
                    LABELS[name].replace("Ferry's views over", "views,"),
                    transfers,
                    [s["median"] for s in summaries],
                    [s["median_low_95"] for s in summaries],
                    [s["median_high_95"] for s in summaries],
                )
            )
        panels.append(Panel(f"{clients} clients", series))
    figure = Figure(
        f"{operation}",
        Curves(panels, columns=2),
        "Curves of bandwidth by transfer size, a line for each interface; the tables below have the "
        "numbers.",
        f"{operation.capitalize()}: bandwidth of all clients together by transfer size. Lines are "
        "medians, shaded are their 95 % bounds. Both axes are logarithmic.",
    )
    shows = [
        Shown(f"{clients} clients", [s.split(": ", 1)[1] for s in sentences])
        for clients in settings["clients"]
        if (sentences := sentences_of(document, operation, clients))
    ]
    tables = [bandwidth_table(document, operation, clients) for clients in settings["clients"]]
    return Section(operation.capitalize(), figure=figure, findings=shows, tables=tables)


def _switches_section(document: Json) -> Section:
    settings = document["settings"]
    transfer, panels = settings["transfers_bytes"][-1], []
    clients = settings["clients"][-1]
    for operation in OPERATIONS:
        for metric, title in (
            ("ranks_context_switches", "context switches of the clients"),
            ("machine_context_switches", "of the whole machine"),
        ):
            bars = []
            for name in settings["interfaces"]:
                row = row_of(document["rows"], operation, name, clients, transfer)
                summary = row["metrics"][metric]
                low, high = summary["median_low_95"], summary["median_high_95"]
                bars.append(
                    Bar(
                        name,
                        LABELS[name].replace("Ferry's views over", "views,"),
                        [summary["median"]],
                        low,
                        high,
                        text=f"{summary['median']:,.0f}",
                        tip=f"{LABELS[name]}: {low:,.0f} to {high:,.0f}",
                    )
                )
            panels.append(BarPanel(f"{operation.capitalize()}: {title}", bars))
    figure = Figure(
        "context-switches",
        Bars(panels, common_scale=False, label_width=170.0),
        "Bars of context switches for each interface; the tables below have the numbers.",
        f"Context switches with {clients} clients and calls of {format_size(transfer)}. The line "
        "across the end is the median’s 95 % bounds. Each panel has a scale of its own.",
    )
    tables = [counts_table(document, operation) for operation in OPERATIONS]
    return Section("What was counted", figure=figure, tables=tables)
