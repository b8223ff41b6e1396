"""The study ``stripes``: the effect of file layouts and writers' buffers (after Fahey 2007).

One writer and many write a shared file for all ranks, by stripe count, stripe size and buffer size,
each beside the storage's default. Without stripes, only the buffer size varies. The axes of its rows
are ``varied`` (one of three, ``default``, or ``again``, which is the same for the noise), ``value``
and ``writers``.
"""

from __future__ import annotations

from collections.abc import Sequence

from ferry.errors import FerryError
from ferry.native import run_layout
from ferry.sizes import KIB, MIB, format_size
from ferry_lab.render.bars import Bar, BarPanel, Bars
from ferry_lab.render.findings import Axis, Finding, Findings
from ferry_lab.render.mpi_tables import bandwidth_of, count_of, counted_table, label_of
from ferry_lab.render.sections import HOW_TO_READ, Answer, Figure, Section, Word
from ferry_lab.render.tables import Table
from ferry_lab.results.records import Comparison, Document, RanksRow, Row
from ferry_lab.run.plan import RanksCell
from ferry_lab.run.ranks_study import RanksPlan, RanksStudy
from ferry_lab.run.remote_files import Json, Place
from ferry_lab.run.study import StudyOptions
from ferry_lab.stats import judge
from ferry_lab.stats.comparing import row_at, where
from ferry_lab.studies import published
from ferry_lab.studies.ranks_cells import beside, ranks_cell

RANKS, QUICK_RANKS = 8, 4
BYTES_PER_RANK, QUICK_BYTES_PER_RANK = 16 * MIB, 8 * MIB
COUNTS, QUICK_COUNTS = [1, 2, 4, 8], [1, 4]
SIZES, QUICK_SIZES = [256 * KIB, MIB, 4 * MIB], [256 * KIB, 4 * MIB]
BUFFERS, QUICK_BUFFERS = [MIB, 4 * MIB, 16 * MIB], [MIB, 16 * MIB]
SIZE_OF_COUNTS, COUNT_OF_SIZES = MIB, 4  # what the one axis has where the other is varied

DEFAULT, AGAIN = "default", "again"
COUNT, SIZE, BUFFER = "stripe count", "stripe size", "buffer"
_METRIC = "bandwidth_with_sync_mib_per_s"


class Stripes(RanksStudy):
    name = "stripes"
    repeats = judge.PAIRS_MIN
    quick_repeats = judge.FINDING_PAIRS_MIN

    def plan(self, options: StudyOptions, notes: list[str]) -> RanksPlan:
        where = options.storage or options.folder
        ranks = QUICK_RANKS if options.quick else RANKS
        each = QUICK_BYTES_PER_RANK if options.quick else BYTES_PER_RANK
        layout = default_layout(where)
        if layout is None:
            notes.append(f"{where} has no stripes that Ferry can set: measured by buffer size alone")
        axes = {
            COUNT: (QUICK_COUNTS if options.quick else COUNTS) if layout else [],
            SIZE: (QUICK_SIZES if options.quick else SIZES) if layout else [],
            BUFFER: QUICK_BUFFERS if options.quick else BUFFERS,
        }

        def cells(places: Sequence[Place]) -> dict[str, list[RanksCell]]:
            return {
                count_of(writers, "writer"): stripes_cells(places[0], ranks, writers, ranks * each, axes)
                for writers in (1, ranks)
            }

        settings = {
            "ranks": ranks,
            "writers": [1, ranks],
            "bytes_per_rank": each,
            "axes": axes,
            "stripe_bytes_of_counts": SIZE_OF_COUNTS,
            "stripe_count_of_sizes": COUNT_OF_SIZES,
            "default_layout": layout,
        }
        return RanksPlan(3 * ranks * each, settings, cells)

    def compare(self, rows: Sequence[Row]) -> list[Comparison]:
        """Sets each point beside the default with as many writers."""
        question = "stripes_and_default"
        return [
            beside(question, _METRIC, row, rows, {"writers": row.axes["writers"]}, "varied", (DEFAULT, AGAIN))
            for row in rows
            if "value" in row.axes
        ]

    def answer(self, document: Document) -> Answer:
        settings = document.settings
        default = "nothing is striped here"
        if layout := settings["default_layout"]:
            default = f"the default is {_stripes(layout)}, as the storage says"
        size, count = format_size(settings["stripe_bytes_of_counts"]), settings["stripe_count_of_sizes"]
        meanings = {
            COUNT: f"stripes of {size} over so many servers",
            SIZE: f"stripes of that size over {count} servers",
            BUFFER: "of each writer; the layout is the default",
        }
        return Answer(
            "What do stripes and buffers change?",
            [_best(document, writers) for writers in settings["writers"]],
            [
                f"{settings['ranks']} ranks with {format_size(settings['bytes_per_rank'])} each "
                f"({settings['mpi']}) write one shared file through one writer, and through all as "
                "writers, aggregated by ferry.collective. Stripes are given when the file is made, "
                f"and read back; {default}. The time has the fsync in it. MiB/s of all ranks "
                f"together. {HOW_TO_READ}"
            ],
            [
                Word(DEFAULT, DEFAULT, "the storage's own layout, and each writer's usual buffer"),
                *(Word(axis, axis, meanings[axis]) for axis in _axes(document)),
            ],
        )

    def sections(self, document: Document) -> Sequence[Section]:
        return [
            *(_section(document, axis) for axis in _axes(document)),
            Section("What was counted", tables=[_counts_table(document)]),
            published.beside_the_paper(
                "004", ", where one writer on Lustre got no more from more stripes.", [_paper_table(document)]
            ),
        ]


