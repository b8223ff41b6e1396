"""What the user sees: tables on standard output, progress on standard error."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich import box
from rich.console import Console
from rich.progress import (
    BarColumn,
    DownloadColumn,
    Progress,
    TaskID,
    TaskProgressColumn,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
    TransferSpeedColumn,
)
from rich.table import Table

# Where standard output is no terminal; wide enough for every table.
_WIDTH_ELSEWHERE = 110


def output_console() -> Console:
    """Returns the console that tables and conclusions go to."""
    width = None if sys.stdout.isatty() else _WIDTH_ELSEWHERE
    return Console(file=sys.stdout, width=width, highlight=False, markup=False, emoji=False)


def say(message: str) -> None:
    """Prints one line about the command itself on standard error."""
    line = " ".join(message.split())
    print(f"ferry: {line}", file=sys.stderr)


def plain_table(title: str | None, columns: list[str], left: int = 1) -> Table:
    """Returns an empty table; all columns but the first ``left`` hold numbers."""
    table = Table(
        title=title,
        title_justify="left",
        title_style="bold",
        box=box.SIMPLE_HEAD,
        padding=(0, 1, 0, 0),
        pad_edge=False,
    )
    for index, column in enumerate(columns):
        table.add_column(column, justify="left" if index < left else "right", no_wrap=True)
    return table


def shows_progress() -> bool:
    """Whether somebody watches: standard error is a terminal."""
    return sys.stderr.isatty()


class Bar:
    """A bar of the work done; one without a display says nothing."""

    def __init__(self, display: Progress | None = None) -> None:
        """Takes what shows it as its only line."""
        self._display = display

    def advance(self, steps: float = 1) -> None:
        """Moves it on."""
        if self._display is not None:
            self._display.advance(self._display.task_ids[0], steps)

    def label(self, text: str) -> None:
        """Says what is being done now."""
        if self._display is not None:
            self._display.update(self._display.task_ids[0], description=text)


@contextmanager
def byte_progress() -> Iterator[Callable[[str, int, int], None]]:
    """Shows a bar while its body runs; gives the function that sets phase, bytes done, and total.

    Silent where standard error is no terminal. Nothing of the bar remains afterwards.
    """
    if not shows_progress():
        yield lambda _phase, _done, _total: None
        return
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        DownloadColumn(binary_units=True),
        TransferSpeedColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        tasks: dict[str, TaskID] = {}

        def show(phase: str, done: int, total: int) -> None:
            if phase not in tasks:
                tasks[phase] = bar.add_task(phase, total=total)
            bar.update(tasks[phase], completed=done)

        yield show


@contextmanager
def progress(label: str, steps: float) -> Iterator[Bar]:
    """Shows a bar while its body runs, which moves it on; ``steps`` in any unit.

    Silent where standard error is no terminal. Nothing of the bar remains afterwards.
    """
    if not shows_progress():
        yield Bar()
        return
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TaskProgressColumn(),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as display:
        display.add_task(label, total=steps)
        yield Bar(display)
