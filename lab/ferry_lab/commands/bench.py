"""``ferry bench``: its flags, named after IOR's, and which of them go together."""

from __future__ import annotations

import functools
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from ferry import sizes
from ferry.errors import FerryError
from ferry.flags import JSON, OVERWRITE, PATH_TYPE, CountType, SizeType
from ferry.uris import is_uri
from ferry_lab.run import ranks
from ferry_lab.run.plan import DEVICES, INTERFACES, PLACEMENTS, QUEUE_DEPTH_MAX, RuntimeSettings
from ferry_lab.stats.limits import FINDING_PAIRS_MIN

if TYPE_CHECKING:
    from ferry_lab.run.bench import BenchOptions

_THREADS = CountType(1, 4096)
# What the runtime is asked for.
_RUNTIME = (
    *("device", "server_threads", "device_cpus", "server_cpus", "engine"),
    *("service_threads", "cache_bytes", "page_bytes"),
)
# What the device's page cache is asked for: option and flag.
_CACHE_FLAGS = {
    "cache_bytes": "--cache-size",
    "page_bytes": "--page-size",
    "service_threads": "--service-threads",
    "warm": "--warm",
}
_ZIPF_EXPONENT_MAX = 10
_SECONDS_MAX = 31_536_000  # a year
_SECTOR_BYTES = 512  # the smallest unit of direct I/O that any disk has

_INTERFACES = (*INTERFACES, "mpiio")
_OF_RANKS = ("ferry", "posix", "mpiio")
_RANKS_TRANSFER_BYTES_MAX = sizes.GIB  # MPI counts the bytes of a call with an int

# IOR's interfaces that `-a` lacks, and what to use instead.
_IOR_RANKS = "mpiexec -n 8 ferry bench -a mpiio measures what it stands on"
_IOR_INTERFACES = {
    "AIO": "-a uring keeps several calls in flight",
    "CEPHFS": "-a ferry reaches CephFS by a URI, ceph:/file",
    "HDF5": _IOR_RANKS,
    "NCMPI": _IOR_RANKS,
}

_NO_VIEWS = "ferry study interfaces and ferry study writers measure with views and hints"
# IOR's options that are missing here, and what to use instead.
_IOR_OPTIONS = {
    "-A": "--json FILE takes results by a name of yours",
    "-B": "--direct does that",
    "-d": "repeats follow each other without a pause: leave it out",
    "-E": "--overwrite writes into a file that exists",
    "-f": "give the flags on the command line, one run of ferry bench for each test",
    "-G": "contents differ by themselves from repeat to repeat: leave it out",
    "-H": _NO_VIEWS,
    "-I": "-F gives each thread a file of its own",
    "-j": "the line under the table has the smallest and the largest of the repeats",
    "-J": "buffers are aligned to pages: leave it out",
    "-K": "-k keeps the file; after an error none is kept",
    "-l": "contents differ in every block: leave it out",
    "-m": "each repeat writes the file anew: leave it out",
    "-M": "--cold reads from the storage, not from memory",
    "-n": "every read is verified: leave it out",
    "-N": "--threads says how many threads there are, and mpiexec -n how many ranks",
    "-O": "--json FILE writes the results",
    "-p": _NO_VIEWS,
    "-P": _NO_VIEWS,
    "-q": "an error ends the measurement: leave it out",
    "-Q": "-C reads what the next thread wrote",
    "-S": _NO_VIEWS,
    "-T": "-D ends each repeat after so many seconds",
    "-u": "-F gives each thread a file of its own",
    "-U": "hints are for MPI ranks: ferry study writers measures with them",
    "-v": "--json FILE has every number",
    "-V": _NO_VIEWS,
    "-x": "a transfer that is cut short is an error: leave it out",
    "-X": "-Z draws anew for each repeat",
    "-y": "-e syncs once after writing",
    "-Y": "-e syncs once after writing",
    "--posix.odirect": "--direct does that",
}


if TYPE_CHECKING:
    _Choice = click.Choice[str]
else:
    _Choice = click.Choice  # generic since click 8.2


class InterfaceType(_Choice):
    """An I/O interface, also in IOR's spelling."""

    def __init__(self) -> None:
        super().__init__(_INTERFACES, case_sensitive=False)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        if answer := _IOR_INTERFACES.get(str(value).upper()):
            self.fail(f"'{value}' is not one of {', '.join(_INTERFACES)}; {answer}", param, ctx)
        return super().convert(value, param, ctx)


