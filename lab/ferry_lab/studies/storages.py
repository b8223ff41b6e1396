"""The study ``storages``: speed and properties of storages (after Vladimirov et al. 2014).

Writes, writes with fsync, cold reads and re-reads in records of 4 MiB, by one thread and many with
a file each, and by file size, on every available storage; also the bare disk's speed. Uses pwrite
and pread, or Ferry's simplest calls on client libraries, because the question is about storages.

storages_cells has the axes of rows. A *test* is one of the paper's four: some rows, and one of their
times.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from ferry.errors import FerryError
from ferry.files import outermost
from ferry.native import read_info
from ferry.sizes import format_size
from ferry.uris import shown, with_suffix
from ferry_lab.render.bars import Bar, BarPanel, Bars
from ferry_lab.render.curves import Curves, Panel, Series
from ferry_lab.render.findings import THREADS, Finding, Findings, listed, range_of
from ferry_lab.render.sections import HOW_TO_READ, Answer, Figure, Section, Word
from ferry_lab.render.study_text import format_bandwidth
from ferry_lab.render.tables import Table
from ferry_lab.results.records import Comparison, Document, Row
from ferry_lab.run.estimate import write_room_bytes
from ferry_lab.run.made_files import make_pattern_file, make_pattern_files
from ferry_lab.run.mounts import own_mounts
from ferry_lab.run.plan import RuntimeSettings
from ferry_lab.run.study import Group, Json, Matrix, Study, StudyOptions
from ferry_lab.stats.comparing import make_comparison, row_at, where
from ferry_lab.studies import published, storages_cells
from ferry_lab.studies.file_sizes import QUICK_SIZES, SIZES, repeats_of
from ferry_lab.studies.storages_cells import FILE_BYTES, RAW_FILE_BYTES, RECORD_BYTES, SEED, StoragePlace
from ferry_lab.studies.storages_found import PROPERTIES, Fact, Storage, found_storages
from ferry_lab.studies.storages_network import network_storages

QUICK_THREADS = [1, 2, 4]
THREADS_MAX = 64


class Storages(Study):
    name = "storages"
    takes_storage = True

    @contextlib.contextmanager
    def prepare(self, options: StudyOptions, notes: list[str]) -> Iterator[Matrix]:
        sizes = QUICK_SIZES if options.quick else SIZES
        threads = QUICK_THREADS if options.quick else thread_counts()
        room_bytes = _room_bytes(sizes, threads)
        with (
            own_mounts() as mounts,
            found_storages(options.folder, room_bytes, mounts, notes) as local,
            network_storages(options.storage, local[0], room_bytes) as (network, absent),
        ):
            places = {}
            for storage in [*local, *network]:
                place = StoragePlace(storage.name, storage.folder, storage.in_memory, storage.remote)
                try:
                    _make_files(place, sizes, threads[-1])
                    places[storage.name] = place
                except FerryError as error:
                    if storage in local:
                        raise
                    absent[storage.label] = str(error)
            found = [storage for storage in [*local, *network] if storage.name in places]
            raw = places[local[0].name] if _takes_direct_io(local[0], notes) else None
            raw_settings = {
                "medium": local[0].medium,
                "transfer_bytes": storages_cells.RAW_TRANSFER_BYTES,
                "queue_depth": storages_cells.RAW_QUEUE_DEPTH,
                "file_bytes": RAW_FILE_BYTES,
            }
            settings = {
                "record_bytes": RECORD_BYTES,
                "file_bytes": FILE_BYTES,
                "threads": threads,
                "sizes_bytes": sizes,
                "raw": raw_settings if raw else None,
                "storages": [storage.to_json() for storage in found],
                "absent": [{"label": label, "why": shown(why)} for label, why in absent.items()],
                "storage": None if options.storage is None else shown(options.storage),
            }
            groups = make_groups(options, list(places.values()), sizes, threads, raw)
            yield Matrix(groups, settings, outermost(place.scratch for place in places.values()))

    def compare(self, rows: Sequence[Row]) -> list[Comparison]:
        """Sets many threads beside one, and each storage beside that of --dir, by one thread."""
        first = rows[0].axes["storage"]
        comparisons = []
        for test in TESTS:
            alone = where(rows, part="threads", operation=test.operation, threads=1)
            base = where(alone, storage=first)
            for one in alone:  # on every storage, but in memory nothing is cold
                there = {"operation": test.operation, "storage": one.axes["storage"]}
                noise = (one, row_at(rows, part="again", **there))
                many = [row for row in where(rows, part="threads", **there) if row is not one]
                pairs = [(MANY, row, one) for row in many]
                pairs += [(STORAGES, one, row) for row in base if row is not one]
                comparisons += [make_comparison(what, test.metric, row, other, noise) for what, row, other in pairs]
        return comparisons

    def answer(self, document: Document) -> Answer:
        raw, storages = document.settings["raw"], document.settings["storages"]
        beside = ", beside what the disk itself gives" if raw else ""
        return Answer(
            "Which storage is how fast, and what else tells them apart?",
            [_fastest(document), _gains(document), _share_of_disk(document)],
            [f"Every storage that was found here{beside}.", how_to_read(document)],
            [Word(one["name"], one["label"], _meaning(one)) for one in storages],
        )

    def sections(self, document: Document) -> Sequence[Section]:
        return [
            _table_1(document),
            _by_threads(document),
            _by_size(document),
            *([disk_section(document)] if document.settings["raw"] else []),
            published.beside_the_paper(
                "000",
                ". There a Xeon Phi co-processor wrote and read by IOzone, and its virtio disk, NFS and "
                "Lustre were across PCI Express or a network. In this table a virtio disk is one whose "
                "driver is called so; what a hypervisor does behind it differs.",
                [paper_table(document)],
            ),
        ]


# ---- what is measured ----------------------------------------------------------------------------


def thread_counts() -> list[int]:
    """Returns powers of two, up to twice as many threads as there are CPUs, at least four."""
    most = min(max(4, 2 * len(os.sched_getaffinity(0))), THREADS_MAX)
    return [1 << power for power in range(most.bit_length())]


def make_groups(
    options: StudyOptions,
    places: Sequence[StoragePlace],
    sizes: Sequence[int],
    threads: Sequence[int],
    raw: StoragePlace | None,
) -> dict[str, Group]:
    """Returns what is measured, by the rows' group."""
    usual = repeats_of(options)
    groups = {"threads": Group(storages_cells.thread_cells(places, threads), usual, _runtime(threads[-1]))}
    for size in sizes:
        groups[f"files of {format_size(size)}"] = Group(
            storages_cells.size_cells(places, size), repeats_of(options, size), _runtime(1)
        )
    if raw is not None:
        groups["raw medium"] = Group(storages_cells.raw_cells(raw), usual, _runtime(1))
    return groups


