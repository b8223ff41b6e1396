"""The records of a results document (``ferry.results/3``).

They define the schema: ``python -m ferry_lab.results.schema`` writes it as JSON Schema. Names
contain units. None means not applicable, and Unset missing in older documents. See
docs/reference/results-format.md.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from ferry import file_systems
from ferry.sizes import format_size

SCHEMA = "ferry.results/3"

Count = Annotated[int, Meta(ge=0)]
Positive = Annotated[int, Meta(ge=1)]
Operation = Literal["read", "write"]
CacheState = Literal["hot", "cold", "unverified", None]


def about(text: str) -> Meta:
    """Describes a field in the schema."""
    return Meta(description=text)


DeviceCacheState = Annotated[
    Literal["cold", "warm", "unverified", None],
    about(
        "of the device's page cache before the timed region, as its counters prove; null for "
        "writes and where no such cache is used"
    ),
]
Axes = Annotated[
    dict[str, str | int],
    about("what tells the row from the others of its study, by axis; empty in other documents and in older ones"),
]
RepeatNumber = Annotated[Count, about("number of the repeat, from 0")]
Segments = Annotated[Positive, about("in a shared file each has a block of every thread")]


class Record(msgspec.Struct, forbid_unknown_fields=True):
    """One object of a document, with no other fields."""


# ---- where it was measured -----------------------------------------------------------------------


class Machine(Record):
    kernel: str
    architecture: str
    cpu_model: str | None
    cpus_allowed: str
    cpus_usable: Count
    virtual_machine: bool
    cpu_governor: str | None
    memory_bytes: Count
    page_bytes: Count


class BlockDevice(Record):
    name: str
    disk: str
    driver: str | None
    model: str | None
    rotational: bool | None
    scheduler: str | None
    logical_block_bytes: int | None
    size_bytes: int | None
    kind: str | UnsetType | None = UNSET
    detail: str | UnsetType | None = UNSET
    below: list[str] | UnsetType = UNSET


class FileSystem(Record):
    mount_point: str
    type: str
    source: str
    options: str
    free_bytes: int | None
    block_device: BlockDevice | None

    def __str__(self) -> str:
        """Returns "ext4 on /dev/vda", as far as it is known."""
        return file_systems.on_source({"type": self.type, "source": self.source})


class RemoteStorage(Record):
    storage: str
    engine: str
    facts: list[str]


class ServiceCpus(Record):
    cpus: str
    threads: Count


class PageCache(Record):
    cache_bytes: Positive
    page_bytes: Annotated[int, Meta(ge=4096)]

    def __str__(self) -> str:
        """Returns its sizes."""
        pages = format_size(self.page_bytes)
        return f"page cache of {format_size(self.cache_bytes)} in the device, pages of {pages}"


class RuntimeInForce(Record):
    """Settings in force."""

    device: Literal["cpu", "cuda"]
    device_cpus: str
    device_threads: Count
    server_cpus: str
    server_threads: Count
    oversubscribed: bool
    arena_bytes: Count
    arena_pages: str
    storage_engine: str
    service: Annotated[
        ServiceCpus | None,
        about("The device's cores set aside for placement service; null where the runtime does not tell."),
    ]
    automatic_source: Annotated[
        str | None, about("what placement automatic decides from; null where the runtime does not tell")
    ]
    notes: list[str]
    page_cache: Annotated[PageCache | None, about("In the device's memory; null: there is none.")]


_VERSIONS = {"required": ["ferry", "compiler", "python", "numpy", "git_revision"]}


class Environment(Record):
    machine: Annotated[Machine | None, about("null in imports where nobody says")]
    versions: Annotated[dict[str, str | None], Meta(extra_json_schema=_VERSIONS)]
    file_systems: list[FileSystem]
    runtimes: Annotated[
        list[RuntimeInForce],
        about(
            "those of each run of ferry-bench: without a page cache for placement host and the "
            "other interfaces, with one for the other placements"
        ),
    ]
    storages: Annotated[
        list[RemoteStorage] | UnsetType, about("of URIs that were measured: which storage, and how it is reached")
    ] = UNSET


# ---- one repeat, as it was measured --------------------------------------------------------------


Bucket = tuple[Count, Count, Positive]  # from so many nanoseconds, to less than so many: so many calls


class Latencies(Record):
    """Of single calls, in nanoseconds (nearest rank, off by at most 1/128)."""

    p50: Count
    p90: Count
    p99: Count
    max: Annotated[Count, about("exact")]
    samples: Annotated[Positive, about("how many calls were timed")]
    one_call_in: Annotated[Positive, about("every so many calls one was timed")]
    p99_9: Annotated[Count | UnsetType, about("missing where another tool does not tell it")] = UNSET
    histogram: Annotated[
        list[Bucket] | UnsetType,
        about("with --latency: [from, below, calls] of every bucket that has calls, in ascending order"),
    ] = UNSET


class MixedCalls(Record):
    """Reads and writes of operation mixed apart."""

    read_operations: Count
    read_latency_ns: Latencies | None
    write_latency_ns: Latencies | None


class ThreadRates(Record):
    """Calls per second of the slowest thread, of the median one, and of the fastest."""

    min: float
    median: float
    max: float


class Usage(Record):
    user_cpu_ns: Count
    system_cpu_ns: Count
    voluntary_switches: Count
    involuntary_switches: Count


class StorageCounters(Record):
    """The kernel's counters over the same time; null where it does not tell."""

    process_read_bytes: Annotated[Count | None, about("what this process made the storage read (/proc/self/io)")]
    process_write_bytes: Annotated[Count | None, about("what it dirtied in the kernel's page cache or wrote past it")]
    device_read_bytes: Annotated[Count | None, about("what the file system's block device read, for anybody")]
    device_write_bytes: Annotated[Count | None, about("what it wrote, for anybody")]
    network_read_bytes: Annotated[
        Count | UnsetType | None,
        about("what came over this process's TCP connections; counted where the path is a URI"),
    ] = UNSET


