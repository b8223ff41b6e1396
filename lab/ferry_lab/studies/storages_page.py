"""The study ``storages`` as a report: the short answer, the plots, and the paper beside it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ferry.sizes import format_size
from ferry_lab.render.bars import Bar, BarPanel, Bars
from ferry_lab.render.curves import Curves, Panel, Series
from ferry_lab.render.findings import listed, range_of
from ferry_lab.render.report import Figure, Page, Section, Shown, Word
from ferry_lab.studies import published
from ferry_lab.studies.storages_cells import FILE_BYTES
from ferry_lab.studies.storages_findings import (
    STORAGES,
    TESTS,
    THREADS,
    Test,
    best_threads,
    conclude_storages,
    conclude_threads,
    points_of,
)
from ferry_lab.studies.storages_report import (
    absent_table,
    how_to_read,
    in_mib_per_s,
    name_of,
    paper_table,
    property_table,
    published_mib_per_s,
    raw_row,
    raw_table,
    rows_by_id,
    sizes_table,
    summary_table,
    threads_table,
)

Json = dict[str, Any]


def make_page(document: Json) -> Page:
    """Returns the study's part of its report."""
    storages = document["settings"]["storages"]
    return Page(
        question="Which storage is how fast, and what else tells them apart?",
        conclusion=_conclusion(document),
        lead="Every storage that was found here, beside what the disk itself gives.",
        words=[Word(storage["name"], storage["label"], _meaning(storage)) for storage in storages],
        text=[how_to_read(document).replace("'", "’")],
        sections=[
            _summary_section(document),
            _threads_section(document),
            _sizes_section(document),
            *(_test_section(document, test) for test in TESTS),
            *([_raw_section(document)] if document["settings"]["raw"] else []),
            _paper_section(document),
        ],
    )


def _meaning(storage: Json) -> str:
    steps = storage["steps"]
    if storage.get("reached"):
        return str(storage["reached"])
    if steps:
        return f"made for the study: {'; '.join(steps)}"
    medium = storage["medium"]
    return "found here" if medium is None else f"found here, on the disk {medium}"


# ---- the short answer ----------------------------------------------------------------------------


def _conclusion(document: Json) -> list[str]:
    return [_storages_sentence(document), _threads_sentence(document), _medium_sentence(document)]


def _storages_sentence(document: Json) -> str:
    """How the others compare with the storage of --dir, as far as they were compared."""
    first, *others = document["settings"]["storages"]
    if not others:
        return f"{first['label']} is the only storage that was measured."
    clauses: list[str] = []
    undecided: list[float] = []
    missing: list[str] = []
    compared = 0
    for test in TESTS:
        found = {
            storage["label"]: points[0]
            for storage in others
            if (points := points_of(document["comparisons"], STORAGES, test, storage["name"]))
        }
        compared += len(found)
        ratios = {
            label: float(point["ratio_median"])
            for label, point in found.items()
            if point["finding"] in ("faster", "slower")
        }
        undecided += [p["ratio_median"] for p in found.values() if p["finding"] == "no_difference"]
        name = name_of(document, test)
        missing += [f"{name} of {s['label']}" for s in others if s["label"] not in found]
        if ratios:
            best = max(ratios, key=lambda label: ratios[label])
            clauses.append(
                f"{name}: {best} {ratios[best]:.2g} times"
                if ratios[best] > 1
                else f"{name}: none is faster, {best} {ratios[best]:.2g} times"
            )
    parts = [f"One thread, the fastest beside {first['label']}: {'; '.join(clauses)}."] if clauses else []
    if undecided:
        factor = range_of(min(undecided), max(undecided))
        parts.append(
            f"{'Elsewhere' if clauses else 'One thread:'} the noise hides any difference from "
            f"{first['label']} at {len(undecided)} points, whose medians are {factor} times its "
            "bandwidth."
        )
    elif compared and not clauses:
        parts.append(f"One thread: all are within 5 % of {first['label']} where they were compared.")
    if missing:
        parts.append(f"Not compared: {listed(missing, 'and')}.")
    return " ".join(parts)


