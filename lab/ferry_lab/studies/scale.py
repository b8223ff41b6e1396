"""The study ``scale``: how one call's cost and its tail grow.

One axis after the other, all else equal: callers, cache, pages, hit rate, file size, small files,
open files, writes among the readers of a page; and how evenly callers are served. scale_cells has
the cells. What is judged is the mean time of a call, from the transfers' time and the CPUs that the
callers share; percentiles are of single calls. The first value of an axis runs twice: the noise.
"""

from __future__ import annotations

import contextlib
import functools
import math
import os
import resource
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ferry.errors import FerryError
from ferry.files import outermost, scratch_folder
from ferry.machine_memory import available_bytes
from ferry.sizes import KIB, MIB, format_size
from ferry_lab.render.bars import Bar, BarPanel, Bars
from ferry_lab.render.curves import Curves, Panel, Series
from ferry_lab.render.findings import Axis, Finding, Findings, format_noise, listed
from ferry_lab.render.sections import HOW_TO_READ, Answer, Figure, Section, Word
from ferry_lab.render.study_text import format_time
from ferry_lab.render.tables import Table
from ferry_lab.results import results
from ferry_lab.results.latencies import words
from ferry_lab.results.records import Comparison, Document, Latencies, MeasuredRow, Repeat, Row, Summary
from ferry_lab.run.made_files import make_pattern_file
from ferry_lab.run.memory import lack_of_memory
from ferry_lab.run.sparse_files import make_sparse_file
from ferry_lab.run.study import Matrix, Study, StudyOptions
from ferry_lab.stats import judge
from ferry_lab.stats.comparing import make_comparison, where
from ferry_lab.studies import scale_cells as matrix
from ferry_lab.studies.file_sizes import repeats_of
from ferry_lab.studies.scale_cells import AXES, CALL_BYTES, SEED, Shape, SystemFiles

QUESTION = "value_and_first"
FLAT = 1.5  # times the first value's cost that count as flat
FAIR = 4.0  # times the median caller's time that the slowest may take
_METRIC = "bandwidth_mib_per_s"
_TAIL = ("p50", "p99", "p99_9")
_TAIL_NAMES = {"p50": "median", "p99": "99 %", "p99_9": "99.9 %"}
# Axes whose cells take long repeat less often.
_SLOW = {"small": 6, "open": 8, "server": 12, "callers": 12}
_MEMORY_SHARE = 2  # all caches of an axis may have one part in so many of the free memory
_FREE_DESCRIPTORS = 256  # beside the open files
_DISK_BLOCK_BYTES = 8 * KIB  # of a small file and of what the file system notes about it