class DistributionType(click.ParamType):  # type: ignore[type-arg]  # generic since 8.3 only
    """How offsets are drawn, as plans name it: ``zipf:1.1``, ``hotspot:20/80``."""

    name = "distribution"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        zipf = re.fullmatch(r"zipf:([0-9]+(?:\.[0-9]+)?)", value)
        if zipf and 0 < float(zipf[1]) <= _ZIPF_EXPONENT_MAX:
            return str(value)
        hotspot = re.fullmatch(r"hotspot:([0-9]+)/([0-9]+)", value)
        if hotspot and 1 <= int(hotspot[1]) <= 99 and 1 <= int(hotspot[2]) <= 100:
            return str(value)
        self.fail(
            f"'{value}' is neither zipf:EXPONENT (above 0, at most {_ZIPF_EXPONENT_MAX}) nor hotspot:FILE/CALLS "
            "(percent of the file, percent of the calls), like zipf:1.1 and hotspot:20/80",
            param,
            ctx,
        )


class BenchCommand(click.Command):
    """A command that answers IOR's options it lacks with their replacements, and may run under mpiexec."""

    def make_context(
        self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: Any
    ) -> click.Context:
        ranks.join()
        with ranks.released_on_error():
            return super().make_context(info_name, args, parent, **extra)

    def invoke(self, ctx: click.Context) -> Any:
        with ranks.released_on_error():
            return super().invoke(ctx)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        try:
            return super().parse_args(ctx, args)
        except click.NoSuchOption as error:
            if answer := _IOR_OPTIONS.get(error.option_name):
                raise click.UsageError(f"IOR's {error.option_name} is not here: {answer}", ctx) from None
            raise


_option = functools.partial(click.option, show_default=True)
_seconds = functools.partial(_option, type=CountType(1, _SECONDS_MAX), metavar="SECONDS")


