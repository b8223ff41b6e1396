"""``ferry bench``: one measurement, with IOR's flags and columns."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from pathlib import Path

import msgspec
import numpy as np
from rich.console import Console

from ferry import file_systems, output_files, terminal
from ferry.errors import FerryError
from ferry.files import (
    check_new_file,
    check_readable_device,
    check_readable_file,
    device_claimed,
    is_block_device,
    signals_ignored,
)
from ferry.native import Json, MeasuringError
from ferry.sizes import KIB, format_size
from ferry.uris import is_uri, shown, with_suffix
from ferry_lab.render.mpi_tables import oversubscription
from ferry_lab.results import latencies, results
from ferry_lab.results.records import JobRow, Latencies, MeasuredRow, RanksRepeat, RanksRow, Repeat, RuntimeInForce
from ferry_lab.run import ranks, remote_files
from ferry_lab.run.measuring import Measurement, read_mpi_info, remove, run_plan
from ferry_lab.run.plan import Cell, Plan, RanksCell, RuntimeSettings


@dataclass(frozen=True)
class BenchOptions:
    """The options; sizes in bytes."""

    path: str
    interface: str
    write: bool
    read: bool
    mix: int | None  # percent of reads, in the place of both
    block_bytes: int  # per task and segment
    transfer_bytes: int
    segments: int
    repeats: int
    threads: int
    ranks: int  # of mpiexec, in the place of threads; 0: none
    collective: bool  # ranks only
    queue_depth: int
    placement: str  # interface ferry only
    pattern: str
    file_per_thread: bool
    reorder: str
    barriers: bool
    deadline_s: int | None
    time_s: int | None
    ramp_s: int | None
    rate_bytes_per_s: int | None  # of each thread
    sync: bool
    check_write: bool
    check_read: bool
    latency: bool
    direct: bool
    cold: bool  # the kernel's page cache
    warm: bool  # the device's page cache
    keep: bool
    overwrite: bool
    wipe_device: bool
    json: str | None
    runtime: RuntimeSettings

    @property
    def tasks(self) -> int:
        """How many threads or ranks there are."""
        return self.ranks or self.threads

    @property
    def total_bytes(self) -> int:
        """What all of them together move in one repeat."""
        return self.block_bytes * self.segments * self.tasks

    @property
    def absolute_path(self) -> str:
        """The path, or the URI as it is, for a program in any folder."""
        return self.path if is_uri(self.path) else os.path.abspath(self.path)

    @property
    def files(self) -> list[str]:
        """The paths of the measured files, as ``ferry-bench`` names them."""
        if not self.file_per_thread:
            return [self.path]
        return [with_suffix(self.path, f".{task:08d}") for task in range(self.tasks)]


def make_cell(options: BenchOptions, operation: str, pattern_seed: int | None = None) -> Cell:
    """Returns the cell that a phase measures; ``pattern_seed`` identifies the file's contents."""
    writes = operation == "write"
    return Cell(
        id=operation,
        interface=options.interface,
        placement=options.placement if options.interface == "ferry" else None,
        operation=operation,
        path=options.absolute_path,
        transfer_bytes=options.transfer_bytes,
        total_bytes=options.total_bytes,
        pattern=options.pattern,
        threads=options.threads,
        queue_depth=options.queue_depth,
        segments=options.segments,
        file_per_thread=options.file_per_thread,
        reorder="none" if writes else options.reorder,
        barriers=options.barriers,
        deadline_ms=1000 * (options.deadline_s or 0),
        time_ms=1000 * (options.time_s or 0),
        ramp_ms=1000 * (options.ramp_s or 0),
        rate_bytes_per_s=options.rate_bytes_per_s or 0,
        check=options.check_write if writes else options.check_read,
        latency=options.latency,
        direct=options.direct,
        sync="fsync" if options.sync and operation != "read" else "none",
        cold=not writes and options.cold,
        warm=not writes and options.warm,
        overwrite=writes and options.overwrite,
        keep=writes and (options.keep or options.read),
        rewrite=operation == "mixed",
        read_percent=options.mix or 0,
        expect_pattern_seed=pattern_seed,
    )


