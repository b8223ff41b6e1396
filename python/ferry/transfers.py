"""Transfers of many ranges at once, and futures of transfers in flight."""

from __future__ import annotations

import asyncio
import concurrent.futures
import errno as errno_names
import os
import threading
from collections.abc import Callable, Generator, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar, cast

from ferry import _bulk
from ferry.engine import Engine, Path, choose
from ferry.uris import encoded

if TYPE_CHECKING:
    from ferry.file_objects import File

_Result = TypeVar("_Result")
Part = tuple["File", Any, int]
_NativePart = tuple[_bulk.File, Any, int]
Progress = Callable[[int, int], None]

_PROGRESS_INTERVAL_S = 0.1


@dataclass(frozen=True)
class Failure:
    """A failed part of a batch: its index, file and range."""

    part: int
    path: str
    offset: int
    bytes: int
    errno: int


def _describe(failure: Failure) -> str:
    """The error and its range; without a range if the file could not be opened."""
    text = os.strerror(failure.errno)
    if failure.bytes == 0:
        return text
    return f"{text}, bytes {failure.offset} to {failure.offset + failure.bytes}"


class TransferError(OSError):
    """Parts of a batch failed. ``errno`` and ``filename`` are those of the first of ``failures``."""

    def __init__(self, failures: Sequence[Failure]) -> None:
        first = failures[0]
        text = _describe(first)
        if more := len(failures) - 1:
            text += f", and {more} more part{'s' if more > 1 else ''}"
        super().__init__(first.errno, text, first.path)
        self.failures = list(failures)


def to_error(raw: Sequence[tuple[int, bytes, int, int, int]], single: bool) -> OSError:
    """Returns the exception for the extension's failures: of a batch, or of one transfer."""
    failures = [Failure(part, os.fsdecode(path), *rest) for part, path, *rest in raw]
    if not single:
        return TransferError(failures)
    first = failures[0]
    return OSError(first.errno, _describe(first), first.path)


class Future(concurrent.futures.Future[_Result]):
    """A transfer in flight: a ``concurrent.futures.Future`` that you can also await.

    Works with ``concurrent.futures.wait`` and ``as_completed``. It keeps its buffers until it is
    done; then nothing touches them any more. ``result()`` is the number of bytes, a list of them
    for a batch; a read is short at the end of the file.
    """

    def __init__(self, engine: Engine, parts: Sequence[_NativePart], writing: bool, single: bool) -> None:
        """Starts the transfer. Raises errors of an unusable buffer or file."""
        super().__init__()
        self._single = single
        self._settling = threading.RLock()
        self._transfer: _bulk.Transfer | None = None
        try:
            self._transfer = _bulk.Transfer(engine.native, parts, writing, self._settle)
        finally:
            # It may have ended already.
            if self._transfer is not None and self._transfer.done():
                self._settle()

    def _settle(self) -> None:
        """Records how the transfer ended; runs on whichever thread sees it first."""
        with self._settling:
            transfer = self._transfer
            if transfer is None or self.done():
                return
            transfer.let_go()  # before anyone is notified
            failures = transfer.failures()
            if not failures:
                results = transfer.results()
                self.set_result(cast(_Result, results[0] if self._single else results))
            elif any(failure[4] == errno_names.ECANCELED for failure in failures):
                super().cancel()
                self.set_running_or_notify_cancel()
            else:
                self.set_exception(to_error(failures, self._single))

    def _wait(self, timeout: float | None) -> None:
        if not self.done() and self._transfer is not None and self._transfer.wait(timeout):
            self._settle()

    def result(self, timeout: float | None = None) -> _Result:
        """Waits at most ``timeout`` seconds for the bytes; None waits for ever.

        Raises:
            OSError: the transfer failed; TransferError for a batch.
            concurrent.futures.CancelledError, TimeoutError: as the names say.
        """
        self._wait(timeout)
        return super().result(0)

    def exception(self, timeout: float | None = None) -> BaseException | None:
        """Waits as ``result`` does; returns the error, None after a success."""
        self._wait(timeout)
        return super().exception(0)

    def cancel(self) -> bool:
        """Cancels the transfer and waits until it has stopped. False: it had ended before."""
        if self.done() or self._transfer is None:
            return self.cancelled()
        self._transfer.cancel()
        self._wait(None)
        return self.cancelled()

    def running(self) -> bool:
        """Whether the transfer is in flight."""
        return not self.done()

    def progress(self) -> tuple[int, int]:
        """Returns the bytes transferred so far and in all."""
        assert self._transfer is not None
        return self._transfer.progress()

    def watch(self, progress: Progress | None) -> _Result:
        """Returns ``result()``, calling ``progress(bytes_done, bytes_total)`` meanwhile and at the end.

        Any exception, from ``progress`` or Ctrl-C, cancels the transfer first.
        """
        try:
            while progress is not None:
                self._wait(_PROGRESS_INTERVAL_S)
                over = self.done()
                progress(*self.progress())
                if over:
                    break
            return self.result()
        except BaseException:
            self.cancel()
            raise

    def __await__(self) -> Generator[Any, None, _Result]:
        return asyncio.wrap_future(self).__await__()