class Scale(Study):
    name = "scale"

    @contextlib.contextmanager
    def prepare(self, options: StudyOptions, notes: list[str]) -> Iterator[Matrix]:
        shape = Shape.of(options.quick)
        _leave_out_large_caches(shape, notes)
        _leave_out_open_files(shape, notes)
        with scratch_folder(options.folder, _room_bytes(shape)) as folder:
            files = SystemFiles(str(folder.absolute()))
            _make_files(shape, files, notes)
            groups = matrix.make_groups(shape, files, lambda axis: _repeats(options, axis))
            settings = {
                "call_bytes": CALL_BYTES,
                "page_bytes": matrix.PAGE_BYTES,
                "values": {axis: values for axis, values in shape.values.items() if values},
            }
            yield Matrix(groups, settings, outermost([files.folder]))

    def mixes(self, row: Row) -> bool:
        """The cache is smaller than the file where the hit rate is measured."""
        return row.axes["axis"] == "hits"

    def compare(self, rows: Sequence[Row]) -> list[Comparison]:
        """Sets every value of an axis beside its first."""
        comparisons = []
        for axis in AXES:
            again = where(rows, axis=axis, variant="again")
            if not again:
                continue
            measured = [row for row in where(rows, axis=axis) if "variant" not in row.axes]
            for row in measured[1:]:
                noise = (measured[0], again[0])
                comparisons.append(make_comparison(QUESTION, _METRIC, row, measured[0], noise))
        return comparisons

    def answer(self, document: Document) -> Answer:
        verdicts = [verdict_of(document, axis) for axis in _judged(document)]
        flat = [f"{_SHORT[v.axis]} ({v.reach})" for v in verdicts if v.kind == "flat"]
        grows = [f"{_SHORT[v.axis]} ({v.most:.1f} times {v.place})" for v in verdicts if v.kind == "grows"]
        said = []
        if flat:
            said.append(f"A call's cost is flat, within {FLAT:g} times, along {listed(flat)}.")
        if grows:
            said.append(f"It grows along {listed(grows)}.")
        for kind, words_of_kind in _UNDECIDED.items():
            if undecided := [_SHORT[v.axis] for v in verdicts if v.kind == kind]:
                said.append(f"{words_of_kind}: {listed(undecided)}.")
        said += _said_of_hits(document)
        said += _said_of_fairness(document)
        return Answer(
            "How do one call's cost and its tail grow?",
            said,
            [
                f"Every call reads {format_size(document.settings['call_bytes'])}. One thing grows at a "
                'time, all else is equal. "Call" is the mean time of a call: the time of all, times the '
                "CPUs that the callers share, over the calls. The percentiles are of single calls, each "
                "of which is timed: a thread that waits for its CPU is in them.",
                f"Flat means at most {FLAT:g} times the first value's cost. {HOW_TO_READ}",
            ],
            [Word(name, _TAIL_NAMES[name], _MEANINGS[name]) for name in _TAIL],
        )

    def sections(self, document: Document) -> Sequence[Section]:
        return [
            *(_along(document, axis) for axis in _judged(document)),
            *([_fairness(document)] if rows_of(document, "fairness") else []),
        ]


_MEANINGS = {
    "p50": "half of the calls take no longer",
    "p99": "one call in a hundred takes longer",
    "p99_9": "one call in a thousand takes longer",
}
_SHORT = {
    "callers": "callers",
    "server": "callers of the server",
    "cache": "cache size",
    "pages": "page size",
    "hits": "misses",
    "file": "file size",
    "small": "small files",
    "open": "open files",
    "writes": "writes to the page that is read",
}


# ---- what is measured ----------------------------------------------------------------------------


def _repeats(options: StudyOptions, axis: str) -> int:
    usual = repeats_of(options)
    return options.repeats or min(usual, _SLOW.get(axis, usual))