@click.command(name="bench", cls=BenchCommand, short_help="Measure one file, with IOR's flags and columns.")
@click.argument("path", metavar="[PATH]", type=PATH_TYPE, required=False)
@_option(
    "-a",
    "--interface",
    type=InterfaceType(),
    default="ferry",
    help="I/O interface: Ferry's calls, pread and pwrite, mmap, a plain io_uring loop, or of MPI ranks MPI-IO.",
)
@_option("-b", "--block-size", "block_bytes", type=SizeType(), default="16m", help="Contiguous bytes per thread.")
@_option(
    "-t", "--transfer-size", "transfer_bytes", type=SizeType(), default="256k", help="Bytes per call; must divide -b."
)
@_option(
    "-s",
    "--segments",
    type=CountType(1, 1 << 20),
    default=1,
    help="Blocks per thread; in a shared file, each segment holds one block of every thread.",
)
@_option(
    "-i",
    "--repetitions",
    "repeats",
    type=CountType(1, 100_000),
    default=FINDING_PAIRS_MIN,
    help="Number of repeats; ferry compare needs six or more.",
)
@_option(
    "--jobs",
    "jobs_file",
    metavar="FILE",
    type=PATH_TYPE,
    help="Run the jobs of a job file together, in the place of PATH (-: standard input).",
)
@_option("-o", "--test-file", metavar="PATH", type=PATH_TYPE, help="Another way to give PATH.")
@_option("-w", "--write", is_flag=True, help="Write a new file.")
@_option("-r", "--read", is_flag=True, help="Read. Without -w and -r: write, then read.")
@_option(
    "--mix",
    type=CountType(1, 99),
    metavar="PERCENT",
    help="Read with so many percent of the calls and write with the others, in a new file that is filled before.",
)
@_option("-F", "--file-per-thread", is_flag=True, help="One file per thread: PATH.00000000, PATH.00000001, ...")
@_option("-c", "--collective", is_flag=True, help="MPI ranks, -a ferry and mpiio: by collective calls.")
@_option("-C", "--reorder", is_flag=True, help="Each thread reads the next thread's data.")
@_option(
    "-Z", "--reorder-random", is_flag=True, help="Each thread reads a random thread's data, drawn anew for each repeat."
)
@_option("-z", "--random", is_flag=True, help="Offsets in random order instead of sequential.")
@_option(
    "--distribution",
    type=DistributionType(),
    metavar="NAME",
    help="Draw the offset of each call: zipf:1.1 (exponent), or hotspot:20/80 (20 % of the file "
    "get 80 % of the calls).",
)
@_option("-e", "--fsync", "sync", is_flag=True, help="fsync after writing, timed separately.")
@_option("-g", "--barriers", is_flag=True, help="Threads wait for each other between open, transfers and close.")
@_seconds("-D", "--deadline", "deadline_s", help="Start no transfers after this time in a repeat; finished ones count.")
@_seconds("--time", "time_s", help="Transfer for this time in each repeat, over and over through the data.")
@_seconds("--ramp", "ramp_s", help="With --time: begin so much earlier, and do not count that.")
@_option(
    "--rate",
    "rate_bytes_per_s",
    type=SizeType(),
    help="Bytes per second of each thread, at most; latencies count from when a call is due.",
)
@_option("-W", "--check-write", is_flag=True, help="Also read back through the same interface after each write.")
@_option(
    "-R",
    "--check-read",
    is_flag=True,
    help="Verify every transfer while reading, inside the timing; ferry bench must have written PATH.",
)
@_option("--latency", is_flag=True, help="Time every call; show the histogram of their latencies.")
@_option("-k", "--keep-file", "keep", is_flag=True, help="Keep the written file.")
@_option(
    "--device",
    type=click.Choice(DEVICES),
    default="cpu",
    help="Where the measured program runs: on this machine's cores, or in kernels on its GPU (one warp per thread).",
)
@_option(
    "--placement",
    type=click.Choice(PLACEMENTS),
    default="host",
    help="Where Ferry executes calls. host: in the I/O server; compute: on the calling core, "
    "through the device's page cache; service: on cores that serve others, through that cache; "
    "automatic: chosen for each call.",
)
@_option(
    "--cache-size",
    "cache_bytes",
    type=SizeType(),
    help="Size of the device's page cache (1.25 times the file, from 64m to a quarter of the memory).",
)
@_option("--page-size", "page_bytes", type=SizeType(), help="Page size of that cache: a power of two, 4k to 2m (64k).")
@_option(
    "--service-threads",
    type=CountType(0, 4096),
    help="Cores reserved for placement service (0: it shares the I/O server's).",
)
@_option("--warm", is_flag=True, help="Fill the device's page cache before each read.")
@_option("--threads", type=_THREADS, default=1, help="Device threads.")
@_option(
    "--queue-depth",
    type=CountType(1, max(QUEUE_DEPTH_MAX.values())),
    default=1,
    help="Calls in flight per thread (ferry: up to 63, uring: up to 1024).",
)
@_option("--server-threads", type=_THREADS, help="Threads of the I/O server.")
@_option("--device-cpus", metavar="LIST", help="CPUs of the device, like 0-3,8.")
@_option("--server-cpus", metavar="LIST", help="CPUs of the I/O server.")
@_option(
    "--engine",
    type=click.Choice(["automatic", "io_uring", "threads"]),
    default="automatic",
    help="How the I/O server calls the kernel.",
)
@_option("--direct", is_flag=True, help="Bypass the kernel's page cache (O_DIRECT).")
@_option("--cold", is_flag=True, help="Drop the file from the kernel's page cache before each read.")
@OVERWRITE
@_option(
    "--wipe-device",
    is_flag=True,
    help="With --overwrite: write to PATH though it is a block device. What is on it is lost.",
)
@JSON
@click.pass_context
def command(ctx: click.Context, path: str | None, test_file: str | None, jobs_file: str | None, **given: Any) -> None:
    """Measure PATH, with IOR's flags and columns.

    Writing creates PATH, a new file, and removes it afterwards; -r alone never changes PATH,
    and may read a whole disk: -r /dev/sdb.
    Contents are verified, more strictly with -W and -R. Sizes take k, m, g and t as powers of 1024.
    bw counts from open to close, as in IOR. With -a ferry, PATH may be a URI like
    nfs://server/export/file or ceph:/file.

    --jobs FILE measures several jobs at once, each with figures of its own. FILE has a part of
    fio's format: a section for each job, [global] for what they share.

    mpiexec -n 8 ferry bench measures with 8 MPI ranks in the place of threads, by -a ferry, mpiio or posix.
    What is said of threads below is then said of ranks; flags of the device and its cache are refused.
    """
    if jobs_file is not None:
        _run_jobs(ctx, jobs_file, given)
        return
    if (path is None) == (test_file is None):
        raise click.UsageError("Missing PATH" if path is None else "PATH and -o both name the file; give one")
    from ferry_lab.run import bench

    bench.run(_read_options(given, test_file if path is None else path))