def make_ranks_cells(options: BenchOptions) -> list[RanksCell]:
    """Returns what ranks measure one after the other; what they read is what the last repeat has written."""
    shared = RanksCell(
        id="write",
        interface=options.interface,
        operation="write",
        path=options.absolute_path,
        ranks=options.ranks,
        transfer_bytes=options.transfer_bytes,
        total_bytes=options.total_bytes,
        collective=options.collective,
        streams=True,
        segments=options.segments,
        file_per_rank=options.file_per_thread,
        offsets=options.pattern,
        deadline_ms=1000 * (options.deadline_s or 0),
        time_ms=1000 * (options.time_s or 0),
        ramp_ms=1000 * (options.ramp_s or 0),
        rate_bytes_per_s=options.rate_bytes_per_s or 0,
        latency=options.latency,
        direct=options.direct,
    )
    sync = "fsync" if options.sync else "none"
    if options.mix:
        return [
            replace(
                shared, id="mixed", operation="mixed", sync=sync, read_percent=options.mix, check=options.check_read
            )
        ]
    write = replace(
        shared, sync=sync, overwrite=options.overwrite, keep=options.keep or options.read, check=options.check_write
    )
    read = replace(
        shared,
        id="read",
        operation="read",
        reorder=options.reorder,
        check=options.check_read,
        cold=options.cold,
        expect_pattern_seed=write.seed + options.repeats - 1 if options.write else None,
    )
    return [*([write] if options.write else []), *([read] if options.read else [])]


def run(options: BenchOptions) -> None:
    """Measures, prints the table and writes the JSON file. Raises FerryError."""
    started = results.now()
    output_files.check_output(options.json, options.overwrite)
    if options.ranks:
        _check_launcher()
    else:
        check_memory(
            options.runtime.cache_bytes,
            options.transfer_bytes * options.queue_depth * options.threads * (2 if options.mix else 1),
            "-t, --queue-depth or --threads",
        )
    _check_path(options)
    claimed = options.write and is_block_device(options.path)
    with device_claimed(options.path) if claimed else nullcontext():
        phases = _measure_all(options)
    rows = [results.make_row(cell, "bench", m.samples[cell.id]) for cell, m in phases]
    notes = _notes(rows, phases[0][1])
    if options.json != "-":
        console = terminal.output_console()
        _print_head(console, options, phases[0][1])
        _print_table(console, rows)
        for note in notes:
            console.print(f"note: {note}", soft_wrap=True)
    if options.json is not None:
        measurements = [
            measurement for number, (_, measurement) in enumerate(phases) if not number or not options.ranks
        ]
        document = results.make_document("bench", _settings(options), measurements, rows, started=started, notes=notes)
        output_files.write_json(options.json, msgspec.to_builtins(document), options.overwrite)


def _check_launcher() -> None:
    info, launched = read_mpi_info(), ranks.find()
    if launched is not None and launched.by_open_mpi != info["mpi"].startswith("Open MPI"):
        raise FerryError(
            f"this mpiexec is of another MPI library than {ranks.MPI_PROGRAM} ({info['mpi']}); use {info['mpiexec']}"
        )


def _check_path(options: BenchOptions) -> None:
    if is_block_device(options.path):
        if options.ranks:
            raise FerryError(f"{options.path} is a block device, which threads measure; leave out mpiexec")
        _check_device(options)
        return
    if options.wipe_device:
        raise FerryError(f"--wipe-device is for block devices, and {shown(options.path)} is none; leave it out")
    for path in options.files:
        if not options.write and not options.mix:
            _check_size(options, path)
        elif options.mix and _is_file(path):
            raise FerryError(f"{shown(path)} exists, and --mix makes its own file; name another")
        elif is_uri(path):  # whose storage does not report its free space
            remote_files.check_new_file(path, options.overwrite)
        else:
            # All of them must fit, so check each against the total.
            check_new_file(path, options.total_bytes, options.overwrite)


def _check_device(options: BenchOptions) -> None:
    """Of a raw block device: reads change nothing, and writes must be asked for twice."""
    path = shown(options.path)
    if options.file_per_thread or options.mix:
        flag = "-F" if options.file_per_thread else "--mix"
        raise FerryError(f"{path} is a block device, and {flag} makes files; leave it out or name a file")
    if options.write and not (options.overwrite and options.wipe_device):
        raise FerryError(
            f"{path} is a block device: -r alone reads it and changes nothing; -w destroys what is on it, and needs "
            "both --overwrite and --wipe-device"
        )
    _check_size(options, options.path)


