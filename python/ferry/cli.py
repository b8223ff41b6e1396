"""The ``ferry`` command: what it takes, and how it ends.

Exit status: 0 done, 1 it could not be done, 2 wrong arguments, 130 Ctrl-C (128 + signal number).
Whatever goes wrong is one line on standard error.
"""

from __future__ import annotations

import dataclasses
import errno
import signal
import sys
import tempfile
from collections.abc import Sequence
from typing import Any

import click
from click import shell_completion

from ferry import (
    bench,
    bench_flags,
    copy,
    flags,
    importing,
    info,
    judge,
    layout,
    rig,
    study,
    terminal,
    tune,
    tune_ranks,
    writers_simulate,
)
from ferry.errors import FerryError, Terminated
from ferry.studies import SIMULATED, STUDIES
from ferry.uris import is_uri

# Help is laid out for 80 columns whatever the terminal, because ./ferry prints stored copies of it.
_CONTEXT: dict[str, Any] = {
    "help_option_names": ["-h", "--help"],
    "terminal_width": 80,
    "max_content_width": 80,
}


@click.group(context_settings=_CONTEXT, invoke_without_command=True)
@click.pass_context
def ferry(context: click.Context) -> None:
    """File I/O for many-core devices: measures it here, and says what to choose.

    Every command explains itself: ferry COMMAND --help
    """
    if context.invoked_subcommand is None:
        click.echo(context.get_help())


@ferry.command(
    name="bench",
    cls=bench_flags.BenchCommand,
    short_help="One measurement, with IOR's flags and columns.",
)
@bench_flags.PATH
@flags.with_options(bench_flags.OPTIONS)
@flags.OVERWRITE
@flags.JSON
def bench_command(json_path: str | None, overwrite: bool, **given: Any) -> None:
    """One measurement of PATH, with IOR's flags and columns.

    Writing makes PATH, a new file, and removes it afterwards; with -r alone, PATH is read and
    never changed. Contents are verified, with -W and -R more strictly. Sizes take k, m, g and t as
    powers of 1024. bw counts from open to close, as IOR does. PATH may be a URI like
    nfs://server/export/file or ceph:/file, which -a ferry reaches.
    """
    bench.run(bench_flags.read_options(json_path, overwrite, given))


@ferry.command(name="import", short_help="Reads what IOR and fio measured.")
@click.argument("files", metavar="FILE...", type=flags.PATH_TYPE, nargs=-1, required=True)
@flags.OVERWRITE
@flags.JSON
def import_command(files: tuple[str, ...], json_path: str | None, overwrite: bool) -> None:
    """Reads what IOR, fio and ferry measured, and shows it in one table.

    \b
    FILE is what one of these wrote:
      ior ... -O summaryFormat=JSON -O summaryFile=FILE
      fio ... --output-format=json --output=FILE
      ferry bench ... --json FILE

    The same measurement in several files counts as repeats of it. --json writes all of them as one
    document of ferry's own schema.
    """
    importing.run(files, json_path, overwrite)


