"""The ``ferry`` command: its arguments and exit status.

Exit status: 0 done, 1 it could not be done, 2 wrong arguments, 130 Ctrl-C (128 + signal number);
of ``run`` the program's.
Every error is one line on standard error.
"""

from __future__ import annotations

import errno
import signal
import sys
from collections.abc import Sequence
from typing import Any

import click
from click import shell_completion
from click.shell_completion import CompletionItem

from ferry import __version__, flags, laboratory, programs, rig, streams
from ferry.errors import FerryError, FerryErrors, Terminated

# Laid out for 80 columns on any terminal: ./ferry prints stored copies of the help.
_CONTEXT: dict[str, Any] = {"help_option_names": ["-h", "--help"], "terminal_width": 80, "max_content_width": 80}
SHELLS = ("bash", "zsh", "fish")


class _Commands(click.Group):
    """The package's own commands, and the laboratory's where it is installed."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Returns the names of all available commands."""
        return sorted([*super().list_commands(ctx), *laboratory.names()])

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Returns one command. Raises FerryError for a laboratory command that is not installed."""
        return super().get_command(ctx, cmd_name) or laboratory.command(cmd_name)


def _show_help_if_alone(context: click.Context) -> None:
    """Shows the help page of a group that is called without one of its commands."""
    if context.invoked_subcommand is None:
        click.echo(context.get_help())


def _show_version(context: click.Context) -> None:
    click.echo(f"ferry {__version__}\n{programs.build_facts()}", nl=False)
    context.exit()


@click.group(cls=_Commands, context_settings=_CONTEXT, invoke_without_command=True)
@click.option(
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=lambda context, _, wanted: _show_version(context) if wanted else None,
    help="Show the version and what is built in, and exit.",
)
@click.pass_context
def ferry(context: click.Context) -> None:
    """File I/O for many-core devices: measure it on this machine and choose settings.

    For the options of a command: ferry COMMAND --help
    """
    _show_help_if_alone(context)


@ferry.command(name="info", short_help="Show what this machine offers and how PATH is served.")
@click.argument("path", metavar="[PATH]", type=flags.PATH_TYPE, required=False)
@flags.OVERWRITE
@flags.JSON
def info_command(path: str | None, json_path: str | None, overwrite: bool) -> None:
    """Show what this machine offers: device, I/O server, placements, degraded and built-in features.

    With PATH, also show its file system and block device, whether direct I/O is possible, how
    Ferry would serve it and why, and which profile (see ferry tune) applies.
    """
    from ferry import info

    info.run(path, json_path, overwrite)


@ferry.command(name="cp", short_help="Copy a file between any two storages, verified.")
@click.argument("source", metavar="SRC", type=flags.PATH_TYPE)
@click.argument("target", metavar="DST", type=flags.PATH_TYPE)
@flags.OVERWRITE
@flags.JSON
def cp_command(source: str, target: str, json_path: str | None, overwrite: bool) -> None:
    """Copy the file SRC to DST, between any two storages.

    Each is a path or a URI like nfs://server/export/file, ceph:/file or
    pvfs2:/mount/file. If DST is a directory, the file keeps its name.

    The copy is written under a temporary name in DST's folder, made durable, read back and
    compared, and then renamed. If anything fails, DST is unchanged. DST gets SRC's permissions,
    and its owner can always read and write it. Owner and times are not kept; holes are filled.
    """
    from ferry import copy

    copy.run(source, target, json_path, overwrite)


@ferry.group(name="layout", invoke_without_command=True, short_help="Show or set how files are striped over servers.")
@click.pass_context
def layout_group(context: click.Context) -> None:
    """Show or set how files are striped over a storage's servers.

    Works with CephFS (ceph:/path or mounted), PVFS2 (pvfs2:/mount/path) and mounted Lustre.
    """
    _show_help_if_alone(context)


@layout_group.command(name="get")
@click.argument("path", metavar="PATH", type=flags.PATH_TYPE)
@flags.OVERWRITE
@flags.JSON
def layout_get(path: str, json_path: str | None, overwrite: bool) -> None:
    """Show the layout of PATH, or the one that new files of a directory get."""
    from ferry import layout

    layout.get(path, json_path, overwrite)


@layout_group.command(name="set", short_help="Make a file with a layout, or give one to a directory.")
@click.argument("path", metavar="PATH", type=flags.PATH_TYPE)
@click.option("--stripe-size", type=flags.SizeType(), help="Consecutive bytes on one server.")
@click.option("--stripe-count", type=flags.CountType(1, 1 << 20), help="Number of servers (objects).")
@click.option("--object-size", type=flags.SizeType(), help="CephFS: bytes in one object.")
@click.option("--pool", metavar="NAME", help="The storage pool.")
@click.option("--first-server", type=flags.CountType(0, 1 << 20), help="Lustre: the first OST.")
@click.option("--overstripe", is_flag=True, help="Lustre: allow several stripes on one OST.")
@click.option(
    "--part",
    "parts",
    metavar="END[,size=SIZE][,count=N|all][,first=N][,pool=NAME][,overstripe]",
    type=flags.PartType(),
    multiple=True,
    help="Lustre: the layout up to END, a size or 'end'; repeat for each part.",
)
@click.option("--at-most", is_flag=True, help="Accept less than asked for, and report it.")
@flags.OVERWRITE
@flags.JSON
def layout_set(path: str, json_path: str | None, overwrite: bool, **given: Any) -> None:
    """Make the empty file PATH with a layout, or give one to the directory PATH.

    Existing files are refused: their layout cannot change. The storage chooses what you leave out.
    Prints the layout that was granted.
    """
    from ferry import layout

    wanted = layout.Wanted(**given)
    settings = wanted.request().keys()
    if settings <= {"at_most"}:
        raise click.UsageError("say what to set, for example --stripe-count 4")
    if wanted.parts and not settings <= {"parts", "at_most"}:
        raise click.UsageError("with --part, settings are given in each part: --part 4m,size=1m")
    layout.set_layout(path, wanted, json_path, overwrite)


def _folders(_ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    return [CompletionItem(incomplete, type="dir")]


def _files(_ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    return [CompletionItem(incomplete, type="file")]


class _RunCommand(click.Command):
    """``ferry run``: of its options, --summary may have a value, and only after an equals sign."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Gives --summary the value that stands for none, where it has none."""
        given = list(args)
        for number, word in enumerate(given):
            after_value = number > 0 and given[number - 1] in ("--map", "--buffer", "--cache")
            if word == "--" or not (word.startswith("-") or after_value):
                break  # the program
            if word == "--summary" and not after_value:
                given[number] = "--summary=-"
        return super().parse_args(ctx, given)