def _threads_sentence(document: Json) -> str:
    storages = {s["name"]: s["label"] for s in document["settings"]["storages"]}
    clauses = []
    for test in TESTS:
        gains = {}
        for name in storages:
            points = points_of(document["comparisons"], THREADS, test, name)
            faster = [p["ratio_median"] for p in points if p["finding"] == "faster"]
            if faster:
                gains[name] = max(faster)
        if gains:
            factor = range_of(min(gains.values()), max(gains.values()), 1)
            where = ", ".join(storages[name] for name in gains)
            clauses.append(f"{name_of(document, test)} {factor} times ({where})")
    if not clauses:
        return "More threads bring no gain that could be measured, on any storage."
    return f"More threads than one, at best, bring {'; '.join(clauses)}."


def _medium_sentence(document: Json) -> str:
    rows, raw = rows_by_id(document), document["settings"]["raw"]
    if raw is None:
        return "There is no disk below whose own limit could be shown."
    first = document["settings"]["storages"][0]
    shares = []
    for test in TESTS:
        limit = raw_row(document, test)
        if limit is None:
            continue
        best = best_threads(rows, test, first["name"], document["settings"]["threads"])
        of_limit = limit["metrics"][test.metric]["median"]
        share = best["metrics"][test.metric]["median"] / of_limit
        shares.append(
            f"{name_of(document, test)} reaches {share * 100:.0f} % of {_rate(of_limit)}"
        )
    return (
        f"Of what {raw['medium']} itself gives by direct I/O, {first['label']} gets with its best "
        f"number of threads: {', '.join(shares)}."
    )


def _rate(mib_per_s: float) -> str:
    return f"{mib_per_s:.0f} MiB/s"  # as in tables and plots


# ---- Table 1 -------------------------------------------------------------------------------------


def _summary_section(document: Json) -> Section:
    figure = Figure(
        "table-1",
        Bars(
            [_summary_panel(document, test) for test in TESTS],
            common_scale=False,
            label_width=150.0,
        ),
        "A matrix of bars: each test on each storage, by one thread and by the best number of "
        "them; the tables below have the numbers.",
        f"Bandwidth of each test, files of {format_size(FILE_BYTES)}: one thread, and below it the "
        "best number of threads, fainter. The line across the end is the median’s 95 % bounds; a "
        "diamond is what the paper published for such a storage. Longer is better; each test has "
        "a scale of its own.",
    )
    absent = absent_table(document)
    return Section(
        "The paper’s Table 1, here",
        figure=figure,
        tables=[property_table(document), summary_table(document), *([absent] if absent else [])],
    )


def _summary_panel(document: Json, test: Test) -> BarPanel:
    rows, bars = rows_by_id(document), []
    for storage in document["settings"]["storages"]:
        name = storage["name"]
        one = rows[f"{test.operation_on(rows, name)}/{name}/1/{FILE_BYTES}"]
        best = best_threads(rows, test, name, document["settings"]["threads"])
        for row, label, many in (
            (one, storage["label"], False),
            (best, f"{best['threads']} threads", True),
        ):
            summary = row["metrics"][test.metric]
            low, high = summary["median_low_95"], summary["median_high_95"]
            number = published_mib_per_s(storage["paper_system"], test, many)
            bars.append(
                Bar(
                    name,
                    label,
                    [0.0, summary["median"]] if many else [summary["median"]],
                    low,
                    high,
                    text=_rate(summary["median"]),
                    tip=f"{storage['label']}, {row['threads']} threads: {low:.0f} to {high:.0f} "
                    "MiB/s",
                    published=in_mib_per_s(number) if number else None,
                )
            )
    return BarPanel(_capital(name_of(document, test)), bars)


# ---- by threads, by size -------------------------------------------------------------------------