class CacheCounters(Record):
    """The device's page cache over the same time."""

    hits: Annotated[Count, about("pages found")]
    misses: Annotated[Count, about("pages that were not there")]
    fills: Annotated[Count, about("requests that read pages")]
    fill_bytes: Annotated[Count, about("what those brought")]
    evictions: Count
    write_backs: Annotated[Count, about("requests that wrote dirty ranges")]
    write_back_bytes: Annotated[Count, about("what those wrote")]
    waits: Annotated[Count, about("for a page that another thread was filling or writing")]
    readahead_issued: Annotated[Count, about("pages asked for ahead of a reader or by prefetch")]
    readahead_used: Annotated[Count, about("of those, pages that were read then")]
    readahead_wasted: Annotated[Count, about("of those, pages that were evicted or dropped unread")]


COUNTERS = [
    *("calls", "requests", "doorbells", "parks", "staged_calls", "inline_operations"),
    *("engine_operations", "pool_operations", "bytes_read", "bytes_written"),
]


class Repeat(Record):
    """One repeat, as it was measured."""

    repeat: RepeatNumber
    elapsed_ns: Annotated[Count, about("first open begins to last close ends")]
    bytes: Count
    operations: Annotated[Count, about("calls that moved data")]
    deadline_reached: Annotated[bool, about("before everything was moved: bytes and operations are less")]
    open_ns: Count
    io_ns: Annotated[Count, about("stream: all transfers; iterative and once: time inside the calls")]
    flush_ns: Annotated[
        Count,
        about("handing what the device's page cache held back to the host's kernel; 0 where no flush was asked for"),
    ]
    sync_ns: Annotated[Count, about("fsync (mmap: msync), after the flush where there is one")]
    close_ns: Count
    compute_ns: Annotated[int | None, about("iterative and once: time in the loop outside the calls; else null")]
    first_done_ns: Annotated[Count, about("when the first thread was done, since transfers began")]
    last_done_ns: Count
    latency_ns: Latencies | None
    callers: Annotated[Usage, about("The device threads together, from before the first open to after the last close.")]
    server: Annotated[
        Usage,
        about(
            "All other threads of the measured process together, over the same time: the I/O "
            "server's and its workers, the kernel's for this process included."
        ),
    ]
    storage: StorageCounters
    cache_state: Annotated[
        CacheState, about("of the file in the host's page cache before the timed region; null for writes")
    ]
    device_cache_state: DeviceCacheState
    verified: Annotated[bool, Meta(extra_json_schema={"const": True})]
    pattern_seed: Annotated[int | None, about("of what was written; null for reads")]
    counters: Annotated[
        dict[str, Count],
        Meta(description="Ferry's own counters over the same time.", extra_json_schema={"required": COUNTERS}),
    ]
    cache: Annotated[CacheCounters | None, about("null where no such cache is used")]
    mixed: Annotated[MixedCalls | UnsetType, about("of operation mixed alone")] = UNSET
    thread_operations_per_s: Annotated[
        ThreadRates | UnsetType, about("each thread's calls over the time that its transfers took")
    ] = UNSET


