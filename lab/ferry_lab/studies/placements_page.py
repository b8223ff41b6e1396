"""The study ``placements`` as a report: the short answer, the plots, and the paper beside it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ferry.sizes import format_size
from ferry_lab.render.bars import Bar, BarPanel, Bars
from ferry_lab.render.curves import Curves, Panel, Series
from ferry_lab.render.report import Figure, Page, Section, Shown, Word
from ferry_lab.render.study_text import runtime_notes
from ferry_lab.stats.crossings import describe_ranges, range_of
from ferry_lab.studies import published
from ferry_lab.studies.placements_findings import (
    LARGE_READ_VIEWS,
    READ_VIEWS,
    WAYS,
    WRITE_VIEWS,
    View,
    conclude,
    points_of,
)
from ferry_lab.studies.placements_paper import paper_table
from ferry_lab.studies.placements_report import (
    describe_cache,
    describe_ways,
    has_rows,
    program_lines,
    program_row,
    program_table,
    program_times_ms,
    program_views,
    size_table,
    sizes_of,
)

Json = dict[str, Any]

_SHADED = "Lines are medians, shaded are their 95 % bounds. Both axes are logarithmic."


def make_page(document: Json) -> Page:
    """Returns the study's part of its report."""
    settings = document["settings"]
    total = format_size(settings["total_bytes"])
    sections = [_sizes_section(document, READ_VIEWS, "reads", f"Reads of {total}", "read")]
    if has_rows(document, WRITE_VIEWS[0]):
        title = f"Writes of {total} into a new file"
        sections.append(_sizes_section(document, WRITE_VIEWS, "writes", title, "written"))
    if has_rows(document, LARGE_READ_VIEWS[0]):
        title = f"Reads of {format_size(settings['large_total_bytes'])}"
        sections.append(_sizes_section(document, LARGE_READ_VIEWS, "large-reads", title, "read"))
    sections += [
        _programs_section(document, operation)
        for operation in ("read", "write")
        if program_views(document, operation)
    ]
    sections.append(_paper_section(document))
    return Page(
        question="Which way should a device program’s reads and writes go?",
        conclusion=_conclusion(document),
        lead=describe_cache(document).replace("'", "’"),
        words=_words(document),
        text=[
            "Numbers are medians, ± half the width of their 95 % "
            "bounds. noise is what two equal series of plain calls differ by; differences smaller "
            "than that, or than what neighbouring repeats of the two ways differ by, are called "
            "none. Every transfer’s contents were verified.",
            *runtime_notes(document),
        ],
        sections=sections,
    )


def _words(document: Json) -> list[Word]:
    ways = [
        Word(way, way, meaning.replace("'", "’"))
        for way, meaning in describe_ways(document).items()
    ]
    writes = has_rows(document, WRITE_VIEWS[0])
    plain = "pread, pwrite" if writes else "pread"
    meaning = "plain system calls on the same threads, beside which the placements are set"
    mapping = "a copy from or to a mapping of the whole file, page faults included"
    return [*ways, Word("plain", plain, meaning), Word("mmap", "mmap", mapping)]


# ---- the short answer ----------------------------------------------------------------------------


def _conclusion(document: Json) -> list[str]:
    """Returns at most three sentences, which say no more than the findings do."""
    comparisons = document["comparisons"]
    cold, warm = READ_VIEWS

    def clause(view: View) -> str:
        return _compute_or_host(points_of(view, comparisons, "two_placements", "compute", "host"))

    sentences = [
        f"Reads: while the device’s cache is cold, {clause(cold)}; once it has the file, "
        f"{clause(warm)}."
    ]
    if has_rows(document, WRITE_VIEWS[0]):
        call, _, fsync = (clause(view) for view in WRITE_VIEWS)
        sentences.append(
            f"Writes, with and without the fsync that makes them durable: {call}."
            if call == fsync
            else f"Writes: of the call alone, {call}; with the fsync that makes them durable, {fsync}."
        )
    return [*sentences, _automatic(comparisons)]


def _compute_or_host(points: Sequence[Json]) -> str:
    ordered = sorted(points, key=lambda point: point["transfer_bytes"])
    clauses = []
    for finding, winner, loser in (("faster", "compute", "host"), ("slower", "host", "compute")):
        chosen = [point["finding"] == finding for point in ordered]
        ratios = [p["ratio_median"] for p in ordered if p["finding"] == finding]
        if ratios:
            factors = ratios if finding == "faster" else [1 / ratio for ratio in ratios]
            factor = range_of(min(factors), max(factors), 1)
            where = describe_ranges(chosen, ordered)
            clauses.append(f"{winner} has {factor} times the bandwidth of {loser}{where}")
    rest = {point["finding"] for point in ordered} - {"faster", "slower"}
    if rest == {"within_5_percent"}:
        where = "elsewhere " if clauses else ""
        clauses.append(f"{where}compute and host are within 5 %")
    elif rest:
        where = " elsewhere" if clauses else " between compute and host"
        clauses.append(f"no difference is measured{where}")
    return ", and ".join([", ".join(clauses[:-1]), clauses[-1]] if clauses[1:] else clauses)