def _make_files(place: StoragePlace, sizes: Sequence[int], threads: int) -> None:
    """Makes what is read. Raises FerryError."""
    own, sized = place.path("own"), {place.path(f"sized.{size}"): size for size in sorted({*sizes, RAW_FILE_BYTES})}
    if place.remote is not None:
        place.remote.handed_out += [*sized, *(with_suffix(own, f".{n:08d}") for n in range(threads))]
    for path, size in sized.items():
        make_pattern_file(path, size, SEED)
    make_pattern_files(own, FILE_BYTES, threads, SEED)


def _runtime(threads: int) -> RuntimeSettings:
    """All CPUs are the threads': plain calls need no server."""
    cpus = [str(cpu) for cpu in sorted(os.sched_getaffinity(0))]
    return RuntimeSettings(device_threads=threads, device_cpus=",".join(cpus), server_cpus=cpus[-1])


def _room_bytes(sizes: Sequence[int], threads: Sequence[int]) -> int:
    """Files to read, and what the largest write needs beside them."""
    reads = sum({*sizes, RAW_FILE_BYTES}) + threads[-1] * FILE_BYTES
    written = (*sizes, threads[-1] * FILE_BYTES, RAW_FILE_BYTES)
    return reads + max(size + write_room_bytes(size) for size in written)


