"""What the user sees: tables on standard output, progress on standard error."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich import box
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
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


@contextmanager
def progress(label: str, steps: int) -> Iterator[Callable[[], None]]:
    """Shows a bar while its body runs, and gives the function that moves it one step on.

    Silent where standard error is no terminal. Nothing of the bar remains afterwards.
    """
    if not sys.stderr.isatty():
        yield lambda: None
        return
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.completed}/{task.total}"),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(label, total=steps)
        yield lambda: bar.advance(task)
