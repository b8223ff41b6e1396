"""The ``ferry`` command: what it takes, and how it ends.

Exit status: 0 done, 1 it could not be done, 2 wrong arguments, 130 Ctrl-C (128 + signal number).
Whatever goes wrong is one line on standard error.
"""

from __future__ import annotations

import os
import signal
import sys
import tempfile
from collections.abc import Callable, Sequence
from typing import Any

import click

from ferry import bench, info, placements, sizes, terminal
from ferry.errors import FerryError, Terminated
from ferry.plan import PLACEMENTS, RuntimeSettings

# Help is laid out for 80 columns whatever the terminal, because ./ferry prints stored copies of it.
_CONTEXT: dict[str, Any] = {
    "help_option_names": ["-h", "--help"],
    "terminal_width": 80,
    "max_content_width": 80,
}
STUDIES = ("placements",)


class SizeType(click.ParamType):
    """A size in bytes, written with k, m, g or t as powers of 1024."""

    name = "size"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Returns bytes."""
        if isinstance(value, int):
            return value
        try:
            return sizes.parse_size(value)
        except ValueError as error:
            self.fail(str(error), param, ctx)


class CountType(click.ParamType):
    """A whole number between two others."""

    name = "number"

    def __init__(self, least: int, most: int) -> None:
        """Takes the smallest and the largest number allowed."""
        self.least = least
        self.most = most

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Returns the number."""
        try:
            number = int(value)
        except ValueError:
            self.fail(f"'{value}' is no whole number", param, ctx)
        if not self.least <= number <= self.most:
            self.fail(f"{value} is not from {self.least} to {self.most}", param, ctx)
        return number


_THREADS = CountType(1, 4096)


@click.group(context_settings=_CONTEXT, invoke_without_command=True)
@click.pass_context
def ferry(context: click.Context) -> None:
    """File I/O for many-core devices: measures it here, and says what to choose.

    Every command explains itself: ferry COMMAND --help
    """
    if context.invoked_subcommand is None:
        click.echo(context.get_help())


_PATH = click.argument("path", metavar="PATH")
_JSON = click.option(
    "--json", "json_path", metavar="FILE", help="Write the results to FILE (-: standard output)."
)
_OVERWRITE = click.option("--overwrite", is_flag=True, help="Replace files that exist.")