GroupTime = Annotated[
    Count, about("when the first file was opened, or a ramp was over, since all jobs of the group began")
]


class JobRepeat(Record):
    """One repeat of a job of a group. What is counted for the whole process is the group's."""

    repeat: RepeatNumber
    begin_ns: GroupTime
    elapsed_ns: Annotated[Count, about("first open begins to last close ends")]
    bytes: Count
    operations: Annotated[Count, about("calls that moved data")]
    deadline_reached: Annotated[bool, about("before everything was moved: bytes and operations are less")]
    open_ns: Count
    io_ns: Annotated[Count, about("all transfers")]
    flush_ns: Count
    sync_ns: Annotated[Count, about("fsync (mmap: msync)")]
    close_ns: Count
    first_done_ns: Annotated[Count, about("when the first thread was done, since transfers began")]
    last_done_ns: Count
    latency_ns: Latencies | None
    callers: Annotated[Usage, about("its threads together, from before the first open to when all jobs had ended")]
    cache_state: Annotated[
        CacheState,
        about(
            "of its file in the host's page cache before the timed region, confirmed by what the storage gave the "
            "whole group; null for writes"
        ),
    ]
    verified: Annotated[bool, Meta(extra_json_schema={"const": True})]
    pattern_seed: Annotated[int | None, about("of what was written; null for reads")]
    thread_operations_per_s: ThreadRates
    mixed: Annotated[MixedCalls | UnsetType, about("of operation mixed alone")] = UNSET


class GroupRepeat(Record):
    """One repeat of a group: its jobs together."""

    repeat: RepeatNumber
    begin_ns: GroupTime
    elapsed_ns: Annotated[Count, about("the first job's open begins to the last job's close ends")]
    io_ns: Annotated[Count, about("from the first transfer of any job to the last")]
    bytes: Annotated[Count, about("of all jobs")]
    operations: Count
    callers: Annotated[Usage, about("the threads of all jobs")]
    server: Annotated[Usage, about("all other threads of the measured process, over the same time")]
    storage: StorageCounters
    counters: Annotated[
        dict[str, Count],
        Meta(description="Ferry's own counters over the same time.", extra_json_schema={"required": COUNTERS}),
    ]
    cache: Annotated[CacheCounters | None, about("null where no job's calls go through the device's page cache")]


class ImportedCallers(Record):
    user_cpu_ns: Count
    system_cpu_ns: Count
    context_switches: Count


class ImportedRepeat(Record):
    """One repeat, as another tool measured it; null is what it does not tell."""

    repeat: RepeatNumber
    elapsed_ns: Annotated[Count, about("first open begins to last close ends")]
    bytes: Count
    operations: Annotated[Count, about("calls that moved data")]
    open_ns: Count | None
    io_ns: Count
    close_ns: Count | None
    latency_ns: Latencies | None
    callers: Annotated[
        ImportedCallers | None, about("CPU time, and voluntary and involuntary context switches together")
    ]


MetadataPhase = Literal["create", "stat", "read", "remove"]