@ferry.command(name="study", short_help="A fixed matrix of measurements that answers a question.")
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
    help=f"How often to measure each point ({judge.PAIRS_MIN}, fewer of what is large; with "
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
def study_command(name: str, **given: Any) -> None:
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

    Scratch files are removed, whatever happens. The end of the output says what the numbers show,
    and no more than that.
    """
    if given["simulate"] or given["cluster"] is not None:
        _simulate(name, given)
        return
    chosen = STUDIES[name]
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
    writers_simulate.run(
        writers_simulate.Options(
            cluster=given["cluster"],
            quick=given["quick"],
            out=given["out"],
            json=given["json_path"],
            overwrite=given["overwrite"],
        )
    )


@ferry.command(name="tune", short_help="Measures what is fastest here, and writes the profile.")
@click.option(
    "--dir",
    "folder",
    metavar="DIR",
    type=flags.PATH_TYPE,
    help="Whose storage to tune (the current folder).",
)
@click.option(
    "--budget",
    "budget_s",
    metavar="SECONDS",
    type=flags.CountType(tune.BUDGET_S_MIN, 86_400),
    default=tune.BUDGET_S,
    show_default=True,
    help="How long to measure, about.",
)
@click.option(
    "--ranks",
    metavar="N",
    type=flags.CountType(1, tune_ranks.RANKS_MAX),
    help="Measure collective transfers of N MPI ranks too, beyond --budget (needs an MPI library).",
)
@click.option(
    "--out",
    metavar="FILE", type=flags.PATH_TYPE,
    help="Write the profile to FILE ($FERRY_PROFILE, or ferry/profile.toml in your configuration "
    "folder, where the library finds it).",
)
@flags.OVERWRITE
@flags.JSON
def tune_command(
    folder: str | None,
    budget_s: int,
    ranks: int | None,
    out: str | None,
    overwrite: bool,
    json_path: str | None,
) -> None:
    """Measures what is fastest on this machine, and writes the profile that the library reads.

    Tries page sizes, readahead, server threads, calls in flight, and from which size reads and
    writes are better made by the host, with files in DIR. What looks better is measured again
    beside the built-in setting; where the gain is within the noise, or anything gets slower, the
    built-in one stays. Other storages' entries in the profile are kept. Scratch files are removed,
    whatever happens.
    """
    tune.run(
        tune.TuneOptions(
            folder=folder if folder is not None else ".",
            budget_s=budget_s,
            ranks=ranks,
            out=out,
            json=json_path,
            overwrite=overwrite,
        )
    )


@ferry.command(name="info", short_help="What this machine offers, and how PATH is served.")
@click.argument("path", metavar="[PATH]", type=flags.PATH_TYPE, required=False)
@flags.OVERWRITE
@flags.JSON
def info_command(path: str | None, json_path: str | None, overwrite: bool) -> None:
    """What this machine offers: device, I/O server, placements, what is degraded and built in.

    With PATH: its file system and block device, whether direct I/O is possible, how Ferry would
    serve it and why, and which profile (see ferry tune) applies to it.
    """
    info.run(path, json_path, overwrite)


@ferry.command(name="cp", short_help="Copy a file between any two storages, verified.")
@click.argument("source", metavar="SRC", type=flags.PATH_TYPE)
@click.argument("target", metavar="DST", type=flags.PATH_TYPE)
@flags.OVERWRITE
@flags.JSON
def cp_command(source: str, target: str, json_path: str | None, overwrite: bool) -> None:
    """Copy the file SRC to DST, between any two storages.

    Each is a path or a URI like nfs://server/export/file, ceph:/file or
    pvfs2:/mount/file. Into a directory the file goes under its own name.

    What was written is made durable, read back and compared. Until then it has a name of its own in
    DST's folder: whatever goes wrong, DST is as it was before. DST gets SRC's permissions, and its
    owner may always read and write it; owner and times are not kept, and holes are filled.
    """
    copy.run(source, target, json_path, overwrite)


@ferry.group(name="layout", short_help="How files are striped over a storage's servers.")
def layout_group() -> None:
    """How files are striped over a storage's servers.

    CephFS has layouts, named by ceph:/path or mounted, so has PVFS2 (pvfs2:/mount/path), and so has
    Lustre as it is mounted.
    """


@layout_group.command(name="get")
@click.argument("path", metavar="PATH", type=flags.PATH_TYPE)
@flags.OVERWRITE
@flags.JSON
def layout_get(path: str, json_path: str | None, overwrite: bool) -> None:
    """Show the layout of PATH; of a directory, what is made in it gets."""
    layout.get(path, json_path, overwrite)


@layout_group.command(
    name="set", short_help="Make a file with a layout, or give one to a directory."
)
@click.argument("path", metavar="PATH", type=flags.PATH_TYPE)
@click.option("--stripe-size", type=flags.SizeType(), help="Bytes in a row on one server.")
@click.option(
    "--stripe-count", type=flags.CountType(1, 1 << 20), help="Over how many servers (objects)."
)
@click.option("--object-size", type=flags.SizeType(), help="CephFS: bytes in one object.")
@click.option("--pool", metavar="NAME", help="Which of the storage's pools.")
@click.option("--first-server", type=flags.CountType(0, 1 << 20), help="Lustre: the first OST.")
@click.option("--overstripe", is_flag=True, help="Lustre: several stripes on one OST are fine.")
@click.option(
    "--part",
    "parts",
    metavar="END[,size=SIZE][,count=N|all][,first=N][,pool=NAME][,overstripe]",
    type=flags.PartType(),
    multiple=True,
    help="Lustre: the layout up to END of the file, a size or 'end'; give one for each part.",
)
@click.option("--at-most", is_flag=True, help="Reduce what is not granted, and say so.")
@flags.OVERWRITE
@flags.JSON
def layout_set(path: str, json_path: str | None, overwrite: bool, **given: Any) -> None:
    """Make the empty file PATH with a layout, or give one to the directory PATH.

    A file that is there already keeps its layout, and is refused. What is not given is left to the
    storage. Shows the layout that was granted.
    """
    wanted = layout.Wanted(**given)
    if wanted.arguments() in ([], ["--at-most"]):
        raise click.UsageError("say what to set, for example --stripe-count 4")
    of_whole = dataclasses.replace(wanted, parts=(), at_most=False)
    if wanted.parts and of_whole.arguments():
        raise click.UsageError("with --part, settings are given in each part: --part 4m,size=1m")
    layout.set_layout(path, wanted, json_path, overwrite)


_RIG = click.argument("name", metavar="NAME", type=click.Choice(rig.NAMES))


@ferry.group(name="rig", short_help="Real storage servers on this machine, to try things out.")
def rig_group() -> None:
    """Real storage servers on this machine, to try things out. Needs root.

    \b
    nfs   nfs-ganesha, NFS version 3 (Debian packages nfs-ganesha,
          nfs-ganesha-vfs and rpcbind)
    ceph  a Ceph cluster with CephFS: a monitor, a manager, four OSDs and an
          MDS (ceph-mon, ceph-mgr, ceph-osd, ceph-mds, ceph-common, uuid-runtime)

    Everything lies in .ferry/rig of the checkout, and the servers listen on the loopback device
    alone (with --osd-mbps on a bridge of their own). No file of the system is changed.
    """


@rig_group.command(name="up")
@_RIG
@click.option("--memory", is_flag=True, help="nfs: store in memory; it ends with the server.")
@click.option("--disk", is_flag=True, help="ceph: store in files, else in memory.")
@click.option("--mount", is_flag=True, help="ceph: mount it by ceph-fuse, too.")
@click.option(
    "--osd-mbps", metavar="N", type=click.IntRange(1, 999_999),
    help="ceph: each OSD receives and sends at N Mbit/s at most, in a network namespace of its own.",
)
def rig_up(name: str, **given: bool | int | None) -> None:
    """Start the rig NAME, wait until it answers, and print its URI.

    One that is up already stays as it is. One that has ended starts again, with its files where it
    stores in files.
    """
    words: list[str] = []
    for option, value in given.items():
        if not value:
            continue
        word = f"--{option.replace('_', '-')}"
        if option not in rig.OPTIONS[name]:
            raise click.UsageError(f"rig up {name} takes no {word}")
        words += [word] if value is True else [word, str(value)]
    rig.run(["up", name, *words])


@rig_group.command(name="down")
@_RIG
def rig_down(name: str) -> None:
    """Stop the rig NAME and remove all that it stored."""
    rig.run(["down", name])


@rig_group.command(name="status")
def rig_status() -> None:
    """Say which rigs are up, with their URIs."""
    rig.run(["status"])


@ferry.command(name="help", short_help="The help page of a command.")
@click.argument("words", metavar="[COMMAND...]", nargs=-1)
@click.pass_context
def help_command(context: click.Context, words: tuple[str, ...]) -> None:
    """Shows the help page of COMMAND, as COMMAND --help does.

    A command of a group has a page, too: ferry help layout set
    """
    assert context.parent is not None
    page = context.parent
    for word in words:
        group = page.command
        command = group.get_command(page, word) if isinstance(group, click.Group) else None
        if command is None:
            raise click.UsageError(f"No such command '{' '.join(words)}'", ctx=context.parent)
        page = click.Context(command, parent=page, info_name=word, **_CONTEXT)
    click.echo(page.get_help())


@ferry.command(name="completion", short_help="What makes a shell complete commands and flags.")
@click.argument("shell", metavar="SHELL", type=click.Choice(["bash", "zsh", "fish"]))
def completion_command(shell: str) -> None:
    """Prints what makes SHELL complete commands, flags and their values.

    \b
    bash   in ~/.bashrc:  eval "$(ferry completion bash)"
    zsh    in ~/.zshrc:   eval "$(ferry completion zsh)"
    fish   once:          ferry completion fish > \\
                            ~/.config/fish/completions/ferry.fish
    """
    kind = shell_completion.get_completion_class(shell)
    assert kind is not None
    click.echo(kind(ferry, {}, "ferry", "_FERRY_COMPLETE").source())


def _on_signal(number: int, _frame: Any) -> None:
    raise Terminated(number)


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command; returns the exit status."""
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _on_signal)
    if not terminal.open_streams():
        terminal.say("standard output is closed; send it to /dev/null if you do not want it")
        return 1
    status = _run(arguments)
    try:
        sys.stdout.flush()
    except OSError as error:
        if not isinstance(error, BrokenPipeError) and status == 0:
            terminal.say(_os_error(error))
        terminal.close_output()
        return status or 1
    return status


