"""The flags of ``ferry bench``, after IOR's, and which of them go together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from ferry import sizes
from ferry.flags import PATH_TYPE, CountType, SizeType
from ferry.uris import is_uri
from ferry_lab.run.plan import DEVICES, INTERFACES, PLACEMENTS, RuntimeSettings

if TYPE_CHECKING:
    from ferry_lab.run.bench import BenchOptions

_THREADS = CountType(1, 4096)
# Interfaces with several calls of one thread in flight, and how many at most.
_QUEUE_DEPTH_MAX = {"ferry": 63, "uring": 1024}

# What IOR calls a way to a file, and what to do instead where `-a` has no such way.
_IOR_RANKS = "that interface is for MPI ranks, which ferry study interfaces measures"
_IOR_INTERFACES = {
    "AIO": "-a uring keeps several calls in flight",
    "CEPHFS": "-a ferry reaches CephFS by a URI, ceph:/file",
    "HDF5": _IOR_RANKS,
    "MPIIO": _IOR_RANKS,
    "NCMPI": _IOR_RANKS,
}

_NO_COLLECTIVE = "ferry study interfaces and ferry study writers measure collective transfers"
# What takes the place of IOR's options that are not here.
_IOR_OPTIONS = {
    "-A": "--json FILE takes results by a name of yours",
    "-B": "--direct does that",
    "-c": _NO_COLLECTIVE,
    "-d": "repeats follow each other without a pause: leave it out",
    "-E": "--overwrite writes into a file that exists",
    "-f": "give the flags on the command line, one run of ferry bench for each test",
    "-G": "contents differ by themselves from repeat to repeat: leave it out",
    "-H": _NO_COLLECTIVE,
    "-I": "-F gives each thread a file of its own",
    "-j": "the line under the table has the smallest and the largest of the repeats",
    "-J": "buffers are aligned to pages: leave it out",
    "-K": "-k keeps the file; after an error none is kept",
    "-l": "contents differ in every block: leave it out",
    "-m": "each repeat writes the file anew: leave it out",
    "-M": "--cold reads from the storage, not from memory",
    "-n": "every read is verified: leave it out",
    "-N": "--threads says how many threads there are",
    "-O": "--json FILE writes the results",
    "-p": _NO_COLLECTIVE,
    "-P": _NO_COLLECTIVE,
    "-q": "an error ends the measurement: leave it out",
    "-Q": "-C reads what the next thread wrote",
    "-S": _NO_COLLECTIVE,
    "-T": "-D ends each repeat after so many seconds",
    "-u": "-F gives each thread a file of its own",
    "-U": "hints are for MPI ranks: ferry study writers measures with them",
    "-v": "--json FILE has every number",
    "-V": _NO_COLLECTIVE,
    "-x": "a transfer that is cut short is an error: leave it out",
    "-X": "-Z draws anew for each repeat",
    "-y": "-e syncs once after writing",
    "-Y": "-e syncs once after writing",
    "--posix.odirect": "--direct does that",
}


class InterfaceType(click.Choice[str]):
    """A way to a file, in IOR's spelling too."""

    def __init__(self) -> None:
        """Takes the interfaces that there are."""
        super().__init__(INTERFACES, case_sensitive=False)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Returns the interface."""
        if answer := _IOR_INTERFACES.get(str(value).upper()):
            self.fail(f"'{value}' is not one of {', '.join(INTERFACES)}; {answer}", param, ctx)
        return super().convert(value, param, ctx)


class BenchCommand(click.Command):
    """A command that knows IOR's options, and says what takes the place of those it has not."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Reads the command line."""
        try:
            return super().parse_args(ctx, args)
        except click.NoSuchOption as error:
            if answer := _IOR_OPTIONS.get(error.option_name):
                raise click.UsageError(f"No option {error.option_name} as in IOR: {answer}", ctx) from None
            raise


PATH = click.argument("path", metavar="[PATH]", type=PATH_TYPE, required=False)

