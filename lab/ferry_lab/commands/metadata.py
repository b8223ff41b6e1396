"""``ferry metadata``: its flags, named after mdtest's."""

from __future__ import annotations

import functools

import click

from ferry.flags import JSON, OVERWRITE, PATH_TYPE, CountType, SizeType
from ferry_lab.run.plan import PLACEMENTS, RuntimeSettings
from ferry_lab.stats.limits import FINDING_PAIRS_MIN

_FILE_BYTES_MAX = 1 << 30
_option = functools.partial(click.option, show_default=True)


@click.command(name="metadata", short_help="Rates of making, reading and removing files, as mdtest.")
@click.argument("folder", metavar="FOLDER", type=PATH_TYPE)
@_option("-n", "--files", type=CountType(1, 1 << 16), default=1000, help="Files of each thread.")
@_option("-w", "--file-size", "file_bytes", type=SizeType(), help="Bytes in each file (none).")
@_option(
    "-i", "--repetitions", "repeats", type=CountType(1, 100_000), default=FINDING_PAIRS_MIN, help="Number of repeats."
)
@_option(
    "-a", "--interface", type=click.Choice(["ferry", "posix"]), default="ferry", help="Ferry's calls, or the system's."
)
@_option(
    "--placement",
    type=click.Choice(PLACEMENTS),
    default="host",
    help="Where Ferry executes reads and writes, as for ferry bench.",
)
@_option("--threads", type=CountType(1, 4096), default=1, help="Device threads.")
@OVERWRITE
@JSON
def command(
    folder: str,
    files: int,
    file_bytes: int | None,
    repeats: int,
    interface: str,
    placement: str,
    threads: int,
    overwrite: bool,
    json_path: str | None,
) -> None:
    """Measure how many files a second are made, looked at, read and removed in FOLDER.

    Each thread makes its files (open, write, close), then asks for their sizes, then reads them
    (open, read, close), then removes them, as mdtest does; threads begin each step together. The
    files lie in one folder that is made in FOLDER, and removed. Contents are verified. FOLDER may
    be a URI like nfs://server/export or ceph:/, whose files lie in it.
    """
    from ferry.errors import FerryError
    from ferry.sizes import format_size
    from ferry.uris import is_uri
    from ferry_lab.run import metadata

    if files * threads > metadata.FILES_MAX:
        raise click.UsageError(
            f"-n and --threads make {files * threads} files; at most {metadata.FILES_MAX} are allowed"
        )
    if (file_bytes or 0) > _FILE_BYTES_MAX:
        raise click.UsageError(f"-w is at most {format_size(_FILE_BYTES_MAX)}; ferry bench measures large files")
    if interface != "ferry" and placement != "host":
        raise click.UsageError(f"--placement is for interface ferry, not {interface}")
    if interface != "ferry" and is_uri(folder):
        raise FerryError(f"-a {interface} reaches mounted file systems only; a URI is reached by -a ferry")
    metadata.run(
        metadata.MetadataOptions(
            folder=folder,
            interface=interface,
            placement=placement,
            files=files,
            file_bytes=file_bytes or 0,
            threads=threads,
            repeats=repeats,
            overwrite=overwrite,
            json=json_path,
            runtime=RuntimeSettings(device_threads=threads),
        )
    )
