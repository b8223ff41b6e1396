"""The study ``placements``: where a device program's reads and writes should run.

Compares the placements ``host``, ``compute``, ``service`` and ``automatic`` with plain
``pread``/``pwrite`` and ``mmap``:

- Reads by transfer size, with the file in the host's page cache and, for placements with a device
  cache, that cache cold and warm.
- Writes by transfer size, each repeat into a new file: the call, call + flush, call + fsync.
- The reads again over more bytes, at fewer sizes.
- Two programs and their write twins: ``iterative`` (move a 64 KiB piece and compute on it, piece by
  piece) and ``once`` (move everything, compute piece by piece), after Matsuo et al. 2012.

A second, identical (A/A) pread/pwrite series, ``again``, measures the noise; placements_cells has
the axes of rows. A *view* is one question about them: one metric of some rows, all with the device's
cache in one state.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ferry.sizes import format_size
from ferry_lab.render.bars import Bar, BarPanel, Bars
from ferry_lab.render.curves import Curves, Panel, Series
from ferry_lab.render.findings import TRANSFER, Finding, Findings, format_noise, format_ratio, range_of
from ferry_lab.render.sections import HOW_TO_READ, Answer, Figure, Section, Word
from ferry_lab.render.study_text import format_bandwidth
from ferry_lab.render.tables import Table
from ferry_lab.results.records import Comparison, Document, MeasuredRow, Row
from ferry_lab.run.study import Matrix, Study, StudyOptions
from ferry_lab.stats import judge
from ferry_lab.stats.comparing import make_comparison, row_at, times_of, values, where
from ferry_lab.studies import published
from ferry_lab.studies.placements_cells import (
    CACHED,
    LARGE_BYTES,
    PIECE_BYTES,
    PROGRAMS,
    UNFLUSHED,
    make_groups,
    sources,
)

WAYS = ("host", *CACHED)
_CANDIDATES = ("host", "compute", "service")
_BEST = "the best of the three"


class Placements(Study):
    name = "placements"
    takes_file = True

    @contextlib.contextmanager
    def prepare(self, options: StudyOptions, notes: list[str]) -> Iterator[Matrix]:
        with sources(options, notes) as found:
            groups = make_groups(options, found)
            settings = {
                "total_bytes": found.total_bytes,
                "large_total_bytes": LARGE_BYTES if "large" in groups else None,
                "piece_bytes": PIECE_BYTES,
                "file": options.file,
            }
            yield Matrix(groups, settings, found.scratch)

    def compare(self, rows: Sequence[Row]) -> list[Comparison]:
        """Sets the placements beside plain calls, each other, and automatic beside the best."""
        return [
            point
            for view in VIEWS
            for size in view.sizes(rows)
            for point in _compare_at(view, where(rows, transfer_bytes=size))
        ]

    def answer(self, document: Document) -> Answer:
        cold, warm = (_compute_and_host(document, view).winners() for view in READ_VIEWS)
        conclusion = [f"Reads: while the device's cache is cold, {cold}; once it has the file, {warm}."]
        if WRITE_VIEWS[0].sizes(document.rows):
            call, _, fsync = (_compute_and_host(document, view).winners() for view in WRITE_VIEWS)
            conclusion.append(
                f"Writes, with and without the fsync that makes them durable: {call}."
                if call == fsync
                else f"Writes: of the call alone, {call}; with the fsync that makes them durable, {fsync}."
            )
        conclusion.append(_automatic(document.comparisons))
        return Answer(
            "Which way should a device program's reads and writes go?",
            conclusion,
            [_describe_cache(document), HOW_TO_READ],
            _words(document),
        )

    def sections(self, document: Document) -> Sequence[Section]:
        settings, measured = document.settings, document.rows
        total = format_size(settings["total_bytes"])
        large = format_size(settings["large_total_bytes"] or 0)
        by_size = [
            _by_size(document, views, name, title)
            for views, name, title in (
                (READ_VIEWS, "reads", f"Reads of {total}"),
                (WRITE_VIEWS, "writes", f"Writes of {total} into a new file"),
                (LARGE_READ_VIEWS, "large-reads", f"Reads of {large}"),
            )
            if views[0].sizes(measured)
        ]
        programs = [
            _programs(document, operation, views)
            for operation in ("read", "write")
            if (views := [v for v in PROGRAM_VIEWS if v.operation == operation and v.sizes(measured)])
        ]
        return [*by_size, *programs, _paper(document)]


# ---- views ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class View:
    """One question: which rows, which time, and what to call it."""

    part: str
    operation: str
    subject: str
    detail: str
    metric: str  # of the rows, "..._mib_per_s" or "..._ns"
    cache: str | None = None  # "cold" or "warm": the device's, of reads

    @property
    def name(self) -> str:
        return f"{self.subject}, {self.detail}"

    @property
    def program(self) -> bool:
        """Whether it is about a program, which has one size."""
        return self.part in PROGRAMS

    @property
    def plain(self) -> str:
        if self.operation == "read":
            return "pread"
        return "pwrite + fsync" if "sync" in self.metric else "pwrite"

    def axes(self, way: str) -> dict[str, str]:
        state = {"device_cache": self.cache} if self.cache and way in CACHED else {}
        return {"part": self.part, "operation": self.operation, "way": way, **state}

    def rows(self, rows: Sequence[Row], way: str) -> list[Row]:
        return where(rows, **self.axes(way))

    def sizes(self, rows: Sequence[Row]) -> list[int]:
        """Returns the transfer sizes that were measured; none: the view was left out."""
        return [int(n) for n in values(self.rows(rows, "host"), "transfer_bytes")]

    def points(self, comparisons: Sequence[Comparison], question: str, way: str) -> list[Comparison]:
        wanted = (question, self.metric, self.cache)
        return [
            point
            for point in where(comparisons, **self.axes(way))
            if (point.question, point.metric, point.device_cache) == wanted
        ]


def _reads(part: str, subject: str, what: str, metric: str) -> list[View]:
    return [View(part, "read", subject, f"{what}device cache {state}", metric, state) for state in ("cold", "warm")]


def _program_views(program: str) -> list[View]:
    subject = f"Program {program}"
    writes = View(program, "write", subject, "write + fsync", "loop_with_sync_ns")
    return [*_reads(program, subject, "read, ", "loop_ns"), writes]


READ_VIEWS = _reads("transfers", "Reads", "", "bandwidth_mib_per_s")
LARGE_READ_VIEWS = _reads("large transfers", "Large reads", "", "bandwidth_mib_per_s")
WRITE_VIEWS = [
    View(part, "write", "Writes", detail, f"bandwidth_{with_what}mib_per_s")
    for part, detail, with_what in (
        (UNFLUSHED, "the call alone", ""),
        ("transfers", "call + flush", "with_flush_"),
        ("transfers", "call + fsync", "with_sync_"),
    )
]
PROGRAM_VIEWS = [view for program in PROGRAMS for view in _program_views(program)]
VIEWS = [*READ_VIEWS, *WRITE_VIEWS, *LARGE_READ_VIEWS, *PROGRAM_VIEWS]


# ---- what is compared ----------------------------------------------------------------------------

# Question, way, and what it is set beside.
_PLAIN = [("placement_and_plain", way, "plain") for way in WAYS]
_CURVES = [("two_placements", "compute", "host"), ("two_placements", "service", "compute")]


def _compare_at(view: View, rows: Sequence[Row]) -> list[Comparison]:

    def row(way: str) -> Row:
        return row_at(rows, **view.axes(way))

    def point(question: str, way: str, other: str, even: bool = False) -> Comparison:
        return make_comparison(
            *(question, view.metric, row(way), row(other), noise), device_cache=view.cache, even=even
        )

    noise = (row("plain"), row("again"))
    points = [
        point(question, way, other)
        for question, way, other in (*_PLAIN, *_CURVES)
        # When warm these are the same two rows as when cold.
        if view.cache != "warm" or (way, other) != ("host", "plain")
    ]
    # The best is picked on the odd repeats and judged on the even ones.
    best = judge.pick_best({way: times_of(row(way), view.metric) for way in _CANDIDATES})
    return [*points, point("automatic_and_best", "automatic", best, even=True)]


def findings_of(view: View, comparisons: Sequence[Comparison]) -> Findings:
    """Returns what one view shows."""
    axis, quantity = (None, "speed") if view.program else (TRANSFER, "bandwidth")
    pairs = [
        *_CURVES,
        ("automatic_and_best", "automatic", _BEST),
        *(("placement_and_plain", way, view.plain) for way in ("compute", "host")),
    ]
    found = [
        Finding(way, name, view.points(comparisons, question, way), axis, quantity, crossover=name != _BEST)
        for question, way, name in pairs
    ]
    return Findings(view.name, found)


# ---- the answer ----------------------------------------------------------------------------------


def _compute_and_host(document: Document, view: View) -> Finding:
    return Finding("compute", "host", view.points(document.comparisons, "two_placements", "compute"))


def _automatic(comparisons: Sequence[Comparison]) -> str:
    points = [point for point in comparisons if point.question == "automatic_and_best"]
    slower = [point.ratio_median for point in points if point.finding == "slower"]
    where = f"at {len(slower) or 'none'} of {len(points)} points"
    factor = f", with {range_of(min(slower), max(slower))} times its speed" if slower else ""
    ways = {"within_5_percent": "within 5 % of it", "faster": "faster", "no_difference": "not measurably different"}
    found = {point.finding for point in points}
    rest = " or ".join(text for finding, text in ways.items() if finding in found)
    others = f"; at the others it is {rest}" if rest else ""
    return f"automatic is slower than {_BEST} {where}{factor}{others}."


def _describe_cache(document: Document) -> str:
    caches = [r.page_cache for r in document.environment.runtimes if r.page_cache]
    sizes = dict.fromkeys(format_size(cache.cache_bytes) for cache in caches)
    pages = format_size(caches[0].page_bytes)
    return f"The device's page cache has {' or '.join(sizes)}, in pages of {pages}."


def _words(document: Document) -> list[Word]:
    runtimes = document.environment.runtimes
    served = next((r.service for r in runtimes if r.page_cache and r.service), None)
    serving = "on cores that serve others"
    if served and served.threads > 0:
        serving += f" (CPUs {served.cpus}, threads: {served.threads})"
    elif served:
        serving = "by the I/O server's threads, as no cores are set aside"
    meanings = {
        "host": "by the I/O server, without the device's cache",
        "compute": "on the calling core, through the device's cache",
        "service": f"{serving}, through the device's cache",
        "automatic": "Ferry chooses, call by call",
    }
    plain = "pread, pwrite" if WRITE_VIEWS[0].sizes(document.rows) else "pread"
    return [
        *(Word(way, way, meaning) for way, meaning in meanings.items()),
        Word("plain", plain, "plain system calls on the same threads"),
        Word("mmap", "mmap", "a copy from or to a mapping of the file, page faults included"),
    ]


# ---- by transfer size ----------------------------------------------------------------------------


def _by_size(document: Document, views: Sequence[View], name: str, title: str) -> Section:
    panels = [
        Panel(
            view.detail.capitalize(),
            [
                Series.of_rows(way, _label(view, way), rows, "transfer_bytes", view.metric)
                for way, rows in _lines(document, view).items()
            ],
        )
        for view in views
    ]
    figure = Figure(
        name,
        Curves(panels),
        f"{title}: bandwidth by transfer size, a line for each way; the table below has the numbers.",
        "Bandwidth by transfer size. Lines are medians, shaded are their 95 % bounds. Both axes are logarithmic.",
    )
    findings = [findings_of(view, document.comparisons) for view in views]
    return Section(title, (), figure, findings, [_size_table(document, view) for view in views])


def _lines(document: Document, view: View) -> dict[str, list[Row]]:
    return {way: view.rows(document.rows, way) for way in (*WAYS, "plain", "mmap")}


def _label(view: View, way: str) -> str:
    return view.plain.removesuffix(" + fsync") if way == "plain" else way


def _size_table(document: Document, view: View) -> Table:
    lines = _lines(document, view)
    noise = view.points(document.comparisons, "placement_and_plain", "compute")
    columns = [
        map(format_size, view.sizes(document.rows)),
        *([format_bandwidth(row.metric(view.metric)) for row in line] for line in lines.values()),
        [format_noise(point.aa_spread) for point in noise],
    ]
    states = {state for line in lines.values() for row in line for state in (row.cache_state, row.device_cache_state)}
    unit = "MiB/s, unverified" if "unverified" in states else "MiB/s"
    heads = ["transfer", *(_label(view, way) for way in lines), "noise"]
    return Table(f"{view.detail.capitalize()} ({unit})", heads, [list(row) for row in zip(*columns, strict=True)])


# ---- the programs --------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Line:
    """One way through a program: a line of the table, and a bar."""

    label: str
    view: View
    way: str
    row: MeasuredRow

    def times_ms(self) -> list[float]:
        """Returns calls, computing, loop, and of writes sync and total: medians."""
        metrics = self.row.metrics
        times = [metrics.io_ns.median, metrics.compute_ns.median, metrics.loop_ns.median]
        if self.row.operation == "write":
            times += [metrics.flush_ns.median + metrics.sync_ns.median, metrics.loop_with_sync_ns.median]
        return [time * 1e-6 for time in times]

    def bar(self) -> Bar:
        calls, computing, _, *ends = self.times_ms()
        parts = {"calls": calls, "computing": computing, **dict(zip(["flush and fsync"], ends, strict=False))}
        whole = self.row.metric(self.view.metric)
        low, high = whole.median_low_95 * 1e-6, whole.median_high_95 * 1e-6
        split = ", ".join(f"{what} {time:.2f} ms" for what, time in parts.items())
        tip = f"{self.label}: {split}; in all {low:.2f} to {high:.2f} ms"
        return Bar(self.way, self.label, [*parts.values()], low, high, f"{whole.median * 1e-6:.1f} ms", tip)


def _program_lines(document: Document, views: Sequence[View]) -> list[_Line]:
    """Returns the lines of one program: host, the cached ways by state of the cache, plain calls."""
    first = views[0]
    ways = [("host", first, "host")]
    for view in views:
        state = f", {view.cache}" if view.cache else ""
        ways += [(f"{way}{state}", view, way) for way in CACHED]
    ways += [(_label(first, "plain"), first, "plain"), ("mmap", first, "mmap")]
    return [_Line(label, view, way, row_at(document.rows, **view.axes(way))) for label, view, way in ways]


def _programs(document: Document, operation: str, views: Sequence[View]) -> Section:
    programs = [_program_lines(document, [view for view in views if view.part == program]) for program in PROGRAMS]
    verb, ends = ("sum", "") if operation == "read" else ("fill", ", faintest in flush and fsync")
    total, piece = (format_size(document.settings[f"{x}_bytes"]) for x in ("total", "piece"))
    figure = Figure(
        f"programs-{operation}",
        Bars([BarPanel(lines[0].view.part, [line.bar() for line in lines]) for lines in programs]),
        f"Time of the programs that {operation}, a bar for each way; the table below has the numbers.",
        f"Time of the whole program, median: strong in the calls, fainter in computing{ends}. The "
        "line across the end is the median's 95 % bounds. Shorter is better.",
    )
    return Section(
        f"Programs that {operation} {total} and {verb} pieces of {piece}",
        [
            f"iterative: {operation}s one piece and {verb}s it, piece by piece. once: {operation}s "
            "everything at once. What the calls leave in the caller's own processor cache counts "
            "here; above it does not."
        ],
        figure,
        [findings_of(view, document.comparisons) for view in views],
        [_program_table(document, operation, programs)],
    )


def _program_table(document: Document, operation: str, programs: Sequence[Sequence[_Line]]) -> Table:
    rows = []
    for lines in programs:
        for line in lines:
            points = line.view.points(document.comparisons, "placement_and_plain", line.way)
            speed = [format_ratio(points[0]), format_noise(points[0].aa_spread)] if points else ["", ""]
            name = line.view.part if line is lines[0] else ""
            rows.append([name, line.label, *(f"{time:.2f}" for time in line.times_ms()), *speed])
    ends = ["loop"] if operation == "read" else ["loop", "sync", "total"]
    speed_head = f"speed, {programs[0][0].view.plain} = 1"
    heads = ["program", "way", "calls", "computing", *ends, speed_head, "noise"]
    return Table("Where is the time? (ms)", heads, rows, left=2)


# ---- the paper -----------------------------------------------------------------------------------


def _paper(document: Document) -> Section:
    assert not published.of_study("placements"), "published numbers that the study does not show"
    # Of the smallest or the largest transfers, which of the two the paper finds faster.
    statements = [
        *((view, min, "compute") for view in (*READ_VIEWS, WRITE_VIEWS[2])),
        *((view, max, "host") for view in (READ_VIEWS[0], WRITE_VIEWS[2])),
        *((v, max, "host" if v.part == "once" else "compute") for v in PROGRAM_VIEWS),
    ]
    rows = []
    for view, pick, faster in statements:
        points = _compute_and_host(document, view).points
        if points:
            size = pick(point.transfer_bytes for point in points)
            (point,) = [point for point in points if point.transfer_bytes == size]
            where = "" if view.program else f", {format_size(size)}"
            rows.append([f"{view.name}{where}", faster, format_ratio(point), _agrees(point, faster)])
    return published.beside_the_paper(
        "001",
        " (slides), on a Knights Ferry co-processor with 32 cores behind PCI Express. Its figures are "
        "pictures without numbers. It says that small data are faster by compute and large data by "
        "host, that iterative is fastest by compute and once by host. There the device's memory was "
        "across a bus; here host and device are cores of one machine, so a different answer does not "
        "contradict it.",
        [Table("", ["measured", "paper: faster", "compute / host", "agrees"], rows)],
    )


def _agrees(point: Comparison, faster: str) -> str:
    decided = {"faster": "compute", "slower": "host", "within_5_percent": "within 5 %"}
    found = decided.get(point.finding, "not measurable")
    if found in ("compute", "host"):
        return "yes" if found == faster else "no"
    return found
