"""The study ``optimizations``: the gain of the page cache's optimisations (after Murty, Sudarsan).

Writes, re-writes, reads and re-reads of 4 MiB records by file size, with all optimisations off,
each on alone, and all on; tmpfs and ramfs for comparison. Also unaligned buffers, and many small
files beside a large one.

All settings share one cache, whose switches are set before each measurement. A second, identical
series with all off (``again``) measures the noise. optimizations_cells has the axes of rows.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from msgspec.structs import replace

from ferry.errors import FerryError
from ferry.files import outermost, scratch_folder
from ferry.machine_memory import available_bytes
from ferry.sizes import MIB, format_size
from ferry_lab.render.bars import Bar, BarPanel, Bars
from ferry_lab.render.curves import Curves, Panel, Series
from ferry_lab.render.findings import FILE, Finding, Findings, format_noise, format_ratio, listed, range_of
from ferry_lab.render.sections import HOW_TO_READ, Answer, Figure, Section, Word
from ferry_lab.render.study_text import format_bandwidth
from ferry_lab.render.tables import Table
from ferry_lab.results.records import Comparison, Document, Row, Summary
from ferry_lab.run.estimate import write_room_bytes
from ferry_lab.run.made_files import make_pattern_file
from ferry_lab.run.memory import lack_of_memory
from ferry_lab.run.mounts import Mounts, own_mounts
from ferry_lab.run.plan import RuntimeSettings
from ferry_lab.run.study import Group, Json, Matrix, Study, StudyOptions
from ferry_lab.stats.comparing import make_comparison, row_at, where
from ferry_lab.studies import optimizations_cells as matrix
from ferry_lab.studies import published
from ferry_lab.studies.file_sizes import QUICK_SIZES, SIZES, repeats_of
from ferry_lab.studies.optimizations_cells import ALIGNMENT_BYTES, KERNEL_KINDS, OPERATIONS, PLAIN, SWITCHES, Places

# The cache, files in memory and the kernel's pages, in sizes of the largest file.
_MEMORY_FACTOR = 8

NAMES = {"write": "Write", "rewrite": "Re-write", "read": "Read", "reread": "Re-read"}
LABELS = {**SWITCHES, "off": "all off", "all": "all on", PLAIN: "plain I/O", **{kind: kind for kind in KERNEL_KINDS}}
_MEANINGS = {
    "off": "one page for each allocation and each insertion, copies by memcpy, no readahead",
    "all": "the cache as programs get it",
    "tmpfs": "the kernel's file system in memory, by pwrite and pread",
    "ramfs": "the same without limits and without swap",
}
# Questions of comparisons.
SETTING, KERNEL = "optimization_and_none", "cache_and_kernel"
ALIGNMENT, SMALL = "unaligned_and_aligned", "many_files_and_one"
_METRIC = "bandwidth_mib_per_s"


class Optimizations(Study):
    name = "optimizations"

    @contextlib.contextmanager
    def prepare(self, options: StudyOptions, notes: list[str]) -> Iterator[Matrix]:
        sizes = _sizes(options, notes)
        to_read = sorted({*sizes, ALIGNMENT_BYTES, matrix.SMALL_TOTAL_BYTES})
        written_bytes = max(size + write_room_bytes(size) for size in sizes)
        room_bytes = sum(to_read) + matrix.SMALL_TOTAL_BYTES + written_bytes
        with (
            scratch_folder(options.folder, room_bytes) as folder,
            own_mounts() as mounts,
            contextlib.ExitStack() as stack,
        ):
            places = _make_places(folder, mounts, room_bytes, stack, notes)
            for place in places.all():
                for size in to_read:
                    make_pattern_file(place.read_path(size), size, matrix.SEED)
                make_pattern_file(place.small_path, matrix.SMALL_TOTAL_BYTES, matrix.SEED, matrix.SMALL_FILE_BYTES)
            settings = {
                "record_bytes": matrix.RECORD_BYTES,
                "file_bytes": sizes,
                "alignment_file_bytes": ALIGNMENT_BYTES,
                "small_file_bytes": matrix.SMALL_FILE_BYTES,
                "small_total_bytes": matrix.SMALL_TOTAL_BYTES,
                "copy_engine": "absent",  # the device cpu has none
                "kernel": list(places.kernel),
            }
            scratch = outermost(place.folder for place in places.all())
            yield Matrix(make_groups(options, places, sizes), settings, scratch)

    def compare(self, rows: Sequence[Row]) -> list[Comparison]:
        """Sets every setting beside none, the cache beside the kernel, and so on."""
        comparisons = []
        for row in rows:
            for question, *changes in _baselines(row):
                there = [where(rows, **{**row.axes, **change}) for change in changes]
                if all(there):
                    base, one, again = (found for (found,) in there)
                    metric = "elapsed_ns" if question == SMALL else _METRIC
                    comparisons.append(make_comparison(question, metric, row, base, (one, again)))
        return comparisons

    def answer(self, document: Document) -> Answer:
        together = {op: _factor(points_of(document, SETTING, op, "all")) for op in OPERATIONS}
        kernel = document.settings["kernel"]
        beside = " and ".join(kernel) or "no kernel file system"
        return Answer(
            "What are the page cache's optimisations worth?",
            [
                f"All optimisations together, beside none of them: {_by_text(together)}.",
                _best_alone(document),
                _beside_kernel(document),
            ],
            [
                "Each optimisation of Murty and Sudarsan can be switched off in the page cache that Ferry has "
                "in the device's memory. The copy engine, by which they copy, is absent: the device cpu has "
                "none.",
                "All calls are made by placement compute on one device thread, in records of "
                f"{format_size(document.settings['record_bytes'])}, through one page cache whose "
                "optimisations are switched between measurements: all off, one on alone, all on. "
                f"Beside it pwrite and pread in {beside}. {HOW_TO_READ}",
            ],
            [Word(way, LABELS[way], _MEANINGS[way]) for way in ("off", "all", *kernel)],
        )

    def sections(self, document: Document) -> Sequence[Section]:
        return [
            _by_size(document),
            _alone(document),
            Section(
                "Buffers that are not aligned",
                [
                    "The paper's copy engine wanted buffers at the beginning of a cache line. "
                    "Here re-writes and re-reads move the same bytes from and to buffers that "
                    "begin with a page, or one byte further."
                ],
                findings=[variant_findings(document, op, ALIGNMENT) for op in ("rewrite", "reread")],
                tables=[alignment_table(document)],
            ),
            _small_files(document),
            published.beside_the_paper(
                "003",
                ": IOzone on a Xeon Phi, in the page cache of its kernel, with 4 MB records and files of "
                "4 MB to 1 GB. Most of its gain is the DMA engine's, which copied; that switch is "
                "absent here. Its in-order cores made each cache miss dear; the ones here are others, "
                "and so are the ratios.",
                [paper_table(document)],
            ),
        ]


# ---- what is measured ----------------------------------------------------------------------------


def make_groups(options: StudyOptions, places: Places, sizes: Sequence[int]) -> dict[str, Group]:
    """Returns what is measured, by the rows' group."""
    usual, groups = repeats_of(options), {}
    for size in sizes:
        for name, operations in (("writes", OPERATIONS[:1]), ("re-writes", OPERATIONS[1:2]), ("reads", OPERATIONS[2:])):
            cells = [cell for op in operations for cell in matrix.record_cells(op, places, size)]
            groups[f"{name} of {format_size(size)}"] = Group(cells, repeats_of(options, size), _runtime(size))
    groups["alignment"] = Group(matrix.alignment_cells(places), usual, _runtime(ALIGNMENT_BYTES))
    groups["small files"] = Group(matrix.small_file_cells(places), usual, _runtime(matrix.SMALL_TOTAL_BYTES))
    return groups


