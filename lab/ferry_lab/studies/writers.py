"""The study ``writers``: how many ranks should write, or read, for all (after Fahey 2007).

One shared file or one per writer, written and read by all ranks, or by some that gather the others'
data, at once or in turn. Times go from open to close, with an fsync for writes: opening by all
ranks is part of their cost. A *measurement* is one operation on one kind of files.
"""

from __future__ import annotations

from collections.abc import Sequence

from ferry.sizes import MIB, format_size
from ferry_lab.render import mpi_tables
from ferry_lab.render.bars import Bar, BarPanel, Bars
from ferry_lab.render.curves import Curves, Panel, Series
from ferry_lab.render.findings import Axis, Finding, Findings, range_of
from ferry_lab.render.mpi_tables import bandwidth_of, call_ms, count_of, counted_table, label_of
from ferry_lab.render.sections import HOW_TO_READ, Answer, Figure, Section, Word
from ferry_lab.render.tables import Table
from ferry_lab.results.records import Comparison, Document, Row
from ferry_lab.run.plan import RanksCell
from ferry_lab.run.ranks_study import RanksPlan, RanksStudy
from ferry_lab.run.remote_files import Place
from ferry_lab.run.study import StudyOptions
from ferry_lab.stats import judge
from ferry_lab.stats.comparing import make_comparison, where
from ferry_lab.studies import published, writers_cells
from ferry_lab.studies.writers_cells import AGAIN, ALL, FILES, LABELS, METRIC, OPERATIONS, SUBSETS, rows_of, writers_of
from ferry_lab.studies.writers_model import check_paper, paper_table, predictions

RANKS, QUICK_RANKS = 16, 8
BYTES_PER_RANK, QUICK_BYTES_PER_RANK = 8 * MIB, 4 * MIB
SUBSET, BEST = "subset_and_all", "writers_and_best"
_MEANINGS = {
    ALL: "each rank writes, or reads, its own",
    "aggregate": "some gather what the others have, and write it",
    "serial": "some take what the others have, one after the other",
}
_MODEL = (
    "what docs/reference/writers-model.md says of aggregated data, with this machine's numbers from all "
    "ranks and from one writer"
)
_MEASUREMENTS = [(operation, kind) for kind in FILES for operation in OPERATIONS]


class Writers(RanksStudy):
    name = "writers"
    repeats = judge.PAIRS_MIN
    quick_repeats = judge.FINDING_PAIRS_MIN

    def plan(self, options: StudyOptions, notes: list[str]) -> RanksPlan:
        ranks = QUICK_RANKS if options.quick else RANKS
        bytes_per_rank = QUICK_BYTES_PER_RANK if options.quick else BYTES_PER_RANK
        counts = [1 << power for power in range(ranks.bit_length())]

        def cells(places: Sequence[Place]) -> dict[str, list[RanksCell]]:
            return {
                f"{operation}, {FILES[kind]}": writers_cells.writers_cells(
                    places[0], kind, operation, ranks, bytes_per_rank, counts
                )
                for operation, kind in _MEASUREMENTS
            }

        # What is read by each number of readers, and the file being written.
        scratch_bytes = (len(counts) + 2) * ranks * bytes_per_rank
        settings = {"ranks": ranks, "bytes_per_rank": bytes_per_rank, "writers": counts}
        return RanksPlan(scratch_bytes, settings, cells)

    def compare(self, rows: Sequence[Row]) -> list[Comparison]:
        """Sets each subset beside all ranks, and every point beside the best of its measurement."""
        comparisons = []
        for operation, kind in _MEASUREMENTS:
            found = rows_of(rows, operation, kind)
            ((every,), (again,)) = (rows_of(rows, operation, kind, way) for way in (ALL, AGAIN))
            best = best_row(found)
            pairs = [(SUBSET, row, every) for row in found if row is not every]
            pairs += [(BEST, row, best) for row in found if row is not best]
            noise = (every, again)
            comparisons += [make_comparison(question, METRIC, row, base, noise) for question, row, base in pairs]
        return comparisons

    def answer(self, document: Document) -> Answer:
        settings = document.settings
        return Answer(
            "How many ranks should write, and read, for all of them?",
            [
                *(_fastest(document, kind) for kind in FILES),
                "A point loses where it is slower than the fastest by more than the noise.",
            ],
            [
                f"{settings['ranks']} ranks with {format_size(settings['bytes_per_rank'])} each "
                f"({settings['mpi']}), written and read through ferry.collective, by all ranks and "
                "by some of them. The time goes from open to close, a write's with an fsync in it. "
                f"MiB/s of all ranks together. {HOW_TO_READ}"
            ],
            [*(Word(way, label, _MEANINGS[way]) for way, label in LABELS.items()), Word("model", "model", _MODEL)],
        )

    def sections(self, document: Document) -> Sequence[Section]:
        rows = [
            (f"{operation} {kind}: {writers_of(row)} {LABELS[row.axes['way']]}", row)
            for operation, kind in _MEASUREMENTS
            for row in rows_of(document.rows, operation, kind)
        ]
        heads = "shared file, or own of each"
        return [
            _curves(document),
            *(_numbers(document, operation, kind) for operation, kind in _MEASUREMENTS),
            Section(
                "Where the time goes",
                figure=_split_figure(document),
                tables=[mpi_tables.split_table(heads, rows), _ratios_table(document)],
            ),
            Section("What was counted", tables=[counted_table(heads, rows)]),
            _paper(),
        ]