def _is_file(path: str) -> bool:
    if not is_uri(path):
        return os.path.isfile(path)
    facts = remote_files.status(path)
    return facts is not None and facts["kind"] == "file"


def _check_size(options: BenchOptions, path: str) -> None:
    needed_bytes = options.total_bytes // len(options.files)
    size_bytes = readable_bytes(path)
    if size_bytes >= needed_bytes:
        return
    asked = f"-b {format_size(options.block_bytes)}"
    if options.segments > 1:
        asked += f" -s {options.segments}"
    if options.tasks > 1 and not options.file_per_thread:
        asked += f" with {options.tasks} {'ranks' if options.ranks else 'threads'}"
    raise FerryError(
        f"{shown(path)} has {format_size(size_bytes)}, and {asked} needs {format_size(needed_bytes)}; "
        "choose a smaller -b or a larger file"
    )


def readable_bytes(path: str) -> int:
    """Returns the size of a file or block device that can be read. Raises FerryError."""
    if is_uri(path):
        return remote_files.check_readable_file(path)
    return check_readable_device(path) if is_block_device(path) else check_readable_file(path)


def check_memory(cache_bytes: int, buffer_bytes: int, sizes: str) -> None:
    """Raises FerryError, which says to choose other ``sizes``, where the memory is too small."""
    memory_bytes = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    if cache_bytes > memory_bytes:
        raise FerryError(
            f"--cache-size {format_size(cache_bytes)} is more than this machine's "
            f"memory of {format_size(memory_bytes)}; choose less"
        )
    if buffer_bytes > memory_bytes:
        raise FerryError(
            f"the buffers need {format_size(buffer_bytes)}, and this machine has "
            f"{format_size(memory_bytes)}; choose a smaller {sizes}"
        )


def _measure_all(options: BenchOptions) -> list[tuple[Cell | RanksCell, Measurement]]:
    """Writes and then reads, as asked for; removes the files it made unless kept."""
    phases: list[tuple[Cell | RanksCell, Measurement]] = []
    ours = [path for path in options.files if (options.write or options.mix) and not _is_there(options, path)]
    try:
        seed = None
        if options.ranks:
            cells = make_ranks_cells(options)
            measurement = _measure(options, cells)
            phases += [(cell, measurement) for cell in cells]
        elif options.mix:
            cell = make_cell(options, "mixed")
            return [(cell, _measure(options, [cell]))]
        elif options.write:
            cell = make_cell(options, "write")
            phases.append((cell, _measure(options, [cell])))
            seed = phases[-1][1].samples[cell.id][-1].pattern_seed
        if options.read and not options.ranks:
            cell = make_cell(options, "read", seed)
            phases.append((cell, _measure(options, [cell])))
    except MeasuringError as error:
        # Another process has just made the file: keep it.
        if error.error_number == errno.EEXIST:
            ours = []
        raise
    finally:
        if not (options.keep and phases):
            remove_files(ours)
    return phases


def _is_there(options: BenchOptions, path: str) -> bool:
    # Without --overwrite, an existing file was refused before.
    return (options.overwrite or not is_uri(path)) and is_there(path)


def is_there(path: str) -> bool:
    """Whether a file, or anything else of a mounted file system, has this name."""
    return remote_files.status(path) is not None if is_uri(path) else os.path.lexists(path)


def remove_files(paths: Sequence[str]) -> None:
    """Removes those that are there."""
    remote = [path for path in paths if is_uri(path)]
    if remote:
        with signals_ignored():
            remove(remote)
    for path in paths:
        if path not in remote:
            Path(path).unlink(missing_ok=True)


def _measure(options: BenchOptions, cells: Sequence[Cell] | Sequence[RanksCell]) -> Measurement:
    plan = Plan(cells, options.repeats, options.runtime, in_order=True)
    what = f"{' and '.join(cell.operation for cell in cells)} {shown(options.path)}"
    command = ranks.command() if options.ranks else ()
    with terminal.progress(what, options.repeats * len(cells)) as bar:
        return run_plan(plan, lambda _cell: bar.advance(), command=command)