def _runtime(size: int) -> RuntimeSettings:
    """Half of a cache may be dirty before it is written in the background: one whole file is."""
    return RuntimeSettings(device_threads=1, cache_bytes=2 * size + 64 * MIB)


def _sizes(options: StudyOptions, notes: list[str]) -> list[int]:
    """Returns the files' sizes for which there is memory."""
    wanted = QUICK_SIZES if options.quick else SIZES
    free_bytes = available_bytes()
    sizes = [size for size in wanted if _MEMORY_FACTOR * size <= free_bytes]
    if not sizes:
        raise lack_of_memory(free_bytes, _MEMORY_FACTOR * wanted[0])
    if len(sizes) < len(wanted):
        notes.append(
            f"files above {format_size(sizes[-1])} are left out: they need "
            f"{_MEMORY_FACTOR} times their size in memory, and {format_size(free_bytes)} are free"
        )
    return sizes


def _make_places(
    folder: Path, mounts: Mounts | None, room_bytes: int, stack: contextlib.ExitStack, notes: list[str]
) -> Places:
    folders = {}
    if mounts is None:
        notes.append("only root may mount: no ramfs beside the cache")
    for kind in KERNEL_KINDS if mounts is not None else ("tmpfs",):
        try:
            folders[kind] = (
                mounts.memory(kind, folder / kind, room_bytes).folder
                if mounts is not None
                else stack.enter_context(scratch_folder("/dev/shm", room_bytes))
            )
        except FerryError as error:
            notes.append(f"no {kind} beside the cache: {error}")
    cache, *kernel = (matrix.SystemPlace(str(there.absolute())) for there in (folder, *folders.values()))
    return Places(cache, dict(zip(folders, kernel, strict=True)))