# ---- what is measured ----------------------------------------------------------------------------


def default_layout(where: str) -> Json | None:
    """Returns the layout that files get there by themselves; None where nothing is striped."""
    try:
        answer = run_layout(["get", where])
    except FerryError as error:
        if "whose striping" in str(error):
            return None
        raise
    return answer["layout"]


def stripes_cells(place: Place, ranks: int, writers: int, total: int, axes: dict[str, list[int]]) -> list[RanksCell]:
    """Returns the default, twice for the noise, and every point of each axis."""
    points: list[tuple[Json, Json]] = [({"varied": DEFAULT}, {}), ({"varied": AGAIN}, {})]
    points += [
        ({"varied": axis, "value": value}, _fields(axis, value)) for axis, values in axes.items() for value in values
    ]
    return [
        ranks_cell(
            place,
            "stripes",
            {**point, "writers": writers},
            method="aggregate",
            ranks=ranks,
            writers=writers,
            transfer_bytes=total // ranks,
            total_bytes=total,
            **changes,
        )
        for point, changes in points
    ]


def _fields(axis: str, value: int) -> Json:
    if axis == BUFFER:
        return {"buffer_bytes": value}
    count, size = (value, SIZE_OF_COUNTS) if axis == COUNT else (COUNT_OF_SIZES, value)
    return {"stripe_count": count, "stripe_bytes": size}


# ---- what it shows -------------------------------------------------------------------------------


def _axes(document: Document) -> list[str]:
    return [axis for axis, values in document.settings["axes"].items() if values]


def _value_label(axis: str, value: int) -> str:
    """Returns "4", or "1 MiB"."""
    return str(value) if axis == COUNT else format_size(value)


def finding_of(document: Document, axis: str, writers: int) -> Finding:
    """Returns how the points of one axis compare with the default."""
    points = where(document.comparisons, varied=axis, writers=writers)
    along = Axis.named("value", lambda value: _value_label(axis, value), "with {}")
    return Finding(f"a chosen {axis}", "the default", points, along)


def _best(document: Document, writers: int) -> str:
    """Names the best point, if it is better than the default by more than noise."""
    points = where(document.comparisons, writers=writers)
    better = [(p.ratio_median, p.axes["varied"], p.axes["value"]) for p in points if p.finding == "faster"]
    worse = sum(point.finding == "slower" for point in points)
    who = count_of(writers, "writer")
    slower = f"{worse} point{'s are' if worse != 1 else ' is'} slower"
    if not better:
        return f"{who}: no point is faster than the default by more than the noise; {slower}."
    ratio, axis, value = max(better)
    return (
        f"{who}: fastest beside the default is {axis} {_value_label(axis, value)}, {ratio:.2f} times "
        f"its bandwidth; {slower}."
    )