def _notes(rows: Sequence[MeasuredRow | RanksRow], measurement: Measurement) -> list[str]:
    notes = []
    of_ranks = [row for row in rows if isinstance(row, RanksRow)]
    cpus = measurement.environment.machine.cpus_usable
    if note := oversubscription(of_ranks, cpus):
        notes.append(note)
    for row in rows:
        short = sum(sample.deadline_reached is True for sample in row.repeats)
        if short > 0:
            notes.append(f"{row.operation}: the deadline ended {short} of {len(row.repeats)} repeats")
        notes += state_notes(row)
        if row.device_cache_state == "unverified":
            notes.append(
                f"{row.operation}: unverified, because the counters of the device's page cache "
                "do not prove its state before every repeat; a larger --cache-size may help"
            )
    return notes


def state_notes(row: MeasuredRow | RanksRow | JobRow) -> list[str]:
    """Returns what the state of the host's page cache means, where that needs a word."""
    texts = {"unverified": "unverified, because the state of the page cache was not proven for every repeat"}
    if is_uri(row.path):
        texts = {
            "client-cold": "client-cold: every byte came from the server, possibly from its caches, "
            "which cannot be dropped from here",
            "hot": "hot: the storage's client library answered from its own memory, not the "
            "server; --cold drops that memory before each repeat",
            "unverified": "unverified: the network traffic does not show, for every repeat, whether "
            "the storage's client had the file in memory",
        }
    text = texts.get(row.cache_state)
    name = row.id if isinstance(row, JobRow) else row.operation
    return [f"{name}: {text}"] if text else []


# The options that the document repeats, in its order.
_SETTINGS = (
    *(
        "interface",
        "placement",
        "mix",
        "block_bytes",
        "transfer_bytes",
        "repeats",
        "threads",
        "queue_depth",
        "segments",
    ),
    *(
        "file_per_thread",
        "reorder",
        "barriers",
        "deadline_s",
        "time_s",
        "ramp_s",
        "rate_bytes_per_s",
        "pattern",
        "check_write",
        "check_read",
        "sync",
    ),
    *("latency", "direct", "cold", "warm"),
)


_RANKS_SETTINGS = (
    *("interface", "collective", "mix", "block_bytes", "transfer_bytes", "repeats", "ranks", "segments"),
    *("reorder", "deadline_s", "time_s", "ramp_s", "rate_bytes_per_s", "pattern", "check_write", "check_read"),
    *("latency", "direct", "cold"),
)


def _settings(options: BenchOptions) -> Json:
    if options.ranks:
        return {
            **{name: getattr(options, name) for name in _RANKS_SETTINGS},
            "file_per_rank": options.file_per_thread,
            "sync": "fsync" if options.sync else "none",
        }
    return {
        "device": options.runtime.device,
        **{name: getattr(options, name) for name in _SETTINGS},
        "placement": options.placement if options.interface == "ferry" else None,
        "sync": "fsync" if options.sync else "none",
    }


def _print_head(console: Console, options: BenchOptions, measurement: Measurement) -> None:
    systems = measurement.environment.file_systems
    where = ""
    if is_block_device(options.path):
        where = f", {systems[0].type}"
    elif systems:
        source = f" ({systems[0].source})" if systems[0].source else ""
        where = f" on {systems[0].type or file_systems.UNKNOWN}{source}"
    for storage in measurement.environment.storages:
        where = f" on storage {storage.storage} ({storage.engine})"
    how = ", direct I/O (O_DIRECT)" if options.direct else ""
    if options.ranks:
        calls = "collective" if options.collective else "independent"
        how += f", {calls} calls of {options.ranks} {'rank' if options.ranks == 1 else 'ranks'}"
    console.print(f"{shown(options.path)}{where}, interface {options.interface}{how}", soft_wrap=True)
    if options.ranks:
        console.print(measurement.environment.versions["mpi"], soft_wrap=True)
        return
    (runtime,) = measurement.environment.runtimes
    if options.interface == "ferry":
        for storage in measurement.environment.storages:
            for fact in storage.facts:
                console.print(fact, soft_wrap=True)
        console.print(device_line(runtime), soft_wrap=True)
        console.print(_placement_line(options.placement, runtime), soft_wrap=True)
    for note in runtime.notes:
        console.print(f"note: {note}", soft_wrap=True)