def _takes_direct_io(storage: Storage, notes: list[str]) -> bool:
    if storage.in_memory:
        notes.append(f"{storage.label} lies in memory: there is no disk below whose limit to show")
        return False
    possible: bool = read_info(str(storage.folder))["path"]["direct_io"]["possible"]
    if not possible:
        notes.append(f"{storage.label} refuses direct I/O: what its disk itself gives is not shown")
    return possible


# ---- tests ---------------------------------------------------------------------------------------

MANY, STORAGES = "threads_and_one", "storage_and_disk"  # questions of comparisons


@dataclass(frozen=True)
class StorageTest:
    """One of the paper's tests."""

    name: str
    operation: str
    metric: str

    def name_in(self, document: Document) -> str:
        """Returns what it is called there: cold reads may be guest-cold."""
        guest = any(row.cache_state == "guest-cold" for row in document.rows)
        return f"guest-{self.name}" if self is COLD and guest else self.name

    def title_in(self, document: Document) -> str:
        return self.name_in(document).capitalize()

    def points(self, document: Document, question: str, storage: str) -> list[Comparison]:
        """Returns its comparisons on a storage, by threads."""
        there = where(document.comparisons, operation=self.operation, storage=storage)
        return [point for point in there if (point.question, point.metric) == (question, self.metric)]

    def rows(self, document: Document, storage: str, part: str = "threads") -> list[Row]:
        """Returns its rows by threads or sizes; in memory, where nothing is cold, of the re-read."""
        there = where(document.rows, part=part, storage=storage)
        return where(there, operation=self.operation) or where(there, operation=REREAD.operation)

    def best_of_many(self, document: Document, storage: str) -> Row:
        """Returns its row with the highest median of those with several threads."""
        _, *many = self.rows(document, storage)
        return max(many, key=lambda row: row.metric(self.metric).median)

    def of_disk(self, document: Document) -> Row | None:
        """Returns the row of the disk itself that bounds it, None where nothing does."""
        if document.settings["raw"] is None or self not in (WRITE_SYNC, COLD):
            return None
        return row_at(document.rows, part="disk", operation=self.operation)


WRITE_SYNC = StorageTest("write+sync", "write", "bandwidth_with_sync_mib_per_s")
WRITE = StorageTest("write", "write", "bandwidth_mib_per_s")
COLD = StorageTest("cold read", "cold", "bandwidth_mib_per_s")
REREAD = StorageTest("re-read", "reread", "bandwidth_mib_per_s")
TESTS = (WRITE_SYNC, WRITE, COLD, REREAD)


def findings_of(document: Document, question: str) -> list[Findings]:
    """Returns what more threads bring, or how each storage compares with that of --dir, by test."""
    storages = document.settings["storages"]
    baseline, axis, about = storages[0]["label"], None, "one thread"
    if question == MANY:
        baseline, axis, about = "one thread", THREADS, "more threads than one"
    found = []
    for test in TESTS:
        points = {one["label"]: test.points(document, question, one["name"]) for one in storages}
        findings = [Finding(label, baseline, those, axis) for label, those in points.items() if those]
        if findings:
            found.append(Findings(f"{test.title_in(document)}, {about}", findings))
    return found


# ---- the answer ----------------------------------------------------------------------------------


