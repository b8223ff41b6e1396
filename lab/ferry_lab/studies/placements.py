"""The study ``placements``: where a device program's reads and writes should run.

Compares the placements ``host``, ``compute``, ``service`` and ``automatic`` with plain
``pread``/``pwrite`` and ``mmap``:

- Reads by transfer size, with the file in the host's page cache and, for placements with a device
  cache, that cache cold and warm.
- Writes by transfer size, each repeat into a new file: the call, call + flush, call + fsync.
- The reads again over more bytes, at fewer sizes.
- Two programs and their write twins: ``iterative`` (move a 64 KiB piece and compute on it, piece by
  piece) and ``once`` (move everything, compute piece by piece), after Matsuo et al. 2012.

A second, identical (A/A) pread/pwrite series, ``again``, measures the noise. Rows' ids are
``head/series/size`` (see placements_cells). A *view* is one question about them: one metric of some
rows, all with the device's cache in one state.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from ferry.sizes import format_size
from ferry_lab.render.bars import Bar, BarPanel, Bars
from ferry_lab.render.curves import Curves, Panel, Series
from ferry_lab.render.findings import TRANSFER, Finding, Findings, format_noise, format_ratio, range_of
from ferry_lab.render.sections import HOW_TO_READ, Answer, Figure, Section, Word
from ferry_lab.render.study_text import format_bandwidth
from ferry_lab.render.tables import Table
from ferry_lab.results import results
from ferry_lab.run.study import Matrix, Study, StudyOptions
from ferry_lab.stats import judge
from ferry_lab.stats.comparing import make_comparison, speed_ratio, speed_ratio_of_rows, times_of
from ferry_lab.studies import published
from ferry_lab.studies.placements_cells import LARGE_BYTES, PIECE_BYTES, make_groups, sources

Json = dict[str, Any]

WAYS = ("host", "compute", "service", "automatic")
_CACHED = ("compute", "service", "automatic")  # through the device's page cache
_CANDIDATES = ("host", "compute", "service")
_BEST = "the best of the three"


class Placements(Study):
    """See the module."""

    name = "placements"
    takes_file = True

    @contextlib.contextmanager
    def prepare(self, options: StudyOptions, notes: list[str]) -> Iterator[Matrix]:
        """Gives the matrix; raises FerryError."""
        with sources(options, notes) as found:
            groups = make_groups(options, found)
            settings = {
                "total_bytes": found.total_bytes,
                "large_total_bytes": LARGE_BYTES if "large" in groups else None,
                "piece_bytes": PIECE_BYTES,
                "file": options.file,
            }
            yield Matrix(groups, settings, found.scratch)

    def compare(self, rows: Sequence[Json]) -> list[Json]:
        """Sets the placements beside plain calls, each other, and automatic beside the best."""
        by_id = {row["id"]: row for row in rows}
        return [
            point
            for view in VIEWS
            for size in _sizes(rows, view)
            for point in _compare_at(view, by_id, size)
        ]

    def answer(self, document: Json) -> Answer:
        """Says where compute or host is faster, and what automatic loses."""
        cold, warm = (_compute_and_host(document, view).winners() for view in READ_VIEWS)
        conclusion = [
            f"Reads: while the device's cache is cold, {cold}; once it has the file, {warm}."
        ]
        if _sizes(document["rows"], WRITE_VIEWS[0]):
            call, _, fsync = (_compute_and_host(document, view).winners() for view in WRITE_VIEWS)
            conclusion.append(
                f"Writes, with and without the fsync that makes them durable: {call}."
                if call == fsync
                else f"Writes: of the call alone, {call}; with the fsync that makes them durable, "
                f"{fsync}."
            )
        conclusion.append(_automatic(document["comparisons"]))
        return Answer(
            "Which way should a device program's reads and writes go?",
            conclusion,
            [_describe_cache(document), HOW_TO_READ],
            _words(document),
        )

    def sections(self, document: Json) -> Sequence[Section]:
        """Returns what was measured, by transfer size and by program, and the paper beside it."""
        settings, measured = document["settings"], document["rows"]
        total = format_size(settings["total_bytes"])
        large = format_size(settings["large_total_bytes"] or 0)
        by_size = [
            _by_size(document, views, name, title)
            for views, name, title in (
                (READ_VIEWS, "reads", f"Reads of {total}"),
                (WRITE_VIEWS, "writes", f"Writes of {total} into a new file"),
                (LARGE_READ_VIEWS, "large-reads", f"Reads of {large}"),
            )
            if _sizes(measured, views[0])
        ]
        programs = [
            _programs(document, operation, views)
            for operation in ("read", "write")
            if (views := [v for v in PROGRAM_VIEWS if operation in v.head and _sizes(measured, v)])
        ]
        return [*by_size, *programs, _paper(document)]


# ---- views ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class View:
    """One question: which rows, which time, and what to call it."""

    head: str  # of the rows' ids
    subject: str
    detail: str
    metric: str  # of the rows, "..._mib_per_s" or "..._ns"
    time_ns: Callable[[Json], int]
    cache: str | None = None  # "cold" or "warm": the device's, of reads

    @property
    def name(self) -> str:
        """Returns what it is called in a sentence."""
        return f"{self.subject}, {self.detail}"

    @property
    def program(self) -> bool:
        """Whether it is about a program, which has one size."""
        return self.metric.startswith("loop")

    @property
    def plain(self) -> str:
        """Returns what plain calls are called."""
        if "read" in self.head:
            return "pread"
        return "pwrite + fsync" if "sync" in self.metric else "pwrite"

    def row(self, by_id: dict[str, Json], way: str, size: int) -> Json:
        """Returns one row."""
        return by_id[f"{self.head}/{self._series(way)}/{size}"]

    def _series(self, way: str) -> str:
        return f"{way}-warm" if self.cache == "warm" and way in _CACHED else way

    def points(
        self, comparisons: Sequence[Json], question: str, way: str, other: str = ""
    ) -> list[Json]:
        """Returns the comparisons of a way with another (empty: any), by size."""
        return [
            point
            for point in comparisons
            if (point["question"], point["metric"]) == (question, self.metric)
            and point["device_cache"] == self.cache
            and point["row"].startswith(f"{self.head}/{self._series(way)}/")
            and (not other or point["baseline"].startswith(f"{self.head}/{self._series(other)}/"))
        ]


def _reads(head: str, subject: str) -> list[View]:
    metric, time_ns = "bandwidth_mib_per_s", results.call_ns
    return [
        View(head, subject, f"device cache {state}", metric, time_ns, state)
        for state in ("cold", "warm")
    ]


def _program_views(program: str) -> list[View]:
    subject, metric, time_ns = f"Program {program}", "loop_ns", results.loop_ns
    reads = [
        View(f"{program}-read", subject, f"read, device cache {state}", metric, time_ns, state)
        for state in ("cold", "warm")
    ]
    metric, time_ns = "loop_with_sync_ns", results.loop_and_sync_ns
    return [*reads, View(f"{program}-write", subject, "write + fsync", metric, time_ns)]


READ_VIEWS = _reads("read", "Reads")
LARGE_READ_VIEWS = _reads("large-read", "Large reads")
WRITE_VIEWS = [
    View("write", "Writes", detail, f"bandwidth_{metric}mib_per_s", time_ns)
    for detail, metric, time_ns in (
        ("the call alone", "", results.call_ns),
        ("call + flush", "with_flush_", results.call_and_flush_ns),
        ("call + fsync", "with_sync_", results.durable_ns),
    )
]
PROGRAM_VIEWS = [view for program in ("iterative", "once") for view in _program_views(program)]
VIEWS = [*READ_VIEWS, *WRITE_VIEWS, *LARGE_READ_VIEWS, *PROGRAM_VIEWS]


def _sizes(rows: Sequence[Json], view: View) -> list[int]:
    """Returns the transfer sizes that were measured; none: the view was left out."""
    found = [row["transfer_bytes"] for row in rows if row["id"].startswith(f"{view.head}/")]
    return list(dict.fromkeys(found))


# ---- what is compared ----------------------------------------------------------------------------

# Question, way, and what it is set beside.
_PLAIN = [("placement_and_plain", way, "plain") for way in WAYS]
_CURVES = [("two_placements", "compute", "host"), ("two_placements", "service", "compute")]


def _compare_at(view: View, by_id: dict[str, Json], size: int) -> list[Json]:
    def row(way: str) -> Json:
        return view.row(by_id, way, size)

    def times(way: str) -> list[float]:
        return times_of(row(way), view.time_ns)

    def point(question: str, way: str, other: str, **fields: Any) -> Json:
        return make_comparison(
            *(question, view.metric, view.time_ns, row(way), row(other), aa),
            device_cache=view.cache,
            **fields,
        )

    aa = speed_ratio_of_rows(row("plain"), row("again"), view.time_ns)
    points = [
        point(question, way, other)
        for question, way, other in (*_PLAIN, *_CURVES)
        # When warm these are the same two rows as when cold.
        if view.cache != "warm" or (way, other) != ("host", "plain")
    ]
    # The best is picked on the odd repeats and judged on the even ones.
    best = judge.pick_best({way: times(way) for way in _CANDIDATES})
    even, best_even = (judge.odd_and_even(times(way))[1] for way in ("automatic", best))
    if even:
        ratio = speed_ratio(even, best_even)
        fields = {"ratio": ratio, "pairs": len(even)}
        points.append(point("automatic_and_best", "automatic", best, **fields))
    return points


def findings_of(view: View, comparisons: Sequence[Json]) -> Findings:
    """Returns what one view shows."""
    axis, quantity = (None, "speed") if view.program else (TRANSFER, "bandwidth")
    pairs = [
        *((question, way, other, other) for question, way, other in _CURVES),
        ("automatic_and_best", "automatic", "", _BEST),
        *(("placement_and_plain", way, "plain", view.plain) for way in ("compute", "host")),
    ]
    found = []
    for question, way, other, name in pairs:
        points = view.points(comparisons, question, way, other)
        found.append(Finding(way, name, points, axis, quantity, crossover=name != _BEST))
    return Findings(view.name, found)


# ---- the answer ----------------------------------------------------------------------------------


def _compute_and_host(document: Json, view: View) -> Finding:
    points = view.points(document["comparisons"], "two_placements", "compute", "host")
    return Finding("compute", "host", points)


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
    return f"automatic is slower than {_BEST} {where}{factor}{others}."


def _describe_cache(document: Json) -> str:
    caches = [r["page_cache"] for r in document["environment"]["runtimes"] if r["page_cache"]]
    sizes = dict.fromkeys(format_size(cache["cache_bytes"]) for cache in caches)
    pages = format_size(caches[0]["page_bytes"])
    return f"The device's page cache has {' or '.join(sizes)}, in pages of {pages}."


def _words(document: Json) -> list[Word]:
    runtimes = document["environment"]["runtimes"]
    served = next((r["service"] for r in runtimes if r["page_cache"] and r["service"]), None)
    serving = "on cores that serve others"
    if served and served["threads"] > 0:
        serving += f" (CPUs {served['cpus']}, threads: {served['threads']})"
    elif served:
        serving = "by the I/O server's threads, as no cores are set aside"
    meanings = {
        "host": "by the I/O server, without the device's cache",
        "compute": "on the calling core, through the device's cache",
        "service": f"{serving}, through the device's cache",
        "automatic": "Ferry chooses, call by call",
    }
    plain = "pread, pwrite" if _sizes(document["rows"], WRITE_VIEWS[0]) else "pread"
    return [
        *(Word(way, way, meaning) for way, meaning in meanings.items()),
        Word("plain", plain, "plain system calls on the same threads"),
        Word("mmap", "mmap", "a copy from or to a mapping of the file, page faults included"),
    ]


# ---- by transfer size ----------------------------------------------------------------------------


def _by_size(document: Json, views: Sequence[View], name: str, title: str) -> Section:
    figure = Figure(
        name,
        Curves([_panel(document, view) for view in views]),
        f"{title}: bandwidth by transfer size, a line for each way; the table below has the "
        "numbers.",
        "Bandwidth by transfer size. Lines are medians, shaded are their 95 % bounds. Both axes are "
        "logarithmic.",
    )
    findings = [findings_of(view, document["comparisons"]) for view in views]
    return Section(title, (), figure, findings, [_size_table(document, view) for view in views])


def _lines(document: Json, view: View) -> dict[str, list[Json]]:
    """Returns the rows of each way, by size."""
    by_id = {row["id"]: row for row in document["rows"]}
    sizes = _sizes(document["rows"], view)
    return {
        way: [view.row(by_id, way, size) for size in sizes] for way in (*WAYS, "plain", "mmap")
    }


def _label(view: View, way: str) -> str:
    return view.plain.removesuffix(" + fsync") if way == "plain" else way


def _panel(document: Json, view: View) -> Panel:
    sizes = _sizes(document["rows"], view)
    return Panel(
        _capital(view.detail),
        [
            Series.of(way, _label(view, way), sizes, [row["metrics"][view.metric] for row in rows])
            for way, rows in _lines(document, view).items()
        ],
    )


def _size_table(document: Json, view: View) -> Table:
    lines = _lines(document, view)
    noise = view.points(document["comparisons"], "placement_and_plain", "compute")
    columns = [
        [format_size(size) for size in _sizes(document["rows"], view)],
        *([format_bandwidth(row["metrics"][view.metric]) for row in line] for line in lines.values()),
        [format_noise(point["aa_spread"]) for point in noise],
    ]
    states = {
        row[state]
        for line in lines.values()
        for row in line
        for state in ("cache_state", "device_cache_state")
    }
    unit = "MiB/s, unverified" if "unverified" in states else "MiB/s"
    heads = ["transfer", *(_label(view, way) for way in lines), "noise"]
    rows = [list(row) for row in zip(*columns, strict=True)]
    return Table(f"{_capital(view.detail)} ({unit})", heads, rows)


def _capital(text: str) -> str:
    return text[0].upper() + text[1:]


# ---- the programs --------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Line:
    """One way through a program: a line of the table, and a bar."""

    program: str
    label: str
    view: View
    way: str
    row: Json

    def times_ms(self) -> list[float]:
        """Returns calls, computing, loop, and of writes sync and total: medians."""
        metrics = self.row.metrics
        times = [metrics.io_ns.median, metrics.compute_ns.median, metrics.loop_ns.median]
        if self.row.operation == "write":
            times.append(metrics.flush_ns.median + metrics.sync_ns.median)
            times.append(metrics.loop_with_sync_ns.median)
        return [time * 1e-6 for time in times]

    def bar(self) -> Bar:
        """Returns it with its parts stacked."""
        calls, computing, _, *ends = self.times_ms()
        parts = {"calls": calls, "computing": computing, **dict(zip(["flush and fsync"], ends, strict=False))}
        whole = self.row["metrics"][self.view.metric]
        low, high = (whole[key] * 1e-6 for key in ("median_low_95", "median_high_95"))
        split = ", ".join(f"{what} {time:.2f} ms" for what, time in parts.items())
        return Bar(
            self.way,
            self.label,
            [*parts.values()],
            low,
            high,
            text=f"{whole['median'] * 1e-6:.1f} ms",
            tip=f"{self.label}: {split}; in all {low:.2f} to {high:.2f} ms",
        )


def _program_lines(document: Json, views: Sequence[View]) -> list[_Line]:
    """Returns the lines of one program: host, the cached ways by state of the cache, plain calls."""
    by_id, size = {row["id"]: row for row in document["rows"]}, document["settings"]["piece_bytes"]
    first = views[0]
    ways = [("host", first, "host")]
    for view in views:
        state = f", {view.cache}" if view.cache else ""
        ways += [(f"{way}{state}", view, way) for way in _CACHED]
    ways += [(_label(first, "plain"), first, "plain"), ("mmap", first, "mmap")]
    program = first.head.split("-")[0]
    return [_Line(program, label, view, way, view.row(by_id, way, size)) for label, view, way in ways]


def _programs(document: Json, operation: str, views: Sequence[View]) -> Section:
    heads = dict.fromkeys(view.head for view in views)
    programs = [
        _program_lines(document, [view for view in views if view.head == head]) for head in heads
    ]
    verb, ends = ("sum", "") if operation == "read" else ("fill", ", faintest in flush and fsync")
    total, piece = (format_size(document["settings"][f"{x}_bytes"]) for x in ("total", "piece"))
    figure = Figure(
        f"programs-{operation}",
        Bars([BarPanel(lines[0].program, [line.bar() for line in lines]) for lines in programs]),
        f"Time of the programs that {operation}, a bar for each way; the table below has the "
        "numbers.",
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
        [findings_of(view, document["comparisons"]) for view in views],
        [_program_table(document, operation, programs)],
    )


def _program_table(document: Json, operation: str, programs: Sequence[Sequence[_Line]]) -> Table:
    rows = []
    for lines in programs:
        for line in lines:
            points = line.view.points(
                document["comparisons"], "placement_and_plain", line.way, "plain"
            )
            speed = [format_ratio(points[0]), format_noise(points[0]["aa_spread"])] if points else ["", ""]
            name = line.program if line is lines[0] else ""
            rows.append([name, line.label, *(f"{time:.2f}" for time in line.times_ms()), *speed])
    ends = ["loop"] if operation == "read" else ["loop", "sync", "total"]
    speed_head = f"speed, {programs[0][0].view.plain} = 1"
    heads = ["program", "way", "calls", "computing", *ends, speed_head, "noise"]
    return Table("Where is the time? (ms)", heads, rows, left=2)


# ---- the paper -----------------------------------------------------------------------------------


def _paper(document: Json) -> Section:
    assert not published.of_study("placements"), "published numbers that the study does not show"
    # Of the smallest or the largest transfers, which of the two the paper finds faster.
    statements = [
        *((view, min, "compute") for view in (*READ_VIEWS, WRITE_VIEWS[2])),
        *((view, max, "host") for view in (READ_VIEWS[0], WRITE_VIEWS[2])),
        *((v, max, "host" if v.head.startswith("once") else "compute") for v in PROGRAM_VIEWS),
    ]
    rows = []
    for view, pick, faster in statements:
        points = _compute_and_host(document, view).points
        if points:
            size = pick(point["transfer_bytes"] for point in points)
            (point,) = [point for point in points if point["transfer_bytes"] == size]
            where = "" if view.program else f", {format_size(size)}"
            rows.append([f"{view.name}{where}", faster, format_ratio(point), _agrees(point, faster)])
    return Section(
        "Beside the paper",
        [
            f"The study follows {published.SOURCES['001']} (slides), on a Knights Ferry "
            "co-processor with 32 cores behind PCI Express. Its figures are pictures without "
            "numbers. It says that small data are faster by compute and large data by host, that "
            "iterative is fastest by compute and once by host. There the device's memory was across "
            "a bus; here host and device are cores of one machine, so a different answer does not "
            "contradict it."
        ],
        tables=[Table("", ["measured", "paper: faster", "compute / host", "agrees"], rows)],
    )


def _agrees(point: Json, faster: str) -> str:
    decided = {"faster": "compute", "slower": "host", "within_5_percent": "within 5 %"}
    found = decided.get(point["finding"], "not measurable")
    if found in ("compute", "host"):
        return "yes" if found == faster else "no"
    return found