# What the command line says for all jobs; each says the rest for itself, by these keys.
_OF_ALL_JOBS = (
    *("jobs_file", "interface", "repeats", "check_read", "latency", "placement", "cold", "overwrite", "json_path"),
    *(name for name in _RUNTIME),
)
_JOB_KEYS = {
    **{"path": "filename", "test_file": "filename", "block_bytes": "size", "transfer_bytes": "bs"},
    **{"write": "rw", "read": "rw", "mix": "rwmixread", "random": "rw", "distribution": "random_distribution"},
    **{"sync": "end_fsync", "deadline_s": "runtime", "time_s": "time_based", "ramp_s": "ramp_time"},
    **{"rate_bytes_per_s": "rate", "threads": "numjobs", "queue_depth": "iodepth", "direct": "direct"},
}


def _run_jobs(ctx: click.Context, file: str, given: dict[str, Any]) -> None:
    """Raises UsageError for flags that are one job's."""
    for param in ctx.command.params:
        name = str(param.name)
        if name in _OF_ALL_JOBS or ctx.get_parameter_source(name) is not ParameterSource.COMMANDLINE:
            continue
        flag = param.opts[0] if isinstance(param, click.Option) else "PATH"
        key = _JOB_KEYS.get(name)
        do = f"write {key} in the job file" if key else "leave it out"
        raise click.UsageError(f"{flag} is for one job, and --jobs has several; {do}")
    if ranks.find() is not None:
        raise click.UsageError("--jobs is for threads; leave out mpiexec")
    if given["device"] != "cpu":
        raise click.UsageError("--jobs is for --device cpu; kernels run one job at a time")
    if given["interface"] not in INTERFACES:
        raise click.UsageError(
            f"-a {given['interface']} is for MPI ranks, which run one job; choose another for --jobs"
        )
    from ferry_lab.run import jobs

    runtime = {name: given[name] or getattr(RuntimeSettings, name) for name in _RUNTIME}
    names = ("interface", "placement", "repeats", "check_read", "latency", "cold", "overwrite")
    jobs.run(
        jobs.JobsOptions(
            file=file,
            json=given["json_path"],
            runtime=RuntimeSettings(**runtime),
            **{name: given[name] for name in names},
        )
    )


def _read_options(given: dict[str, Any], path: Any) -> BenchOptions:
    """Returns the options. Raises UsageError for flags that exclude each other."""
    if given["mix"]:
        _check_mix(given)
    elif not given["write"] and not given["read"]:
        given |= {"write": True, "read": True}
    launched = ranks.find()
    count = 0 if launched is None else _checked_ranks(given, launched)
    if not count and (given["collective"] or given["interface"] == "mpiio"):
        flag = "-c" if given["collective"] else "-a mpiio"
        raise click.UsageError(f"{flag} is for MPI ranks, as mpiexec -n 8 ferry bench starts them")
    cache_flags = [flag for name, flag in _CACHE_FLAGS.items() if given[name]]
    runtime = {name: given.pop(name) or getattr(RuntimeSettings, name) for name in _RUNTIME}
    tasks, needed = (count, "two ranks") if count else (given["threads"], "--threads 2")
    reorder = _reorder(tasks, needed, given.pop("reorder"), given.pop("reorder_random"))
    from ferry_lab.run.bench import BenchOptions

    options = BenchOptions(
        path=path,
        ranks=count,
        pattern=_pattern(given.pop("random"), given.pop("distribution")),
        reorder=reorder,
        runtime=RuntimeSettings(device_threads=given["threads"], **runtime),
        json=given.pop("json_path"),
        **given,
    )
    _check_sizes(options)
    _check_pace(options)
    _check_device(options)
    _check_interface(options)
    if not options.mix:
        _check_operations(options)
    _check_cache(options, cache_flags)
    return options