def _fastest(document: Document) -> str:
    """Says how the others compare with the storage of --dir, as far as they were compared."""
    first, *others = document.settings["storages"]
    if not others:
        return f"{first['label']} is the only storage that was measured."
    clauses, points, missing = [], [], []
    for test in TESTS:
        found = {}
        for one in others:
            compared = test.points(document, STORAGES, one["name"])
            if not compared:
                missing.append(f"{test.name_in(document)} of {one['label']}")
            elif compared[0].finding in ("faster", "slower"):
                found[one["label"]] = compared[0].ratio_median
            points += compared
        if found:
            best = max(found, key=found.__getitem__)
            none = "" if found[best] > 1 else "none is faster, "
            clauses.append(f"{test.name_in(document)}: {none}{best} {found[best]:.2g} times")
    parts = []
    if clauses:
        parts.append(f"One thread, the fastest beside {first['label']}: {'; '.join(clauses)}.")
    if unclear := [point.ratio_median for point in points if point.finding == "no_difference"]:
        parts.append(
            f"{'Elsewhere' if clauses else 'One thread:'} the noise hides any difference from "
            f"{first['label']} at {len(unclear)} points, whose medians are "
            f"{range_of(min(unclear), max(unclear))} times its bandwidth."
        )
    elif points and not clauses:
        parts.append(f"One thread: all are within 5 % of {first['label']} where they were compared.")
    if missing:
        parts.append(f"Not compared: {listed(missing)}.")
    return " ".join(parts)


def _gains(document: Document) -> str:
    """Says what more threads bring at best, and where."""
    clauses = []
    for test in TESTS:
        gains = {}
        for one in document.settings["storages"]:
            points = test.points(document, MANY, one["name"])
            if faster := [point.ratio_median for point in points if point.finding == "faster"]:
                gains[one["label"]] = max(faster)
        if gains:
            factor = range_of(min(gains.values()), max(gains.values()), 1)
            clauses.append(f"{test.name_in(document)} {factor} times ({', '.join(gains)})")
    if not clauses:
        return "More threads bring no gain that could be measured, on any storage."
    return f"More threads than one, at best, bring {'; '.join(clauses)}."


def _share_of_disk(document: Document) -> str:
    raw, first = document.settings["raw"], document.settings["storages"][0]
    if raw is None:
        return "There is no disk below whose own limit could be shown."
    shares = []
    for test in TESTS:
        if limit := test.of_disk(document):
            best, most = (row.metric(test.metric).median for row in (test.best_of_many(document, first["name"]), limit))
            shares.append(f"{test.name_in(document)} reaches {best / most * 100:.0f} % of {most:.0f} MiB/s")
    return (
        f"Of what {raw['medium']} itself gives by direct I/O, {first['label']} gets with its best "
        f"number of threads: {', '.join(shares)}."
    )


def how_to_read(document: Document) -> str:
    """Says what the numbers are."""
    settings = document.settings
    record, size = format_size(settings["record_bytes"]), format_size(settings["file_bytes"])
    text = (
        f"By pwrite and pread in records of {record}, a file of {size} for each thread. write is "
        "the time of the calls alone, write+sync that of the calls and the fsync after them. Before "
        "a cold read it is proven that the kernel's cache has nothing of the file; in tmpfs and "
        f"ramfs nothing is colder than a re-read, which stands for both. {HOW_TO_READ}"
    )
    if libraries := [one["label"] for one in settings["storages"] if one["library"]]:
        text += (
            f" {listed(libraries)} by Ferry's calls, placement host: their cold rows are "
            "client-cold, as every byte came from the servers, which may have had it in memory; a "
            "library that keeps what it read answers re-reads itself."
        )
    if any(row.cache_state == "guest-cold" for row in document.rows):
        text += (
            " This is a virtual machine: its cold rows are guest-cold, as the disk's host may have "
            "the data in a cache of its own."
        )
    return text


def _meaning(storage: Json) -> str:
    if storage["reached"]:
        return str(storage["reached"])
    if storage["steps"]:
        return f"made for the study: {'; '.join(storage['steps'])}"
    return f"found here, on the disk {storage['medium']}" if storage["medium"] else "found here"


# ---- Table 1 -------------------------------------------------------------------------------------


def _table_1(document: Document) -> Section:
    panels = [BarPanel(test.title_in(document), _bars(document, test)) for test in TESTS]
    figure = Figure(
        "table-1",
        Bars(panels, common_scale=False, label_width=150.0),
        "A matrix of bars: each test on each storage, by one thread and by the best number of "
        "them; the tables below have the numbers.",
        f"Bandwidth of each test, files of {format_size(FILE_BYTES)}: one thread, and below it the "
        "best number of threads, fainter. The line across the end is the median's 95 % bounds; a "
        "diamond is what the paper published for such a storage. Longer is better; each test has "
        "a scale of its own.",
    )
    return Section(
        "The paper's Table 1, here",
        [f"Not measured here: {one['label']}: {one['why']}." for one in document.settings["absent"]],
        figure,
        findings_of(document, STORAGES),
        [property_table(document), summary_table(document)],
    )