def device_line(runtime: RuntimeInForce) -> str:
    """Returns where the device and its server run, and how."""
    where = f"CPUs {runtime.device_cpus}" if runtime.device == "cpu" else runtime.device
    return (
        f"device {where}, server CPUs {runtime.server_cpus} (threads: {runtime.server_threads}), "
        f"{runtime.storage_engine}, {runtime.arena_pages}"
    )


def _placement_line(placement: str, runtime: RuntimeInForce) -> str:
    cache = runtime.page_cache
    if cache is None:
        return f"placement {placement}, no page cache in the device"
    line = f"placement {placement}, {cache}"
    service = runtime.service
    if placement != "compute" and service is not None and service.threads > 0:
        line += f", served on CPUs {service.cpus} (threads: {service.threads})"
    if placement == "automatic" and runtime.automatic_source is not None:
        line += f", decided by: {runtime.automatic_source}"
    return line


_COLUMNS = [
    *("access", "bw(MiB/s)", "IOPS", "Latency(s)", "block(KiB)", "xfer(KiB)", "open(s)"),
    *("wr/rd(s)", "close(s)", "total(s)", "iter"),
]
_COLUMN_WIDTH = 11  # as IOR's


def _print_table(console: Console, rows: Sequence[MeasuredRow | RanksRow]) -> None:
    """IOR's columns, plus fsync(s) for synced writes, which IOR counts as writing."""
    synced = any(row.sync != "none" for row in rows)
    columns = [*_COLUMNS, *(["fsync(s)"] if synced else [])]
    lines = [columns, ["-" * len(column) for column in columns]]
    for row in rows:
        lines += [_ior_line(row, sample, synced) for sample in row.repeats]
    for block in _blocks(len(columns), console.width if console.is_terminal else None):
        for line in lines:
            cells = (f"{line[column]:<{_COLUMN_WIDTH}}" for column in block)
            console.print("".join(cells).rstrip(), soft_wrap=True)
        console.print()
    for row in rows:
        console.print(_summary(row), soft_wrap=True)
        for line in _latency_lines(row):
            console.print(line, soft_wrap=True)
        if isinstance(row, MeasuredRow) and row.repeats[0].cache is not None:
            console.print(_cache_line(row), soft_wrap=True)
    for row in rows:
        if row.latency_ns:
            console.print()
            print_histogram(console, row.operation, row.latency_ns)