_BENCH_OPTIONS = (
    click.option(
        "-a",
        "--interface",
        type=click.Choice(["ferry", "posix", "mmap"]),
        default="ferry",
        show_default=True,
        help="How to reach the file; posix is plain pread and pwrite.",
    ),
    click.option(
        "-b",
        "--block-size",
        type=SizeType(),
        default="16m",
        show_default=True,
        help="What each thread reads or writes, a contiguous part of the file.",
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
        "-i",
        "--repetitions",
        type=CountType(1, 100_000),
        default=5,
        show_default=True,
        help="How often to measure.",
    ),
    click.option("-w", "--write", is_flag=True, help="Write, into a new file."),
    click.option("-r", "--read", is_flag=True, help="Read. Without -w and -r: write, then read."),
    click.option("-z", "--random", is_flag=True, help="Random order instead of sequential."),
    click.option("-e", "--fsync", is_flag=True, help="fsync after writing, timed apart."),
    click.option("-k", "--keep-file", is_flag=True, help="Keep the file that was written."),
    click.option(
        "--device",
        type=click.Choice(["cpu"]),
        default="cpu",
        show_default=True,
        help="Where the measured program runs.",
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
        type=CountType(1, 63),
        default=1,
        show_default=True,
        help="Calls in flight per thread (interface ferry).",
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


def _with_options(options: Sequence[Callable[..., Any]]) -> Callable[..., Any]:
    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        for option in reversed(options):
            function = option(function)
        return function

    return decorate


@ferry.command(name="bench", short_help="One measurement, with IOR's flags and columns.")
@_PATH
@_with_options(_BENCH_OPTIONS)
@_OVERWRITE
@_JSON
def bench_command(path: str, json_path: str | None, overwrite: bool, **given: Any) -> None:
    """One measurement of PATH, with IOR's flags and columns.

    Writing makes PATH, a new file, and removes it afterwards; with -r alone, PATH is read and
    never changed. Contents are verified. Sizes take k, m, g and t as powers of 1024. bw counts
    from open to close, as IOR does.
    """
    neither = not given["write"] and not given["read"]
    options = bench.BenchOptions(
        path=path,
        interface=given["interface"],
        write=given["write"] or neither,
        read=given["read"] or neither,
        block_bytes=given["block_size"],
        transfer_bytes=given["transfer_size"],
        repeats=given["repetitions"],
        threads=given["threads"],
        queue_depth=given["queue_depth"],
        placement=given["placement"],
        pattern="random" if given["random"] else "sequential",
        sync=given["fsync"],
        direct=given["direct"],
        cold=given["cold"],
        warm=given["warm"],
        keep=given["keep_file"],
        overwrite=overwrite,
        json=json_path,
        runtime=RuntimeSettings(
            device_threads=given["threads"],
            server_threads=given["server_threads"] or 0,
            device_cpus=given["device_cpus"] or "",
            server_cpus=given["server_cpus"] or "",
            engine=given["engine"],
            service_threads=given["service_threads"] or 0,
            cache_bytes=given["cache_size"] or 0,
            page_bytes=given["page_size"] or bench.PAGE_BYTES,
        ),
    )
    _check_bench(options)
    _check_cache(options, [flag for flag in _CACHE_FLAGS if given[flag] not in (None, False)])
    bench.run(options)


def _check_bench(options: bench.BenchOptions) -> None:
    """Raises UsageError for flags that do not go together."""
    if options.block_bytes % options.transfer_bytes != 0:
        raise click.UsageError(
            f"-b {sizes.format_size(options.block_bytes)} is no multiple of "
            f"-t {sizes.format_size(options.transfer_bytes)}"
        )
    if options.transfer_bytes > 0x7FFFF000:
        raise click.UsageError("-t must be less than 2 GiB, which is what one call can move")
    if options.queue_depth > 1 and options.interface != "ferry":
        raise click.UsageError(f"--queue-depth is for interface ferry, not {options.interface}")
    if options.direct and options.interface == "mmap":
        raise click.UsageError("--direct is not for interface mmap")
    if not options.read and options.cold:
        raise click.UsageError("--cold is for reads; add -r")
    if not options.write and (options.sync or options.keep):
        flag = "-e" if options.sync else "-k"
        raise click.UsageError(f"{flag} is for writes; add -w")


_CACHE_FLAGS = ("cache_size", "page_size", "service_threads", "warm")


def _check_cache(options: bench.BenchOptions, given: Sequence[str]) -> None:
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
    if options.warm and not options.read:
        raise click.UsageError("--warm is for reads; add -r")
    if options.warm and options.cold:
        raise click.UsageError(
            "--warm and --cold exclude each other: filling the device's cache fills the host's, too"
        )


@ferry.command(name="study", short_help="A fixed matrix of measurements that answers a question.")
@click.argument("name", metavar="NAME", type=click.Choice(STUDIES))
@click.option("--dir", "folder", metavar="DIR", help="Where scratch files go ($TMPDIR or /tmp).")
@click.option("--file", metavar="FILE", help="Measure reading FILE, which is never changed.")
@click.option("--quick", is_flag=True, help="Fewer points and fewer repeats.")
@click.option(
    "--repeats",
    type=CountType(2, 100_000),
    help=f"How often to measure each point ({placements.REPEATS}, of the large reads at most "
    f"{placements.LARGE_REPEATS}; with --quick {placements.QUICK_REPEATS}).",
)
@click.option("--out", metavar="DIR", help="Write results.json and results.csv into DIR.")
@_OVERWRITE
@_JSON
def study_command(name: str, **given: Any) -> None:
    """A fixed matrix of measurements that answers one question.

    \b
    placements   Which way should a device program's reads and writes go, by
                 transfer size? The placements host, compute, service and
                 automatic beside pread/pwrite and mmap: reads with the device's
                 cache cold and warm, writes as call, call + flush and call +
                 fsync, and programs that compute on what they read or write.
                 Says where the curves cross.

    Scratch files are removed, whatever happens. The end of the output says what the numbers show,
    and no more than that.
    """
    assert name == "placements"
    if given["file"] is not None and given["folder"] is not None:
        raise click.UsageError("--dir is for scratch files; with --file nothing is written")
    placements.run(
        placements.StudyOptions(
            folder=given["folder"] if given["folder"] is not None else tempfile.gettempdir(),
            file=given["file"],
            quick=given["quick"],
            repeats=given["repeats"],
            out=given["out"],
            json=given["json_path"],
            overwrite=given["overwrite"],
        )
    )


@ferry.command(name="info", short_help="What this machine offers, and how PATH is served.")
@click.argument("path", metavar="[PATH]", required=False)
@_OVERWRITE
@_JSON
def info_command(path: str | None, json_path: str | None, overwrite: bool) -> None:
    """What this machine offers: device, I/O server, placements, what is degraded and built in.

    With PATH: its file system and block device, whether direct I/O is possible, and how Ferry
    would serve it and why.
    """
    info.run(path, json_path, overwrite)


def _on_signal(number: int, _frame: Any) -> None:
    raise Terminated(number)


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command; returns the exit status."""
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _on_signal)
    try:
        ferry.main(arguments, prog_name="ferry", standalone_mode=False)
        sys.stdout.flush()
        return 0
    except click.ClickException as error:
        return _usage_error(error)
    except FerryError as error:
        terminal.say(str(error))
        return 1
    except (click.Abort, KeyboardInterrupt) as error:
        terminal.say("interrupted; scratch files are removed")
        cause = error if isinstance(error, Terminated) else error.__cause__
        return 128 + (cause.signal_number if isinstance(cause, Terminated) else signal.SIGINT)
    except BrokenPipeError:
        # Nobody reads on; keep the interpreter from flushing into the closed pipe at its end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        terminal.say(f"{where}{error.strerror or error}; see that it is there and can be used")
        return 1


def _usage_error(error: click.ClickException) -> int:
    context = getattr(error, "ctx", None)
    command = context.command_path if context is not None else "ferry"
    message = error.format_message().rstrip(".")
    terminal.say(f"{message}; {command} --help explains")
    return error.exit_code