def _bars(document: Document, test: StorageTest) -> list[Bar]:
    """Returns two bars for each storage: one thread, and the best number of them."""
    bars = []
    for one in document.settings["storages"]:
        best = test.best_of_many(document, one["name"])
        for row, label, none in (
            (test.rows(document, one["name"])[0], one["label"], []),
            (best, f"{best.threads} threads", [0.0]),
        ):
            bar = Bar.of(one["name"], label, row.metric(test.metric), "MiB/s")
            tip = f"{one['label']}, {row.threads} threads: {bar.low:.0f} to {bar.high:.0f} MiB/s"
            said = _published(one["paper_system"], test, bool(none))
            bars.append(replace(bar, parts=[*none, *bar.parts], tip=tip, published=said))
    return bars


def property_table(document: Document) -> Table:
    """Returns the property rows of the paper's Table 1, a column for each storage."""
    storages = document.settings["storages"]
    lines = [[label, *(str(Fact(**one["properties"][name])) for one in storages)] for name, label in PROPERTIES.items()]
    heads = ["property", *(one["label"] for one in storages)]
    return Table("What the storages are (declared: not found out here)", heads, lines, len(heads))


def summary_table(document: Document) -> Table:
    """Returns the measured rows of the paper's Table 1: one thread, the best of many, scaling."""
    storages, lines, ends = document.settings["storages"], [], []
    for test in TESTS:
        one, many, more = [], [], []
        for name in (storage["name"] for storage in storages):
            row, best = test.rows(document, name)[0], test.best_of_many(document, name)
            one.append(format_bandwidth(row.metric(test.metric)))
            many.append(f"{format_bandwidth(best.metric(test.metric))} ({best.threads})")
            shown_by = test if row.axes["operation"] == test.operation else REREAD
            more.append(_scaling(shown_by.points(document, MANY, name)))
        label = test.name_in(document)
        lines += [[f"{label}, one thread", *one], [f"{label}, best of many", *many]]
        ends.append([f"{label}, more threads", *more])
    title = f"How fast they are (MiB/s, files of {format_size(FILE_BYTES)}; in brackets the number of threads)"
    return Table(title, ["test", *(one["label"] for one in storages)], lines + ends)


def _scaling(points: Sequence[Comparison]) -> str:
    """Says what more threads bring: the largest gain that was measured."""
    if faster := [(point.ratio_median, point.threads) for point in points if point.finding == "faster"]:
        ratio, threads = max(faster, key=lambda one: one[0])
        return f"{ratio:.2f}× with {threads}"
    return "slower with any" if {point.finding for point in points} == {"slower"} else "none measured"


# ---- by threads, by size -------------------------------------------------------------------------


def _by_threads(document: Document) -> Section:
    panels = []
    for test in TESTS:
        series = []
        for one in document.settings["storages"]:
            if points := test.points(document, MANY, one["name"]):
                counts = [1, *(point.threads for point in points)]
                ratios = (
                    [1.0, *(getattr(p, f"ratio_{what}") for p in points)] for what in ("median", "low_95", "high_95")
                )
                series.append(Series(one["name"], one["label"], counts, *ratios))
        if series:
            panels.append(Panel(test.title_in(document), series))
    figure = Figure(
        "threads",
        Curves(panels, x="threads", y="speed-up", x_label="threads", columns=2),
        "Speed-up by the number of threads, a line for each storage; the tables below have the numbers.",
        "Speed-up beside one thread, each thread with a file of its own. Lines are medians, shaded "
        "are their 95 % bounds; the dotted line would be linear. Both axes are logarithmic. Files "
        "in memory are never cold.",
    )
    return Section(
        "By threads, each with a file of its own",
        figure=figure,
        findings=findings_of(document, MANY),
        tables=[storage_table(document, test, "threads") for test in TESTS],
    )