# What ranks have not, by the flag and its default.
_OF_THREADS = {
    **{name: (flag, None) for name, flag in _CACHE_FLAGS.items()},
    **{"server_threads": ("--server-threads", None), "server_cpus": ("--server-cpus", None)},
    **{"device_cpus": ("--device-cpus", None), "wipe_device": ("--wipe-device", None)},
    **{"device": ("--device", "cpu"), "placement": ("--placement", "host"), "threads": ("--threads", 1)},
    **{"queue_depth": ("--queue-depth", 1), "engine": ("--engine", "automatic")},
}


def _checked_ranks(given: dict[str, Any], launched: ranks.Launched) -> int:
    """Returns how many there are. Raises UsageError for what they have not, FerryError."""
    if launched.size == 0:
        raise FerryError("MPI ranks run here, and nothing says how many; start them with mpiexec")
    for name, (flag, default) in _OF_THREADS.items():
        if given[name] and given[name] != default:
            raise click.UsageError(f"{flag} is for threads; leave it out, or leave out mpiexec")
    if given["interface"] not in _OF_RANKS:
        raise click.UsageError(f"-a {given['interface']} is for threads; ranks have -a {', '.join(_OF_RANKS)}")
    if given["collective"] and given["interface"] == "posix":
        raise click.UsageError("-c is for -a ferry and mpiio; no call of POSIX is collective")
    if given["direct"] and given["interface"] == "mpiio":
        raise click.UsageError("--direct is for -a ferry and posix; MPI-IO does not offer it")
    if given["transfer_bytes"] > _RANKS_TRANSFER_BYTES_MAX:
        raise click.UsageError("-t of ranks is at most 1 GiB, which is what a call of MPI-IO can move")
    return launched.size


def _reorder(tasks: int, needed: str, neighbour: bool, at_random: bool) -> str:
    if neighbour and at_random:
        raise click.UsageError("-C and -Z exclude each other")
    if not neighbour and not at_random:
        return "none"
    if tasks == 1:
        raise click.UsageError(f"{'-C' if neighbour else '-Z'} needs {needed} or more")
    return "neighbour" if neighbour else "random"


# What goes with -w or -r alone: the file of mixed calls is made for each repeat, and removed.
_NOT_MIXED = {
    **{"write": "-w", "read": "-r", "reorder": "-C", "reorder_random": "-Z", "check_write": "-W"},
    **{"keep": "-k", "cold": "--cold", "overwrite": "--overwrite"},
}


def _check_mix(given: dict[str, Any]) -> None:
    for name, flag in _NOT_MIXED.items():
        if given[name]:
            raise click.UsageError(
                f"{flag} does not go with --mix, which reads and writes a file of its own; leave it out"
            )
    if given["device"] == "cuda":
        raise click.UsageError("--mix is for --device cpu; kernels either read or write")
    repeats_places = given["distribution"] or given["time_s"]
    if given["check_read"] and given["queue_depth"] > 1 and repeats_places:
        raise click.UsageError(
            "-R with --mix needs --queue-depth 1, or each place once: with --distribution or --time a read may meet a "
            "write to its place in flight"
        )


def _pattern(at_random: bool, distribution: str | None) -> str:
    if at_random and distribution:
        raise click.UsageError("-z and --distribution exclude each other")
    return distribution or ("random" if at_random else "sequential")


def _check_sizes(options: BenchOptions) -> None:
    if options.block_bytes % options.transfer_bytes != 0:
        raise click.UsageError(
            f"-b {sizes.format_size(options.block_bytes)} is no multiple of "
            f"-t {sizes.format_size(options.transfer_bytes)}"
        )
    if options.transfer_bytes > 0x7FFFF000:
        raise click.UsageError("-t must be less than 2 GiB, which is what one call can move")
    if options.total_bytes >= sizes.LIMIT_BYTES:
        tasks = "the ranks" if options.ranks else "--threads"
        raise click.UsageError(f"-b, -s and {tasks} together make a file that is too large")


def _check_pace(options: BenchOptions) -> None:
    if options.time_s and options.deadline_s:
        raise click.UsageError(
            "-D and --time exclude each other: -D moves everything at most once, --time over and over"
        )
    if options.ramp_s and not options.time_s:
        raise click.UsageError("--ramp needs --time")
    if options.rate_bytes_per_s and options.queue_depth > 1:
        raise click.UsageError("--rate is for one call at a time; choose --queue-depth 1 and more --threads")
    if options.rate_bytes_per_s and options.time_s:
        call_s = options.transfer_bytes / options.rate_bytes_per_s
        if options.time_s < call_s:
            raise click.UsageError(
                f"--rate {sizes.format_size(options.rate_bytes_per_s)} makes one call of "
                f"-t {sizes.format_size(options.transfer_bytes)} in {call_s:.0f} seconds; choose a longer --time or a "
                "smaller -t"
            )