def _stripes(layout: Json) -> str:
    """Says what is known of a layout; a directory's may be empty."""
    count, size = layout["stripe_count"], layout["stripe_bytes"]
    if count is None and size is None:
        return "left to the servers"
    counted = "a count left to the servers" if count is None else str(count)
    return f"{counted} of {'a size left to them' if size is None else format_size(size)}"


def granted(row: RanksRow) -> str:
    """Returns the layout that the files of a row were granted."""
    layouts = {
        f"{layout['stripe_count'] or 'unknown'} × "
        f"{'unknown' if layout['stripe_bytes'] is None else format_size(layout['stripe_bytes'])}"
        for sample in row.repeats
        if (layout := sample.layout) is not None
    }
    return " or ".join(sorted(layouts)) or "no stripes"


def _section(document: Document, axis: str) -> Section:
    counts = document.settings["writers"]
    findings = [finding_of(document, axis, writers) for writers in counts]
    ratios = {p.row: f"{p.ratio_median:.2f}" for found in findings for p in found.points}
    bars: dict[int, list[Bar]] = {writers: [] for writers in counts}
    lines = []
    values = document.settings["axes"][axis]
    points: list[Json] = [{"varied": DEFAULT}, *({"varied": axis, "value": n} for n in values)]
    for point in points:
        label = _value_label(axis, point["value"]) if "value" in point else DEFAULT
        rows = [row_at(document.rows, **point, writers=writers) for writers in counts]
        cells = []
        for writers, row in zip(counts, rows, strict=True):
            bars[writers].append(Bar.of(point["varied"], label, row.metric(_METRIC), "MiB/s"))
            cells += [bandwidth_of(row, _METRIC), ratios.get(row.id, "")]
        lines.append([label, *cells, granted(rows[0]), label_of(*rows)])
    figure = Figure(
        axis.replace(" ", "-"),
        Bars([BarPanel(count_of(n, "writer"), of) for n, of in bars.items()], label_width=80.0),
        f"Bars of bandwidth by {axis}; the table below has the numbers.",
        f"Bandwidth of all ranks together by {axis}, beside the default. The line across the end is "
        "the median's 95 % bounds.",
    )
    heads = [head for writers in counts for head in (count_of(writers, "writer"), "of default")]
    return Section(
        f"By {axis} (MiB/s)",
        figure=figure,
        findings=[
            Findings(f"{axis.capitalize()}, {count_of(writers, 'writer')}", [found])
            for writers, found in zip(counts, findings, strict=True)
        ],
        tables=[Table("", [axis, *heads, "granted", ""], lines)],
    )


def _counts_table(document: Document) -> Table:
    varied = [
        (f"{row.axes['varied']} {_value_label(row.axes['varied'], row.axes['value'])}", row)
        for row in document.rows
        if "value" in row.axes
    ]
    default = [(DEFAULT, row) for row in where(document.rows, varied=DEFAULT)]
    rows = [(f"{name}, {row.axes['writers']}", row) for name, row in varied + default]
    return counted_table("point and writers", rows)


def _paper_table(document: Document) -> Table:
    """Returns the paper's bandwidths of one writer by stripe count, beside ours."""
    said = {int(n.x): f"{n.value:.0f} MB/s" for n in published.of_study("stripes")}
    here = {row.axes["value"]: bandwidth_of(row, _METRIC) for row in where(document.rows, varied=COUNT, writers=1)}
    lines = [[str(count), said.get(count, ""), here.get(count, "not measured")] for count in sorted({*said, *here})]
    title = f"{published.CITED['004']}, one writer, stripes of 20 MB on Lustre, beside ours (MiB/s)"
    return Table(title, ["stripe count", "published", "here"], lines)