class MetadataRepeat(Record):
    """One phase of one repeat of ``ferry metadata``."""

    repeat: RepeatNumber
    phase: MetadataPhase
    files: Annotated[Positive, about("of all threads")]
    elapsed_ns: Annotated[Positive, about("from when the first thread begins to when the last one ends")]
    latency_ns: Annotated[Latencies, about("of each file: create and read open, transfer and close")]
    callers: Usage


class RanksUsage(Usage):
    """Of all ranks; calls: system calls that read or wrote, on whatever descriptor."""

    read_calls: Count
    write_calls: Count


class MachineUsage(Record):
    """Of all processes of rank 0's machine; network: sent over all interfaces, loopback included."""

    user_cpu_ns: Count
    system_cpu_ns: Count
    context_switches: Count
    network_bytes: Count
    network_packets: Count


class TransferCounts(Record):
    """Of all ranks; remote: of the messages those that crossed between nodes."""

    messages: Count
    message_bytes: Count
    remote_messages: Count
    remote_bytes: Count
    shared_bytes: Count
    storage_requests: Count
    storage_bytes: Count
    storage_opens: Count
    gpu_bytes: Count


class Phases(Record):
    plan_ns: Count
    exchange_ns: Count
    pack_ns: Count
    file_io_ns: Count
    sync_ns: Count
    wait_ns: Count


class TimeSplit(Record):
    """Over the ranks."""

    mean: Phases
    maximum: Phases


class GrantedStripes(Record):
    """That Ferry's views were granted, and why these."""

    stripe_bytes: Count
    stripe_count: Count
    reason: str


class RanksRepeat(Record):
    """One repeat of many ranks; null is what the interface does not tell."""

    repeat: RepeatNumber
    elapsed_ns: Annotated[Count, about("open, transfers, sync and close, each as long as the slowest rank needs")]
    open_ns: Count
    io_ns: Count
    sync_ns: Count
    close_ns: Count
    bytes: Count
    operations: Annotated[Count, about("calls of the program, by all ranks")]
    writers: Annotated[
        Count | None, about("ranks that read or wrote the files; null where the interface does not tell")
    ]
    method: str | None
    reason: Annotated[str | None, about("why this method")]
    oversubscribed: Annotated[bool, about("a node had more ranks than CPUs")]
    ranks_usage: RanksUsage
    machine_usage: MachineUsage
    counts: TransferCounts | None
    time_split: TimeSplit | None
    stripes: GrantedStripes | None
    layout: Annotated[dict[str, Any] | None, about("as granted; null where nothing is striped")]
    cache_state: CacheState
    verified: bool
    pattern_seed: Annotated[Count | None, about("null where a file was read that was there")]
    # Of ranks that stream.
    deadline_reached: Annotated[bool | UnsetType, about("before a rank had moved everything")] = UNSET
    latency_ns: Annotated[Latencies | UnsetType | None, about("of the calls of all ranks")] = UNSET
    mixed: Annotated[MixedCalls | UnsetType, about("of operation mixed alone")] = UNSET


# ---- one point of the matrix ---------------------------------------------------------------------


class Summary(Record):
    """One metric over all repeats; its unit is in the metric's name."""

    count: Positive
    mean: float
    median: float
    median_low_95: Annotated[float, about("lower 95 % bootstrap bound of the median")]
    median_high_95: Annotated[float, about("upper 95 % bootstrap bound of the median")]
    standard_deviation: Annotated[float | None, about("of a sample (n - 1); null for one repeat")]
    minimum: float
    maximum: float


SomeSummary = Summary | UnsetType


class Metrics(Record):
    bandwidth_mib_per_s: Summary
    elapsed_ns: Summary
    io_ns: Summary
    operations_per_s: Summary
    flush_ns: SomeSummary = UNSET
    bandwidth_with_flush_mib_per_s: SomeSummary = UNSET
    sync_ns: SomeSummary = UNSET
    bandwidth_with_sync_mib_per_s: SomeSummary = UNSET
    compute_ns: SomeSummary = UNSET
    loop_ns: SomeSummary = UNSET
    loop_with_sync_ns: SomeSummary = UNSET