def _check_device(options: BenchOptions) -> None:
    """Raises UsageError for flags that kernels on a GPU do not support."""
    if options.runtime.device == "cpu":
        return
    if options.interface != "ferry":
        raise click.UsageError(f"--device cuda is for interface ferry, not {options.interface}")
    for flag, given in (("--time", options.time_s), ("--rate", options.rate_bytes_per_s)):
        if given:
            raise click.UsageError(f"{flag} is for --device cpu; kernels move everything once, as fast as they can")
    if options.placement == "service":
        raise click.UsageError(
            "--device cuda cannot measure --placement service, whose blocks a program launches "
            "with its own; choose host, compute or automatic"
        )
    if options.runtime.service_threads > 0:
        raise click.UsageError("--service-threads is for --device cpu")
    if options.runtime.device_cpus:
        raise click.UsageError("--device-cpus is for --device cpu; a GPU has none")


def _check_interface(options: BenchOptions) -> None:
    depth_max = QUEUE_DEPTH_MAX.get(options.interface, 1)
    if options.queue_depth > depth_max:
        raise click.UsageError(
            f"--queue-depth is for interfaces ferry and uring, not {options.interface}"
            if depth_max == 1
            else f"--queue-depth of interface {options.interface} is at most {depth_max}"
        )
    if is_uri(options.path) and options.interface != "ferry":
        raise click.UsageError(
            f"-a {options.interface} reaches files of mounted file systems only; "
            "a URI is reached by -a ferry, in any placement"
        )
    if is_uri(options.path) and options.direct:
        raise click.UsageError("--direct is for mounted file systems; no kernel's page cache holds a file of a URI")
    if options.direct and options.interface == "mmap":
        raise click.UsageError("--direct is not for interface mmap")
    if options.direct and options.transfer_bytes % _SECTOR_BYTES != 0:
        raise click.UsageError(
            f"--direct moves whole sectors: -t {sizes.format_size(options.transfer_bytes)} is no "
            f"multiple of {_SECTOR_BYTES} bytes"
        )


def _check_operations(options: BenchOptions) -> None:
    of_reads = {
        "--cold": options.cold,
        "--warm": options.warm,
        "-R": options.check_read,
        "-C": options.reorder == "neighbour",
        "-Z": options.reorder == "random",
    }
    of_writes = {"-e": options.sync, "-k": options.keep, "-W": options.check_write}
    for flag, given in of_reads.items():
        if given and not options.read:
            raise click.UsageError(f"{flag} is for reads; add -r")
    for flag, given in of_writes.items():
        if given and not options.write:
            raise click.UsageError(f"{flag} is for writes; add -w")


def _check_cache(options: BenchOptions, given: Sequence[str]) -> None:
    """Raises UsageError for impossible settings of the device's page cache; ``given``: its flags."""
    if options.interface != "ferry" and options.placement != "host":
        raise click.UsageError(f"--placement is for interface ferry, not {options.interface}")
    if given and options.placement == "host":
        also = "" if given[0] == "--service-threads" else "compute, "
        raise click.UsageError(f"{given[0]} needs --placement {also}service or automatic")
    if options.runtime.service_threads > 0 and options.placement == "compute":
        raise click.UsageError("--service-threads needs --placement service or automatic")
    page_bytes, cache_bytes = options.runtime.page_bytes, options.runtime.cache_bytes
    if page_bytes & (page_bytes - 1) or not 4 * sizes.KIB <= page_bytes <= 2 * sizes.MIB:
        raise click.UsageError(f"--page-size {sizes.format_size(page_bytes)} is no power of two from 4 KiB to 2 MiB")
    if 0 < cache_bytes < page_bytes:
        raise click.UsageError(
            f"--cache-size {sizes.format_size(cache_bytes)} is less than a page of {sizes.format_size(page_bytes)}"
        )
    if options.warm and options.cold:
        raise click.UsageError("--warm and --cold exclude each other: filling the device's cache fills the host's, too")
