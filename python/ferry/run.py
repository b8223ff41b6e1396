"""``ferry run``: an unmodified program, with its files served by ferryd and small requests buffered."""

from __future__ import annotations

import contextlib
import errno
import itertools
import os
import re
import signal
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NoReturn

from ferry import daemon, executables, files, maps, streams
from ferry.errors import FerryError
from ferry.programs import find_library, installed_prefix, is_checkout
from ferry.sizes import GIB, KIB, format_size, parse_size

LIBRARY = "libferry_run.so"
MPI_IO_LIBRARY = "libferry_mpiio.so"
HDF5_DRIVER = "ferry-hdf5/libferry_hdf5.so"
IDLE_S = 300
"""How long a ferryd that this command has started stays after its last program."""

# The forms of FERRY_IOBUF: what the library takes.
_BUFFER_UNIT = 4 * KIB
_MOST_BUFFER_BYTES = GIB
_MOST_BUFFERS = 1024

_SYSTEM_FOLDERS = "/usr, /lib, /lib64, /bin, /sbin, /etc, /proc, /sys, /dev and /run"


@dataclass
class RunOptions:
    """The options of ``ferry run``."""

    maps: Sequence[str] = ()
    buffers: Sequence[str] = ()
    mpi_io: bool = False
    hdf5: bool = False
    cache: int | None = None
    summary: str | None = None
    """The file for the summary; ``-`` is standard error, None no summary."""
    explain: bool = False
    or_plain: bool = False


def run(words: Sequence[str], options: RunOptions) -> NoReturn:
    """Replaces this process with a program and what stands under it. Raises FerryError."""
    targets = maps.targets(options.maps)
    program = _find(words[0], targets)
    environment = _original_environment()
    if why := executables.why_plain(program):
        without = "no read of it is served" if targets else "it runs without Ferry"
        streams.say(f"{program} {why}; {without}")
    else:
        try:
            environment |= _additions(options, targets, environment)
        except (FerryError, OSError) as error:
            if not options.or_plain:
                raise
            streams.say(f"{error}; {program} runs without Ferry")
    if targets:
        if "LD_PRELOAD" in environment:  # for the program, not for what maps
            environment["FERRY_MOUNT_PRELOAD"] = environment.pop("LD_PRELOAD")
        words = maps.command(targets, program, words)
        program = words[0]
    _become(program, words, environment)


def _is_mpi_library(name: str) -> bool:
    """Says whether a preloaded library has the MPI functions themselves, by its name."""
    return re.match(r"lib(p?mpi|mpich\d*|mpi_\w+|mpicxx|mpifort\w*)\.so", os.path.basename(name)) is not None


def _find(name: str, targets: Sequence[maps.Target]) -> str:
    """Returns a program's path. One below a target is there only once that is in place."""
    whole = os.path.abspath(name)
    if "/" in name and any(whole.startswith(f"{target.folder}/") for target in targets):
        return whole
    return executables.find(name)


def _original_environment() -> dict[str, str]:
    """Returns the environment that this command was given, without what another ``ferry run`` set."""
    environment = dict(os.environ)
    for name in ("FERRY_MPIIO_MAP", "FERRY_RUN_MAP", "FERRY_RUN_SUMMARY"):
        environment.pop(name, None)
    with contextlib.suppress(OSError), open("/proc/self/environ", "rb") as file:
        # In the C locale, Python sets this for itself.
        if not any(entry.startswith(b"LC_CTYPE=") for entry in file.read().split(b"\0")):
            environment.pop("LC_CTYPE", None)
    return environment