# ---- what is compared ----------------------------------------------------------------------------


def best_row(rows: Sequence[Row]) -> Row:
    """Returns the row with the highest median."""
    return max(rows, key=lambda row: row.metric(METRIC).median)


def points_of(document: Document, question: str, operation: str, kind: str) -> list[Comparison]:
    """Returns the comparisons of one measurement."""
    there = where(document.comparisons, operation=operation, files=kind)
    return [point for point in there if point.question == question]


def findings_of(document: Document, operation: str, kind: str) -> list[Findings]:
    """Returns how the points of a measurement compare with the fastest, and with all ranks."""
    verb, who = ("writing", "writers") if operation == "write" else ("reading", "readers")
    axis = Axis.named("writers", str, f"with {{}} {who}")

    def finding(question: str, way: str, baseline: str) -> Finding:
        points = where(points_of(document, question, operation, kind), way=way)
        if way == ALL:
            return Finding(f"{verb} by all ranks", baseline, points, None)
        return Finding(LABELS[way], baseline, points, axis)

    about = f"{operation.capitalize()}, {FILES[kind]}"
    best = best_row(rows_of(document.rows, operation, kind))
    fastest, every = f"the fastest ({_name(best)}: {_rate(best)})", f"all {document.settings['ranks']} ranks"
    return [
        Findings(f"{about}, beside {fastest}", [finding(BEST, way, "the fastest") for way in LABELS]),
        Findings(f"{about}, beside {every}", [finding(SUBSET, way, "all ranks") for way in SUBSETS]),
    ]


def _losing(document: Document, operation: str, kind: str) -> set[str]:
    """Returns the ids of the rows that are slower than the best by more than the noise."""
    points = points_of(document, BEST, operation, kind)
    return {point.row for point in points if point.finding == "slower"}


def _name(row: Row) -> str:
    """Returns "2 writers, aggregated", or "all 8 ranks"."""
    way, count = row.axes["way"], writers_of(row)
    if way == ALL:
        return f"all {count} ranks"
    who = "writer" if row.operation == "write" else "reader"
    return f"{count_of(count, who)}, {SUBSETS[way]}"


def _rate(row: Row) -> str:
    return f"{row.metric(METRIC).median:.0f} MiB/s"


def _fastest(document: Document, kind: str) -> str:
    clauses = []
    for operation in OPERATIONS:
        found = rows_of(document.rows, operation, kind)
        best, count = best_row(found), len(_losing(document, operation, kind))
        others = f"{count or 'none'} of {len(found) - 1} other points"
        lose = f"{others} lose{'s' if count == 1 else ''}"
        clauses.append(f"{operation}: {_name(best)} ({_rate(best)}), against which {lose}")
    return f"{FILES[kind].capitalize()}, {'; '.join(clauses)}."


# ---- by the number of writers --------------------------------------------------------------------


def _curves(document: Document) -> Section:
    panels = []
    for operation, kind in _MEASUREMENTS:
        ways = {way: rows_of(document.rows, operation, kind, way) for way in (*SUBSETS, ALL)}
        series = [Series.of_rows(way, LABELS[way], rows, "writers", METRIC) for way, rows in ways.items()]
        said = predictions(document.rows, operation, kind)
        rows = [row for row in ways["aggregate"] if row.id in said]
        if len(rows) > 1:
            values = [said[row.id] for row in rows]
            series.append(Series("model", "model", list(map(writers_of, rows)), values, values, values))
        panels.append(Panel(f"{operation.capitalize()}, {FILES[kind]}", series))
    figure = Figure(
        "writers",
        Curves(panels, "threads", x_label="ranks that write or read", columns=2, x_ticks=document.settings["writers"]),
        "Curves of bandwidth by the number of writers, for each way; the tables below have the numbers.",
        "Lines are medians, shaded are their 95 % bounds; the model is calibrated from all ranks and "
        "from one writer. Both axes are logarithmic.",
    )
    text = "Bandwidth of all ranks together, by the number of those that write or read."
    return Section("By the number of writers", [text], figure)


