"""Results without measuring: rows with chosen times, and a whole document of them."""

from __future__ import annotations

import datetime
import io
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
from ferry.sizes import MIB
from ferry_lab.render import html
from ferry_lab.render.terminal import print_study
from ferry_lab.results import results
from ferry_lab.results.records import (
    COUNTERS,
    CacheCounters,
    Document,
    Environment,
    Latencies,
    MeasuredRow,
    MixedCalls,
    Repeat,
    Row,
    StorageCounters,
    ThreadRates,
    Usage,
)
from ferry_lab.run.measuring import Measurement
from ferry_lab.run.plan import Cell
from ferry_lab.run.remote_files import Place
from ferry_lab.run.study import Group, Study, StudyOptions, conclude
from ferry_lab.studies.optimizations import SIZES as FILE_SIZES
from ferry_lab.studies.optimizations import Optimizations, make_groups
from ferry_lab.studies.optimizations_cells import KERNEL_KINDS, SystemPlace, Places
from ferry_lab.studies.placements import Placements
from ferry_lab.studies.placements_cells import (
    LARGE_SIZES,
    PIECE_BYTES,
    SIZES,
    UNFLUSHED,
    WRITE_SIZES,
    program_cells,
    read_cells,
    write_cells,
)
from ferry_lab.studies import scale_cells
from ferry_lab.studies.scale import Scale
from ferry_lab.studies.storages import SIZES as SWEEP_SIZES
from ferry_lab.studies.storages import Storages
from ferry_lab.studies.storages import make_groups as make_storage_groups
from ferry_lab.studies.storages_cells import FILE_BYTES, StoragePlace
from ferry_lab.studies.storages_found import PROPERTIES, Fact, Storage
from rich.console import Console

Json = dict[str, Any]
REPEATS = 20


def row(cell: Cell, group: str, time_ns: float, virtual_machine: bool = False) -> MeasuredRow:
    """A row whose every repeat took that long; flush, sync and computing as long as the calls."""
    follows = cell.operation == "write"
    ns = int(time_ns)
    samples = [
        sample(
            number,
            bytes=cell.total_bytes,
            io_ns=ns,
            flush_ns=ns if follows else 0,
            sync_ns=ns if follows else 0,
            compute_ns=ns if cell.computes else None,
            elapsed_ns=ns,
            cache_state=_cache_state(cell),
        )
        for number in range(REPEATS)
    ]
    return results.make_row(cell, group, samples, virtual_machine)


def sample(repeat: int = 0, **changes: Any) -> Repeat:
    """One repeat that took no time, with changes."""
    times = ("elapsed_ns", "open_ns", "io_ns", "flush_ns", "sync_ns", "close_ns")
    usage = Usage(0, 0, 0, 0)
    facts: Json = {
        **dict.fromkeys((*times, "first_done_ns", "last_done_ns"), 0),
        **{"repeat": repeat, "bytes": 1, "operations": 1, "deadline_reached": False},
        **{"callers": usage, "server": usage, "storage": StorageCounters(None, None, None, None)},
        **{"compute_ns": None, "latency_ns": None, "cache": None, "pattern_seed": None},
        **{"cache_state": None, "device_cache_state": None, "verified": True},
        "counters": dict.fromkeys(COUNTERS, 0),
    }
    return Repeat(**{**facts, **changes})


def _cache_state(cell: Cell) -> str | None:
    if cell.operation == "write":
        return None
    return "cold" if cell.cold else "hot"


_ENVIRONMENT: Json = {
    "machine": {
        "kernel": "Linux 6.1",
        "architecture": "x86_64",
        "cpu_model": "A CPU <b>& more</b>",
        "cpus_allowed": "0-1",
        "cpus_usable": 2,
        "virtual_machine": True,
        "cpu_governor": None,
        "memory_bytes": 8 << 30,
        "page_bytes": 4096,
    },
    "versions": {"ferry": "0.1.0", "compiler": "12.2.0"},
    "storages": [],
    "file_systems": [
        {
            "mount_point": "/",
            "type": "ext4",
            "source": "/dev/vda",
            "options": "rw,relatime," + ",".join(f"an_option_that_is_long={i}" for i in range(9)),
            "free_bytes": 1 << 30,
            "block_device": {
                "name": "vda",
                "disk": "vda",
                "driver": "virtio_blk",
                **dict.fromkeys(("model", "rotational", "scheduler")),
                **dict.fromkeys(("logical_block_bytes", "size_bytes")),
            },
        }
    ],
    "runtimes": [
        {
            "device": "cpu",
            "device_cpus": "0",
            "device_threads": 1,
            "server_cpus": "1",
            "server_threads": 1,
            "oversubscribed": False,
            "storage_engine": "io_uring",
            "arena_bytes": MIB,
            "arena_pages": "huge pages",
            "service": {"cpus": "", "threads": 0},
            "automatic_source": None,
            "page_cache": cache,
            "notes": ["no locked memory: the arena may be swapped out"],
        }
        for cache in (None, {"cache_bytes": 64 * MIB, "page_bytes": 65536})
    ],
}
ENVIRONMENT = msgspec.convert(_ENVIRONMENT, Environment)


