"""The study ``writers`` as a report: the short answer, the curves, where the time goes."""

from __future__ import annotations

from typing import Any

from ferry_lab.render.bars import Bar, BarPanel, Bars
from ferry_lab.render.curves import Curves, Panel, Series
from ferry_lab.render.mpi_tables import call_ms, counted_table, split_table
from ferry_lab.render.report import Figure, Page, Section, Shown, Word
from ferry_lab.studies import published
from ferry_lab.studies.writers_cells import ALL, FILES, OPERATIONS, SUBSETS
from ferry_lab.studies.writers_findings import METRIC, best_row, name_of, rows_of, way_of
from ferry_lab.studies.writers_predicted import predictions
from ferry_lab.studies.writers_report import (
    NAMED,
    WAY_LABELS,
    how_to_read,
    losing,
    named,
    paper_table,
    ratios_table,
    sentences_of,
    writers_table,
)

Json = dict[str, Any]

_MEANINGS = {
    ALL: "each rank writes, or reads, its own",
    "aggregate": "some gather what the others have, and write it",
    "serial": "some take what the others have, one after the other",
}


_SPLIT = {"communication": "communication", "pack": "copying", "file": "file I/O"}


def make_page(document: Json) -> Page:
    """Returns the study's part of its report."""
    return Page(
        question="How many ranks should write, and read, for all of them?",
        conclusion=_conclusion(document),
        lead="The same data, by all ranks and by some of them.",
        words=[
            *(Word(way, label, _MEANINGS[way]) for way, label in WAY_LABELS.items()),
            Word("model", "model", "what docs/reference/writers-model.md says of aggregated data"),
        ],
        text=[how_to_read(document).replace("'", "’")],
        sections=[
            _curves_section(document),
            *(
                _numbers_section(document, operation, kind)
                for kind in FILES
                for operation in OPERATIONS
            ),
            _split_section(document),
            Section("What was counted", tables=[counted_table(NAMED, named(document))]),
            _paper_section(document),
        ],
    )


def _conclusion(document: Json) -> list[str]:
    """One sentence for each kind of file: the fastest, and how many lose against it."""
    said = []
    for kind, label in FILES.items():
        clauses = []
        for operation in OPERATIONS:
            found = rows_of(document["rows"], operation, kind)
            best = best_row(found)
            rate = f"{best['metrics'][METRIC]['median']:.0f} MiB/s"
            count = len(losing(document, operation, kind))
            if count:
                lose = f"{count} of {len(found) - 1} other points lose{'s' if count == 1 else ''}"
                clauses.append(f"{operation}: {name_of(best)} ({rate}), against which {lose}")
            else:
                clauses.append(f"{operation}: no point loses against the fastest")
        said.append(f"{label[0].upper()}{label[1:]}, {'; '.join(clauses)}.")
    return [*said, "A point loses where it is slower than the fastest by more than the noise."]


def _curves_section(document: Json) -> Section:
    panels = []
    for kind, label in FILES.items():
        for operation in OPERATIONS:
            series = []
            for way in SUBSETS:
                rows = rows_of(document["rows"], operation, kind, way)
                series.append(_series(way, WAY_LABELS[way], rows))
            every = rows_of(document["rows"], operation, kind, ALL)
            series.append(_series(ALL, WAY_LABELS[ALL], every))
            said = predictions(document["rows"], operation, kind)
            rows = rows_of(document["rows"], operation, kind, "aggregate")
            rows = [row for row in rows if row["id"] in said]
            if len(rows) > 1:
                values = [said[row["id"]] for row in rows]
                counts = [row["writers"] for row in rows]
                series.append(Series("model", "model", counts, values, values, values))
            panels.append(Panel(f"{operation.capitalize()}, {label}", series))
    figure = Figure(
        "writers",
        Curves(
            panels,
            x="threads",
            x_label="ranks that write or read",
            columns=2,
            x_ticks=document["settings"]["writers"],
        ),
        "Curves of bandwidth by the number of writers, for each way; the tables below have the "
        "numbers.",
        "Bandwidth of all ranks together by the number of those that write or read. Lines are "
        "medians, shaded are their 95 % bounds; the model is calibrated from all ranks and from one "
        "writer. Both axes are logarithmic.",
    )
    return Section("By the number of writers", figure=figure)


def _series(name: str, label: str, rows: list[Json]) -> Series:
    summaries = [row["metrics"][METRIC] for row in rows]
    return Series(
        name,
        label,
        [row["writers"] for row in rows],
        [s["median"] for s in summaries],
        [s["median_low_95"] for s in summaries],
        [s["median_high_95"] for s in summaries],
    )


def _numbers_section(document: Json, operation: str, kind: str) -> Section:
    sentences = [s.split(": ", 1)[1] for s in sentences_of(document, operation, kind)]
    about = ["Fastest, and who loses", "Beside all ranks"]
    return Section(
        f"{operation.capitalize()}, {FILES[kind]}",
        findings=[Shown(name, [text]) for name, text in zip(about, sentences, strict=True)],
        tables=[writers_table(document, operation, kind)],
    )


def _split_section(document: Json) -> Section:
    panels = []
    for kind, label in FILES.items():
        for operation in OPERATIONS:
            bars = []
            for row in rows_of(document["rows"], operation, kind):
                metrics = row["metrics"]
                longest = metrics["file_maximum_ns"]["median"] / 1e6
                whole = call_ms(row)
                way = way_of(row)
                means = [
                    f"{label} {metrics[f'{name}_mean_ns']['median'] / 1e6:.1f} ms"
                    for name, label in _SPLIT.items()
                ]
                bars.append(
                    Bar(
                        way,
                        f"{row['writers']} {WAY_LABELS[way]}" if way != ALL else WAY_LABELS[ALL],
                        [min(longest, whole), max(whole - longest, 0.0)],
                        whole,
                        whole,
                        text=f"{whole:.0f} ms",
                        tip=f"longest file I/O {longest:.1f} of {whole:.1f} ms; means over the ranks: "
                        f"{', '.join(means)}",
                    )
                )
            panels.append(BarPanel(f"{operation.capitalize()}, {label}", bars))
    figure = Figure(
        "time-split",
        Bars(panels, common_scale=False, label_width=140.0),
        "Bars of the time of a call, of which a part is file I/O; the table below has the numbers.",
        "How long the transfers and the fsync after them take: the longest file I/O of any rank, "
        "and, fainter, what is not that: communication, copying, waiting for a CPU. What overlaps "
        "with file I/O is not seen. Medians; each panel has a scale of its own.",
    )
    return Section(
        "Where the time goes",
        figure=figure,
        tables=[split_table(NAMED, named(document)), ratios_table(document)],
    )


def _paper_section(document: Json) -> Section:
    return Section(
        "Beside the paper",
        text=[
            f"The study follows {published.SOURCES['004']}: thousands of ranks of a Cray XT with "
            "Lustre, where all ranks writing at once cost most of the bandwidth. Beside its "
            "numbers stands the model of that machine (docs/reference/writers-model.md), which is "
            "calibrated from the rows that say so. What some ranks on one machine show is another "
            "question: here opening files is cheap, and ranks share the CPUs."
        ],
        tables=[paper_table()],
    )