OPTIONS = (
    click.option(
        "-a",
        "--interface",
        type=InterfaceType(),
        default="ferry",
        show_default=True,
        help="How to reach the file: Ferry's calls, plain pread and pwrite, a mapping, or a plain "
        "loop over io_uring.",
    ),
    click.option(
        "-b",
        "--block-size",
        type=SizeType(),
        default="16m",
        show_default=True,
        help="What each thread reads or writes in one piece.",
    ),
    click.option(
        "-t",
        "--transfer-size",
        type=SizeType(),
        default="256k",
        show_default=True,
        help="What one call moves; -b is a multiple of it.",
    ),
    click.option(
        "-s",
        "--segments",
        type=CountType(1, 1 << 20),
        default=1,
        show_default=True,
        help="So many blocks for each thread; in a shared file each segment has one block of every "
        "thread.",
    ),
    click.option(
        "-i",
        "--repetitions",
        type=CountType(1, 100_000),
        default=5,
        show_default=True,
        help="How often to measure.",
    ),
    click.option(
        "-o", "--test-file", metavar="PATH", type=PATH_TYPE, help="Another way to give PATH."
    ),
    click.option("-w", "--write", is_flag=True, help="Write, into a new file."),
    click.option("-r", "--read", is_flag=True, help="Read. Without -w and -r: write, then read."),
    click.option(
        "-F",
        "--file-per-thread",
        is_flag=True,
        help="A file for each thread: PATH.00000000, PATH.00000001, ...",
    ),
    click.option(
        "-C", "--reorder", is_flag=True, help="Each thread reads what the next one's number wrote."
    ),
    click.option(
        "-Z",
        "--reorder-random",
        is_flag=True,
        help="Which thread reads whose part is drawn for each repeat.",
    ),
    click.option(
        "-z", "--random", is_flag=True, help="Offsets in random order instead of sequential."
    ),
    click.option("-e", "--fsync", is_flag=True, help="fsync after writing, timed apart."),
    click.option(
        "-g",
        "--barriers",
        is_flag=True,
        help="Threads wait for each other between open, transfers and close.",
    ),
    click.option(
        "-D",
        "--deadline",
        type=CountType(1, 31_536_000),
        metavar="SECONDS",
        help="Start no transfer later than this in a repeat; what was moved counts.",
    ),
    click.option(
        "-W",
        "--check-write",
        is_flag=True,
        help="Read back through the same interface after each write, too.",
    ),
    click.option(
        "-R",
        "--check-read",
        is_flag=True,
        help="Compare every transfer while reading, which takes time; PATH must hold what ferry "
        "bench wrote.",
    ),
    click.option("-k", "--keep-file", is_flag=True, help="Keep the file that was written."),
    click.option(
        "--device",
        type=click.Choice(DEVICES),
        default="cpu",
        show_default=True,
        help="Where the measured program runs: on cores of this machine, or in kernels on its GPU "
        "(a warp for each thread).",
    ),
    click.option(
        "--placement",
        type=click.Choice(PLACEMENTS),
        default="host",
        show_default=True,
        help="Where Ferry executes the calls: by the I/O server; on the calling core, through a "
        "page cache in the device; on cores that serve others, through the same cache; or as Ferry "
        "chooses, call by call.",
    ),
    click.option(
        "--cache-size",
        type=SizeType(),
        help="The device's page cache (the file and a quarter, at least 64m, at most a quarter of "
        "the memory).",
    ),
    click.option(
        "--page-size", type=SizeType(), help="Of that cache, a power of two, 4k to 2m (64k)."
    ),
    click.option(
        "--service-threads",
        type=CountType(0, 4096),
        help="Cores set aside for placement service (0: shared ones serve).",
    ),
    click.option("--warm", is_flag=True, help="Fill the device's page cache before each read."),
    click.option("--threads", type=_THREADS, default=1, show_default=True, help="Device threads."),
    click.option(
        "--queue-depth",
        type=CountType(1, max(_QUEUE_DEPTH_MAX.values())),
        default=1,
        show_default=True,
        help="Calls in flight per thread (ferry: up to 63, uring: up to 1024).",
    ),
    click.option("--server-threads", type=_THREADS, help="Threads of the I/O server."),
    click.option("--device-cpus", metavar="LIST", help="CPUs of the device, like 0-3,8."),
    click.option("--server-cpus", metavar="LIST", help="CPUs of the I/O server."),
    click.option(
        "--engine",
        type=click.Choice(["automatic", "io_uring", "threads"]),
        default="automatic",
        show_default=True,
        help="How the I/O server reaches the kernel.",
    ),
    click.option("--direct", is_flag=True, help="Past the kernel's page cache (O_DIRECT)."),
    click.option(
        "--cold", is_flag=True, help="Drop the file from the page cache before each read."
    ),
)