# ---- rows and comparisons ------------------------------------------------------------------------


def _baselines(row: Row) -> Iterable[tuple[str, Json, Json, Json]]:
    """Gives question, the row beside which a row is set, and two equal ones for the noise.

    Of these rows, the axes that differ from the row's.
    """
    way, variant = row.axes["way"], row.axes.get("variant")
    off = {"way": "off"}
    if variant is None and way in (*SWITCHES, "all"):
        yield SETTING, off, off, {"way": "again"}
    if variant is None and way == "all":
        operation = _of_kernel(str(row.axes["operation"]))
        for kind in KERNEL_KINDS:
            yield KERNEL, {"way": kind, "operation": operation}, off, {"way": "again"}
    again = {"variant": "again"}
    if variant == "unaligned":
        yield ALIGNMENT, {"variant": "aligned"}, {"variant": "aligned"}, again
    if variant == "many":
        for baseline in ("one", "records"):
            yield SMALL, {"variant": baseline}, {"variant": "one"}, again


def _of_kernel(operation: str) -> str:
    """Returns the operation that is measured in its file systems: their reads are re-reads."""
    return "read" if operation == "reread" else operation


def _rows(document: Document, operation: str, way: str) -> list[Row]:
    if way in KERNEL_KINDS:
        operation = _of_kernel(operation)
    return where(document.rows, part="records", operation=operation, way=way)


def points_of(document: Document, question: str, operation: str, way: str, /, **baseline: str) -> list[Comparison]:
    """Returns the comparisons of a way, by file size; ``baseline``: with what."""
    return [
        point
        for point in where(document.comparisons, operation=operation, way=way)
        if point.question == question and point.baseline_axes.items() >= baseline.items()
    ]


def setting_findings(document: Document, operation: str) -> Findings:
    """Returns what the optimisations are worth, together and alone."""
    labels = {"all": LABELS["all"], **{way: f"{label} alone" for way, label in SWITCHES.items()}}
    points = {label: points_of(document, SETTING, operation, way) for way, label in labels.items()}
    return Findings(NAMES[operation], [Finding(label, LABELS["off"], those, FILE) for label, those in points.items()])


