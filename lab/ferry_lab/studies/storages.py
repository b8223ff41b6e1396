"""The study ``storages``: speed and properties of storages (after Vladimirov et al. 2014).

Writes, writes with fsync, cold reads and re-reads in records of 4 MiB, by one thread and many with
a file each, and by file size, on every available storage; also the bare disk's speed. Uses pwrite
and pread, or Ferry's simplest calls on client libraries, because the question is about storages.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from rich.console import Console

from ferry.errors import FerryError
from ferry.files import outermost
from ferry.native import read_info
from ferry.sizes import GIB, MIB, format_size
from ferry.uris import shown, with_suffix
from ferry_lab.run.estimate import write_room_bytes
from ferry_lab.run.made_files import make_pattern_file, make_pattern_files
from ferry_lab.run.mounts import own_mounts
from ferry_lab.run.plan import RuntimeSettings
from ferry_lab.run.study import Group, Matrix, PagedFindings, PagedStudy, StudyOptions
from ferry_lab.stats import judge
from ferry_lab.studies.storages_cells import (
    FILE_BYTES,
    RAW_FILE_BYTES,
    RAW_QUEUE_DEPTH,
    RAW_TRANSFER_BYTES,
    RECORD_BYTES,
    SEED,
    Place,
    raw_cells,
    size_cells,
    thread_cells,
)
from ferry_lab.studies.storages_findings import compare, conclude
from ferry_lab.studies.storages_found import Storage, found_storages
from ferry_lab.studies.storages_network import Absent, network_storages
from ferry_lab.studies.storages_report import print_report

if TYPE_CHECKING:
    from ferry_lab.render.report import Page

SIZES = [4 * MIB, 16 * MIB, 64 * MIB, 256 * MIB, GIB]
QUICK_SIZES = [4 * MIB, 16 * MIB, 64 * MIB]
QUICK_THREADS = [1, 2, 4]
THREADS_MAX = 64
REPEATS = judge.PAIRS_MIN
QUICK_REPEATS = judge.FINDING_PAIRS_MIN
# Of the largest files, each of which takes seconds.
_LARGE_REPEATS = {256 * MIB: 8, GIB: 6}

Json = dict[str, Any]


class Storages(PagedStudy):
    """See the module."""

    name = "storages"
    takes_storage = True

    @contextlib.contextmanager
    def prepare(self, options: StudyOptions, notes: list[str]) -> Iterator[Matrix]:
        """Gives the matrix; raises FerryError."""
        sizes = QUICK_SIZES if options.quick else SIZES
        threads = QUICK_THREADS if options.quick else thread_counts()
        room_bytes = _room_bytes(sizes, threads)
        with (
            own_mounts() as mounts,
            found_storages(options.folder, room_bytes, mounts, notes) as local,
            network_storages(options.storage, local[0], room_bytes) as (network, absent),
        ):
            found, places = list(local), []
            for storage in [*local, *network]:
                place = Place(storage.name, storage.folder, storage.in_memory, storage.remote)
                try:
                    _make_files(place, sizes, threads[-1])
                except FerryError as error:
                    if storage in local:
                        raise
                    absent.append(Absent(storage.label, str(error)))
                    continue
                places.append(place)
                if storage not in local:
                    found.append(storage)
            raw = places[0] if _takes_direct_io(found[0], notes) else None
            settings = {
                "record_bytes": RECORD_BYTES,
                "file_bytes": FILE_BYTES,
                "threads": threads,
                "sizes_bytes": sizes,
                "raw": _raw_settings(found[0]) if raw else None,
                "storages": [storage.to_json() for storage in found],
                "absent": [{"label": one.label, "why": shown(one.why)} for one in absent],
                "storage": None if options.storage is None else shown(options.storage),
            }
            groups = make_groups(options, places, sizes, threads, raw)
            scratch = outermost(place.scratch for place in places)
            yield Matrix(groups, settings, scratch)

    def findings(self, rows: Sequence[Json]) -> PagedFindings:
        """Sets many threads beside one, and each storage beside that of --dir."""
        comparisons = compare(rows)
        return PagedFindings(comparisons, conclude(comparisons, rows))

    def print_tables(self, console: Console, document: Json) -> None:
        """Prints a table for each question."""
        print_report(console, document)

    def page(self, document: Json) -> Page:
        """Returns the report's plots and tables."""
        from ferry_lab.studies.storages_page import make_page  # see PagedStudy.page

        return make_page(document)


def thread_counts() -> list[int]:
    """Returns powers of two, up to twice as many threads as there are CPUs, at least four."""
    most = min(max(4, 2 * len(os.sched_getaffinity(0))), THREADS_MAX)
    return [1 << power for power in range(most.bit_length())]


def make_groups(
    options: StudyOptions,
    places: Sequence[Place],
    sizes: Sequence[int],
    threads: Sequence[int],
    raw: Place | None,
) -> dict[str, Group]:
    """Returns what is measured, by the rows' group."""
    usual = options.repeats or (QUICK_REPEATS if options.quick else REPEATS)
    groups = {"threads": Group(thread_cells(places, threads), usual, _runtime(threads[-1]))}
    for size in sizes:
        repeats = options.repeats or min(usual, _LARGE_REPEATS.get(size, usual))
        name = f"files of {format_size(size)}"
        groups[name] = Group(size_cells(places, size), repeats, _runtime(1))
    if raw is not None:
        groups["raw medium"] = Group(raw_cells(raw), usual, _runtime(1))
    return groups


def _make_files(place: Place, sizes: Sequence[int], threads: int) -> None:
    """Makes what is read. Raises FerryError."""
    for size in sorted({*sizes, RAW_FILE_BYTES}):
        path = place.path(f"sized.{size}")
        if place.remote is not None:
            place.remote.handed_out.append(path)
        make_pattern_file(path, size, SEED)
    own = place.path("own")
    if place.remote is not None:
        place.remote.handed_out += [with_suffix(own, f".{n:08d}") for n in range(threads)]
    make_pattern_files(own, FILE_BYTES, threads, SEED)


def _runtime(threads: int) -> RuntimeSettings:
    """All CPUs are the threads': plain calls need no server."""
    cpus = ",".join(str(cpu) for cpu in sorted(os.sched_getaffinity(0)))
    last = cpus.split(",")[-1]
    return RuntimeSettings(device_threads=threads, device_cpus=cpus, server_cpus=last)


def _room_bytes(sizes: Sequence[int], threads: Sequence[int]) -> int:
    """Files to read, and what the largest write needs beside them."""
    reads = sum({*sizes, RAW_FILE_BYTES}) + threads[-1] * FILE_BYTES
    written = (*sizes, threads[-1] * FILE_BYTES, RAW_FILE_BYTES)
    return reads + max(size + write_room_bytes(size) for size in written)


def _takes_direct_io(storage: Storage, notes: list[str]) -> bool:
    if storage.in_memory:
        notes.append(f"{storage.label} lies in memory: there is no disk below whose limit to show")
        return False
    answer = read_info(str(storage.folder))["path"]["direct_io"]
    if not answer["possible"]:
        notes.append(f"{storage.label} refuses direct I/O: what its disk itself gives is not shown")
    return bool(answer["possible"])


def _raw_settings(storage: Storage) -> Json:
    return {
        "medium": storage.medium,
        "transfer_bytes": RAW_TRANSFER_BYTES,
        "queue_depth": RAW_QUEUE_DEPTH,
        "file_bytes": RAW_FILE_BYTES,
    }
