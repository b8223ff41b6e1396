"""The study ``optimizations`` as a report: the short answer, the plots, and the paper beside it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ferry.sizes import format_size
from ferry_lab.render.bars import Bar, BarPanel, Bars
from ferry_lab.render.curves import Curves, Panel, Series
from ferry_lab.render.findings import range_of
from ferry_lab.render.report import Figure, Page, Section, Shown, Word
from ferry_lab.studies import published
from ferry_lab.studies.optimizations_cells import OPERATIONS, SWITCHES
from ferry_lab.studies.optimizations_findings import (
    KERNEL,
    LABELS,
    NAMES,
    SETTING,
    conclude_alignment,
    conclude_kernel,
    conclude_settings,
    conclude_small_files,
    points_of,
)
from ferry_lab.studies.optimizations_report import (
    alignment_table,
    how_to_read,
    kernel_row,
    operation_table,
    paper_table,
    rows_by_id,
    small_bandwidth,
    small_table,
    small_ways,
)

Json = dict[str, Any]

_MEANINGS = {
    "off": "one page for each allocation and each insertion, copies by memcpy, no readahead",
    "all": "the cache as programs get it",
    "tmpfs": "the kernel’s file system in memory, by pwrite and pread",
    "ramfs": "the same without limits and without swap",
}


def make_page(document: Json) -> Page:
    """Returns the study's part of its report."""
    return Page(
        question="What are the page cache’s optimisations worth?",
        conclusion=_conclusion(document),
        lead=(
            "The optimisations of the Intel paper can each be switched off in the page cache that "
            "Ferry has in the device’s memory. The copy engine, by which the paper copies, is "
            "absent: the device cpu has none."
        ),
        words=[
            Word(way, LABELS[way], _MEANINGS[way])
            for way in ("off", "all", *document["settings"]["kernel"])
        ],
        text=[how_to_read(document).replace("'", "’")],
        sections=[
            _sizes_section(document),
            _alone_section(document),
            *(_operation_section(document, operation) for operation in OPERATIONS),
            Section(
                "Buffers that are not aligned",
                text=[
                    "The paper’s copy engine wanted buffers at the beginning of a cache line. "
                    "Here re-writes and re-reads move the same bytes from and to buffers that "
                    "begin with a page, or one byte further."
                ],
                findings=_by_operation(conclude_alignment(document["comparisons"])),
                tables=[alignment_table(document)],
            ),
            _small_section(document),
            _paper_section(document),
        ],
    )


def _shown(about: str, sentences: Sequence[str], prefix: str = "") -> Shown:
    texts = [sentence.removeprefix(prefix).replace("'", "’") for sentence in sentences]
    return Shown(about, [text[0].upper() + text[1:] for text in texts])


def _by_operation(sentences: Sequence[str]) -> list[Shown]:
    """Returns sentences that begin with an operation, by it."""
    heads = dict.fromkeys(sentence.split(", ", 1)[0] for sentence in sentences)
    return [
        _shown(head, [s for s in sentences if s.startswith(f"{head}, ")], f"{head}, ")
        for head in heads
    ]


# ---- the short answer ----------------------------------------------------------------------------


def _conclusion(document: Json) -> list[str]:
    comparisons = document["comparisons"]
    together = [
        f"{NAMES[operation].lower()} {_factor(points_of(comparisons, SETTING, operation, 'all'))}"
        for operation in OPERATIONS
    ]
    return [
        f"All optimisations together, beside none of them: {', '.join(together)}.",
        _alone_sentence(comparisons),
        _kernel_sentence(document),
    ]


def _factor(points: Sequence[Json]) -> str:
    """Returns "1.2 to 1.5 times as fast", of the sizes at which a difference was measured."""
    decided = [p["ratio_median"] for p in points if p["finding"] in ("faster", "slower")]
    if not decided:
        close = any(point["finding"] == "within_5_percent" for point in points)
        return "within 5 % or without a measured difference" if close else "no difference measured"
    where = "" if len(decided) == len(points) else f" at {len(decided)} of {len(points)} sizes"
    return f"{range_of(min(decided), max(decided))} times the bandwidth{where}"


def _alone_sentence(comparisons: Sequence[Json]) -> str:
    clauses = []
    for operation in OPERATIONS:
        best, gain = "", 1.0
        for switch in SWITCHES:
            points = points_of(comparisons, SETTING, operation, switch)
            faster = [p["ratio_median"] for p in points if p["finding"] == "faster"]
            if 2 * len(faster) > len(points) and max(faster) > gain:
                best, gain = switch, max(faster)
        if best:
            name = NAMES[operation].lower()
            clauses.append(f"{LABELS[best]} for {name} (up to {gain:.2f} times the bandwidth)")
    if not clauses:
        return "Alone, no optimisation is measurably faster at most of the sizes."
    return f"Alone, the largest gain is that of {'; '.join(clauses)}."


def _kernel_sentence(document: Json) -> str:
    kinds = document["settings"]["kernel"]
    if not kinds:
        return "No kernel file system in memory was there to set beside it."
    kind = kinds[0]
    clauses = [
        f"{NAMES[operation].lower()} "
        f"{_factor(points_of(document['comparisons'], KERNEL, operation, 'all', kind))}"
        for operation in OPERATIONS
    ]
    return f"Beside the kernel’s {kind}, the cache with all on: {', '.join(clauses)}."


# ---- by file size --------------------------------------------------------------------------------


