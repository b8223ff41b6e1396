"""``ferry bench --jobs``: several jobs at once, as the job file says."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from statistics import median

import msgspec
from rich.console import Console

from ferry import output_files, terminal
from ferry.errors import FerryError
from ferry.files import check_new_file
from ferry.sizes import format_size
from ferry.uris import is_uri, shown, with_suffix
from ferry_lab.render.tables import Table
from ferry_lab.results import latencies, results
from ferry_lab.results.records import GroupRow, JobRow, Latencies
from ferry_lab.run import bench, remote_files
from ferry_lab.run.job_file import CALLS_MAX, THREADS_MAX, BenchJob, read_jobs
from ferry_lab.run.measuring import Measurement, run_plan
from ferry_lab.run.plan import QUEUE_DEPTH_MAX, Cell, Plan, RuntimeSettings

_SECTOR_BYTES = 512  # the smallest unit of direct I/O that any disk has
_PERCENTILES = ("p50", "p99")


@dataclass(frozen=True)
class JobsOptions:
    """What the command line says for all jobs."""

    file: str
    interface: str  # of jobs that name none
    placement: str  # likewise
    repeats: int
    check_read: bool
    latency: bool
    cold: bool
    overwrite: bool
    json: str | None
    runtime: RuntimeSettings


def run(options: JobsOptions) -> None:
    """Measures, prints the table and writes the JSON file. Raises FerryError."""
    started = results.now()
    output_files.check_output(options.json, options.overwrite)
    cells = make_cells(options, read_jobs(options.file))
    bench.check_memory(
        options.runtime.cache_bytes,
        max(
            sum(cell.transfer_bytes * cell.queue_depth * cell.threads * (2 if cell.read_percent else 1) for cell in of)
            for _, of in _by_group(cells)
        ),
        "bs, iodepth or numjobs",
    )
    measurement = _measure(options, cells)
    rows = [row for _, of in _by_group(cells) for row in results.make_group_rows(of, measurement.samples)]
    notes = _notes(rows)
    if options.json != "-":
        _show(terminal.output_console(), options, cells, rows, measurement, notes)
    if options.json is not None:
        settings = {
            **{name: getattr(options, name) for name in ("repeats", "check_read", "latency")},
            "jobs": {cell.id: {name: getattr(cell, name) for name in _SETTINGS} for cell in cells},
        }
        document = results.make_document("bench", settings, [measurement], rows, started=started, notes=notes)
        output_files.write_json(options.json, msgspec.to_builtins(document), options.overwrite)


# Of each job, what the document's settings repeat.
_SETTINGS = (
    *("group", "interface", "placement", "operation", "pattern", "transfer_bytes", "total_bytes", "threads"),
    *(
        "offset_bytes",
        "passes",
        "check",
        "queue_depth",
        "start_delay_ms",
        "deadline_ms",
        "time_ms",
        "ramp_ms",
        "rate_bytes_per_s",
        "read_percent",
    ),
    *("direct", "sync", "sync_every_calls", "cold"),
)


def _shown(path: str) -> str:
    """Returns a file of the working directory without that."""
    near = path if is_uri(path) else os.path.relpath(path)
    return shown(path if near.startswith("..") else near)


# ---- cells ---------------------------------------------------------------------------------------


def make_cells(options: JobsOptions, jobs: Sequence[BenchJob]) -> list[Cell]:
    """Returns what the jobs measure, in their order. Raises FerryError for what cannot be measured."""
    cells: list[Cell] = []
    for job in jobs:
        cell = _make_cell(options, job)
        others = [other for other in jobs if other.path == job.path and other is not job]
        beside = [other for other in others if other.group == job.group]
        before = [other for other in others if other.group < job.group]
        writers = [other for other in beside if other.operation != "read"]
        if job.operation == "read" and writers:
            cells.append(_read_what_is_written(job, cell, writers[0]))
        elif job.operation == "read" and any(other.operation != "read" for other in before):
            cells.append(_read_what_was_written(options, job, cell, before, cells))
        elif job.operation == "read":
            made = [other for other in cells if other.path == cell.path]
            cells.append(_read_what_is_there(job, cell, made))
        elif writers or before:
            other = (writers or before)[0]
            raise _fail(
                job, f"writes {_shown(job.path)}, which [{other.name}] uses, too; give it a filename of its own"
            )
        else:
            cells.append(_write(job, cell, is_read=bool(beside)))
    _check_names(jobs, cells)
    _check_threads(jobs)
    _check_space(cells)
    return cells


def _fail(job: BenchJob, text: str) -> FerryError:
    return FerryError(f"{job.at}: [{job.name}] {text}")


def _make_cell(options: JobsOptions, job: BenchJob) -> Cell:
    """Returns the cell but for where its file comes from."""
    interface = job.interface or options.interface
    _check_interface(job, interface)
    reads, writes = job.operation == "read", job.operation == "write"
    size_bytes = job.size_bytes or _size_of_file(job)
    if size_bytes // job.block_bytes > CALLS_MAX:
        raise _fail(job, f"makes more than {CALLS_MAX} calls in each clone; choose a larger bs, or a smaller size")
    check = job.verify or (options.check_read and not writes)
    overlaps = job.queue_depth > 1 and (job.time_based or job.passes > 1 or ":" in job.pattern)
    if check and job.operation == "mixed" and overlaps:
        flag = "verify" if job.verify else "-R"
        raise _fail(
            job, f"may read what it is writing, which {flag} cannot check; write iodepth=1, or leave out {flag}"
        )
    if job.rate_bytes_per_s and job.time_based and job.rate_bytes_per_s * job.runtime_ms < 1000 * job.block_bytes:
        raise _fail(job, "makes less than one call in its runtime; choose a higher rate or a longer runtime")
    return Cell(
        id=job.name,
        group=f"group {job.group + 1}",
        interface=interface,
        placement=(job.placement or options.placement) if interface == "ferry" else None,
        operation=job.operation,
        path=job.path,
        transfer_bytes=job.block_bytes,
        total_bytes=size_bytes * job.clones,
        pattern=job.pattern,
        threads=job.clones,
        queue_depth=job.queue_depth,
        file_per_thread=job.clones > 1 and not job.shared,
        same_part=job.clones > 1 and job.shared,
        offset_bytes=job.offset_bytes,
        passes=job.passes,
        start_delay_ms=job.start_delay_ms,
        deadline_ms=0 if job.time_based else job.runtime_ms,
        time_ms=job.runtime_ms if job.time_based else 0,
        ramp_ms=job.ramp_ms,
        rate_bytes_per_s=job.rate_bytes_per_s,
        check=check,
        latency=options.latency,
        direct=job.direct,
        sync="fsync" if job.end_fsync else "none",
        sync_every_calls=job.fsync_writes,
        cold=reads and (options.cold if job.cold is None else job.cold),
        rewrite=job.operation == "mixed",
        read_percent=job.read_percent,
        overwrite=writes and options.overwrite,
    )


def _check_interface(job: BenchJob, interface: str) -> None:
    depth_max = QUEUE_DEPTH_MAX.get(interface, 1)
    if job.queue_depth > depth_max:
        raise _fail(
            job,
            f"has iodepth={job.queue_depth}, and interface {interface} at most {depth_max}; "
            "choose less, or ioengine=ferry (63) or io_uring (1024)",
        )
    if job.placement and interface != "ferry":
        raise _fail(job, f"has a placement, which is for interface ferry, not {interface}; leave it out")
    if is_uri(job.path) and (interface != "ferry" or job.direct):
        raise _fail(job, "has a URI, which is for ioengine=ferry, without direct; leave those out or name a file")
    if job.direct and interface == "mmap":
        raise _fail(job, "has direct=1, which no mapping can do; choose another ioengine")
    if job.direct and job.block_bytes % _SECTOR_BYTES:
        raise _fail(job, f"has direct=1, which moves whole sectors; choose a bs that is a multiple of {_SECTOR_BYTES}")
    if job.block_bytes > 0x7FFFF000:
        raise _fail(job, "has a bs of 2 GiB or more, which no call can move; choose less")


def _size_of_file(job: BenchJob) -> int:
    """Returns how much of a file that is there can be read in whole blocks, behind the offset."""
    if job.operation == "read" and job.shared and bench.is_there(job.path):
        behind_bytes = bench.readable_bytes(job.path) - job.offset_bytes
        size_bytes = behind_bytes // job.block_bytes * job.block_bytes
        if size_bytes > 0:
            return size_bytes
    raise _fail(job, "has no size; write one, like size=1g")


def _files_of(cell: Cell) -> list[str]:
    if not cell.file_per_thread:
        return [cell.path]
    return [with_suffix(cell.path, f".{thread:08d}") for thread in range(cell.threads)]


def _bytes_of_file(cell: Cell) -> int:
    return cell.offset_bytes + cell.total_bytes // cell.threads


def _read_what_is_written(job: BenchJob, cell: Cell, writer: BenchJob) -> Cell:
    """The writer of the same group makes the file, and writes over it meanwhile."""
    if _bytes_of_file(cell) > writer.offset_bytes + writer.size_bytes:
        raise _fail(job, f"reads more of {_shown(job.path)} than [{writer.name}] writes; choose a smaller size")
    return cell


def _read_what_was_written(
    options: JobsOptions, job: BenchJob, cell: Cell, before: Sequence[BenchJob], cells: list[Cell]
) -> Cell:
    """What an earlier group wrote is kept until it was read."""
    writer = next(other for other in before if other.operation != "read")
    (at,) = [at for at, other in enumerate(cells) if other.id == writer.name]
    if cells[at].rewrite:
        raise _fail(job, f"reads {_shown(job.path)}, which [{writer.name}] removes; give it a filename of its own")
    if _bytes_of_file(cell) > _bytes_of_file(cells[at]):
        raise _fail(job, f"reads more of {_shown(job.path)} than [{writer.name}] writes; choose a smaller size")
    if cell.offset_bytes < writer.offset_bytes:
        raise _fail(job, f"reads {_shown(job.path)} from before where [{writer.name}] writes; choose a larger offset")
    cells[at] = replace(cells[at], keep=True)
    return replace(cell, expect_pattern_seed=cells[at].seed + options.repeats - 1)


def _read_what_is_there(job: BenchJob, cell: Cell, others: Sequence[Cell]) -> Cell:
    """Files that are not there are made for the measurement."""
    files = _files_of(cell)
    missing = [path for path in files if not bench.is_there(path)]
    if missing and len(missing) < len(files):
        raise _fail(
            job, f"reads {len(files)} files, and {_shown(missing[0])} is not there; make it, or remove them all"
        )
    if missing:
        if any(_bytes_of_file(other) != _bytes_of_file(cell) for other in others):
            raise _fail(job, f"reads {_shown(job.path)}, which is not there, as other jobs do; write the same size")
        return replace(cell, make=True)
    for path in files:
        size_bytes = bench.readable_bytes(path)
        if size_bytes < _bytes_of_file(cell):
            raise _fail(
                job,
                f"reads {format_size(_bytes_of_file(cell))} of {_shown(path)}, which has {format_size(size_bytes)}; "
                "choose a smaller size",
            )
    return cell


def _write(job: BenchJob, cell: Cell, is_read: bool) -> Cell:
    """Where other jobs read it, or this one, the file is made before each repeat, and written over."""
    made = cell.rewrite or is_read
    for path in _files_of(cell):
        if made and bench.is_there(path):
            what = "makes its file" if cell.rewrite else "makes its file, which others read"
            raise _fail(job, f"{what}, and {_shown(path)} exists; name another")
        if is_uri(path):  # whose storage does not report its free space
            remote_files.check_new_file(path, cell.overwrite)
    return replace(cell, rewrite=True, overwrite=False) if made else cell


def _makes(cell: Cell) -> bool:
    return cell.operation != "read" or cell.make


def _check_names(jobs: Sequence[BenchJob], cells: Sequence[Cell]) -> None:
    """Jobs that share a file call it by one name: what they do to each other is found by that."""
    users: dict[str, list[tuple[BenchJob, Cell, str]]] = defaultdict(list)
    for job, cell in zip(jobs, cells, strict=True):
        for path in _files_of(cell):
            users[path if is_uri(path) else os.path.realpath(path)].append((job, cell, path))
    for of_file in users.values():
        first = of_file[0][0]
        for job, _, path in of_file:
            if job.path != first.path and any(_makes(cell) for _, cell, _ in of_file):
                raise _fail(
                    job,
                    f"uses {_shown(path)}, as [{first.name}] does by another name; "
                    "give both the same filename, or each a file of its own",
                )


def _check_threads(jobs: Sequence[BenchJob]) -> None:
    for _, of in groupby(jobs, lambda job: job.group):
        threads = 0
        for job in of:
            threads += job.clones
            if threads > THREADS_MAX:
                raise _fail(
                    job,
                    f"is above the {THREADS_MAX} clones that can run at once; "
                    "choose a smaller numjobs, or write stonewall",
                )


def _check_space(cells: Sequence[Cell]) -> None:
    """All files that are made in one folder must fit into it together."""
    local = {path: cell for cell in cells if _makes(cell) for path in _files_of(cell) if not is_uri(path)}
    needed_bytes: dict[str, int] = defaultdict(int)
    for path, cell in local.items():
        needed_bytes[os.path.dirname(path)] += _bytes_of_file(cell)
    for path, cell in local.items():
        check_new_file(path, needed_bytes[os.path.dirname(path)], cell.overwrite)


# ---- the measurement -----------------------------------------------------------------------------


def _by_group(cells: Sequence[Cell]) -> list[tuple[str, list[Cell]]]:
    return [(name, list(of)) for name, of in groupby(cells, lambda cell: cell.group)]


def _measure(options: JobsOptions, cells: Sequence[Cell]) -> Measurement:
    """Removes what is kept from one group to another."""
    kept = [path for cell in cells if cell.keep for path in _files_of(cell) if not bench.is_there(path)]
    plan = Plan(cells, options.repeats, options.runtime, in_order=True)
    lines = options.repeats * (len(cells) + len(_by_group(cells)))
    try:
        with terminal.progress(f"jobs of {shown(options.file)}", lines) as bar:
            return run_plan(plan, lambda _cell: bar.advance())
    finally:
        bench.remove_files(kept)


def _notes(rows: Sequence[JobRow | GroupRow]) -> list[str]:
    notes = []
    for row in rows:
        if isinstance(row, GroupRow):
            continue
        short = sum(sample.deadline_reached for sample in row.repeats)
        if short > 0:
            notes.append(f"{row.id}: runtime ended {short} of {len(row.repeats)} repeats")
        notes += bench.state_notes(row)
    return notes


# ---- the table -----------------------------------------------------------------------------------


def _show(
    console: Console,
    options: JobsOptions,
    cells: Sequence[Cell],
    rows: Sequence[JobRow | GroupRow],
    measurement: Measurement,
    notes: Sequence[str],
) -> None:
    (*_, runtime) = measurement.environment.runtimes
    for cell in cells:
        console.print(_job_line(cell), soft_wrap=True)
    if any(cell.interface == "ferry" for cell in cells):
        console.print(bench.device_line(runtime), soft_wrap=True)
    if runtime.page_cache is not None:
        console.print(str(runtime.page_cache), soft_wrap=True)
    percentiles = [f"µs, {latencies.words(name)}" for name in _PERCENTILES]
    heads = ["", "IOPS", "MiB/s", "least", "most", *percentiles, "longest", "begins, s", "ends, s"]
    lines = []
    for row in rows:
        rates = [results.bandwidth_mib_per_s(s.bytes, s.elapsed_ns) for s in row.repeats]
        begins = [s.begin_ns for s in row.repeats]
        ends = [s.begin_ns + s.elapsed_ns for s in row.repeats]
        lines.append(
            [
                row.id,
                f"{median(s.operations / max(s.elapsed_ns, 1) for s in row.repeats) * 1e9:.0f}",
                *(f"{rate:.2f}" for rate in (median(rates), min(rates), max(rates))),
                *_latency_columns(row),
                *(f"{median(times) * 1e-9:.3f}" for times in (begins, ends)),
            ]
        )
    console.print(Table("", heads, lines).shown())
    for row in rows:
        if isinstance(row, GroupRow):
            times = [median(getattr(s.server, kind) for s in row.repeats) * 1e-6 for kind in _CPU_TIMES]
            console.print(f"{row.id}: server {times[0]:.2f} ms user + {times[1]:.2f} ms system per repeat")
        else:
            state = f", {row.cache_state}" if row.cache_state else ""
            console.print(f"{row.id}: contents verified{state}", soft_wrap=True)
    for row in rows:
        if isinstance(row, JobRow) and row.latency_ns:
            console.print()
            bench.print_histogram(console, row.id, row.latency_ns)
    for note in notes:
        console.print(f"note: {note}", soft_wrap=True)


_CPU_TIMES = ("user_cpu_ns", "system_cpu_ns")


def _job_line(cell: Cell) -> str:
    word = f"mixed, {cell.read_percent} % reads," if cell.read_percent else cell.operation
    threads = f"{cell.threads} thread{'s' if cell.threads > 1 else ''}"
    line = f"[{cell.id}] {word} {cell.pattern}, {format_size(cell.transfer_bytes)} calls of {threads}"
    if cell.queue_depth > 1:
        line += f", {cell.queue_depth} in flight"
    line += f", {format_size(cell.total_bytes)}"
    if cell.passes > 1:
        line += f" {cell.passes} times"
    if cell.offset_bytes:
        line += f" from {format_size(cell.offset_bytes)} on"
    line += f": {_shown(cell.path)}, interface {cell.interface}"
    if cell.placement:
        line += f", placement {cell.placement}"
    return line + (", direct I/O (O_DIRECT)" if cell.direct else "")


def _latency_columns(row: JobRow | GroupRow) -> list[str]:
    found = [s.latency_ns for s in row.repeats if s.latency_ns is not None] if isinstance(row, JobRow) else []
    if not found:
        return ["–"] * (len(_PERCENTILES) + 1)
    if found[0].histogram:
        found = [latencies.merge(found)]
    shown_ones = latencies.shown(found)
    return [
        *(_median_us(found, name) if name in shown_ones else "–" for name in _PERCENTILES),
        f"{max(one.max for one in found) * 1e-3:.2f}",
    ]


def _median_us(found: Sequence[Latencies], name: str) -> str:
    return f"{median(getattr(one, name) for one in found) * 1e-3:.2f}"