def _run(arguments: Sequence[str] | None) -> int:
    try:
        ferry.main(arguments, prog_name="ferry", standalone_mode=False)
        sys.stdout.flush()
        return 0
    except click.ClickException as error:
        return _usage_error(error)
    except FerryError as error:
        terminal.say("; ".join([str(error), *_notes(error)]))
        return 1
    except (click.Abort, KeyboardInterrupt) as error:
        cause = error if isinstance(error, KeyboardInterrupt) else error.__cause__
        terminal.say("; ".join(["interrupted", "scratch files are removed", *_notes(cause)]))
        return 128 + (cause.signal_number if isinstance(cause, Terminated) else signal.SIGINT)
    except BrokenPipeError:
        return 1  # nobody reads on
    except OSError as error:
        terminal.say(_os_error(error))
        return 1


def _os_error(error: OSError) -> str:
    if error.filename == "standard output" and error.errno == errno.ENOSPC:
        return "standard output: No space left on device; send it to another place"
    where = f"{error.filename}: " if error.filename else ""
    return f"{where}{error.strerror or error}; see that it is there and can be used"


def _notes(error: BaseException | None) -> list[str]:
    """What was added to an error on its way, for its one line."""
    return getattr(error, "__notes__", [])


def _usage_error(error: click.ClickException) -> int:
    context = getattr(error, "ctx", None)
    command = context.command_path if context is not None else "ferry"
    message = error.format_message().rstrip(".")
    terminal.say(f"{message}; {command} --help explains")
    return error.exit_code