def _automatic(comparisons: Sequence[Json]) -> str:
    points = [point for point in comparisons if point["question"] == "automatic_and_best"]
    slower = [point["ratio_median"] for point in points if point["finding"] == "slower"]
    where = f"at {len(slower) or 'none'} of {len(points)} points"
    factor = f", with {range_of(min(slower), max(slower))} times its speed" if slower else ""
    ways = {
        "within_5_percent": "within 5 % of it",
        "faster": "faster",
        "no_difference": "not measurably different",
    }
    found = {point["finding"] for point in points}
    rest = " or ".join(text for finding, text in ways.items() if finding in found)
    others = f"; at the others it is {rest}" if rest else ""
    return f"automatic is slower than the best of the three {where}{factor}{others}."


# ---- by transfer size ----------------------------------------------------------------------------


def _sizes_section(
    document: Json, views: Sequence[View], name: str, title: str, verb: str
) -> Section:
    panels = [Panel(_panel_title(view), _series(document, view)) for view in views]
    figure = Figure(
        name,
        Curves(panels),
        f"Bandwidth of what is {verb} by transfer size, a line for each way; the table below has "
        "the numbers.",
        f"Bandwidth by transfer size. {_SHADED}",
    )
    return Section(
        title,
        figures=[figure],
        shows=[_shown(document, view) for view in views],
        tables=[size_table(document, view) for view in views],
    )


def _shown(document: Json, view: View) -> Shown:
    """What a view shows, without its name before each sentence."""
    sentences = conclude(view, document["comparisons"])
    name = f"{view.name}: "
    return Shown(view.name, [_capital(s.removeprefix(name)) for s in sentences])


def _capital(text: str) -> str:
    """Capitalises a sentence, but not the name of a way."""
    first = text.split()[0]
    return text if first in (*WAYS, "mmap") else text[0].upper() + text[1:]


def _panel_title(view: View) -> str:
    """Returns what tells the view from its neighbours: "Device cache cold"."""
    return _capital(view.name.split(", ", 1)[1])


def _series(document: Json, view: View) -> list[Series]:
    rows = {row["id"]: row for row in document["rows"]}
    sizes = sizes_of(document, view)
    made = []
    for way in (*WAYS, "plain", "mmap"):
        metrics = [
            rows[f"{view.head}/{view.series(way)}/{size}"]["metrics"][view.metric] for size in sizes
        ]
        label = view.plain().removesuffix(" + fsync") if way == "plain" else way
        made.append(
            Series(
                way,
                label,
                sizes,
                [m["median"] for m in metrics],
                [m["median_low_95"] for m in metrics],
                [m["median_high_95"] for m in metrics],
            )
        )
    return made


# ---- the programs --------------------------------------------------------------------------------


def _programs_section(document: Json, operation: str) -> Section:
    views = program_views(document, operation)
    heads = dict.fromkeys(view.head for view in views)
    panels = [_program_panel(document, operation, head) for head in heads]
    verb, ends = ("sum", "") if operation == "read" else ("fill", ", faintest in flush and fsync")
    piece = format_size(document["settings"]["piece_bytes"])
    figure = Figure(
        f"programs-{operation}",
        Bars(panels),
        f"Time of the programs that {operation}, a bar for each way; the table below has the "
        "numbers.",
        f"Time of the whole program, median: strong in the calls, fainter in computing{ends}. The "
        "line across the end is the median’s 95 % bounds. Shorter is better.",
    )
    return Section(
        f"Programs that {operation} and {verb} pieces of {piece}",
        text=[
            f"iterative: {operation}s one piece and {verb}s it, piece by piece. once: "
            f"{operation}s everything at once. What the calls leave in the caller’s own "
            "processor cache counts here, as it does not above."
        ],
        figures=[figure],
        shows=[_shown(document, view) for view in views],
        tables=[program_table(document, operation)],
    )


def _program_panel(document: Json, operation: str, head: str) -> BarPanel:
    views = [view for view in program_views(document, operation) if view.head == head]
    rows = {row["id"]: row for row in document["rows"]}
    bars = []
    for label, view, way in program_lines(views, operation):
        row = rows[program_row(document, view, way)]
        calls, computing, *ends = program_times_ms(row, operation)
        parts = [calls, computing, *ends[1:2]]
        whole = row["metrics"][view.metric]
        low, high = (whole[key] * 1e-6 for key in ("median_low_95", "median_high_95"))
        named = zip(("calls", "computing", "flush and fsync"), parts, strict=False)
        split = ", ".join(f"{what} {time:.2f} ms" for what, time in named)
        bars.append(
            Bar(
                way,
                label,
                parts,
                low,
                high,
                text=f"{whole['median'] * 1e-6:.1f} ms",
                tip=f"{label}: {split}; in all {low:.2f} to {high:.2f} ms",
            )
        )
    return BarPanel(head.split("-")[0], bars)


# ---- the paper -----------------------------------------------------------------------------------


def _paper_section(document: Json) -> Section:
    assert not published.of_study("placements"), "published numbers that the page does not show"
    return Section(
        "Beside the paper",
        text=[
            f"The study follows {published.SOURCES['001']} (slides), on a Knights Ferry "
            "co-processor with 32 cores behind PCI Express. Its figures are pictures without "
            "numbers, so that none can be set beside ours; what it says about them can. There the "
            "device’s memory was across a bus; here host and device are cores of one machine. A "
            "different answer here does not contradict it."
        ],
        tables=[paper_table(document)],
    )
