"""``ferry study``."""

from __future__ import annotations

import tempfile
from typing import Any

import click

from ferry import flags
from ferry.uris import is_uri
from ferry_lab.stats.limits import PAIRS_MIN
from ferry_lab.studies import SIMULATED, STUDIES, find_study


@click.command(name="study", short_help="A fixed matrix of measurements that answers a question.")
@click.argument("name", metavar="NAME", type=click.Choice([*STUDIES]))
@click.option(
    "--dir",
    "folder",
    metavar="DIR",
    type=flags.PATH_TYPE,
    help="Where scratch files go ($TMPDIR or /tmp).",
)
@click.option(
    "--file",
    metavar="FILE",
    type=flags.PATH_TYPE,
    help="Measure reading FILE, which is never changed.",
)
@click.option(
    "--storage",
    metavar="URI",
    help="Measure a storage that is not mounted, too: ceph:/path, nfs://server/path.",
)
@click.option("--quick", is_flag=True, help="Fewer points and fewer repeats.")
@click.option(
    "--repeats",
    type=flags.CountType(2, 100_000),
    help=f"How often to measure each point ({PAIRS_MIN}, fewer of what is large; with "
    "--quick 6 or 12).",
)
@click.option(
    "--out",
    metavar="DIR", type=flags.PATH_TYPE,
    help="Write the results into DIR; an interrupted study goes on from there.",
)
@click.option("--simulate", is_flag=True, help="Compute a model of a cluster; measure nothing.")
@click.option(
    "--cluster",
    metavar="FILE", type=flags.PATH_TYPE,
    help="With --simulate: the cluster, as TOML (the Cray XT3 of paper 004).",
)
@flags.OVERWRITE
@flags.JSON
def command(name: str, **given: Any) -> None:
    """A fixed matrix of measurements that answers one question.

    \b
    placements   Which way should a device program's reads and writes go, by
                 transfer size? The placements host, compute, service and
                 automatic beside pread/pwrite and mmap: reads with the device's
                 cache cold and warm, writes as call, call + flush and call +
                 fsync, and programs that compute on what they read or write.
                 Says where the curves cross.
    optimizations
                 What is each optimisation of the page cache worth? Writes,
                 re-writes, reads and re-reads of 4 MiB records with all off,
                 each on alone, and all on, by file size; the kernel's tmpfs and
                 ramfs beside them (as root); unaligned buffers; small files.
    storages     Which storage is how fast, and scales with threads? Writes,
                 writes with fsync, cold reads and re-reads by one thread and
                 many, and by file size: the file system of --dir, tmpfs, and as
                 root ramfs, ext4, xfs and btrfs on loop devices; NFS, CephFS,
                 PVFS2 and Lustre as far as they are mounted, named by --storage
                 or started by ferry rig; what the disk itself gives.
    writers      How many ranks should write for all? One shared file or one for
                 each writer, by all ranks or by some that gather, or take in
                 turn, what the others have; where the time goes. With
                 --simulate: a model of a cluster, held against published
                 numbers.
    interfaces   Which interface is fastest for many ranks on one file, by
                 transfer size? POSIX, MPI-IO, Ferry's file views, and with
                 --storage the storage's own client library.
    endian       What does byte-swapped output cost, for one rank and for many?
    stripes      What do stripe count, stripe size and the writers' buffer
                 change, for one writer and many? With --storage on CephFS.

    Scratch files are removed, whatever happens. The output begins with what the numbers show, and
    no more than that; tables follow.
    """
    if given["simulate"] or given["cluster"] is not None:
        _simulate(name, given)
        return
    from ferry_lab.run import study

    chosen = find_study(name)
    if given["file"] is not None and not chosen.takes_file:
        raise click.UsageError(f"--file is not for the study {name}, which makes its own files")
    if given["storage"] is not None and not chosen.takes_storage:
        raise click.UsageError(f"--storage is not for the study {name}; --dir says where to measure")
    if given["storage"] is not None and not is_uri(given["storage"]):
        raise click.UsageError(f"{given['storage']} is no URI; --dir is for folders")
    if given["file"] is not None and given["folder"] is not None:
        raise click.UsageError("--dir is for scratch files; with --file nothing is written")
    study.run(
        chosen(),
        study.StudyOptions(
            folder=given["folder"] if given["folder"] is not None else tempfile.gettempdir(),
            file=given["file"],
            quick=given["quick"],
            repeats=given["repeats"],
            out=given["out"],
            json=given["json_path"],
            overwrite=given["overwrite"],
            storage=given["storage"],
            folder_given=given["folder"] is not None,
        ),
    )


def _simulate(name: str, given: dict[str, Any]) -> None:
    """Runs the model. Raises UsageError for flags that belong to measuring, and the other way."""
    if name != SIMULATED:
        raise click.UsageError(f"--simulate and --cluster are for the study {SIMULATED}")
    if not given["simulate"]:
        raise click.UsageError("--cluster is for the model of a cluster; add --simulate")
    for key, flag in (
        *(("folder", "--dir"), ("file", "--file"), ("repeats", "--repeats")),
        ("storage", "--storage"),
    ):
        if given[key] is not None:
            raise click.UsageError(f"{flag} is for measuring, and --simulate measures nothing")
    from ferry_lab.studies import writers_simulate

    writers_simulate.run(
        writers_simulate.Options(
            cluster=given["cluster"],
            quick=given["quick"],
            out=given["out"],
            json=given["json_path"],
            overwrite=given["overwrite"],
        )
    )