def time_ns(cell: Cell, crossing_bytes: int = 64 * 1024) -> float:
    """Below ``crossing_bytes`` compute takes half as long as the others, above twice as long."""
    if cell.placement != "compute" or cell.warm:
        return 4e6
    return 2e6 if cell.transfer_bytes < crossing_bytes else 8e6


def placements_document(writes: bool = True) -> Document:
    """A document of the study placements, as complete as its report needs."""
    cells = [("read", cell) for cell in read_cells("/f", 16 * MIB, SIZES, 1)]
    if writes:
        cells += [("write", cell) for cell in write_cells("/new", 16 * MIB, WRITE_SIZES)]
        cells += [("unflushed", cell) for cell in write_cells("/new", 16 * MIB, WRITE_SIZES, UNFLUSHED)]
        large = read_cells("/large", 64 * MIB, LARGE_SIZES, 1, "large transfers")
        cells += [("large", cell) for cell in large]
    programs = program_cells("/f", "/new" if writes else None, 16 * MIB, 1)
    cells += [("programs", cell) for cell in programs]
    rows = [row(cell, group, time_ns(cell)) for group, cell in cells]
    settings = {
        "repeats": {group: REPEATS for group, _ in cells},
        "total_bytes": 16 * MIB,
        "large_total_bytes": 64 * MIB if writes else None,
        "piece_bytes": PIECE_BYTES,
        "file": None,
    }
    return document_of(Placements(), settings, rows)


def document_of(study: Study, settings: Json, rows: Sequence[Row]) -> Document:
    """A complete document of such rows, as written by a study."""
    document = results.make_document(
        "study",
        {"quick": False, **settings},
        [Measurement(ENVIRONMENT)],
        rows,
        study=study.name,
        started=datetime.datetime(2026, 1, 2, 3, 4, 5, tzinfo=datetime.UTC),
        notes=["a note <i>with markup</i>"],
        comparisons=study.compare(rows),
    )
    conclude(study, document)
    return document


def shown(study: Study, document: Json, width: int = 200) -> str:
    """What the study prints."""
    return printed(width, lambda console: print_study(console, document, *conclude(study, document)))


def printed(width: int, print_on: Callable[[Console], None]) -> str:
    """What is printed on a console of that width."""
    text = io.StringIO()
    print_on(Console(file=text, width=width, highlight=False, markup=False))
    return text.getvalue()


def report_files(study: Study, document: Json) -> dict[str, bytes]:
    """The files of its report, by their path."""
    return html.files(document, *conclude(study, document))


OPTIONS = StudyOptions("/tmp", None, False, None, None, None, False)


def optimizations_places(kernel: tuple[str, ...] = KERNEL_KINDS) -> Places:
    """Places that are not there."""

    return Places(SystemPlace("/disk"), {kind: SystemPlace(f"/{kind}") for kind in kernel})


def rows_of(
    groups: dict[str, Group], mib_ms: Callable[[Cell], float], virtual_machine: bool = False
) -> list[MeasuredRow]:
    """The rows of all cells, a MiB of which takes so long."""
    return [
        row(cell, name, cell.total_bytes / MIB * mib_ms(cell) * 1e6, virtual_machine)
        for name, group in groups.items()
        for cell in group.cells
    ]


def optimizations_document(kernel: tuple[str, ...] = KERNEL_KINDS, times: Mapping[str, float] = {}) -> Document:
    """A document of the study optimizations: each way takes 1 ms for a MiB, or that many."""
    groups = make_groups(OPTIONS, optimizations_places(kernel), FILE_SIZES)

    def mib_ms(cell: Cell) -> float:
        return times.get("-".join(str(cell.axes[n]) for n in ("way", "variant") if n in cell.axes), 1.0)

    settings = {
        "repeats": {name: group.repeats for name, group in groups.items()},
        "record_bytes": 4 * MIB,
        "file_bytes": FILE_SIZES,
        "alignment_file_bytes": 16 * MIB,
        "small_file_bytes": 8192,
        "small_total_bytes": 4 * MIB,
        "copy_engine": "absent",
        "kernel": list(kernel),
    }
    return document_of(Optimizations(), settings, rows_of(groups, mib_ms))


def storages_found() -> list[Storage]:
    """Storages that are not there: a disk, memory, a loop device."""
    facts = {name: Fact("yes", declared=name == "swap") for name in PROPERTIES}
    disk: Any = ("vda", "virtio_blk")
    return [
        Storage("ext4", "ext4 on vda", "ext4", Path("/disk"), *disk, (), facts),
        Storage("tmpfs", "tmpfs", "tmpfs", Path("/memory"), None, None, (), facts),
        Storage("xfs-loop", "xfs (loop)", "xfs", Path("/loop"), *disk, ("mkfs.xfs image",), facts),
    ]


