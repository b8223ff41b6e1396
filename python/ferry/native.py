"""Runs the programs built beside the package, and reports their errors."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import re
import resource
import signal
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

from ferry.errors import FerryError
from ferry.programs import PROGRAM, find_program
from ferry.uris import SCHEMES, is_uri, shown

COPY_PROGRAM = "ferry-copy"
INFO_PROGRAM = "ferry-info"
LAYOUT_PROGRAM = "ferry-layout"
_STOP_TIMEOUT_S = 5.0

Json = dict[str, Any]

_SERVER_HINT = "see that its server runs and can be reached, then measure again"
# What to do about an error of the measured process, by errno.
_HINTS = {
    0: "something else changed the file meanwhile, or its storage gave wrong data; run the same "
    "again, then check the disk",
    errno.EACCES: "ask for permission or name another file",
    errno.ECONNREFUSED: _SERVER_HINT,
    errno.EEXIST: "--overwrite replaces it",
    errno.EFBIG: "measure less, or raise the limit (ulimit -f)",
    errno.EINVAL: "ferry info PATH says what its file system takes",
    errno.EIO: "see the kernel's log (dmesg)",
    errno.EMFILE: "raise the limit of open files (ulimit -n)",
    errno.ENOENT: "it was gone when it was needed; name a file that stays",
    errno.ENOMEM: "choose a smaller -t, --queue-depth or --threads",
    errno.ENOPKG: "ferry info PATH says which Debian package it is in",
    errno.ENOSPC: "free some space or choose another folder",
    errno.ENOTDIR: "a part of its path is no directory; name another",
    errno.EOPNOTSUPP: "ferry info PATH says what its file system takes",
    errno.EPERM: "ask for permission or name another file",
    errno.EROFS: "choose a folder on a file system that can be written",
    errno.ETIMEDOUT: _SERVER_HINT,
}

# What wrong contents mean where the storage is not to blame, by the end of the message.
_NO_PATTERN = " does not hold the pattern that ferry bench writes"
_NO_PATTERN_HINT = "make one with ferry bench -w -k, or read this one without -R"

# The C library says EAGAIN also where the limit of memory leaves no room for a thread's stack.
_REFUSED_THREAD_HINT = "raise the limit of processes (ulimit -u)"
if resource.getrlimit(resource.RLIMIT_AS)[0] != resource.RLIM_INFINITY:
    _REFUSED_THREAD_HINT = "raise the limit of memory (ulimit -v) or of processes (ulimit -u)"

_SETUP_HINTS = {
    errno.EINVAL: "ferry info shows what is in force without such settings",
    errno.ENOMEM: "choose a smaller -t, --queue-depth, --threads or --cache-size",
    errno.EAGAIN: f"choose fewer threads, or {_REFUSED_THREAD_HINT}",
    errno.EMFILE: _HINTS[errno.EMFILE],
    errno.ENODEV: "--device cpu needs none",
    errno.EIO: "free some space, then see the kernel's log (dmesg)",
}


_COPY_HINTS = {
    errno.EACCES: "ask for permission or name another path",
    errno.EAGAIN: _REFUSED_THREAD_HINT,
    errno.EBADMSG: "the destination is as it was; check the storage, then copy again",
    errno.EEXIST: "--overwrite replaces it",
    errno.EISDIR: "ferry cp copies single files; name a file in it",
    errno.EMFILE: _HINTS[errno.EMFILE],
    errno.ENOENT: "name a path that is there",
    errno.ENOSPC: "free some space there; the destination is as it was",
    errno.ENOTDIR: _HINTS[errno.ENOTDIR],
    errno.ESTALE: "the destination is as it was; copy again",
    errno.ETIMEDOUT: "see that its server runs, then copy again; the destination is as it was",
}


class MeasuringError(FerryError):
    """The measured process failed.

    ``error_number`` is the errno, 0 for wrong contents, None if it reported nothing.
    """

    def __init__(self, message: str, error_number: int | None) -> None:
        super().__init__(message)
        self.error_number = error_number


def read_info(path: str | None) -> Json:
    """Returns the output of ``ferry-info`` (schema ``ferry.info/2``). Raises FerryError."""
    process, answer = _answer_of(INFO_PROGRAM, *([path] if path is not None else []))
    check(process, answer if answer.get("type") == "error" else None)
    if not answer:
        raise FerryError(f"{INFO_PROGRAM} gave no answer; build it again")
    return answer


def _answer_of(program: str, *arguments: str) -> tuple[Process, Json]:
    """Runs a program; returns it with the last line of its output."""
    with process_of(*arguments, program=program) as process:
        found: list[Json] = [{}, *lines(process)]
    return process, found[-1]


def _one_line(problem: Json) -> str:
    text = " ".join(str(problem["message"]).split())
    return shown(text) if any(scheme in text for scheme in SCHEMES) else text


def run_copy(arguments: list[str], on_progress: Callable[[Json], None]) -> Json:
    """Runs ``ferry-copy`` and returns its last line; passes its progress lines on.

    Raises FerryError with its last line, and like ``run_plan`` when interrupted.
    """
    copy = _Copy(on_progress)
    try:
        with process_of(*arguments, program=COPY_PROGRAM) as process:
            copy.follow(process)
    except MeasuringError as error:  # killed
        if remains := copy.remains(-signal.SIGKILL):
            error.add_note(remains)
        raise
    answer = copy.answer
    remains = copy.remains(process.returncode)
    if process.returncode == 130:
        interrupted = KeyboardInterrupt()
        if remains:
            interrupted.add_note(remains)
        raise interrupted
    if answer.get("type") == "error":
        message = _one_line(answer)
        hint = None if answer["incomplete"] else _COPY_HINTS.get(answer["errno"])
        if answer["errno"] == errno.ENOENT and message.startswith(f"{arguments[-1]}: "):
            hint = "make its folder first or name another"
        raise FerryError("; ".join(part for part in (message, hint, remains) if part))
    if answer.get("type") != "done":
        raise FerryError(f"{COPY_PROGRAM} ended with exit status {process.returncode}")
    return answer


def _remove(path: str) -> bool:
    """Whether the file is gone."""
    try:
        os.unlink(path)
    except FileNotFoundError:
        return True
    except OSError:
        return False
    return True


class _Copy:
    """The messages of ``ferry-copy`` so far."""

    def __init__(self, on_progress: Callable[[Json], None]) -> None:
        self._on_progress = on_progress
        self._scratch = ""
        self._in_place = ""
        self.answer: Json = {}

    def follow(self, process: Process) -> None:
        """Reads all messages; if interrupted, also the last ones."""
        try:
            for line in lines(process):
                self._take(line)
        except BaseException as error:
            process.stop()
            with contextlib.suppress(FerryError, ValueError, OSError):
                for line in lines(process):
                    self._take(line)
            if remains := self.remains(process.popen.returncode):
                error.add_note(remains)
            raise

    def _take(self, line: Json) -> None:
        if line["type"] == "progress":
            self._on_progress(line)
        elif line["type"] == "scratch":
            self._scratch = line["path"]
        elif line["type"] == "in_place":
            self._in_place = line["path"]
        else:
            self.answer = line

    def remains(self, status: int) -> str:
        """Names what a copy that failed has left: its file beside the destination, or a destination
        that was overwritten in place.

        Where the process was killed, the file beside it is removed here if it can be.
        """
        left = self.answer.get("left_behind")
        incomplete = self.answer.get("incomplete")
        if status < 0:
            incomplete = self._in_place
            if self._scratch:
                left = self._scratch if is_uri(self._scratch) or not _remove(self._scratch) else None
        texts = []
        if incomplete:
            texts.append(f"{incomplete} was overwritten in place and is not complete; copy again")
        if left:
            texts.append(f"left behind: {left}; remove it when its storage answers")
        return "; ".join(texts)


def run_layout(arguments: list[str]) -> Json:
    """Runs ``ferry-layout`` and returns its output. Raises FerryError."""
    process, answer = _answer_of(LAYOUT_PROGRAM, *arguments)
    if answer.get("type") == "error":
        raise FerryError(_one_line(answer))
    if answer.get("type") != "layout":
        raise FerryError(f"{LAYOUT_PROGRAM} ended with exit status {process.returncode}")
    return answer


class Process:
    """A running ``ferry-bench``; its standard error goes to a file, for the message."""

    def __init__(self, command: list[str], stdin: str | None, program: str) -> None:
        self.name = program
        self.messages = tempfile.TemporaryFile(mode="w+", errors="replace")  # noqa: SIM115
        # Its own session, so that Ctrl-C reaches it once, through us.
        self.popen = subprocess.Popen(
            command,
            stdin=subprocess.PIPE if stdin is not None else subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=self.messages,
            text=True,
            encoding="utf-8",
            errors="replace",
            start_new_session=True,
            close_fds=False,  # ours are closed by exec; a rank needs mpiexec's
        )
        self.returncode = 0
        if self.popen.stdin is not None:
            # A broken pipe: it ended immediately, and its exit status tells why.
            with contextlib.suppress(BrokenPipeError), self.popen.stdin as pipe:
                pipe.write(stdin or "")

    def stop(self) -> None:
        """Ends the process, first with SIGTERM, and waits for it."""
        if self.popen.poll() is None:
            self.popen.send_signal(signal.SIGINT)
            try:
                self.popen.wait(_STOP_TIMEOUT_S)
            except subprocess.TimeoutExpired:
                self.popen.kill()
        self.popen.wait()

    def all_messages(self) -> str:
        self.messages.seek(0)
        return self.messages.read()


def process_of(*arguments: str, program: str) -> AbstractContextManager[Process]:
    return running([str(find_program(program)), *arguments], None, program)


@contextmanager
def running(command: list[str], stdin: str | None, program: str) -> Iterator[Process]:
    process = Process(command, stdin, program)
    try:
        yield process
        process.returncode = process.popen.wait()
        if process.returncode not in (0, 1, 2, 130):  # with these it says itself what happened
            raise MeasuringError(_died(process), None)
    except BaseException:
        process.stop()
        raise
    finally:
        if process.popen.stdout is not None:
            process.popen.stdout.close()
        process.messages.close()


def _died(process: Process) -> str:
    status = process.returncode
    how = f"signal {-status}" if status < 0 else f"exit status {status}"
    messages = process.all_messages()
    for number in (errno.EMFILE, errno.EAGAIN):  # MPI's launchers say it somewhere in the middle
        if os.strerror(number) in messages:
            return f"{process.name}: {os.strerror(number)}; {_COPY_HINTS[number]}"
    # Not the rules and frames of a backtrace.
    lines = [line for line in messages.splitlines() if line.strip() and not re.match(r"=|\s*\d+ ", line)]
    return f"{process.name} ended with {how}{': ' + lines[-1] if lines else ''}; please report this"


def lines(process: Process) -> Iterator[Json]:
    assert process.popen.stdout is not None
    for line in process.popen.stdout:
        if process.name != PROGRAM and not line.startswith("{"):
            continue  # mpiexec adds its own lines when a rank fails
        try:
            yield json.loads(line)
        except ValueError:
            raise FerryError(f"{process.name} printed what is no JSON; build it again") from None


def check(process: Process, problem: Json | None) -> None:
    """Raises the error an ended process reported, or one for its exit status."""
    status = process.returncode
    # MPICH's mpiexec sometimes exits with 0 when its ranks were interrupted.
    if problem is not None and problem["errno"] == errno.EINTR and status in (0, 130):
        raise KeyboardInterrupt
    if problem is not None:
        number = problem["errno"]
        # Without a cell, setting up the runtime failed.
        hint = _HINTS.get(number) if problem["cell"] else _SETUP_HINTS.get(number)
        message = _one_line(problem)
        if number == 0 and message.endswith(_NO_PATTERN):
            hint = _NO_PATTERN_HINT
        raise MeasuringError(f"{message}; {hint}" if hint else message, number)
    if status != 0:
        raise MeasuringError(f"{process.name} ended with exit status {status}; build it again", None)