def _native_parts(parts: Iterable[Part]) -> list[_NativePart]:
    try:
        return [(file.native, buffer, offset) for file, buffer, offset in parts]
    except AttributeError:
        raise TypeError("a part is a tuple of a file of ferry.open, a buffer and an offset") from None


def _run_batch(parts: Iterable[Part], engine: Engine | None, progress: Progress | None, writing: bool) -> list[int]:
    used, native = choose(engine), _native_parts(parts)
    if progress is not None:
        started: Future[list[int]] = Future(used, native, writing=writing, single=False)
        return started.watch(progress)
    run = used.native.write_batch if writing else used.native.read_batch
    results, failures = run(native)
    if failures:
        raise to_error(failures, single=False)
    return results


def read_batch(parts: Iterable[Part], engine: Engine | None = None, *, progress: Progress | None = None) -> list[int]:
    """Reads many ranges, of one file or of many, in one call.

    Args:
        parts: ``(file, buffer, offset)``; the buffer says how many bytes, the offset is in bytes.
            A buffer is contiguous, writable, and anything that ``File.read_at`` takes.
        engine: whose threads transfer.
        progress: called with ``(bytes_done, bytes_total)`` of all parts together, about ten times
            per second and at the end, on this thread.

    Returns:
        The bytes read into each buffer; fewer than it holds at the end of a file.

    Raises:
        TransferError: parts failed. All others are done; nothing is in flight.
        TypeError, ValueError, OverflowError: a file, a buffer or an offset that cannot be used;
            nothing was read.
    """
    return _run_batch(parts, engine, progress, writing=False)


def write_batch(parts: Iterable[Part], engine: Engine | None = None, *, progress: Progress | None = None) -> list[int]:
    """Writes many ranges in one call, like ``read_batch``. Ranges must not overlap."""
    return _run_batch(parts, engine, progress, writing=True)


def read_batch_async(parts: Iterable[Part], engine: Engine | None = None) -> Future[list[int]]:
    """Starts a ``read_batch``; the future's result is the list of bytes."""
    return Future(choose(engine), _native_parts(parts), writing=False, single=False)


def write_batch_async(parts: Iterable[Part], engine: Engine | None = None) -> Future[list[int]]:
    """Starts a ``write_batch``; the buffers must not change until it is done."""
    return Future(choose(engine), _native_parts(parts), writing=True, single=False)


def read_files(paths: Iterable[Path], engine: Engine | None = None) -> list[memoryview]:
    """Opens, reads and closes many small files in one call.

    Args:
        paths: the files; all of them must fit in memory together.
        engine: whose threads read.

    Returns:
        The contents of each, in the order of the paths. Neighbours share a piece of memory of about
        2 MiB, which stays as long as one of its views does: copy what is kept for long.

    Raises:
        TransferError: files that could not be read; ``failures`` lists them all.
        ValueError: a URI of an unknown storage; nothing is read.

    >>> import tempfile
    >>> folder = tempfile.mkdtemp()
    >>> for name in "abc":
    ...     _ = open(f"{folder}/{name}", "w").write(name * 3)
    >>> [bytes(contents) for contents in read_files(f"{folder}/{name}" for name in "abc")]
    [b'aaa', b'bbb', b'ccc']
    """
    if isinstance(paths, (str, bytes, os.PathLike)):
        raise TypeError("the paths are several; for one file give [path]")
    names = [encoded(path) for path in paths]
    contents, failures = choose(engine).native.read_files(names)
    if failures:
        raise TransferError([Failure(index, os.fsdecode(names[index]), 0, 0, error) for index, error in failures])
    return cast("list[memoryview]", contents)
