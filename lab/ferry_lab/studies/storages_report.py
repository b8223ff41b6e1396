"""The study ``storages`` on the terminal: the paper's Table 1, and a table for each test."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich.console import Console

from ferry.sizes import MIB, format_size
from ferry_lab.render.findings import listed
from ferry_lab.render.study_text import describe_place, format_bandwidth
from ferry_lab.render.tables import Table
from ferry_lab.render.terminal import print_wrapped
from ferry_lab.studies import published
from ferry_lab.studies.storages_cells import FILE_BYTES
from ferry_lab.studies.storages_findings import (
    TESTS,
    Test,
    best_threads,
    conclude_storages,
    conclude_threads,
    scaling,
)
from ferry_lab.studies.storages_found import PROPERTIES

Json = dict[str, Any]

_STORAGES_ACROSS_MAX = 5


def print_report(console: Console, document: Json) -> None:
    """Prints the whole study; bandwidths are medians in MiB/s."""
    console.print(f"Study storages on {describe_place(document)}", soft_wrap=True)
    print_wrapped(console, how_to_read(document))
    console.print()
    for table in (*in_parts(property_table(document)), *in_parts(summary_table(document))):
        console.print(table.shown())
    for one in document["settings"].get("absent", []):
        print_wrapped(console, f"Not measured here: {one['label']}: {one['why']}", "  ")
    console.print()
    names = [storage["name"] for storage in document["settings"]["storages"]]
    for test in TESTS:
        console.print(threads_table(document, test).shown())
        for sentence in (
            *conclude_threads(test, document["comparisons"], names),
            *conclude_storages(test, document["comparisons"], names),
        ):
            print_wrapped(console, sentence, "  ")
        console.print()
        console.print(sizes_table(document, test).shown())
    if document["settings"]["raw"]:
        console.print(raw_table(document).shown())
    console.print(paper_table(document).shown())
    for note in document["notes"]:
        console.print(f"note: {note}", soft_wrap=True)


def how_to_read(document: Json) -> str:
    """Says what the numbers are."""
    settings = document["settings"]
    record, size = format_size(settings["record_bytes"]), format_size(settings["file_bytes"])
    text = (
        f"By pwrite and pread in records of {record}, a file of {size} for each thread. write is "
        "the time of the calls alone, write+sync that of the calls and the fsync after them. Cold "
        "reads are of files of which the kernel has proven to have nothing in its cache; in tmpfs "
        "and ramfs nothing is colder than a re-read, which stands for both. Medians, ± half the "
        "width of their 95 % bounds. Every transfer's contents verified."
    )
    libraries = [s["label"] for s in settings["storages"] if is_library(s)]
    if libraries:
        text += (
            f" {listed(libraries, 'and')} by Ferry's calls, placement host: their cold rows are "
            "client-cold, as every byte came from the servers, which may have had it in memory; a "
            "library that keeps what it read answers re-reads itself."
        )
    if any(row["cache_state"] == "guest-cold" for row in document["rows"]):
        text += (
            " This is a virtual machine: its cold rows are guest-cold, as the disk's host may have "
            "the data in a cache of its own."
        )
    return text


def rows_by_id(document: Json) -> dict[str, Json]:
    """Returns the rows by their ids."""
    return {row["id"]: row for row in document["rows"]}


def cold_name(document: Json) -> str:
    """Returns what cold rows are called: "cold read" or "guest-cold read"."""
    states = {row["cache_state"] for row in document["rows"]}
    return "guest-cold read" if "guest-cold" in states else "cold read"


def name_of(document: Json, test: Test) -> str:
    """Returns what a test is called here."""
    return cold_name(document) if test.operation == "cold" else test.name


def property_table(document: Json) -> Table:
    """Returns the property rows of the paper's Table 1, a column for each storage."""
    lines = []
    for storage in document["settings"]["storages"]:
        cells = []
        for name in PROPERTIES:
            fact = storage["properties"][name]
            cells.append(f"{fact['value']}{' (declared)' if fact['declared'] else ''}")
        lines.append([storage["label"], *cells])
    title = "Table 1 of the paper: what the storages are (declared: not found out here)"
    names = ["property", *PROPERTIES.values()]
    heads, *turned = (list(line) for line in zip(names, *lines, strict=True))
    return Table(title, heads, turned, left=len(heads))


