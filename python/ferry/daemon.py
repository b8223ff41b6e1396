"""``ferry daemon``: ferryd, whose page cache all programs of ``ferry run`` share."""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import subprocess
import tempfile
import time
from typing import IO, TYPE_CHECKING, Any

from ferry import output_files
from ferry.errors import FerryError
from ferry.machine_memory import available_bytes
from ferry.programs import find_program
from ferry.sizes import GIB, MIB, format_size

if TYPE_CHECKING:
    from rich.console import Console

Json = dict[str, Any]

PROGRAM = "ferryd"
LEAST_CACHE_BYTES = 16 * MIB
_MOST_CACHE_BYTES = 4 * GIB  # of the cache that nobody gave a size
_START_TIMEOUT_S = 10.0
_START_POLL_S = 0.02
_ANSWER_TIMEOUT_S = 25.0  # more than ferryd_main.cpp waits for another to answer and to end, 22 s

# What stands under a program and is not meant for ferryd.
_NOT_FOR_FERRYD = ("LD_PRELOAD", "FERRY_IOBUF", "FERRY_MOUNT_", "FERRY_RUN_")

# The rows of `status`: JSON key, printed name, and whether it is a size.
_ROWS = (
    ("pid", "process", False),
    ("clients", "programs", False),
    ("files", "files", False),
    ("cache_bytes", "cache", True),
    ("cached_bytes", "cached", True),
    ("hits", "hits", False),
    ("fills", "fills", False),
    ("breaks", "leases broken", False),
    ("version", "version", False),
)


class NotServedError(FerryError):
    """No ferryd serves the socket."""


class ServedError(FerryError):
    """Another ferryd has the socket."""


# What the errors of ferryd begin with that mean more than that it failed.
_MEANINGS = {"no ferryd serves": NotServedError, "another ferryd serves": ServedError}


def socket_path() -> str:
    """Returns the path of this user's socket: $FERRY_RUN_SOCKET if set."""
    if given := os.environ.get("FERRY_RUN_SOCKET"):
        return os.path.abspath(given)
    runtime_dir = os.environ.get("XDG_RUNTIME_DIR", "")
    if os.path.isabs(runtime_dir):
        return os.path.join(runtime_dir, "ferry", "ferryd.sock")
    return f"/tmp/ferry-{os.getuid()}/ferryd.sock"


def start(cache_bytes: int | None, idle_s: int) -> None:
    """Starts ferryd unless one serves, and prints which one does. Raises FerryError."""
    found, started = ensure(cache_bytes, idle_s)
    how = "serves" if started else "already serves"
    cache = format_size(found["cache_bytes"])
    print(f"ferryd {found['pid']} {how} {socket_path()} with a cache of {cache}")


def stop() -> None:
    """Ends ferryd. Raises FerryError, also if none serves."""
    _ask("stop")
    print(f"no ferryd serves {socket_path()} any more")


def status(json_path: str | None, overwrite: bool) -> None:
    """Prints what ferryd counted, and writes the JSON file (``ferry.daemon/1``). Raises FerryError."""

    def answer() -> Json:
        return {"schema": "ferry.daemon/1", "socket": socket_path(), **_ask("status")}

    output_files.report(json_path, overwrite, answer, _show)


def _show(console: Console, answer: Json) -> None:
    console.print(f"{'socket':<14} {answer['socket']}", soft_wrap=True)
    for key, name, is_size in _ROWS:
        value = format_size(answer[key]) if is_size else str(answer[key])
        console.print(f"{name:<14} {value}", soft_wrap=True)


def ensure(cache_bytes: int | None, idle_s: int) -> tuple[Json, bool]:
    """Returns process and cache of the ferryd that serves, and whether this call has started it.

    One that serves already keeps its cache. Raises FerryError.
    """
    if cache_bytes is not None and cache_bytes < LEAST_CACHE_BYTES:
        least = format_size(LEAST_CACHE_BYTES)
        raise FerryError(f"a cache of {format_size(cache_bytes)} is too small; --cache takes {least} or more")
    deadline = time.monotonic() + _START_TIMEOUT_S
    while True:
        with contextlib.suppress(NotServedError):
            return _ask("status"), False
        size = _default_cache_bytes() if cache_bytes is None else _fitting(cache_bytes)
        try:
            ready = _start({"cache_bytes": size, "idle_s": idle_s})
            return {"pid": ready["pid"], "cache_bytes": size}, True
        except ServedError:  # by one that is about to listen, or to end
            if time.monotonic() > deadline:
                raise
            time.sleep(_START_POLL_S)