def kernel_findings(document: Document, operation: str) -> Findings:
    """Returns how the cache compares with the kernel's file systems in memory."""
    subject, kinds = "the cache, all on,", document.settings["kernel"]
    points = {kind: points_of(document, KERNEL, operation, "all", way=kind) for kind in kinds}
    found = [Finding(subject, f"the kernel's {kind}", those, FILE) for kind, those in points.items()]
    return Findings(NAMES[operation], found)


def variant_findings(document: Document, operation: str, question: str) -> Findings:
    """Returns what unaligned buffers cost, or many small files beside a large one, by records."""
    about, baseline, variant = {
        ALIGNMENT: ("unaligned buffers", "aligned ones", "aligned"),
        SMALL: ("many small files", "one large file by records", "records"),
    }[question]
    kernel = {kind: f"the kernel's {kind}" for kind in document.settings["kernel"]}
    labels = {**{way: LABELS[way] for way in ("all", "off", PLAIN)}, **kernel}
    found = [
        Finding(label, baseline, points, None)
        for way, label in labels.items()
        if (points := points_of(document, question, operation, way, variant=variant))
    ]
    return Findings(f"{NAMES[operation]}, {about}", found)


# ---- the answer ----------------------------------------------------------------------------------


def _by_text(texts: Mapping[str, str]) -> str:
    """Returns "this for write and read; that for re-read", given what is said of each operation."""
    return "; ".join(
        f"{text} for {listed([NAMES[op].lower() for op in texts if texts[op] == text])}"
        for text in dict.fromkeys(texts.values())
    )


def _factor(points: Sequence[Comparison]) -> str:
    """Returns "1.20 to 1.50 times the bandwidth", of the sizes with a measured difference."""
    decided = [p.ratio_median for p in points if p.finding in ("faster", "slower")]
    if not decided:
        close = any(point.finding == "within_5_percent" for point in points)
        return "within 5 % or without a measured difference" if close else "no difference measured"
    where = "" if len(decided) == len(points) else f" at {len(decided)} of {len(points)} sizes"
    return f"{range_of(min(decided), max(decided))} times the bandwidth{where}"


def _best_alone(document: Document) -> str:
    gains = {}
    for operation in OPERATIONS:
        best, gain = "", 1.0
        for switch in SWITCHES:
            points = points_of(document, SETTING, operation, switch)
            faster = [point.ratio_median for point in points if point.finding == "faster"]
            if 2 * len(faster) > len(points) and max(faster) > gain:
                best, gain = switch, max(faster)
        if best:
            gains[operation] = f"{LABELS[best]} (up to {gain:.2f} times the bandwidth)"
    if not gains:
        return "Alone, no optimisation is measurably faster at most of the sizes."
    return f"Alone, the largest gain is that of {_by_text(gains)}."


def _beside_kernel(document: Document) -> str:
    kinds = document.settings["kernel"]
    if not kinds:
        return "No kernel file system in memory was there to set beside it."
    found = {op: _factor(points_of(document, KERNEL, op, "all", way=kinds[0])) for op in OPERATIONS}
    return f"Beside the kernel's {kinds[0]}, the cache with all on: {_by_text(found)}."


# ---- by file size --------------------------------------------------------------------------------

_TITLES = {
    "write": "Writes of a new file",
    "rewrite": "Re-writes of a file whose pages are in the cache",
    "read": "Reads of a file that the host's kernel has, and the device's cache has not",
    "reread": "Re-reads: the pages are in the device's cache",
}


def _by_size(document: Document) -> Section:
    ways = ("off", "all", *document.settings["kernel"])
    panels = []
    for op in OPERATIONS:
        series = [Series.of_rows(way, LABELS[way], _rows(document, op, way), "file_bytes", _METRIC) for way in ways]
        panels.append(Panel(NAMES[op], series))
    figure = Figure(
        "file-sizes",
        Curves(panels, x_label="file size", columns=2),
        "Bandwidth of writing, re-writing, reading and re-reading by file size, a line for each "
        "way; the tables below have the numbers.",
        f"Bandwidth by file size, in records of {format_size(document.settings['record_bytes'])}. "
        "Lines are medians, shaded are their 95 % bounds. Both axes are logarithmic.",
    )
    beside = [kernel_findings(document, operation) for operation in OPERATIONS]
    return Section(
        "All off, all on, and the kernel, by file size",
        figure=figure,
        findings=beside if document.settings["kernel"] else [],
        tables=[operation_table(document, operation) for operation in OPERATIONS],
    )