def _by_size(document: Document) -> Section:
    panels = []
    named = [(one["name"], one["label"]) for one in document.settings["storages"]]
    for test in TESTS:
        series = [
            Series.of_rows(name, label, test.rows(document, name, "sizes"), "file_bytes", test.metric)
            for name, label in named
        ]
        limits = []
        if limit := test.of_disk(document):
            limits = [(f"{document.settings['raw']['medium']} itself", limit.metric(test.metric).median)]
        panels.append(Panel(test.title_in(document), series, limits))
    figure = Figure(
        "file-sizes",
        Curves(panels, x_label="file size", columns=2),
        "Bandwidth by file size, a line for each storage; the tables below have the numbers.",
        "Bandwidth by file size, one thread. Lines are medians, shaded are their 95 % bounds; the "
        "dotted line is what the disk itself gives by direct I/O. Both axes are logarithmic.",
    )
    tables = [storage_table(document, test, "sizes") for test in TESTS]
    return Section("By file size, one thread", figure=figure, tables=tables)


def storage_table(document: Document, test: StorageTest, part: str) -> Table:
    """Returns bandwidths by ``threads`` or, by one thread, of file ``sizes``: a line for each storage."""
    settings, lines = document.settings, []
    along, columns = "threads", map(str, settings["threads"])
    if part == "sizes":
        along, columns = "file size", map(format_size, settings["sizes_bytes"])
    for one in settings["storages"]:
        rows = test.rows(document, one["name"], part)
        states = dict.fromkeys(row.cache_state for row in rows if row.cache_state is not None)
        cells = [format_bandwidth(row.metric(test.metric)) for row in rows]
        lines.append([one["label"], *cells, ", ".join(states)])
    return Table(f"{test.title_in(document)} by {along} (MiB/s)", ["storage", *columns, "cache"], lines)


# ---- the disk and the paper ----------------------------------------------------------------------


def disk_section(document: Document) -> Section:
    """Returns what the disk itself gives."""
    raw = document.settings["raw"]
    lines = [
        [what, format_bandwidth(row.metric(test.metric))]
        for test, what in ((WRITE_SYNC, "write and fsync"), (COLD, "read"))
        if (row := test.of_disk(document))
    ]
    calls = f"{raw['queue_depth']} transfers of {format_size(raw['transfer_bytes'])} in flight"
    return Section(
        "The disk itself",
        ["Direct transfers past every cache of this kernel, several in flight, over blocks that the file has already."],
        tables=[Table(f"{raw['medium']} itself (MiB/s)", [f"direct I/O, {calls}", "bandwidth"], lines)],
    )


def _published(system: str | None, test: StorageTest, best: bool) -> float | None:
    """Returns the paper's number for a test on such a system, in MiB/s; None where it has none."""
    numbers = published.of_study("storages", system=system, operation=test.name)
    return next((number.mib_per_s for number in numbers if (number.threads == "best") == best), None)


def paper_table(document: Document) -> Table:
    """Returns every published number, beside what was found on the storage of that kind."""
    tests = {test.name: test for test in TESTS}
    here = {one["paper_system"]: one["name"] for one in document.settings["storages"]}
    lines = []
    for number in published.of_study("storages"):
        test, name, best = tests[number.operation], here.get(number.system), number.threads == "best"
        found = "not here"
        if name is not None:
            row = test.best_of_many(document, name) if best else test.rows(document, name)[0]
            found = f"{row.metric(test.metric).median:.0f}"
        about = number.note.removeprefix("Table 1").strip()
        threads = "best of many" if best else "one"
        lines.append(
            [number.system, number.operation, threads, f"{number.x:g} MB", f"{number.mib_per_s:.0f}", found, about]
        )
    title = "The paper's numbers, on a Xeon Phi, beside ours (MiB/s)"
    heads = ["storage", "test", "threads", "file", "published", "here", "remark"]
    return Table(title, heads, lines, left=3)