def _fitting(cache_bytes: int) -> int:
    available = available_bytes()
    if cache_bytes > available:
        raise FerryError(
            f"a cache of {format_size(cache_bytes)} does not fit into memory; {format_size(available)} are available"
        )
    return cache_bytes


def _default_cache_bytes() -> int:
    """Returns a quarter of the memory that is available, and 4 GiB at most."""
    available = available_bytes()
    size = min(available // 4, _MOST_CACHE_BYTES) // MIB * MIB
    if size < LEAST_CACHE_BYTES:
        raise FerryError(
            f"too little memory: {format_size(available)} are available, and ferryd's cache takes a quarter of "
            "that and 16 MiB at least; free some, or set its size with --cache"
        )
    return size


def _ask(action: str) -> Json:
    """Returns ferryd's answer to one request. Raises FerryError with its error."""
    try:
        done = subprocess.run(
            [find_program(PROGRAM), _request(action, {})],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            env=_environment(),
            timeout=_ANSWER_TIMEOUT_S,
        )
    except subprocess.TimeoutExpired:
        raise FerryError(
            f"the ferryd at {socket_path()} does not answer; see whether it is stopped, or end it"
        ) from None
    answer = _last_answer(done.stdout)
    if done.returncode != 0 or not answer or _error_of(answer):
        raise _failure(answer, done.stderr, done.returncode)
    return answer


def _request(action: str, settings: Json) -> str:
    return json.dumps({"action": action, "socket": socket_path(), **settings})


def _environment() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if not name.startswith(_NOT_FOR_FERRYD)}


def _last_answer(output: bytes) -> Json:
    found: Json = {}
    for line in output.splitlines():
        try:
            read = json.loads(line)
        except ValueError:
            continue
        if isinstance(read, dict):
            found = read
    return found


def _error_of(answer: Json) -> str:
    return " ".join(str(answer.get("error") or answer.get("message") or "").split())


def _failure(answer: Json, messages: bytes, status: int | None) -> FerryError:
    """Returns ferryd's error, or one that says how it ended."""
    if error := _error_of(answer):
        kinds = (kind for begin, kind in _MEANINGS.items() if error.startswith(begin))
        return next(kinds, FerryError)(error)
    said = messages.decode(errors="replace").strip().splitlines()
    how = "at once"
    if status is not None:
        how = f"with signal {-status}" if status < 0 else f"with exit status {status}"
    return FerryError(f"{PROGRAM} ended {how}{': ' + said[-1] if said else ''}; please report this")


def _start(settings: Json) -> Json:
    """Starts ferryd and returns its line "ready". Raises FerryError."""
    program = os.path.abspath(find_program(PROGRAM))
    with tempfile.TemporaryFile() as messages:
        reading = _spawn_apart([program, _request("serve", settings)], messages)
        try:
            process, output, ended = _lines_until_ready(reading)
        finally:
            os.close(reading)
        answer = _last_answer(output)
        if answer.get("ready"):
            return answer
        if not ended:
            if process:
                os.kill(process, signal.SIGKILL)
            raise FerryError(f"{PROGRAM} is not ready after {_START_TIMEOUT_S:.0f} s; it was ended")
        messages.seek(0)
        raise _failure(answer, messages.read(), None)


def _spawn_apart(command: list[str], messages: IO[bytes]) -> int:
    """Starts a process in a session of its own; returns a pipe with its number, then its output.

    It becomes a child of init: a program that takes the place of this process must not find a child
    that it has not started. Of this process's descriptors it gets none.
    """
    environment = _environment()
    reading, writing = os.pipe()
    middle = os.fork()
    if middle == 0:
        try:
            os.setsid()
            if os.fork() == 0:
                os.write(writing, b"%d\n" % os.getpid())
                os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
                os.dup2(writing, 1)
                os.dup2(messages.fileno(), 2)
                os.closerange(3, 1 << 20)
                os.chdir("/")
                os.execve(command[0], command, environment)
        except OSError as error:
            os.write(2, f"{error.strerror}\n".encode())
        finally:
            os._exit(127)
    os.close(writing)
    os.waitpid(middle, 0)
    return reading


def _lines_until_ready(reading: int) -> tuple[int | None, bytes, bool]:
    """Reads the number of the process and its first line; also returns whether the output ended."""
    deadline = time.monotonic() + _START_TIMEOUT_S
    content = b""
    ended = False
    while content.count(b"\n") < 2 and not ended:
        left = deadline - time.monotonic()
        if left <= 0 or not select.select([reading], [], [], left)[0]:
            break
        piece = os.read(reading, 4096)
        ended = not piece
        content += piece
    number, _, output = content.partition(b"\n")
    return int(number) if number.isdigit() else None, output, ended or output.count(b"\n") > 0