@ferry.command(
    name="run",
    cls=_RunCommand,
    context_settings={"allow_interspersed_args": False},
    short_help="Run a program as it is, its files served by Ferry.",
)
@click.argument(
    "words", metavar="-- PROGRAM [ARGS]...", nargs=-1, required=True, type=click.UNPROCESSED, shell_complete=_files
)
@click.option(
    "--map",
    "maps",
    metavar="FOLDER[=URI]",
    multiple=True,
    shell_complete=_folders,
    help="Serve the files below this folder alone, or let it hold the files of a URI; repeat for more.",
)
@click.option(
    "--buffer",
    "buffers",
    metavar="PATTERN[:size=BYTES][:count=N]",
    multiple=True,
    help="Gather small requests to the files that match; repeat for more.",
)
@click.option("--cache", metavar="SIZE", type=flags.SizeType(), help="ferryd's cache, if this command starts it.")
@click.option("--mpi-io", is_flag=True, help="Carry out the collective MPI-IO of MPI programs.")
@click.option("--hdf5", is_flag=True, help="Read and write HDF5's files, also by URI, with HDF5 1.14 or newer.")
@click.option("--summary", metavar="[=FILE]", help="At the end, show what was served, or append it to FILE.")
@click.option("--explain", is_flag=True, help="First say what is served, and what is not and why.")
@click.option("--or-plain", is_flag=True, help="If Ferry cannot serve it, run the program without.")
def run_command(words: tuple[str, ...], **given: Any) -> None:
    """Run PROGRAM as it is. Files that it reads are served from one cache for all processes.

    Without --map FOLDER these are the regular files outside the system's folders. ferryd, which has the
    cache, starts with the first program and ends five minutes after the last. Whatever Ferry does
    not serve goes to the kernel, as without it.

    The exit status is PROGRAM's; 127 if there is no such program, 126 if it cannot be executed.
    Programs that are linked statically or run with the rights of others run without Ferry.
    """
    from ferry import run

    run.run(words, run.RunOptions(**given))