def _numbers(document: Document, operation: str, kind: str) -> Section:
    said = predictions(document.rows, operation, kind)
    lost = _losing(document, operation, kind)
    of_fastest, of_all = (
        {p.row: f"{p.ratio_median:.2f}" for p in points_of(document, question, operation, kind)}
        for question in (BEST, SUBSET)
    )
    lines = []
    for way, label in LABELS.items():
        for row in rows_of(document.rows, operation, kind, way):
            model, deviation = "calibrated", ""
            if row.id in said:
                model = f"{said[row.id]:.0f}"
                times = said[row.id] / row.metric(METRIC).median
                deviation = f"{round((times - 1) * 100):+d} %"
            beside = [of_fastest.get(row.id, "1"), of_all.get(row.id, "1"), f"{row.metrics.open_ns.median / 1e6:.1f}"]
            ends = [model, deviation, "loses" if row.id in lost else "", label_of(row)]
            lines.append([label, str(writers_of(row)), bandwidth_of(row, METRIC), *beside, *ends])
    who = "writers" if operation == "write" else "readers"
    heads = ["way", who, "MiB/s", "of fastest", "of all", "opens ms", "model", "deviation", "", ""]
    return Section(
        f"{operation.capitalize()}, {FILES[kind]}",
        findings=findings_of(document, operation, kind),
        tables=[Table("", heads, lines)],
    )


# ---- where the time goes -------------------------------------------------------------------------

_SPLIT = {"communication": "communication", "pack": "copying", "file": "file I/O"}


def _split_figure(document: Document) -> Figure:
    panels = [
        BarPanel(
            f"{operation.capitalize()}, {FILES[kind]}", list(map(_split_bar, rows_of(document.rows, operation, kind)))
        )
        for operation, kind in _MEASUREMENTS
    ]
    return Figure(
        "time-split",
        Bars(panels, common_scale=False, label_width=140.0),
        "Bars of the time of a call, of which a part is file I/O; the table below has the numbers.",
        "How long the transfers and the fsync after them take: the longest file I/O of any rank, "
        "and, fainter, what is not that: communication, copying, waiting for a CPU. What overlaps "
        "with file I/O is not seen. Medians; each panel has a scale of its own.",
    )


def _split_bar(row: Row) -> Bar:
    whole, way = call_ms(row), row.axes["way"]
    longest = row.metrics.file_maximum_ns.median / 1e6
    means = [f"{label} {row.metric(f'{name}_mean_ns').median / 1e6:.1f} ms" for name, label in _SPLIT.items()]
    tip = f"longest file I/O {longest:.1f} of {whole:.1f} ms; means over the ranks: {', '.join(means)}"
    label = f"{writers_of(row)} {LABELS[way]}" if way != ALL else LABELS[ALL]
    return Bar(way, label, [min(longest, whole), max(whole - longest, 0.0)], whole, whole, f"{whole:.0f} ms", tip)


def _ratios_table(document: Document) -> Table:
    """Returns the paper's ratios of communication and file I/O beside those of here."""
    lines = [
        [f"{published.CITED['004']}, {number.system}", f"{number.x:g}", f"{number.value:.2f}"]
        for number in published.of_study("collective")
    ]
    for operation in OPERATIONS:
        rows = rows_of(document.rows, operation, "shared", "aggregate")
        if found := [r for row in rows if (r := mpi_tables.split_ratio(row)) is not None]:
            name = f"here, {operation}, one shared file, aggregated"
            lines.append([name, str(document.settings["ranks"]), range_of(min(found), max(found))])
    title = "Communication over file I/O in collective calls (here: rest/file)"
    return Table(title, ["", "ranks", "ratio"], lines)


# ---- the paper -----------------------------------------------------------------------------------


def _paper() -> Section:
    return published.beside_the_paper(
        "004",
        ": thousands of ranks of a Cray XT with Lustre, where all ranks writing at once cost most of "
        "the bandwidth. Beside its numbers stands the model of that machine "
        "(docs/reference/writers-model.md), which is calibrated from the rows that say so. What some "
        "ranks on one machine show is another question: here opening files is cheap, and ranks share "
        "the CPUs.",
        [paper_table(", beside the model of its machine", check_paper(), lambda rate: f"{rate / 1000:.2f} GB/s")],
    )
