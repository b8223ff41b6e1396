"""Terminal output: tables on standard output, progress on standard error."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Literal

from rich import box
from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderResult
from rich.measure import Measurement
from rich.progress import (
    BarColumn,
    DownloadColumn,
    Progress,
    ProgressColumn,
    Task,
    TaskID,
    TaskProgressColumn,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.table import Table
from rich.text import Text

from ferry import streams
from ferry.sizes import MIB
from ferry.streams import close_output, printable

# The width where standard output is no terminal; enough for every table.
_WIDTH_ELSEWHERE = 110


class _Console(Console):
    """A console that shows names safely: no control sequences reach the terminal."""

    def print(self, *objects: Any, **options: Any) -> None:
        """Like rich's print, with safe names."""
        super().print(*(printable(o) if isinstance(o, str) else o for o in objects), **options)

    def on_broken_pipe(self) -> None:
        """Ignores a closed pipe: files that were asked for are still written."""
        self.quiet = True
        close_output()


def output_console() -> Console:
    """Returns the console for tables and conclusions."""
    width, height = _WIDTH_ELSEWHERE, 25
    if sys.stdout.isatty():
        width, height = shutil.get_terminal_size()
    # Both are set: rich uses 80 columns for every "dumb" terminal.
    return _Console(file=sys.stdout, width=width, height=height, highlight=False, markup=False, emoji=False)


class BlockTable:
    """A table that splits into blocks of columns on a narrow terminal.

    Every block repeats the columns that name the rows. Nothing is cut off: long texts wrap.
    """

    def __init__(self, title: str | None, columns: Sequence[str], left: int = 1) -> None:
        """Takes the headings; all columns but the first ``left`` hold numbers."""
        self._title = None if title is None else printable(title)
        self._columns = [printable(column) for column in columns]
        self._left = left
        self._keys = left if left < len(self._columns) else 1
        self._rows: list[tuple[str, ...]] = []

    def add_row(self, *cells: str) -> None:
        """Appends a row: one text per column."""
        self._rows.append(tuple(map(printable, cells)))

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Renders the blocks for the console's width."""
        widths = [
            max([cell_len(head), *(cell_len(row[index]) for row in self._rows)])
            for index, head in enumerate(self._columns)
        ]
        frames = [_frame_width(console, count) for count in range(len(widths) + 1)]
        room = options.max_width
        if sum(widths) + frames[len(widths)] <= room:
            yield self._block(range(len(widths)), widths, self._title)
            return
        if self._title is not None:
            yield Text(self._title, style="bold")
        keys = list(range(self._keys))
        # Row names take at most half of a line; longer ones wrap.
        _shrink(widths, keys, room // 2 - frames[len(keys)])
        first = len(keys)
        while first < len(widths):
            used = sum(widths[index] for index in keys)
            last = first + 1
            least = max(room - used - frames[len(keys) + 1], 1)
            widths[first] = min(widths[first], least)
            used += widths[first]
            while last < len(widths):
                used += widths[last]
                if used + frames[len(keys) + last + 1 - first] > room:
                    break
                last += 1
            yield self._block([*keys, *range(first, last)], widths, None)
            first = last

    def _block(self, indexes: Sequence[int], widths: Sequence[int], title: str | None) -> Table:
        table = _empty_table(title)
        for index in indexes:
            justify: Literal["left", "right"] = "left" if index < self._left else "right"
            table.add_column(self._columns[index], justify=justify, overflow="fold", width=widths[index])
        for row in self._rows:
            table.add_row(*(row[index] for index in indexes))
        return table


def _shrink(widths: list[int], indexes: Sequence[int], room: int) -> None:
    """Narrows the widest columns until all fit; each keeps one character."""
    while sum(widths[index] for index in indexes) > max(room, len(indexes)):
        widest = max(indexes, key=lambda index: widths[index])
        widths[widest] -= 1


def _empty_table(title: str | None) -> Table:
    return Table(
        title=title, title_justify="left", title_style="bold", box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False
    )


def _frame_width(console: Console, columns: int) -> int:
    """Returns the width that the borders of these columns need."""
    table = _empty_table(None)
    for _ in range(columns):
        table.add_column("x")
    wide = console.options.update(width=1 << 16)
    return Measurement.get(console, wide, table).maximum - columns


class ProgressBar:
    """A display's only task."""

    def __init__(self, display: Progress, label: str, steps: float) -> None:
        self._display = display
        self._task = display.add_task(printable(label), total=steps)

    def advance(self, steps: float = 1) -> None:
        self._display.advance(self._task, steps)

    def label(self, text: str) -> None:
        self._display.update(self._task, description=printable(text))


class _SpeedColumn(ProgressColumn):
    """Transfer speed, in powers of 1024 like all other output."""

    def render(self, task: Task) -> Text:
        speed = task.finished_speed or task.speed
        text = "?" if speed is None else f"{speed / MIB:.0f} MiB/s"
        return Text(text, style="progress.data.speed")


def _display(*columns: ProgressColumn) -> Progress:
    """A bar on standard error that goes at the end; where that is no terminal, nothing is shown."""
    description = TextColumn("{task.description}", markup=False)
    silent = not streams.shows_progress()
    console = Console(stderr=True, quiet=silent)
    return Progress(description, BarColumn(), *columns, console=console, transient=True, disable=silent)


@contextmanager
def byte_progress() -> Iterator[Callable[[str, int, int], None]]:
    """Shows a bar while its body runs; gives a function that sets phase, bytes done and total.

    Silent unless standard error is a terminal; removes the bar at the end.
    """
    columns = (DownloadColumn(binary_units=True), _SpeedColumn(), TimeRemainingColumn())
    with _display(*columns) as bar:
        tasks: dict[str, TaskID] = {}

        def show(phase: str, done: int, total: int) -> None:
            if phase not in tasks:
                tasks[phase] = bar.add_task(printable(phase), total=total)
            bar.update(tasks[phase], completed=done)

        yield show


@contextmanager
def progress(label: str, steps: float) -> Iterator[ProgressBar]:
    """Shows a bar while its body runs; ``steps`` counts in any unit.

    Silent unless standard error is a terminal; removes the bar at the end.
    """
    columns = (TaskProgressColumn(), TimeElapsedColumn(), TextColumn("left"), TimeRemainingColumn())
    with _display(*columns) as display:
        yield ProgressBar(display, label, steps)