def _sizes_section(document: Json) -> Section:
    panels = [Panel(NAMES[operation], _series(document, operation)) for operation in OPERATIONS]
    record = format_size(document["settings"]["record_bytes"])
    figure = Figure(
        "file-sizes",
        Curves(panels, x_label="file size", columns=2),
        "Bandwidth of writing, re-writing, reading and re-reading by file size, a line for each "
        "way; the tables below have the numbers.",
        f"Bandwidth by file size, in records of {record}. Lines are medians, shaded are their "
        "95 % bounds. Both axes are logarithmic.",
    )
    return Section("All off, all on, and the kernel", figure=figure)


def _series(document: Json, operation: str) -> list[Series]:
    rows, sizes = rows_by_id(document), document["settings"]["file_bytes"]
    made = []
    for way in ("off", "all", *document["settings"]["kernel"]):
        if way in document["settings"]["kernel"]:
            found = [kernel_row(rows, operation, way, size) for size in sizes]
        else:
            found = [rows[f"{operation}/{way}/{size}"] for size in sizes]
        metrics = [row["metrics"]["bandwidth_mib_per_s"] for row in found]
        made.append(
            Series(
                way,
                LABELS[way],
                sizes,
                [m["median"] for m in metrics],
                [m["median_low_95"] for m in metrics],
                [m["median_high_95"] for m in metrics],
            )
        )
    return made


# ---- each alone ----------------------------------------------------------------------------------


def _alone_section(document: Json) -> Section:
    size = document["settings"]["file_bytes"][-1]
    figure = Figure(
        "alone",
        Bars(
            [_alone_panel(document, operation, size) for operation in OPERATIONS],
            label_width=140.0,
            reference=1.0,
        ),
        "How many times the bandwidth of all off each optimisation has alone, and all of them; "
        "the tables below have the numbers.",
        f"Times the bandwidth of all off, files of {format_size(size)}. The line across the end "
        "is the 95 % bounds, the dotted one is all off. A diamond is what the paper published "
        "for its own cache (tmpfs). Longer is better.",
    )
    return Section("Each optimisation alone", figure=figure)


def _alone_panel(document: Json, operation: str, size: int) -> BarPanel:
    bars = []
    for way in (*SWITCHES, "all"):
        points = points_of(document["comparisons"], SETTING, operation, way)
        (point,) = [point for point in points if point["total_bytes"] == size]
        low, high = point["ratio_low_95"], point["ratio_high_95"]
        bars.append(
            Bar(
                "all" if way == "all" else "alone",
                LABELS[way],
                [point["ratio_median"]],
                low,
                high,
                text=f"{point['ratio_median']:.2f}×",
                tip=f"{NAMES[operation]}, {LABELS[way]}: {low:.2f} to {high:.2f}",
                published=_published(operation, way),
            )
        )
    return BarPanel(NAMES[operation], bars)


def _published(operation: str, way: str) -> float | None:
    for number in published.of_study("optimizations"):
        of_hash = "hash" in number.note
        wanted = {"all": not of_hash, "precomputed_hash": of_hash}.get(way, False)
        if wanted and number.system == "tmpfs" and number.operation == operation:
            return number.value
    return None


# ---- the rest ------------------------------------------------------------------------------------


def _operation_section(document: Json, operation: str) -> Section:
    name, comparisons = NAMES[operation], document["comparisons"]
    shows = [
        ("Beside all off", conclude_settings(operation, comparisons)),
        ("Beside the kernel", conclude_kernel(operation, comparisons)),
    ]
    return Section(
        f"{name}: every optimisation",
        findings=[_shown(about, found, f"{name}: ") for about, found in shows if found],
        tables=[operation_table(document, operation)],
    )


def _small_section(document: Json) -> Section:
    settings, rows = document["settings"], rows_by_id(document)
    size, small = settings["small_total_bytes"], format_size(settings["small_file_bytes"])
    shapes = {
        "many": f"files of {small}",
        "one": f"one, by {small}",
        "records": f"one, by {format_size(settings['record_bytes'])}",
    }
    panels = []
    for way in small_ways(document):
        for operation in ("write", "read"):
            bars = []
            for shape, label in shapes.items():
                row = rows[f"{operation}/{way}-{shape}/{size}"]
                times = row["metrics"]["elapsed_ns"]
                low, high = (
                    row["total_bytes"] / times[key] * 1e9 / 2**20
                    for key in ("median_high_95", "median_low_95")
                )
                value = small_bandwidth(row)
                bars.append(
                    Bar(
                        shape,
                        label,
                        [value],
                        low,
                        high,
                        text=f"{value:.0f} MiB/s",
                        tip=f"{label}: {low:.0f} to {high:.0f} MiB/s",
                    )
                )
            panels.append(BarPanel(f"{NAMES[operation]}, {LABELS[way]}", bars))
    figure = Figure(
        "small-files",
        Bars(panels),
        "Bandwidth with many small files and with a large one; the table below has the numbers.",
        f"{format_size(size)} in files of {small}, in one file by transfers as large as those, "
        "and in one file by records; opening and closing count. Longer is better.",
    )
    return Section(
        "Many small files or a large one",
        figure=figure,
        findings=_by_operation(conclude_small_files(document["comparisons"])),
        tables=[small_table(document)],
    )


def _paper_section(document: Json) -> Section:
    return Section(
        "Beside the paper",
        text=[
            f"The study follows {published.SOURCES['003']}: IOzone on a Xeon Phi, in the page "
            "cache of its kernel, with 4 MB records and files of 4 MB to 1 GB. Most of its gain is "
            "the DMA engine’s, which copied; that switch is absent here. Its in-order cores made "
            "each cache miss dear; the ones here are others, and so are the ratios."
        ],
        tables=[paper_table(document)],
    )