class RanksMetrics(Record):
    bandwidth_mib_per_s: Summary
    bandwidth_with_sync_mib_per_s: Summary
    bandwidth_open_to_close_mib_per_s: Summary
    open_ns: Summary
    io_ns: Summary
    sync_ns: Summary
    close_ns: Summary
    elapsed_ns: Summary
    operations_per_s: Summary
    ranks_user_cpu_ns: Summary
    ranks_system_cpu_ns: Summary
    ranks_context_switches: Summary
    read_and_write_calls: Summary
    machine_user_cpu_ns: Summary
    machine_system_cpu_ns: Summary
    machine_context_switches: Summary
    machine_network_bytes: Summary
    machine_network_packets: Summary
    messages: SomeSummary = UNSET
    message_bytes: SomeSummary = UNSET
    remote_messages: SomeSummary = UNSET
    remote_bytes: SomeSummary = UNSET
    shared_bytes: SomeSummary = UNSET
    storage_requests: SomeSummary = UNSET
    storage_bytes: SomeSummary = UNSET
    storage_opens: SomeSummary = UNSET
    gpu_bytes: SomeSummary = UNSET
    communication_mean_ns: SomeSummary = UNSET
    pack_mean_ns: SomeSummary = UNSET
    file_mean_ns: SomeSummary = UNSET
    communication_maximum_ns: SomeSummary = UNSET
    pack_maximum_ns: SomeSummary = UNSET
    file_maximum_ns: SomeSummary = UNSET


class Row:
    """What was measured, summaries, every repeat: one of the records below."""

    if TYPE_CHECKING:  # what all have
        id: str
        group: str
        axes: dict[str, str | int]
        program: str
        operation: Operation
        path: str
        transfer_bytes: int
        total_bytes: int
        cache_state: str | None
        device_cache_state: str | None
        metrics: Any
        repeats: list[Any]

    def metric(self, name: str) -> Summary:
        """Returns the summary of a metric whose name is data."""
        summary: Summary = getattr(self.metrics, name)
        return summary


class MeasuredRow(Record, Row):
    """One point of the matrix: what was measured, summaries, every repeat."""

    id: str
    group: str
    interface: Literal["ferry", "posix", "mmap", "uring"]
    placement: Literal["host", "compute", "service", "automatic", None]
    program: Annotated[
        Literal["stream", "iterative", "once", "files"],
        about("files: each transfer in a file of its own, opened and closed within it"),
    ]
    operation: Literal["read", "write", "mixed"]
    pattern: Annotated[
        str,
        Meta(
            pattern=r"^(sequential|random|zipf:[0-9.]+|hotspot:[0-9]+/[0-9]+)$",
            description="zipf:EXPONENT and hotspot:FILE/CALLS (percent): a place is drawn for each call",
        ),
    ]
    path: str
    transfer_bytes: Positive
    total_bytes: Positive
    threads: Positive
    queue_depth: Positive
    segments: Segments
    file_per_thread: bool
    reorder: Annotated[Literal["none", "neighbour", "random"], about("whose part a thread reads")]
    barriers: Annotated[bool, about("threads begin opening, moving, syncing and closing together")]
    deadline_ms: Annotated[Count, about("transfers start no later than this after the first; 0: none")]
    check: Annotated[
        bool,
        about(
            "reads: every transfer compared within the timed region; writes: read back through the "
            "interface after each repeat, too"
        ),
    ]
    direct: bool
    sync: Literal["none", "flush", "fsync", "flush+fsync"]
    cache_state: Annotated[
        Literal["hot", "cold", "guest-cold", "client-cold", "unverified", None],
        about(
            "of all repeats, unverified where they differ. guest-cold: cold here, but in a virtual "
            "machine, whose host may have the data in a cache of its own; client-cold: of a URI, "
            "every byte came from its servers, which may have had the data in caches of their own. "
            "A URI's row is hot where its client library answered from its own memory, and null "
            "where the device's cache was warm"
        ),
    ]
    device_cache_state: DeviceCacheState
    verified: bool
    metrics: Metrics
    repeats: Annotated[list[Repeat], Meta(min_length=1)]
    rewrite: Annotated[bool | UnsetType, about("writes: over what the file held already")] = UNSET
    buffer_offset_bytes: Annotated[Count | UnsetType, about("of the buffer from a page's beginning")] = UNSET
    cache_switches: Annotated[
        list[str] | UnsetType | None,
        about("optimisations of the device's page cache that were on; null: all, or there is no such cache"),
    ] = UNSET
    read_percent: Annotated[
        Count | UnsetType, about("operation mixed: so many of the calls read, the others write; else 0")
    ] = UNSET
    time_ms: Annotated[Count | UnsetType, about("transfers went on for so long, over and over; 0: once")] = UNSET
    ramp_ms: Annotated[Count | UnsetType, about("before that, and not counted in bytes, operations and times")] = UNSET
    rate_bytes_per_s: Annotated[
        Count | UnsetType,
        about("of each thread, at most; latencies count from when a call was due. 0: as fast as it went"),
    ] = UNSET
    latency_ns: Annotated[Latencies | UnsetType, about("with --latency: of all repeats together")] = UNSET
    open_files: Annotated[
        Count | UnsetType, about("reads: the data lay in so many files, which were all open; 0: in one")
    ] = UNSET
    axes: Axes = {}