def network_storages_found() -> list[Storage]:
    """Storages of other machines that are not there: by a client library, and as mounted."""
    facts = {name: Fact("no", declared=name == "swap") for name in PROPERTIES}
    place = Place("ceph:/", "ceph:/ferry-1.", query="?conf=/c")
    how = "by libcephfs: CephFS"
    by_library: Any = ("ceph", "CephFS (libcephfs)", "ceph", None, how, None, (), facts, place, how)
    mounted: Any = ("lustre-mounted", "Lustre (the kernel)", "lustre", Path("/lustre"), "l", None)
    return [Storage(*by_library), Storage(*mounted, (), facts, None, "mounted on /lustre")]


def storages_document(
    times: Mapping[str, float] = {}, raw: bool = True, virtual_machine: bool = True, network: bool = False
) -> Document:
    """A document of the study storages: each storage takes 1 ms for a MiB, or that many.

    Threads share the work and take as long as one would.
    """
    found, threads = storages_found() + network_storages_found() * network, [1, 2, 4]
    places = [StoragePlace(s.name, s.folder, s.in_memory, s.remote) for s in found]
    groups = make_storage_groups(OPTIONS, places, SWEEP_SIZES, threads, places[0] if raw else None)

    def mib_ms(cell: Cell) -> float:
        storage, part = str(cell.axes["storage"]), cell.axes["part"]
        return times.get(f"{storage}/{cell.threads if part == 'threads' else part}", times.get(storage, 1.0))

    settings = {
        "repeats": {name: group.repeats for name, group in groups.items()},
        "record_bytes": 4 * MIB,
        "file_bytes": FILE_BYTES,
        "threads": threads,
        "sizes_bytes": SWEEP_SIZES,
        "raw": {"medium": "vda", "transfer_bytes": MIB, "queue_depth": 8, "file_bytes": 64 * MIB} if raw else None,
        "storages": [storage.to_json() for storage in found],
        "absent": [{"label": "NFS", "why": "no server is named"}] if network else [],
    }
    return document_of(Storages(), settings, rows_of(groups, mib_ms, virtual_machine))


def scale_document(times: Mapping[str, float] = {}, tails: Mapping[str, float] = {}) -> Document:
    """A document of the study scale: a call takes 1 µs, or that many, by "axis" or "axis/value".

    ``tails``: the same of one call in a hundred, which else takes twice as long as a call. A call at a hit rate
    costs 10 µs more where it misses. The slowest caller has half of the median one's calls.
    """
    shape = scale_cells.Shape.of(quick=False)
    groups = scale_cells.make_groups(shape, scale_cells.SystemFiles("/disk"), lambda _: REPEATS)

    def of(chosen: Mapping[str, float], cell: Cell, usual: float) -> float:
        axis, value = (cell.axes[name] for name in ("axis", "value"))
        return chosen.get(f"{axis}/{value}", chosen.get(str(axis), usual))

    def made(cell: Cell, name: str) -> MeasuredRow:
        misses = 100 - int(cell.axes["value"]) if cell.axes["axis"] == "hits" else 0
        call_us = of(times, cell, 1.0) + misses * 0.1
        ns, tail = int(call_us * 1e3), int(of(tails, cell, 2.0) * call_us * 1e3)
        # One call in two hundred belongs to the tail.
        latency = Latencies(ns, ns, tail, 2 * tail, 200, 1, tail, [(ns, ns + 1, 198), (tail, tail + 1, 2)])
        cache = CacheCounters(**{**dict.fromkeys(CacheCounters.__struct_fields__, 0), "hits": 100 - misses})
        cache.misses = misses
        changes: Json = {"latency_ns": latency, "cache": cache}
        changes["thread_operations_per_s"] = ThreadRates(500.0, 1000.0, 1500.0)
        if cell.operation == "mixed":
            changes["mixed"] = MixedCalls(100, latency, latency)
        calls = cell.total_bytes // cell.transfer_bytes
        done: Json = {"bytes": cell.total_bytes, "operations": calls, "io_ns": ns * calls}
        return results.make_row(cell, name, [sample(n, **done, **changes) for n in range(8)])

    rows = [made(cell, name) for name, group in groups.items() for cell in group.cells]
    settings = {
        "repeats": {name: group.repeats for name, group in groups.items()},
        "call_bytes": scale_cells.CALL_BYTES,
        "page_bytes": scale_cells.PAGE_BYTES,
        "values": shape.values,
    }
    return document_of(Scale(), settings, rows)


DOCUMENTS = {
    "placements": placements_document,
    "optimizations": optimizations_document,
    "storages": storages_document,
    "scale": scale_document,
}