def _additions(options: RunOptions, targets: Sequence[maps.Target], environment: dict[str, str]) -> dict[str, str]:
    """Returns the variables that put Ferry under a program, once ferryd serves. Raises FerryError."""
    folders = maps.served_folders(options.maps)
    rules = [_buffer_rule(text) for text in options.buffers]
    summary = _summary_place(options.summary)
    first, mpi_io_libraries = [_library(LIBRARY)], [_library(MPI_IO_LIBRARY)] if options.mpi_io else []
    found, started = daemon.ensure(options.cache, IDLE_S)
    if options.cache not in (None, found["cache_bytes"]):
        size = format_size(found["cache_bytes"])
        streams.say(f"ferryd {found['pid']} serves already, with a cache of {size}; --cache changes nothing")
    if options.explain:
        mapped = [f"mapped: {target.folder} is {target.uri}, through FUSE" for target in targets]
        mpi_io = ["collective MPI-IO: by Ferry; all other MPI-IO by the MPI library"] if options.mpi_io else []
        hdf5 = ["HDF5's files: by Ferry, where the program's HDF5 is 1.14 or newer"] if options.hdf5 else []
        for line in [
            *mapped,
            *mpi_io,
            *hdf5,
            *_explanation(folders, rules, found["pid"], found["cache_bytes"], started),
        ]:
            streams.say(line)
    preloaded = re.split(r"[\s:]+", environment.get("LD_PRELOAD", ""))
    others = [name for name in preloaded if name not in ("", *first) and not name.endswith(f"/{MPI_IO_LIBRARY}")]
    # Tools that count MPI-IO call the functions of what is preloaded behind them.
    tools = list(itertools.takewhile(lambda name: not _is_mpi_library(name), others))
    variables = {
        "LD_PRELOAD": ":".join([*first, *tools, *mpi_io_libraries, *others[len(tools) :]]),
        "FERRY_RUN_SOCKET": daemon.socket_path(),
        "FERRY_RUN_MAP": ":".join(folders),
        "FERRY_RUN_SUMMARY": summary,
        "FERRY_IOBUF": ",".join(rules),
        "FERRY_MPIIO_MAP": "\n".join(f"{target.folder}={target.uri}" for target in targets) if options.mpi_io else "",
    }
    variables = {name: value for name, value in variables.items() if value}
    if options.hdf5:
        variables |= _hdf5_driver(environment)
    if rules and summary != "-" and "FERRY_IOBUF_SUMMARY" not in environment:
        variables["FERRY_IOBUF_SUMMARY"] = summary  # empty: none
    return variables


def _library(name: str) -> str:
    """Returns the path of a library, as LD_PRELOAD takes it. Raises FerryError."""
    try:
        library = str(find_library(name))
    except FerryError as error:
        if name != MPI_IO_LIBRARY:
            raise
        raise FerryError(_why_no_mpi_io(error)) from None
    if re.search(r"[\s:]", library):
        raise FerryError(
            f"{library} has a space or a colon in its path, which LD_PRELOAD does not take; install Ferry elsewhere"
        )
    return library


def _why_no_mpi_io(error: FerryError) -> str:
    """Returns how to get the library, for each place that the package can lie in."""
    if "FERRY_BUILD_DIR" not in os.environ:
        if prefix := installed_prefix():
            return (
                f"{MPI_IO_LIBRARY} is not below {prefix}; install Debian's package libferry-mpi0, or build Ferry "
                "where an MPI library is and install that"
            )
        if not is_checkout():
            return (
                f"{MPI_IO_LIBRARY} is not in a wheel that pip has built, which cannot know your MPI library; use one "
                "that `make wheels` builds in a checkout of Ferry"
            )
    return f"{error} where an MPI library of MPI 3.1 is installed (Debian: libmpich-dev or libopenmpi-dev)"


def _hdf5_driver(environment: dict[str, str]) -> dict[str, str]:
    """Returns the variables by which HDF5 takes Ferry for its files. Raises FerryError."""
    folder = str(find_library(HDF5_DRIVER).parent)
    # Without the variable HDF5 looks in folders of its own: usually in these.
    others = environment.get("HDF5_PLUGIN_PATH", "/usr/local/lib/plugin:/usr/local/hdf5/lib/plugin")
    if ":" in folder:
        raise FerryError(f"{folder} has a colon, which HDF5_PLUGIN_PATH does not take; install Ferry elsewhere")
    places = [folder, *(place for place in others.split(":") if place not in ("", folder))]
    return {"HDF5_DRIVER": "ferry", "HDF5_PLUGIN_PATH": ":".join(places)}