def _leave_out_large_caches(shape: Shape, notes: list[str]) -> None:
    """The caches of an axis are there together, and the host has their files."""
    room_bytes = available_bytes()
    wanted = shape.values["cache"]
    taken, chosen = 0, []
    for size in wanted:
        taken += 3 * size // 2
        if taken <= room_bytes // _MEMORY_SHARE:
            chosen.append(size)
    if not chosen:
        raise lack_of_memory(room_bytes, 3 * _MEMORY_SHARE * wanted[0] // 2)
    if len(chosen) < len(wanted):
        notes.append(
            f"caches above {format_size(chosen[-1])} are left out: those of an axis are there together, "
            f"with the files in the host's memory, and {format_size(room_bytes)} are free"
        )
    shape.values["cache"] = chosen


def _leave_out_open_files(shape: Shape, notes: list[str]) -> None:
    """Lets the measured process open as many files as it may. It may open no more."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    wanted = shape.values["open"]
    limit = math.inf if hard == resource.RLIM_INFINITY else hard - _FREE_DESCRIPTORS
    chosen = [count for count in wanted if count <= limit]
    if len(chosen) < len(wanted):
        what = f"more than {chosen[-1]:,} open files" if chosen else "open files"
        notes.append(f"{what} are left out: a process may open {hard:,} (ulimit -n)")
    shape.values["open"] = chosen


def _room_bytes(shape: Shape) -> int:
    plain = sum(matrix.plain_sizes(shape))
    sparse = sum(places * CALL_BYTES for places, _ in matrix.sparse_files(shape))
    pieces = sum(count * max(size, _DISK_BLOCK_BYTES) for _, count, size in matrix.piece_sizes(shape))
    return plain + sparse + pieces + 64 * MIB


def _make_files(shape: Shape, files: SystemFiles, notes: list[str]) -> None:
    for size in matrix.plain_sizes(shape):
        make_pattern_file(files.plain(size), size, SEED)
    for places, apart in matrix.sparse_files(shape):
        path = files.sparse(places, apart)
        if os.path.exists(path):
            continue
        try:
            make_sparse_file(path, places, apart, SEED)
        except FerryError as error:
            size = places * apart
            if size not in shape.values["file"] or size == shape.values["file"][0]:
                raise
            notes.append(f"files of {format_size(size)} are left out: {error}")
            shape.values["file"].remove(size)
    for axis, count, size in matrix.piece_sizes(shape):
        path = files.pieces(axis, count)
        Path(path).parent.mkdir()
        make_pattern_file(path, count * size, SEED, size)


# ---- what was found ------------------------------------------------------------------------------


@functools.lru_cache(maxsize=4096)
def _summary(values: tuple[float, ...]) -> Summary:
    """Sums repeats up, once for table, figure and sentence."""
    return results.summarize(values)


def rows_of(document: Document, axis: str) -> list[Row]:
    """Returns the rows of an axis, in its order, without the one for the noise."""
    return [row for row in where(document.rows, axis=axis) if "variant" not in row.axes]


def _judged(document: Document) -> list[str]:
    """Returns the axes that have a second value: others may be left out."""
    return [axis for axis in AXES if points_of(document, axis)]


def points_of(document: Document, axis: str) -> list[Comparison]:
    """Returns the comparisons of an axis with its first value."""
    return where(document.comparisons, axis=axis)


def _cpus(document: Document, axis: str, value: int) -> int:
    """Returns on how many CPUs the callers run at once."""
    callers = {"callers": value, "server": value, "writes": matrix.READERS}.get(axis, 1)
    counts = [_count_cpus(runtime.device_cpus) for runtime in document.environment.runtimes]
    return min(callers, max(counts, default=1))


def _count_cpus(text: str) -> int:
    """Returns how many CPUs "0-3,8" are."""
    count = 0
    for part in filter(None, text.split(",")):
        first, _, last = part.partition("-")
        count += int(last or first) - int(first) + 1
    return max(count, 1)


def call_ns(document: Document, row: Row) -> Summary:
    """Returns the mean time of a call in each repeat, summed up."""
    cpus = _cpus(document, str(row.axes["axis"]), int(row.axes["value"]))
    return _summary(tuple(cpus * sample.io_ns / sample.operations for sample in row.repeats))


def tail_ns(row: Row, percentile: str) -> Summary:
    """Returns a percentile of the repeats' calls; of mixed calls that of the reads."""
    return _summary(tuple(float(getattr(_latencies(sample), percentile)) for sample in row.repeats))


def _latencies(sample: Repeat) -> Latencies:
    found = sample.mixed.read_latency_ns if sample.mixed else sample.latency_ns
    assert found is not None, "every call of this study is timed"
    return found


def cost_of(document: Document, point: Comparison) -> judge.Bounds:
    """Returns how many times the first value's cost a call has."""
    value, first = (int(axes["value"]) for axes in (point.axes, point.baseline_axes))
    axis = str(point.axes["axis"])
    share = _cpus(document, axis, value) / _cpus(document, axis, first)
    return judge.Bounds(share / point.ratio_median, share / point.ratio_high_95, share / point.ratio_low_95)


_UNDECIDED = {"unclear": "Too noisy to tell", "few": "Too few repeats to tell"}


@dataclass(frozen=True)
class CostVerdict:
    """What an axis does to a call's cost."""

    axis: str
    kind: str  # flat, grows, unclear, few: too few repeats
    most: float  # times the first value's cost
    place: str  # where that is
    reach: str  # how far the axis was measured
    law: str

    def sentence(self) -> str:
        if self.kind == "flat":
            return f"Flat: at most {self.most:.2f} times the first value's cost, {self.place}."
        if self.kind in _UNDECIDED:
            return f"{_UNDECIDED[self.kind]}: {self.most:.2f} times the first value's cost {self.place}."
        return f"It grows: {self.most:.2f} times the first value's cost {self.place}. {self.law}"


def verdict_of(document: Document, axis: str) -> CostVerdict:
    """Returns whether a call's cost is flat along an axis, and else how it grows."""
    points = points_of(document, axis)
    costs = [cost_of(document, point) for point in points]
    most = max(range(len(points)), key=lambda index: costs[index].median)
    kind = "flat"
    for point, cost in zip(points, costs, strict=True):
        if cost.low > FLAT and cost.median / FLAT - 1 > point.noise:
            kind = "grows"
        elif kind == "flat" and (cost.high > FLAT or point.noise > FLAT - 1):
            kind = "unclear"
    if min(point.pairs for point in points) < judge.FINDING_PAIRS_MIN:
        kind = "few"
    about = AXES[axis]
    last = about.label(int(points[-1].axes["value"]))
    return CostVerdict(
        axis,
        kind,
        costs[most].median,
        about.words.format(about.label(int(points[most].axes["value"]))),
        f"to {last}",
        _law(document, axis),
    )


def _law(document: Document, axis: str) -> str:
    """Returns by which law the mean time of a call grows; a description, not a test."""
    rows = rows_of(document, axis)
    times = np.array([call_ns(document, row).median for row in rows])
    if axis == "hits":
        hit, miss = hit_and_miss_ns(document)
        return f"Law: {format_time(hit)} for a hit, and {format_time(miss)} more for each miss."
    values = np.array([float(row.axes["value"]) for row in rows])
    if axis == "writes":
        slope = float(np.polyfit(values, times, 1)[0])
        return f"Law: {format_time(max(slope, 0.0))} more for each percent of writes, as a straight line."
    power = float(np.polyfit(np.log(values), np.log(times), 1)[0])
    return f"Law: about the value to the power of {power:.2f}."


def misses_of(row: Row) -> float:
    """Returns the share of a row's calls that found no page."""
    hits, misses = (sum(getattr(s.cache, name) for s in row.repeats if s.cache) for name in ("hits", "misses"))
    return misses / max(hits + misses, 1)


def hit_and_miss_ns(document: Document) -> tuple[float, float]:
    """Returns what a hit costs, and what a miss costs more.

    The line goes through the row with the fewest misses: hits were measured there, and the rows with
    many misses, whose times are far larger, would move it as far as a hit takes.
    """
    rows = rows_of(document, "hits")
    points = sorted((misses_of(row), call_ns(document, row).median) for row in rows)
    (misses, time), *_ = points
    further = [(share - misses, longer - time) for share, longer in points]
    spread = sum(share**2 for share, _ in further)
    if spread == 0:
        return time, 0.0
    miss = max(sum(share * longer for share, longer in further) / spread, 0.0)
    return max(time - misses * miss, 0.0), miss


# ---- the answer ----------------------------------------------------------------------------------


def _said_of_hits(document: Document) -> list[str]:
    if not rows_of(document, "hits"):
        return []
    hit, miss = hit_and_miss_ns(document)
    return [f"A hit costs {format_time(hit)}, a miss {format_time(miss)} more, from the host's memory."]


def _said_of_fairness(document: Document) -> list[str]:
    rows = rows_of(document, "fairness")
    if not rows:
        return []
    worst = max(rows, key=lambda row: _behind(row).median)
    behind = _behind(worst).median
    verdict = "fair" if behind <= FAIR else "not fair"
    return [
        f"The slowest of {worst.axes['value']:,} callers takes {behind:.1f} times the median one's time: {verdict}."
    ]


# ---- sections ------------------------------------------------------------------------------------


def _along(document: Document, axis: str) -> Section:
    about, verdict, rows = AXES[axis], verdict_of(document, axis), rows_of(document, axis)
    finding = Finding(
        "the program",
        about.baseline,
        points_of(document, axis),
        Axis.named("value", about.label, about.words),
        "calls per second",
    )
    return Section(
        about.title,
        [about.about, verdict.sentence() + _tail_sentence(rows)],
        figure=_figure(document, axis, rows),
        findings=[Findings(about.title, [finding])],
        tables=[table_of(document, axis)],
    )


def _tail_sentence(rows: Sequence[Row]) -> str:
    """Says how the tail grows from the first value to the last."""
    clauses = []
    for name in _TAIL[1:]:
        first, *others = (tail_ns(row, name).median for row in rows)
        clauses.append(f"{words(name)} of the calls take at most {max(others) / first:.1f} times as long")
    return f" The tail, beside the first value's: {' and '.join(clauses)}."


def _figure(document: Document, axis: str, rows: Sequence[Row]) -> Figure:
    about = AXES[axis]
    # A logarithmic axis has no zero.
    x = [max(float(row.axes["value"]), 0.5) for row in rows]
    if axis == "hits":
        x = [max(misses_of(row) * 100, 0.1) for row in rows]
    series = [Series.of(name, _TAIL_NAMES[name], x, [tail_ns(row, name) for row in rows]) for name in _TAIL]
    series.append(Series.of("mean", "mean", x, [call_ns(document, row) for row in rows]))
    label = {"hits": "misses, percent of the calls", "writes": "writes, percent of the calls"}.get(axis, about.head)
    return Figure(
        f"along-{axis}",
        Curves([Panel("", series)], x=about.unit, y="time", x_label=label, columns=1),
        f"Time of a call by {label}: its mean, its median, and what one call in a hundred and in a thousand "
        "exceed; the table below has the numbers.",
        "Lines are medians of the repeats, shaded are their 95 % bounds. Both axes are logarithmic.",
    )


def table_of(document: Document, axis: str) -> Table:
    """Returns a line for each value: a call's mean time, its percentiles, and the first's times."""
    about, lines = AXES[axis], []
    points = {point.row: point for point in points_of(document, axis)}
    for row in rows_of(document, axis):
        cells = [format_time(call_ns(document, row).median)]
        cells += [format_time(tail_ns(row, name).median) for name in _TAIL]
        value = about.label(int(row.axes["value"]))
        if axis == "hits":
            value = f"{value}: {(1 - misses_of(row)) * 100:.1f} %"
        if row.id in points:
            cost = cost_of(document, points[row.id])
            cells += [f"{cost.median:.2f} ({cost.low:.2f}-{cost.high:.2f})", format_noise(points[row.id].noise)]
        else:
            cells += ["1", ""]
        lines.append([value, *cells])
    head = "wanted: hits" if axis == "hits" else about.head
    return Table("", [head, "call", *_TAIL_NAMES.values(), "times the first", "noise"], lines)


# ---- fairness ------------------------------------------------------------------------------------


def _rates(row: Row, name: str) -> Summary:
    assert isinstance(row, MeasuredRow)
    return _summary(tuple(float(getattr(sample.thread_operations_per_s, name)) for sample in row.repeats))


def _behind(row: Row) -> Summary:
    """Returns how many times the median caller's time the slowest takes."""
    rates = [sample.thread_operations_per_s for sample in row.repeats]
    return _summary(tuple(one.median / max(one.min, 1e-9) for one in rates))


def _bars(row: Row) -> list[Bar]:
    names = {"min": "slowest", "median": "median", "max": "fastest"}
    return [Bar.of(name, label, _rates(row, name), "/s") for name, label in names.items()]


def _fairness(document: Document) -> Section:
    rows, about = rows_of(document, "fairness"), AXES["fairness"]
    behind = [_behind(row).median for row in rows]
    verdict = "within" if max(behind) <= FAIR else "not within"
    figure = Figure(
        "fairness",
        Bars(
            [BarPanel(f"{about.label(int(row.axes['value']))} callers", _bars(row)) for row in rows], common_scale=False
        ),
        "Calls per second of the slowest caller, the median one and the fastest; the table below has the numbers.",
        "Calls per second of one caller. Each panel has a scale of its own. Longer is better.",
    )
    return Section(
        about.title,
        [
            about.about,
            f"The slowest takes at most {max(behind):.1f} times as long as the median: {verdict} {FAIR:g} times.",
        ],
        figure=figure,
        tables=[fairness_table(document)],
    )


def fairness_table(document: Document) -> Table:
    """Returns the rates of the slowest, the median and the fastest caller."""
    lines = []
    for row in rows_of(document, "fairness"):
        rates = [f"{_rates(row, name).median:,.0f}" for name in ("min", "median", "max")]
        lines.append([AXES["fairness"].label(int(row.axes["value"])), *rates, f"{_behind(row).median:.2f}"])
    return Table("Calls per second", ["callers", "slowest", "median", "fastest", "median / slowest"], lines)
