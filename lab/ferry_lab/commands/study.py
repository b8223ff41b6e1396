"""``ferry study``."""

from __future__ import annotations

import tempfile
from typing import Any

import click

from ferry import flags
from ferry.uris import is_uri, why_no_uri
from ferry_lab.stats.limits import PAIRS_MIN
from ferry_lab.studies import SIMULATED, STUDIES, find_study


@click.command(name="study", short_help="Answer a question with a fixed matrix of measurements.")
@click.argument("name", metavar="NAME", type=click.Choice([*STUDIES]))
@click.option(
    "--dir", "folder", metavar="DIR", type=flags.PATH_TYPE, help="Folder for scratch files ($TMPDIR or /tmp)."
)
@click.option("--file", metavar="FILE", type=flags.PATH_TYPE, help="Measure reads of FILE, which is never changed.")
@click.option(
    "--storage", metavar="URI", help="Also measure a storage that is not mounted: ceph:/path, nfs://server/path."
)
@click.option("--quick", is_flag=True, help="Measure fewer points and fewer repeats.")
@click.option(
    "--repeats",
    type=flags.CountType(2, 100_000),
    help=f"Repeats per point ({PAIRS_MIN}, fewer for large ones; with --quick 6 or 12).",
)
@click.option(
    "--out",
    metavar="DIR",
    type=flags.PATH_TYPE,
    help="Write the results to DIR, from which an interrupted study continues.",
)
@click.option("--simulate", is_flag=True, help="Run a model of a cluster instead of measuring.")
@click.option(
    "--cluster",
    metavar="FILE",
    type=flags.PATH_TYPE,
    help="With --simulate: the cluster as TOML (the Cray XT3 of Fahey 2007).",
)
@flags.OVERWRITE
@flags.JSON
def command(name: str, simulate: bool, cluster: str | None, **given: Any) -> None:
    """Answer one question with a fixed matrix of measurements.

    \b
    placements   Where should a device program's calls run, by transfer size?
                 Compares host, compute, service and automatic with pread/pwrite
                 and mmap: reads with a cold and a warm device cache, writes
                 alone, with flush and with fsync, and programs that compute on
                 the data. Reports where the curves cross.
    optimizations
                 What does each optimisation of the page cache gain? Writes,
                 re-writes, reads and re-reads of 4 MiB records with none, one
                 and all of them, by file size; tmpfs and ramfs for comparison
                 (as root); unaligned buffers; small files.
    storages     How fast is each storage, and how does it scale with threads?
                 Writes, writes with fsync, cold reads and re-reads, by file
                 size: the file system of --dir, tmpfs, and as root ramfs, ext4,
                 xfs and btrfs on loop devices; NFS, CephFS, PVFS2 and Lustre if
                 mounted, named by --storage or started by ferry rig; the bare
                 disk.
    writers      How many ranks should write for all (aggregators)? One shared
                 file or one per writer; all ranks, or some that gather the
                 others' data; where the time goes. With --simulate: a model of
                 a cluster, compared with published numbers.
    interfaces   Which interface is fastest for many ranks on one file, by
                 transfer size? POSIX, MPI-IO, Ferry's file views, and with
                 --storage the storage's own client library.
    endian       What does byte-swapped output cost, for one rank and for many?
    stripes      How do stripe count, stripe size and the writers' buffer matter,
                 for one writer and many? With --storage on CephFS.
    scale        How do one call's cost and its tail grow? With callers, cache,
                 page size, hit rate, file size, small files, open files, and
                 writes among the readers of a page; is any caller starved?

    The output begins with what the numbers show; tables follow. Scratch files are always removed.
    """
    if simulate or cluster is not None:
        _simulate(name, simulate, cluster, given)
        return
    from ferry_lab.run import study

    chosen = find_study(name)
    if given["file"] is not None and not chosen.takes_file:
        raise click.UsageError(f"--file is not for the study {name}, which makes its own files")
    if given["storage"] is not None and not chosen.takes_storage:
        raise click.UsageError(f"--storage is not for the study {name}; --dir says where to measure")
    if given["storage"] is not None and not is_uri(given["storage"]):
        raise click.UsageError(why_no_uri(given["storage"]) or f"{given['storage']} is no URI; --dir is for folders")
    if given["file"] is not None and given["folder"] is not None:
        raise click.UsageError("--dir is for scratch files; with --file nothing is written")
    folder = given.pop("folder")
    where = tempfile.gettempdir() if folder is None else folder
    options = study.StudyOptions(where, json=given.pop("json_path"), folder_given=folder is not None, **given)
    study.run(chosen(), options)


def _simulate(name: str, simulate: bool, cluster: str | None, given: dict[str, Any]) -> None:
    """Runs the model. Raises UsageError for flags that only measuring takes, or only the model."""
    if name != SIMULATED:
        raise click.UsageError(f"--simulate and --cluster are for the study {SIMULATED}")
    if not simulate:
        raise click.UsageError("--cluster is for the model of a cluster; add --simulate")
    for key, flag in {"folder": "--dir", "file": "--file", "repeats": "--repeats", "storage": "--storage"}.items():
        if given.pop(key) is not None:
            raise click.UsageError(f"{flag} is for measuring, and --simulate measures nothing")
    from ferry_lab.studies import writers_simulate

    writers_simulate.run(writers_simulate.Options(cluster=cluster, json=given.pop("json_path"), **given))