@ferry.group(
    name="daemon", invoke_without_command=True, short_help="Start, stop or watch ferryd, the cache of ferry run."
)
@click.pass_context
def daemon_group(context: click.Context) -> None:
    """Start, stop or watch ferryd, which holds the cache that all programs of ferry run share.

    There is one for each user and machine. ferry run starts it where none serves.
    """
    _show_help_if_alone(context)


@daemon_group.command(name="start")
@click.option("--cache", metavar="SIZE", type=flags.SizeType(), help="The size of its cache.")
@click.option(
    "--idle",
    metavar="SECONDS",
    type=flags.CountType(0, 10**9),
    default=0,
    show_default=True,
    help="End after so long without a program; 0: stay.",
)
def daemon_start(cache: int | None, idle: int) -> None:
    """Start ferryd. One that serves already is left as it is.

    Without --cache, it gets a quarter of the memory that is free, 4 GiB at most.
    """
    from ferry import daemon

    daemon.start(cache, idle)


@daemon_group.command(name="stop")
def daemon_stop() -> None:
    """End ferryd. Programs go on without it."""
    from ferry import daemon

    daemon.stop()


@daemon_group.command(name="status")
@flags.OVERWRITE
@flags.JSON
def daemon_status(json_path: str | None, overwrite: bool) -> None:
    """Show what ferryd holds and what it has counted."""
    from ferry import daemon

    daemon.status(json_path, overwrite)


_RIG = click.argument("name", metavar="NAME", type=click.Choice(rig.NAMES))


@ferry.group(
    name="rig", invoke_without_command=True, short_help="Run real storage servers on this machine, for trials."
)
@click.pass_context
def rig_group(context: click.Context) -> None:
    """Run real storage servers on this machine, for trials. Needs root.

    \b
    nfs   nfs-ganesha, NFS version 3 (Debian packages nfs-ganesha,
          nfs-ganesha-vfs, rpcbind and iproute2)
    ceph  a Ceph cluster with CephFS: a monitor, a manager, four OSDs and an
          MDS (ceph-mon, ceph-mgr, ceph-osd, ceph-mds, ceph-common, uuid-runtime,
          iproute2)

    All files are in .ferry/rig of the checkout. The servers listen on the loopback device only
    (with --osd-mbps, on their own bridge). No system file is changed.
    """
    _show_help_if_alone(context)