def operation_table(document: Document, operation: str) -> Table:
    """Returns an operation's bandwidths: a line for each setting, a column for each size."""
    sizes, kernel = document.settings["file_bytes"], document.settings["kernel"]
    lines, states = [], set()
    for way in ("off", *SWITCHES, "all", *kernel):
        rows = _rows(document, operation, way)
        if way not in kernel:
            states |= {state for row in rows for state in (row.cache_state, row.device_cache_state)}
        points = points_of(document, SETTING, operation, way)
        cells = [format_bandwidth(row.metric(_METRIC)) for row in rows]
        lines.append([LABELS[way], *cells, format_ratio(points[-1]) if points else ""])
        if way == "readahead":
            lines.append(["copy engine", *[document.settings["copy_engine"]] * len(sizes), ""])
    all_on = points_of(document, SETTING, operation, "all")
    lines.append(["noise", *(format_noise(point.aa_spread) for point in all_on), ""])
    unit = "MiB/s, unverified" if "unverified" in states else "MiB/s"
    heads = ["way", *map(format_size, sizes), f"times all off, {format_size(sizes[-1])}"]
    return Table(f"{_TITLES[operation]} ({unit})", heads, lines)


# ---- each alone ----------------------------------------------------------------------------------


def _alone(document: Document) -> Section:
    size = document.settings["file_bytes"][-1]
    panels = [BarPanel(NAMES[op], _alone_bars(document, op, size)) for op in OPERATIONS]
    figure = Figure(
        "alone",
        Bars(panels, label_width=140.0, reference=1.0),
        "How many times the bandwidth of all off each optimisation has alone, and all of them; "
        "the tables above have the numbers.",
        f"Times the bandwidth of all off, files of {format_size(size)}. The line across the end "
        "is the 95 % bounds, the dotted one is all off. A diamond is what the paper published "
        "for its own cache (tmpfs). Longer is better.",
    )
    findings = [setting_findings(document, operation) for operation in OPERATIONS]
    return Section("Each optimisation alone", figure=figure, findings=findings)


def _alone_bars(document: Document, operation: str, size: int) -> list[Bar]:
    bars = []
    for way in (*SWITCHES, "all"):
        points = points_of(document, SETTING, operation, way)
        (point,) = (point for point in points if point.total_bytes == size)
        name, ratio, low, high = LABELS[way], point.ratio_median, point.ratio_low_95, point.ratio_high_95
        tip, said = f"{NAMES[operation]}, {name}: {low:.2f} to {high:.2f}", _published(operation, way)
        bars.append(Bar("all" if way == "all" else "alone", name, [ratio], low, high, f"{ratio:.2f}×", tip, said))
    return bars


# ---- buffers and small files ---------------------------------------------------------------------


def alignment_table(document: Document) -> Table:
    """Returns bandwidths with aligned and with unaligned buffers."""
    size, lines = document.settings["alignment_file_bytes"], []
    for operation in ("rewrite", "reread"):
        for way in ("off", "all", *document.settings["kernel"]):
            there = where(document.rows, part="alignment", operation=operation, way=way)
            rows = [row_at(there, variant=one) for one in ("aligned", "unaligned")]
            cells = [format_bandwidth(row.metric(_METRIC)) for row in rows]
            (point,) = points_of(document, ALIGNMENT, operation, way)
            lines.append([NAMES[operation], LABELS[way], *cells, format_ratio(point), format_noise(point.aa_spread)])
    title = f"Files of {format_size(size)}: must a program's buffers be aligned? (MiB/s)"
    heads = ["call", "way", "aligned", "1 byte further", "times aligned", "noise"]
    return Table(title, heads, lines, left=2)