class JobRow(Record, Row):
    """A job of a group, which ran together with the others."""

    id: Annotated[str, about("the job's name")]
    group: Annotated[str, about("id of the group's row")]
    interface: Literal["ferry", "posix", "mmap", "uring"]
    placement: Literal["host", "compute", "service", "automatic", None]
    program: Literal["stream"]
    operation: Literal["read", "write", "mixed"]
    pattern: Annotated[str, Meta(pattern=r"^(sequential|random|zipf:[0-9.]+)$")]
    path: str
    transfer_bytes: Positive
    total_bytes: Annotated[Positive, about("of all threads; with a time they go over it again and again")]
    threads: Positive
    queue_depth: Positive
    file_per_thread: bool
    same_part: Annotated[bool, about("every thread goes over the whole file, behind offset_bytes")]
    start_delay_ms: Annotated[Count, about("after the group's begin")]
    deadline_ms: Annotated[Count, about("transfers start no later than this after the first; 0: none")]
    time_ms: Annotated[Count, about("transfers went on for so long, over and over; 0: once")]
    ramp_ms: Annotated[Count, about("before that, and not counted in bytes, operations and times")]
    rate_bytes_per_s: Annotated[
        Count, about("of each thread, at most; latencies count from when a call was due. 0: as fast as it went")
    ]
    read_percent: Annotated[Count, about("operation mixed: so many of the calls read, the others write; else 0")]
    check: Annotated[
        bool,
        about(
            "reads: every transfer compared within the timed region; writes: read back through the "
            "interface after each repeat, too"
        ),
    ]
    direct: bool
    sync: Literal["none", "fsync"]
    sync_every_calls: Annotated[
        Count, about("each thread syncs behind so many of its writes, within io_ns; 0: not before")
    ]
    cache_state: Annotated[
        Literal["hot", "cold", "unverified", None], about("of all repeats, unverified where they differ")
    ]
    device_cache_state: None
    verified: bool
    metrics: Metrics
    repeats: Annotated[list[JobRepeat], Meta(min_length=1)]
    latency_ns: Annotated[Latencies | UnsetType, about("with --latency: of all repeats together")] = UNSET
    offset_bytes: Annotated[Count | UnsetType, about("of each file, where the data begins")] = UNSET
    passes: Annotated[Positive | UnsetType, about("so often each thread goes over its data in a repeat")] = UNSET
    axes: Axes = {}


class GroupRow(Record, Row):
    """The jobs of a group together."""

    id: str
    group: str
    jobs: Annotated[list[str], Meta(min_length=1, description="ids of their rows")]
    program: Literal["group"]
    operation: Literal["read", "write", "mixed"]
    path: None
    transfer_bytes: Annotated[Positive | None, about("null where the jobs' differ")]
    total_bytes: Annotated[Positive, about("of all jobs")]
    cache_state: None
    device_cache_state: None
    verified: bool
    metrics: Metrics
    repeats: Annotated[list[GroupRepeat], Meta(min_length=1)]
    axes: Axes = {}