def _threads_section(document: Json) -> Section:
    panels = []
    for test in TESTS:
        series = []
        for storage in document["settings"]["storages"]:
            points = points_of(document["comparisons"], THREADS, test, storage["name"])
            if points:
                series.append(
                    Series(
                        storage["name"],
                        storage["label"],
                        [1, *(p["threads"] for p in points)],
                        [1.0, *(p["ratio_median"] for p in points)],
                        [1.0, *(p["ratio_low_95"] for p in points)],
                        [1.0, *(p["ratio_high_95"] for p in points)],
                    )
                )
        if series:
            panels.append(Panel(_capital(name_of(document, test)), series))
    figure = Figure(
        "threads",
        Curves(panels, x="threads", y="speed-up", x_label="threads", columns=2),
        "Speed-up by the number of threads, a line for each storage; the tables below have the "
        "numbers.",
        "Speed-up beside one thread, each thread with a file of its own. Lines are medians, shaded "
        "are their 95 % bounds; the dotted line would be linear. Both axes are logarithmic. Files "
        "in memory are never cold.",
    )
    return Section("Speed-up by threads", figure=figure)


def _sizes_section(document: Json) -> Section:
    panels = []
    rows, sizes = rows_by_id(document), document["settings"]["sizes_bytes"]
    for test in TESTS:
        series = []
        for storage in document["settings"]["storages"]:
            name = storage["name"]
            operation = test.operation_on(rows, name)
            metrics = [
                rows[f"{operation}/{name}/size/{size}"]["metrics"][test.metric] for size in sizes
            ]
            series.append(
                Series(
                    name,
                    storage["label"],
                    sizes,
                    [m["median"] for m in metrics],
                    [m["median_low_95"] for m in metrics],
                    [m["median_high_95"] for m in metrics],
                )
            )
        limit = raw_row(document, test)
        limits = []
        if limit is not None:
            medium = document["settings"]["raw"]["medium"]
            limits = [(f"{medium} itself", limit["metrics"][test.metric]["median"])]
        panels.append(Panel(_capital(name_of(document, test)), series, limits))
    figure = Figure(
        "file-sizes",
        Curves(panels, x_label="file size", columns=2),
        "Bandwidth by file size, a line for each storage; the tables below have the numbers.",
        "Bandwidth by file size, one thread. Lines are medians, shaded are their 95 % bounds; the "
        "dotted line is what the disk itself gives by direct I/O. Both axes are logarithmic.",
    )
    return Section("By file size", figure=figure)


def _test_section(document: Json, test: Test) -> Section:
    names = [storage["name"] for storage in document["settings"]["storages"]]
    comparisons = document["comparisons"]
    shows = [
        Shown(about, [sentence.split(after, 1)[1] for sentence in sentences])
        for about, after, sentences in (
            ("More threads than one", ", ", conclude_threads(test, comparisons, names)),
            ("One thread", ": ", conclude_storages(test, comparisons, names)),
        )
        if sentences
    ]
    return Section(
        f"{_capital(name_of(document, test))}: the numbers",
        findings=shows,
        tables=[threads_table(document, test), sizes_table(document, test)],
    )


def _raw_section(document: Json) -> Section:
    return Section(
        "The disk itself",
        text=[
            "Direct transfers past every cache of this kernel, several in flight, over blocks "
            "that the file has already."
        ],
        tables=[raw_table(document)],
    )


def _paper_section(document: Json) -> Section:
    shown: Sequence[str] = [
        f"The study follows {published.SOURCES['000']}. There a Xeon Phi co-processor wrote and "
        "read by IOzone, and its virtio disk, NFS and Lustre were across PCI Express or a network. "
        "In this table a virtio disk is one whose driver is called so; what a hypervisor does "
        "behind it differs."
    ]
    return Section("Beside the paper", text=shown, tables=[paper_table(document)])


def _capital(text: str) -> str:
    return text[0].upper() + text[1:]