def read_options(json_path: str | None, overwrite: bool, given: dict[str, Any]) -> BenchOptions:
    """Returns what was asked for. Raises UsageError for flags that do not go together."""
    path, named = given["path"], given["test_file"]
    if (path is None) == (named is None):
        raise click.UsageError(
            "Missing PATH" if path is None else "PATH and -o both name the file; give one"
        )
    neither = not given["write"] and not given["read"]
    from ferry_lab.run.bench import BenchOptions

    options = BenchOptions(
        path=path if path is not None else named,
        interface=given["interface"],
        write=given["write"] or neither,
        read=given["read"] or neither,
        block_bytes=given["block_size"],
        transfer_bytes=given["transfer_size"],
        segments=given["segments"],
        repeats=given["repetitions"],
        threads=given["threads"],
        queue_depth=given["queue_depth"],
        placement=given["placement"],
        pattern="random" if given["random"] else "sequential",
        file_per_thread=given["file_per_thread"],
        reorder=_reorder(given),
        barriers=given["barriers"],
        deadline_s=given["deadline"],
        sync=given["fsync"],
        check_write=given["check_write"],
        check_read=given["check_read"],
        direct=given["direct"],
        cold=given["cold"],
        warm=given["warm"],
        keep=given["keep_file"],
        overwrite=overwrite,
        json=json_path,
        runtime=RuntimeSettings(
            device=given["device"],
            device_threads=given["threads"],
            server_threads=given["server_threads"] or 0,
            device_cpus=given["device_cpus"] or "",
            server_cpus=given["server_cpus"] or "",
            engine=given["engine"],
            service_threads=given["service_threads"] or 0,
            cache_bytes=given["cache_size"] or 0,
            page_bytes=given["page_size"] or RuntimeSettings.page_bytes,
        ),
    )
    _check_sizes(options)
    _check_device(options)
    _check_interface(options)
    _check_operations(options)
    _check_cache(options, [flag for flag in _CACHE_FLAGS if given[flag] not in (None, False)])
    return options


def _reorder(given: dict[str, Any]) -> str:
    if given["reorder"] and given["reorder_random"]:
        raise click.UsageError("-C and -Z exclude each other")
    if not given["reorder"] and not given["reorder_random"]:
        return "none"
    flag = "-C" if given["reorder"] else "-Z"
    if given["threads"] == 1:
        raise click.UsageError(f"{flag} needs --threads 2 or more")
    return "neighbour" if given["reorder"] else "random"


def _check_sizes(options: BenchOptions) -> None:
    if options.block_bytes % options.transfer_bytes != 0:
        raise click.UsageError(
            f"-b {sizes.format_size(options.block_bytes)} is no multiple of "
            f"-t {sizes.format_size(options.transfer_bytes)}"
        )
    if options.transfer_bytes > 0x7FFFF000:
        raise click.UsageError("-t must be less than 2 GiB, which is what one call can move")
    if options.total_bytes >= sizes.LIMIT_BYTES:
        raise click.UsageError("-b, -s and --threads together make a file that is too large")


def _check_device(options: BenchOptions) -> None:
    """Raises UsageError for what kernels on a GPU cannot do."""
    if options.runtime.device == "cpu":
        return
    if options.interface != "ferry":
        raise click.UsageError(f"--device cuda is for interface ferry, not {options.interface}")
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
    depth_max = _QUEUE_DEPTH_MAX.get(options.interface, 1)
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
        raise click.UsageError(
            "--direct is for mounted file systems; no kernel's page cache holds a file of a URI"
        )
    if options.direct and options.interface == "mmap":
        raise click.UsageError("--direct is not for interface mmap")


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


_CACHE_FLAGS = ("cache_size", "page_size", "service_threads", "warm")


def _check_cache(options: BenchOptions, given: Sequence[str]) -> None:
    """Raises UsageError for what the device's page cache cannot be; ``given``: flags about it."""
    if options.interface != "ferry" and options.placement != "host":
        raise click.UsageError(f"--placement is for interface ferry, not {options.interface}")
    if given and options.placement == "host":
        flag = given[0].replace("_", "-")
        also = "" if flag == "service-threads" else "compute, "
        raise click.UsageError(f"--{flag} needs --placement {also}service or automatic")
    if options.runtime.service_threads > 0 and options.placement == "compute":
        raise click.UsageError("--service-threads needs --placement service or automatic")
    page_bytes, cache_bytes = options.runtime.page_bytes, options.runtime.cache_bytes
    if page_bytes & (page_bytes - 1) or not 4 * sizes.KIB <= page_bytes <= 2 * sizes.MIB:
        raise click.UsageError(
            f"--page-size {sizes.format_size(page_bytes)} is no power of two from 4 KiB to 2 MiB"
        )
    if 0 < cache_bytes < page_bytes:
        raise click.UsageError(
            f"--cache-size {sizes.format_size(cache_bytes)} is less than a page of "
            f"{sizes.format_size(page_bytes)}"
        )
    if options.warm and options.cold:
        raise click.UsageError(
            "--warm and --cold exclude each other: filling the device's cache fills the host's, too"
        )