class Source(Record):
    """What measured it, and the files that say so."""

    tool: Literal["ior", "fio"]
    version: str
    command: str | None
    started: str | None
    files: Annotated[list[str], Meta(min_length=1)]


class ImportedRow(Record, Row):
    """What another tool measured."""

    id: str
    group: Literal["import"]
    interface: Annotated[str, about("Ferry's name where it has that interface, else the tool's")]
    placement: None
    program: Literal["stream"]
    operation: Operation
    pattern: Literal["sequential", "random"]
    path: str
    transfer_bytes: Positive
    total_bytes: Positive
    threads: Positive
    queue_depth: Positive
    segments: Segments
    file_per_thread: bool
    direct: bool | None
    sync: Annotated[Literal["none", "fsync"], about("fsync lies within io_ns")]
    cache_state: Annotated[Literal["unverified", None], about("nobody proved it; null for writes")]
    device_cache_state: None
    verified: Annotated[bool, about("whether the tool was asked to compare the contents")]
    metrics: Metrics
    repeats: Annotated[list[ImportedRepeat], Meta(min_length=1)]
    source: Source
    axes: Axes = {}


class RanksRow(Record, Row):
    """One point of the matrix that many MPI ranks measured together."""

    id: str
    group: str
    interface: Annotated[
        Literal["posix", "mpiio", "ferry", "native"],
        about("mpiio: the MPI library's own; ferry: file views of libferry_mpi; native: Ferry's storage"),
    ]
    method: Annotated[str | None, about("of interface ferry: as asked for")]
    collective: Annotated[
        bool, about("of interface mpiio, in ferry bench also of ferry: by collective calls; a study's ferry always is")
    ]
    program: Literal["ranks"]
    operation: Literal["read", "write", "mixed"]
    pattern: Literal["blocks", "interleaved"]
    path: str
    ranks: Positive
    writers: Positive | None
    file_per_writer: bool
    transfer_bytes: Positive
    total_bytes: Positive
    piece_bytes: Positive | None
    buffer_bytes: Positive | None
    stripe_bytes: Positive | None
    stripe_count: Positive | None
    byte_order: Literal["native", "little", "big"]
    element_bytes: Positive | None
    sync: Literal["none", "fsync"]
    oversubscribed: bool
    cache_state: Annotated[
        Literal["hot", "cold", "guest-cold", "unverified", None],
        about(
            "of all repeats, unverified where they differ. guest-cold: cold here, but in a virtual "
            "machine, whose host may have the data in a cache of its own"
        ),
    ]
    device_cache_state: None
    verified: bool
    metrics: RanksMetrics
    repeats: Annotated[list[RanksRepeat], Meta(min_length=1)]
    streams: Annotated[
        bool | UnsetType,
        about("ferry bench: each rank moves its data through one buffer of a transfer; else all of it is in memory"),
    ] = UNSET
    segments: Annotated[Positive | UnsetType, about("in a shared file each has a block of every rank")] = UNSET
    file_per_rank: bool | UnsetType = UNSET
    random: Annotated[bool | UnsetType, about("transfers in random order")] = UNSET
    reorder: Annotated[Literal["none", "neighbour", "random"] | UnsetType, about("whose data a rank reads")] = UNSET
    check: Annotated[
        bool | UnsetType,
        about(
            "reads: every transfer compared within the timed region; writes: read back through the "
            "interface after each repeat, too"
        ),
    ] = UNSET
    offsets: Annotated[
        str | UnsetType,
        about("sequential, random; zipf:EXPONENT and hotspot:FILE/CALLS (percent): a place is drawn for each call"),
    ] = UNSET
    deadline_ms: Annotated[Count | UnsetType, about("as of threads, likewise below")] = UNSET
    time_ms: Count | UnsetType = UNSET
    ramp_ms: Count | UnsetType = UNSET
    rate_bytes_per_s: Annotated[Count | UnsetType, about("of each rank")] = UNSET
    read_percent: Count | UnsetType = UNSET
    direct: bool | UnsetType = UNSET
    latency_ns: Annotated[Latencies | UnsetType, about("with --latency: of all ranks and repeats together")] = UNSET
    axes: Axes = {}