def _buffer_rule(text: str) -> str:
    """Returns an entry of FERRY_IOBUF. Raises FerryError."""
    pattern, *settings = text.split(":")
    if not pattern or "," in text:
        raise FerryError(f"--buffer {text}: a pattern is missing, or has a comma; repeat --buffer")
    rule = [pattern]
    for setting in settings:
        name, _, value = setting.partition("=")
        if name == "size":
            rule.append(f"size={_buffer_bytes(text, value)}")
        elif name == "count":
            if not re.fullmatch("[0-9]{1,4}", value) or not 1 <= int(value) <= _MOST_BUFFERS:
                limits = f"from 1 to {_MOST_BUFFERS}"
                raise FerryError(f"--buffer {text}: count is '{value}'; it is {limits}")
            rule.append(f"count={int(value)}")
        else:
            raise FerryError(f"--buffer {text}: '{setting}' is no setting; write size= or count=")
    return ":".join(rule)


def _buffer_bytes(text: str, value: str) -> int:
    try:
        size = parse_size(value)
    except ValueError as error:
        raise FerryError(f"--buffer {text}: {error}") from None
    if size % _BUFFER_UNIT or size > _MOST_BUFFER_BYTES:
        raise FerryError(f"--buffer {text}: size is '{value}'; it is a multiple of 4k, at most 1g")
    return size


def _summary_place(path: str | None) -> str:
    if path is None or path == "-":
        return path or ""
    whole = os.path.abspath(path)
    if os.path.isdir(whole):
        raise FerryError(f"--summary {path} is a directory; name a file in it")
    if os.path.exists(whole) and not os.access(whole, os.W_OK):
        raise FerryError(f"--summary {path} may not be written; name another file")
    files.check_folder(os.path.dirname(whole), 0)
    return whole


def _explanation(
    folders: Sequence[str], rules: Sequence[str], process: int, cache_bytes: int, started: bool
) -> list[str]:
    """Returns at most eight lines: what is served by whom, and what goes to the kernel and why."""
    state = "started now" if started else "which served before"
    where = f"below {', '.join(folders)}" if folders else f"outside {_SYSTEM_FOLDERS}"
    lines = [
        f"ferryd {process}, {state}, serves with a cache of {format_size(cache_bytes)}",
        f"served: pread, preadv, read and readv of regular files {where} that are open for reading alone",
    ]
    if rules:
        lines.append(f"buffered: {', '.join(rules)}")
    lines += [
        "to the kernel: files that anybody has open for writing; their bytes may change at any time",
        "to the kernel: file systems other than ext4, xfs, btrfs, F2FS and tmpfs; their files may change unseen",
    ]
    if os.geteuid() != 0:
        lines.append("to the kernel: files of other users; the kernel leases a file to its owner alone")
    lines.append("to the kernel: all other calls, among them write, mmap and sendfile")
    return lines


def _become(program: str, words: Sequence[str], environment: dict[str, str]) -> NoReturn:
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError):
            stream.flush()
    # Python ignores these, and a program would inherit that.
    for number in (signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(number, signal.SIG_DFL)
    try:
        try:
            os.execve(program, list(words), environment)
        except OSError as error:
            if error.errno != errno.ENOEXEC:
                raise
            os.execve("/bin/sh", ["/bin/sh", program, *words[1:]], environment)
    except OSError as error:
        missing = error.errno == errno.ENOENT
        kind = executables.NotFoundError if missing else executables.NotExecutableError
        raise kind(f"{program}: {error.strerror}; it cannot be executed") from None