@rig_group.command(name="up")
@_RIG
@click.option("--memory", is_flag=True, help="nfs: store in memory, until the server stops.")
@click.option("--disk", is_flag=True, help="ceph: store in files instead of memory.")
@click.option("--mount", is_flag=True, help="ceph: also mount it with ceph-fuse.")
@click.option(
    "--osd-mbps",
    metavar="N",
    type=flags.CountType(1, 999_999),
    help="ceph: limit each OSD to N Mbit/s each way, in its own network namespace.",
)
def rig_up(name: str, **given: bool | int | None) -> None:
    """Start the rig NAME, wait until it answers, and print its URI.

    A running rig is left as it is. A stopped one starts again; it keeps its files unless it stores
    them in memory.
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
    """Stop the rig NAME and remove everything it stored."""
    rig.run(["down", name])


@rig_group.command(name="status")
def rig_status() -> None:
    """List the running rigs and their URIs."""
    rig.run(["status"])


@ferry.command(name="help", short_help="Show the help page of a command.")
@click.argument("words", metavar="[COMMAND...]", nargs=-1)
@click.pass_context
def help_command(context: click.Context, words: tuple[str, ...]) -> None:
    """Show the help page of COMMAND, like COMMAND --help.

    For a command of a group: ferry help layout set
    """
    assert context.parent is not None
    page, rest = _command_named(context.parent, words)
    if rest:
        raise click.UsageError(f"No such command '{' '.join(words)}'", ctx=context.parent)
    click.echo(page.get_help())


def _command_named(page: click.Context, words: Sequence[str]) -> tuple[click.Context, Sequence[str]]:
    """Returns the context of the command that the first words name below ``page``, and the other words."""
    for number, word in enumerate(words):
        group = page.command
        command = group.get_command(page, word) if isinstance(group, click.Group) else None
        if command is None:
            return page, words[number:]
        page = click.Context(command, parent=page, info_name=word, **_CONTEXT)
    return page, ()


@ferry.command(name="completion", short_help="Print the setup for completion in a shell.")
@click.argument("shell", metavar="SHELL", type=click.Choice(SHELLS))
def completion_command(shell: str) -> None:
    """Print the setup that makes SHELL complete commands, flags and their values.

    \b
    bash   in ~/.bashrc:  eval "$(ferry completion bash)"
    zsh    in ~/.zshrc:   eval "$(ferry completion zsh)"
    fish   once:          ferry completion fish > \\
                            ~/.config/fish/completions/ferry.fish
    """
    click.echo(completion(shell))


def completion(shell: str) -> str:
    """Returns the script by which one of SHELLS completes the command."""
    kind = shell_completion.get_completion_class(shell)
    assert kind is not None
    return kind(ferry, {}, "ferry", "_FERRY_COMPLETE").source()


def _on_signal(number: int, _frame: Any) -> None:
    raise Terminated(number)


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command; returns the exit status."""
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) != signal.SIG_IGN:  # as nohup leaves it
            signal.signal(number, _on_signal)
    # `ferry run` prints nothing there; the program may.
    starts_program = (sys.argv[1:] if arguments is None else arguments)[:1] == ["run"]
    if not streams.open_streams() and not starts_program:
        streams.say("standard output is closed; send it to /dev/null if you do not want it")
        return 1
    status = _run(arguments)
    try:
        sys.stdout.flush()
    except OSError as error:
        if not isinstance(error, BrokenPipeError) and status == 0:
            streams.say(_os_error(error))
        streams.close_output()
        return status or 1
    return status


def _run(arguments: Sequence[str] | None) -> int:
    try:
        ferry.main(arguments, prog_name="ferry", standalone_mode=False)
        sys.stdout.flush()
        return 0
    except click.ClickException as error:
        return _usage_error(error, sys.argv[1:] if arguments is None else arguments)
    except FerryError as error:
        *others, last = error.messages if isinstance(error, FerryErrors) else [str(error)]
        for message in others:
            streams.say(message)
        streams.say("; ".join([last, *_notes(error)]))
        return error.exit_status
    except (click.Abort, KeyboardInterrupt) as error:
        cause = error if isinstance(error, KeyboardInterrupt) else error.__cause__
        streams.say("; ".join(["interrupted", "scratch files are removed", *_notes(cause)]))
        return 128 + (cause.signal_number if isinstance(cause, Terminated) else signal.SIGINT)
    except BrokenPipeError:
        return 1  # the reader is gone
    except OSError as error:
        streams.say(_os_error(error))
        return 1
    except MemoryError:
        streams.say("out of memory; raise the limit of memory (ulimit -v)")
        return 1


def _os_error(error: OSError) -> str:
    if error.filename == "standard output" and error.errno == errno.ENOSPC:
        return "standard output: No space left on device; send it to another place"
    where = f"{error.filename}: " if error.filename else ""
    if error.errno in (errno.EMFILE, errno.ENFILE):
        return f"{where}{error.strerror}; raise the limit of open files (ulimit -n)"
    return f"{where}{error.strerror or error}; see that it is there and can be used"


def _notes(error: BaseException | None) -> list[str]:
    """Notes added to an error, for its one line."""
    return getattr(error, "__notes__", [])


def _usage_error(error: click.ClickException, arguments: Sequence[str]) -> int:
    context = getattr(error, "ctx", None)
    if context is None:  # click does not say which command an option without a value is of
        context, _ = _command_named(click.Context(ferry, info_name="ferry"), arguments)
    message = error.format_message().rstrip(".")
    stop = "" if message.endswith("?") else ";"  # click's "Did you mean 'info'?"
    streams.say(f"{message}{stop} {context.command_path} --help explains")
    return error.exit_code