def _open_to_close(document: Document, operation: str, way: str, variant: str) -> Summary:
    """Returns MiB per second from the first open to the last close."""
    row = row_at(document.rows, part="small files", operation=operation, way=way, variant=variant)
    times = row.metrics.elapsed_ns
    middle, low, high = (
        row.total_bytes / MIB / (time_ns * 1e-9)
        for time_ns in (times.median, times.median_high_95, times.median_low_95)
    )
    return replace(times, median=middle, median_low_95=low, median_high_95=high)


def _shapes(document: Document) -> dict[str, str]:
    """Returns how small data can lie in files, and what that is called."""
    small, record = (format_size(document.settings[f"{what}_bytes"]) for what in ("small_file", "record"))
    return {"many": f"files of {small}", "one": f"one, by {small}", "records": f"one, by {record}"}


def _small_files(document: Document) -> Section:
    settings, panels = document.settings, []
    for way in ("off", "all", PLAIN, *settings["kernel"]):
        for operation in ("write", "read"):
            bars = [
                Bar.of(shape, label, _open_to_close(document, operation, way, shape), "MiB/s")
                for shape, label in _shapes(document).items()
            ]
            panels.append(BarPanel(f"{NAMES[operation]}, {LABELS[way]}", bars))
    size, small = (format_size(settings[f"small_{what}_bytes"]) for what in ("total", "file"))
    figure = Figure(
        "small-files",
        Bars(panels),
        "Bandwidth with many small files and with a large one; the table below has the numbers.",
        f"{size} in files of {small}, in one file by transfers as large as those, and in one file "
        "by records; opening and closing count. Longer is better.",
    )
    return Section(
        "Many small files or a large one",
        figure=figure,
        findings=[variant_findings(document, operation, SMALL) for operation in ("write", "read")],
        tables=[small_table(document)],
    )


def small_table(document: Document) -> Table:
    """Returns many small files beside a large one."""
    shapes, lines = _shapes(document), []
    for operation in ("write", "read"):
        for way in ("off", "all", PLAIN, *document.settings["kernel"]):
            found = [_open_to_close(document, operation, way, shape) for shape in shapes]
            (point,) = points_of(document, SMALL, operation, way, variant="records")
            cells = [f"{one.median:.0f}" for one in found]
            lines.append([NAMES[operation], LABELS[way], *cells, format_ratio(point), format_noise(point.aa_spread)])
    total, small = (document.settings[f"small_{what}_bytes"] for what in ("total", "file"))
    many, one, records = shapes.values()
    title = f"{format_size(total)} in small files or in one, open and close included (MiB/s)"
    heads = ["call", "way", f"{total // small} {many}", one, records]
    return Table(title, [*heads, f"files / {records.replace(',', '')}", "noise"], lines, left=2)


# ---- the paper -----------------------------------------------------------------------------------


def _way_of(number: published.Number) -> str:
    return "precomputed_hash" if "hash" in number.note else "all"


def _published(operation: str, way: str) -> float | None:
    numbers = published.of_study("optimizations", system="tmpfs", operation=operation)
    return next((number.value for number in numbers if _way_of(number) == way), None)


def paper_table(document: Document) -> Table:
    """Returns the paper's published numbers beside what was found here."""
    lines = []
    for number in published.of_study("optimizations"):
        here = []
        for operation in (number.operation, f"re{number.operation}"):
            points = points_of(document, SETTING, operation, _way_of(number))
            ratios = [p.ratio_median for p in points if p.finding != "no_difference"]
            here.append(range_of(min(ratios), max(ratios)) if ratios else "none measured")
        lines.append([f"{number.system}, {number.operation}", number.note, f"{number.value:g}", *here])
    title = "The paper's speed-ups, inside its kernel's page cache, and those of Ferry's cache"
    heads = ["paper", "what", "published", "here, first time", "here, again"]
    return Table(title, heads, lines, left=2)
