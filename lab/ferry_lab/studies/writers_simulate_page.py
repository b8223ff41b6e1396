"""The simulated study ``writers`` as a report: the short answer, the curves, and the paper."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ferry_lab.render.bars import Bar, BarPanel, Bars
from ferry_lab.render.curves import Curves, Panel, Series
from ferry_lab.render.report import Figure, Page, Section, Word
from ferry_lab.render.tables import Table
from ferry_lab.studies.writers_simulate_text import (
    cluster_line,
    paper_table,
    ranks_table,
    rate,
    rows_of,
    trust_sentence,
    writers_table,
)

_OPERATIONS = ("write", "read")
_X_TICKS = 5

Json = dict[str, Any]


def make_page(document: Json) -> Page:
    """Returns the study's part of its report."""
    return Page(
        question="How many ranks should write, and read, for all of them?",
        conclusion=document["conclusions"],
        lead=f"A model of: {cluster_line(document)}.",
        words=[
            Word("write", "write", "creating the files is inside the time; no sync, no close"),
            Word("read", "read", "opening the files is inside the time"),
        ],
        text=[
            "A discrete-event simulation: each rank’s data goes through its node’s link, the "
            "network that all share, and the queue of a server; each writer opens its file at one "
            "metadata server, which gets slower the more are waiting. GB and MB are powers of ten, "
            "as in the paper.",
        ],
        sections=[
            _writers_section(document),
            _ranks_section(document),
            _paper_section(document),
            _parameters_section(document),
        ],
    )


def _writers_section(document: Json) -> Section:
    figure = Figure(
        "writers",
        _curves(document, "by writers", "number of writers"),
        "Curves of bandwidth by the number of writers, for writes and reads; the table below has "
        "the numbers.",
        "Bandwidth of all ranks together by the number of writers; the other ranks send them their "
        "data, or get it from them. Both axes are logarithmic.",
    )
    return Section(
        "The same data, by the number of writers",
        ["Opens, in the table: when the last file was open. Servers busy: the mean of all."],
        figure,
        tables=[writers_table(document)],
    )


def _ranks_section(document: Json) -> Section:
    figure = Figure(
        "ranks",
        _curves(document, "all ranks write", "number of ranks, all of which write"),
        "Curves of bandwidth by the number of ranks where all write or read; the table below has "
        "the numbers.",
        "Bandwidth where every rank writes its own data, and there are more and more ranks. Both "
        "axes are logarithmic.",
    )
    return Section(
        "Everybody writes, and the job grows",
        figure=figure,
        tables=[ranks_table(document)],
    )


def _curves(document: Json, group: str, x_label: str) -> Curves:
    series = []
    for operation in _OPERATIONS:
        rows = rows_of(document, group, operation)
        rates = [row["bandwidth_mb_per_s"] for row in rows]
        counts = [row["writers"] for row in rows]
        series.append(Series(operation, operation, counts, rates, rates, rates))
    return Curves(
        [Panel("", series)], x="threads", y="rate", x_label=x_label, x_ticks=_ticks(counts)
    )


def _ticks(counts: Sequence[int]) -> list[float]:
    """Returns some of the counts, about evenly apart on a logarithmic axis, and both ends."""
    step = (counts[-1] / counts[0]) ** (1 / _X_TICKS)
    chosen: list[float] = [counts[0]]
    for count in counts:
        if count >= chosen[-1] * step and count * step**0.7 <= counts[-1]:
            chosen.append(count)
    return [*chosen, counts[-1]] if counts[-1] > counts[0] else chosen


def _paper_section(document: Json) -> Section:
    figure = Figure(
        "paper",
        Bars(
            [
                BarPanel(title, [_bar(row) for row in document["paper"] if belongs(row)])
                for title, belongs in _PANELS
            ],
            columns=1,
            common_scale=False,
            label_width=150.0,
        ),
        "Bars of the model’s bandwidth for each published number, a diamond at the published one; "
        "the table below has the numbers.",
        "Bars are the model, diamonds what the paper published. The upper four gave four "
        "parameters; the others are predictions. Each part has a scale of its own.",
    )
    return Section(
        "Held against paper 004",
        [
            trust_sentence(document),
            "The paper says of the runs with 8640 and 960 writers that others used the machine, too; "
            "the XT4 is another machine, of which only the number of servers is put in here.",
        ],
        figure,
        tables=[paper_table(document)],
    )


_PANELS: tuple[tuple[str, Callable[[Json], bool]], ...] = (
    ("calibrated", lambda row: row["calibrated"]),
    ("held out, many writers", lambda row: not row["calibrated"] and row["writers"] > 1),
    ("held out, one writer", lambda row: not row["calibrated"] and row["writers"] == 1),
)


def _bar(row: Json) -> Bar:
    value, published = row["bandwidth_mb_per_s"], row["published_mb_per_s"]
    system, what = row["where"].split(", ")[:2]
    label = f"{system}, {what}" if row["writers"] == 1 else f"{system} {what}: {row['writers']}"
    return Bar(
        row["operation"],
        label.replace("one writer, stripe", "1, stripe"),
        [value],
        value,
        value,
        text=f"{round(row['deviation'] * 100):+d} %",
        tip=f"{row['where']}, {row['writers']} writers: model {rate(value)}, published "
        f"{rate(published)}",
        published=published,
    )


def _parameters_section(document: Json) -> Section:
    cluster = document["settings"]["cluster"]
    rows = [
        [f"{section}.{key}", f"{value:,}" if isinstance(value, int) else str(value)]
        for section, values in cluster.items()
        if isinstance(values, dict)
        for key, value in values.items()
    ]
    return Section(
        "The parameters",
        ["As the file has them; docs/reference/writers-model.md explains each."],
        tables=[Table(cluster["name"], ["parameter", "value"], rows)],
    )