def _blocks(columns: int, width: int | None) -> list[list[int]]:
    """Returns the columns to print side by side: all, unless the terminal is too narrow.

    Each block then repeats access and iter, which name the line.
    """
    if width is None or columns * _COLUMN_WIDTH <= width:
        return [list(range(columns))]
    keys = (_COLUMNS.index("access"), _COLUMNS.index("iter"))
    others = [column for column in range(columns) if column not in keys]
    count = max(width // _COLUMN_WIDTH - len(keys), 1)
    return [sorted([*keys, *others[first : first + count]]) for first in range(0, len(others), count)]


def _ior_line(row: MeasuredRow | RanksRow, sample: Repeat | RanksRepeat, synced: bool) -> list[str]:
    io_s, total_s = sample.io_ns * 1e-9, sample.elapsed_ns * 1e-9
    tasks, depth = (row.ranks, 1) if isinstance(row, RanksRow) else (row.threads, row.queue_depth)
    in_flight = tasks * depth
    line = [
        row.operation,
        f"{results.bandwidth_mib_per_s(sample.bytes, sample.elapsed_ns):.2f}",
        f"{sample.operations / io_s:.0f}",
        f"{io_s * in_flight / sample.operations:.6f}",
        f"{row.total_bytes / tasks / row.segments / KIB:.0f}",
        f"{row.transfer_bytes / KIB:.2f}",
        f"{sample.open_ns * 1e-9:.6f}",
        f"{io_s:.6f}",
        f"{sample.close_ns * 1e-9:.6f}",
        f"{total_s:.6f}",
        str(sample.repeat),
    ]
    if synced:
        line.append(f"{sample.sync_ns * 1e-9:.6f}" if row.sync != "none" else "-")
    return line


def _summary(row: MeasuredRow | RanksRow) -> str:
    total = [results.bandwidth_mib_per_s(s.bytes, s.elapsed_ns) for s in row.repeats]
    state = f", {row.cache_state}" if row.cache_state else ""
    state += f", device cache {row.device_cache_state}" if row.device_cache_state else ""
    verified = "contents verified" if row.verified else "contents NOT verified"
    if isinstance(row, RanksRow):
        cpu = f"ranks {_cpu_time(row, 'ranks_usage')}"
    else:
        cpu = f"callers {_cpu_time(row, 'callers')}, server {_cpu_time(row, 'server')}"
    return (
        f"{row.operation}: median {np.median(total):.2f} MiB/s ({min(total):.2f} to "
        f"{max(total):.2f}){state}, {verified}; CPU time per repeat: {cpu}"
    )


def _latency_lines(row: MeasuredRow | RanksRow) -> Iterator[str]:
    """Latency of single calls; where they are mixed, also of reads and writes apart."""
    calls = sum(sample.operations for sample in row.repeats)
    yield from _latency_line(f"{row.operation}: single calls", [s.latency_ns for s in row.repeats], calls)
    mixed = [sample.mixed for sample in row.repeats if sample.mixed]
    if mixed:
        reads = sum(one.read_operations for one in mixed)
        yield from _latency_line(f"{row.operation}: reads", [one.read_latency_ns for one in mixed], reads)
        yield from _latency_line(f"{row.operation}: writes", [one.write_latency_ns for one in mixed], calls - reads)


def _latency_line(head: str, of_repeats: Sequence[Latencies | None], calls: int) -> Iterator[str]:
    """Latencies of all together or medians of the repeats' percentiles, and the longest call."""
    found = [one for one in of_repeats if one is not None]
    if not found:
        return
    if found[0].histogram:
        found = [latencies.merge(found)]
    texts = [f"{latencies.words(name)} within {_median_us(found, name)}" for name in latencies.shown(found)]
    longest = max(one.max for one in found) * 1e-3
    timed = sum(one.samples for one in found)
    yield f"{head}: {', '.join(texts)}, longest {longest:.2f} µs ({timed} of {calls} calls timed)"


def _median_us(found: Sequence[Latencies], percentile: str) -> str:
    return f"{float(np.median([getattr(one, percentile) for one in found])) * 1e-3:.2f} µs"


_BAR_WIDTH = 40


def print_histogram(console: Console, name: str, found: Latencies) -> None:
    """A line for each power of two; the longest bar has the most calls."""
    console.print(f"{name}: latency of single calls (µs, calls, share)", soft_wrap=True)
    buckets = latencies.by_powers_of_two(found.histogram or [])
    most = max(calls for _, _, calls in buckets)
    for low, high, calls in buckets:
        share, bar = 100 * calls / found.samples, "#" * round(_BAR_WIDTH * calls / most)
        line = f"{low * 1e-3:>11.2f} to {high * 1e-3:<11.2f} {calls:>10} {share:>6.2f} %  {bar}"
        console.print(line.rstrip(), soft_wrap=True)


def _cpu_time(row: MeasuredRow | RanksRow, whose: str) -> str:

    def median_ms(kind: str) -> float:
        times = [getattr(getattr(sample, whose), kind) for sample in row.repeats]
        return float(np.median(times)) * 1e-6

    return f"{median_ms('user_cpu_ns'):.2f} ms user + {median_ms('system_cpu_ns'):.2f} ms system"


def _cache_line(row: MeasuredRow) -> str:
    """Counters of the device's page cache; medians of the repeats."""

    def median(name: str) -> int:
        return int(np.median([getattr(sample.cache, name) for sample in row.repeats]))

    def size(name: str) -> str:
        return format_size(median(name))

    return (
        f"{row.operation}: page cache per repeat: {median('hits')} hits, {median('misses')} "
        f"misses, {median('fills')} fills ({size('fill_bytes')}), {median('evictions')} evictions, "
        f"{median('write_backs')} write-backs ({size('write_back_bytes')}), {median('waits')} "
        f"waits, readahead {median('readahead_issued')} issued, {median('readahead_used')} used, "
        f"{median('readahead_wasted')} wasted"
    )