def in_parts(table: Table) -> list[Table]:
    """Returns a table with a column for each storage as several that fit on a terminal."""
    count = -(-(len(table.columns) - 1) // _STORAGES_ACROSS_MAX)
    bounds = [1 + (len(table.columns) - 1) * n // count for n in range(count + 1)]
    return [
        Table(
            table.title,
            [table.columns[0], *table.columns[begin:end]],
            [[row[0], *row[begin:end]] for row in table.rows],
            table.left,
        )
        for begin, end in zip(bounds, bounds[1:], strict=False)
    ]


def is_library(storage: Json) -> bool:
    """Whether a storage is reached by its client library, past the kernel."""
    return bool(storage.get("library"))


def absent_table(document: Json) -> Table | None:
    """Returns the storages of the network that are not measured, and why; None where all are."""
    lines = [[one["label"], one["why"]] for one in document["settings"].get("absent", [])]
    return Table("Not measured here", ["storage", "why"], lines, left=2) if lines else None


def summary_table(document: Json) -> Table:
    """Returns the measured rows of the paper's Table 1: one thread, the best of many, scaling."""
    settings, rows = document["settings"], rows_by_id(document)
    names = [storage["name"] for storage in settings["storages"]]
    lines = []
    for test in TESTS:
        one, many = [], []
        for name in names:
            operation = test.operation_on(rows, name)
            row = rows[f"{operation}/{name}/1/{FILE_BYTES}"]
            one.append(format_bandwidth(row["metrics"][test.metric]))
            best = best_threads(rows, test, name, settings["threads"])
            number = format_bandwidth(best["metrics"][test.metric])
            many.append(f"{number} ({best['threads']})")
        label = name_of(document, test)
        lines += [[f"{label}, one thread", *one], [f"{label}, best of many", *many]]
    for test in TESTS:
        found = [scaling(document["comparisons"], _as_read(rows, test, n), n) for n in names]
        lines.append([f"{name_of(document, test)}, more threads", *found])
    title = (
        f"Table 1 of the paper: how fast they are (MiB/s, files of {format_size(FILE_BYTES)}; in "
        "brackets the number of threads)"
    )
    labels = [storage["label"] for storage in settings["storages"]]
    return Table(title, ["test", *labels], lines)


def _as_read(rows: dict[str, Json], test: Test, storage: str) -> Test:
    """Returns the test whose rows stand for this one on a storage."""
    operation = test.operation_on(rows, storage)
    return test if operation == test.operation else TESTS[-1]


def threads_table(document: Json, test: Test) -> Table:
    """Returns bandwidths by threads."""
    counts = document["settings"]["threads"]
    title = f"{_capital(name_of(document, test))} by threads, each with a file of its own (MiB/s)"
    ends = {str(count): f"{count}/{FILE_BYTES}" for count in counts}
    return _by_storage(document, test, title, ends)


def sizes_table(document: Json, test: Test) -> Table:
    """Returns bandwidths by file size, one thread."""
    sizes = document["settings"]["sizes_bytes"]
    title = f"{_capital(name_of(document, test))} by file size, one thread (MiB/s)"
    return _by_storage(document, test, title, {format_size(n): f"size/{n}" for n in sizes})


def _by_storage(document: Json, test: Test, title: str, ends: Mapping[str, str]) -> Table:
    """Returns a line for each storage; ``ends``: by column how its rows' ids end."""
    rows, lines = rows_by_id(document), []
    for storage in document["settings"]["storages"]:
        head = f"{test.operation_on(rows, storage['name'])}/{storage['name']}"
        found = [rows[f"{head}/{end}"] for end in ends.values()]
        states = dict.fromkeys(row["cache_state"] for row in found)
        cells = [format_bandwidth(row["metrics"][test.metric]) for row in found]
        state = ", ".join(str(state) for state in states if state is not None)
        lines.append([storage["label"], *cells, state])
    return Table(title, ["storage", *ends, "cache"], lines)


def raw_row(document: Json, test: Test) -> Json | None:
    """Returns the row of the disk itself that bounds a test, None where nothing does."""
    if document["settings"]["raw"] is None or test.name not in ("write+sync", "cold read"):
        return None
    size = document["settings"]["raw"]["file_bytes"]
    row: Json = rows_by_id(document)[f"{test.operation}/raw/1/{size}"]
    return row


def raw_table(document: Json) -> Table:
    """Returns what the disk itself gives."""
    raw, lines = document["settings"]["raw"], []
    for test in TESTS:
        row = raw_row(document, test)
        if row is not None:
            what = "write and fsync" if test.operation == "write" else "read"
            lines.append([what, format_bandwidth(row["metrics"][test.metric])])
    calls = f"{raw['queue_depth']} transfers of {format_size(raw['transfer_bytes'])} in flight"
    return Table(f"{raw['medium']} itself (MiB/s)", [f"direct I/O, {calls}", "bandwidth"], lines)


def published_mib_per_s(system: str | None, test: Test, best: bool) -> published.Number | None:
    """Returns the paper's number for a test on such a system, None where it has none."""
    for number in published.of_study("storages"):
        many = number.threads == "best"
        if (number.system, number.operation, many) == (system, test.name, best):
            return number
    return None


def in_mib_per_s(number: published.Number) -> float:
    """Returns a published number of MB/s in MiB/s."""
    assert number.unit == "MB/s", number.unit
    return number.value * 1e6 / MIB


def paper_table(document: Json) -> Table:
    """Returns every published number, beside what was found on the storage of that kind."""
    settings, rows = document["settings"], rows_by_id(document)
    tests = {test.name: test for test in TESTS}
    here = {s["paper_system"]: s["name"] for s in settings["storages"] if s["paper_system"]}
    lines = []
    for number in published.of_study("storages"):
        test, name = tests[number.operation], here.get(number.system)
        best = number.threads == "best"
        found = "not here"
        if name is not None:
            operation = test.operation_on(rows, name)
            row = rows[f"{operation}/{name}/1/{FILE_BYTES}"]
            if best:
                row = best_threads(rows, test, name, settings["threads"])
            found = f"{row['metrics'][test.metric]['median']:.0f}"
        about = number.note.removeprefix("Table 1").strip()
        lines.append(
            [
                *(number.system, number.operation, "best of many" if best else "one"),
                *(f"{number.x:g} MB", f"{in_mib_per_s(number):.0f}", found, about),
            ]
        )
    title = "The paper's numbers, on a Xeon Phi, beside ours (MiB/s)"
    heads = ["storage", "test", "threads", "file", "published", "here", "remark"]
    return Table(title, heads, lines, left=3)


def _capital(text: str) -> str:
    return text[0].upper() + text[1:]