# ---- the document --------------------------------------------------------------------------------


class Comparison(Record):
    """Two rows set beside each other: the ratio of their speeds, its noise, and what that shows."""

    group: str
    question: Annotated[
        Literal[
            "placement_and_plain",
            "two_placements",
            "automatic_and_best",
            "optimization_and_none",
            "cache_and_kernel",
            "unaligned_and_aligned",
            "many_files_and_one",
            "threads_and_one",
            "storage_and_disk",
            "subset_and_all",
            "writers_and_best",
            "interface_and_posix",
            "swapped_and_native",
            "stripes_and_default",
            "value_and_first",
        ],
        about(
            "Why the two rows are set beside each other. automatic_and_best: the best was picked on "
            "the odd pairs and the ratio is over the even ones."
        ),
    ]
    metric: str
    row: Annotated[str, about("id of the row that is judged")]
    baseline: Annotated[str, about("id of the row it is set beside")]
    program: str
    operation: Literal["read", "write", "mixed"]
    device_cache: Annotated[Literal["cold", "warm", None], about("asked for; whether it was so is in the rows")]
    transfer_bytes: Count
    total_bytes: Count
    threads: Annotated[Positive, about("threads, or ranks")]
    pairs: Positive
    ratio_median: Annotated[float, about("of the row's speed to the baseline's; above 1 is faster")]
    ratio_low_95: float
    ratio_high_95: float
    aa_median: Annotated[float, about("the same of two equal series beside them")]
    aa_low_95: float
    aa_high_95: float
    aa_spread: Annotated[float, about("width of the A/A bounds, drawn out to include 1")]
    noise: Annotated[
        float,
        Meta(ge=0, description="the largest of aa_spread and of what the neighbouring repeats of either row differ by"),
    ]
    finding: Literal["within_5_percent", "slower", "faster", "no_difference"]
    axes: Axes = {}  # the row's
    baseline_axes: Axes = {}


RANKS_STUDIES = ("interfaces", "stripes", "writers", "endian")


class Document(Record):
    """What ferry bench, ferry study and ferry import write with --json. Units are in the names."""

    schema: Literal["ferry.results/3"]
    ferry_version: str
    kind: Literal["bench", "study", "import"]
    study: Literal[
        "placements", "optimizations", "storages", "interfaces", "stripes", "writers", "endian", "scale", None
    ]
    command: list[str]
    started: str
    finished: str
    environment: Environment
    settings: dict[str, Any]
    notes: list[str]
    rows: Annotated[list[Row], Meta(min_length=1)]
    comparisons: list[Comparison]
    conclusions: list[str]


AnyMeasuredRepeat = Repeat | RanksRepeat | MetadataRepeat | JobRepeat | GroupRepeat


def read_repeat(parsed: Any) -> AnyMeasuredRepeat:
    """Returns the repeat that was parsed from JSON. Raises msgspec.ValidationError."""
    if "phase" in parsed:
        return msgspec.convert(parsed, MetadataRepeat)
    if "begin_ns" in parsed:
        return msgspec.convert(parsed, JobRepeat if "open_ns" in parsed else GroupRepeat)
    return msgspec.convert(parsed, RanksRepeat if "ranks_usage" in parsed else Repeat)


def read_document(parsed: Any) -> Document:
    """Returns the document that was parsed from JSON. Raises msgspec.ValidationError."""
    return msgspec.convert(parsed, Document, dec_hook=_read_row)


def _read_row(_kind: type, parsed: Any) -> Row:
    kind: type[Row] = MeasuredRow
    if "source" in parsed:
        kind = ImportedRow
    elif "ranks" in parsed:
        kind = RanksRow
    elif "jobs" in parsed:
        kind = GroupRow
    elif "start_delay_ms" in parsed:
        kind = JobRow
    return msgspec.convert(parsed, kind)
