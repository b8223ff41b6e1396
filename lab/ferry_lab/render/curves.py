"""Line charts, one line per choice: bandwidth by transfer size, speed-up by threads."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from ferry.sizes import format_size
from ferry_lab.render.plot_style import Look, looks
from ferry_lab.render.plots import (
    INK,
    MUTED,
    SURFACE,
    Layout,
    Margins,
    Plot,
    Tips,
    make_panels,
    plain_axis,
    spread_labels,
)
from ferry_lab.render.study_text import format_time
from ferry_lab.results.records import Row, Summary

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_HEIGHT = 250.0
_LABEL_APART = 15.0
_LABEL_GAP, _LETTER = 14.0, 7.8  # before a line's name, and how wide a letter of it is
_TICKS_APART = 54.0
_HIT_SIZE = 18.0  # of the invisible mark that has the tooltip


@dataclass(frozen=True)
class Series:
    """One line: its values, with bounds that are shaded."""

    name: str  # render.plot_style gives a look by it
    label: str
    x: Sequence[float]
    y: Sequence[float]
    low: Sequence[float]
    high: Sequence[float]

    @classmethod
    def of(cls, name: str, label: str, x: Sequence[float], summaries: Sequence[Summary]) -> Series:
        """Returns a line of medians and their bounds; ``summaries`` are of the rows' metrics."""
        return cls(
            *(name, label, x, [one.median for one in summaries]),
            [one.median_low_95 for one in summaries],
            [one.median_high_95 for one in summaries],
        )

    @classmethod
    def of_rows(cls, name: str, label: str, rows: Sequence[Row], axis: str, metric: str) -> Series:
        """Returns that of a metric of rows along one of their axes."""
        return cls.of(name, label, [int(row.axes[axis]) for row in rows], [row.metric(metric) for row in rows])


@dataclass(frozen=True)
class Panel:
    """Lines over one pair of axes; ``limits`` are lines across: label and value."""

    title: str
    series: Sequence[Series]
    limits: Sequence[tuple[str, float]] = ()


@dataclass(frozen=True)
class Curves(Plot):
    """Panels with the same axes, logarithmic in base 2.

    ``x``: "bytes" or a count ("threads"). ``y``: "bandwidth", in MiB/s, or "speed-up", a factor;
    a line shows what would be linear; "rate", in MB/s of 10**6 bytes, shown as GB/s, as papers have it;
    or "time", in ns.
    """

    panels: Sequence[Panel]
    x: Literal["bytes", "threads"] = "bytes"
    y: Literal["bandwidth", "speed-up", "rate", "time"] = "bandwidth"
    x_label: str = "transfer size"
    x_ticks: Sequence[float] | None = None  # None: at what was measured, as far as there is room
    columns: int = 3  # when there is room

    def draw(self, layout: Layout, tips: Tips) -> Figure:
        """Returns the drawing: panels side by side, ``columns`` to a row, or below each other."""
        columns = min(len(self.panels), self.columns) if layout == "wide" else 1
        rows = math.ceil(len(self.panels) / columns)
        longest = max(len(line.label) for panel in self.panels for line in panel.series)
        right = max(90.0, _LABEL_GAP + 7 + _LETTER * longest)
        margins = Margins(left=84, right=right, bottom=50, shared=True)
        panels = make_panels(layout, len(self.panels), columns, [_HEIGHT] * rows, margins)
        look_of = looks([line.name for panel in self.panels for line in panel.series])
        for number, (axes, panel) in enumerate(zip(panels, self.panels, strict=True)):
            self._draw_panel(axes, panel, look_of, tips)
            axes.tick_params(axis="y", labelleft=number % columns == 0)
        return panels[0].figure  # type: ignore[return-value]

    def _draw_panel(self, axes: Axes, panel: Panel, look_of: dict[str, Look], tips: Tips) -> None:
        axes.set_title(panel.title, pad=12)
        axes.set_xscale("log", base=2)
        axes.set_yscale("log", base=2)
        axes.set_xlim(*self._x_limits())
        axes.set_ylim(*self._y_limits())
        plain_axis(axes, "y")
        ticks = self._x_ticks(axes)
        axes.set_xticks(ticks, [self._format_x(tick) for tick in ticks])
        ticks = (_rate_ticks if self.y in ("rate", "time") else _y_ticks)(*self._y_limits())
        axes.set_yticks(ticks, [self._format_y(tick) for tick in ticks])
        axes.set_xlabel(self.x_label, loc="left", labelpad=6)
        for label, value in panel.limits:
            axes.axhline(value, color=INK, linewidth=1, dashes=(2, 3))
            axes.annotate(
                label,
                (0, value),
                (2, 4),
                xycoords=("axes fraction", "data"),
                textcoords="offset points",
                color=MUTED,
                fontsize=11,
                bbox={"facecolor": SURFACE, "edgecolor": "none", "alpha": 0.7, "pad": 1},
                zorder=4,
            )
        if self.y == "speed-up":
            ideal = self._x_limits()
            axes.plot(ideal, ideal, color=MUTED, linewidth=1, dashes=(2, 3))
        for line in panel.series:
            self._draw_line(axes, line, look_of[line.name], tips)
        _label_ends(axes, panel.series, look_of)

    def _draw_line(self, axes: Axes, line: Series, look: Look, tips: Tips) -> None:
        if len(line.x) == 1:  # a band of one point would not be seen
            axes.vlines(line.x, line.low, line.high, color=look.light, alpha=0.4, zorder=2)
        axes.fill_between(line.x, line.low, line.high, color=look.light, alpha=0.14, linewidth=0, zorder=2)
        axes.plot(
            line.x,
            line.y,
            color=look.light,
            linestyle=look.dash,
            linewidth=2,
            marker=look.marker,
            markersize=6,
            markeredgecolor=SURFACE,
            markeredgewidth=0.8,
            zorder=3,
            clip_on=False,
        )
        for x, y, low, high in zip(line.x, line.y, line.low, line.high, strict=True):
            low_text, high_text = (self._number(bound) for bound in (low, high))
            text = f"{line.label}, {self._format_x(x)}: {self._number(y)}{self._unit()}"
            if self.y != "rate":  # those of a model have no bounds
                text += f" ({low_text} to {high_text})"
            axes.plot(
                [x],
                [y],
                marker="o",
                markersize=_HIT_SIZE,
                alpha=0,
                color=look.light,
                zorder=5,
                clip_on=False,
                gid=tips.add(text),
            )

    def _x_limits(self) -> tuple[float, float]:
        every = [x for panel in self.panels for line in panel.series for x in line.x]
        margin = 2**0.25 if self.x == "threads" else 2**0.4
        return min(every) / margin, max(every) * margin

    def _y_limits(self) -> tuple[float, float]:
        lines = [line for panel in self.panels for line in panel.series]
        values = [value for line in lines for value in (*line.low, *line.high)]
        values += [value for panel in self.panels for _, value in panel.limits]
        if self.y == "speed-up":
            values += self._x_limits()
        return min(values) / 1.15, max(values) * 1.15

    def _x_ticks(self, axes: Axes) -> list[float]:
        """Returns what was measured, or every second of it and so on, as far as there is room."""
        if self.x_ticks is not None:
            return list(self.x_ticks)
        every = sorted({x for panel in self.panels for line in panel.series for x in line.x})
        places = [float(axes.transData.transform((x, 1))[0]) for x in every]
        for step in range(1, len(every)):
            chosen = places[::step]
            apart = min(b - a for a, b in zip(chosen, chosen[1:], strict=False))
            if (len(every) - 1) % step == 0 and apart >= _TICKS_APART:
                return every[::step]
        return [every[0], every[-1]]

    def _format_x(self, x: float) -> str:
        return format_size(int(x)) if self.x == "bytes" else f"{x:g}"

    def _format_y(self, y: float) -> str:
        if self.y == "time":
            return format_time(y)
        if self.y == "rate":
            return f"{y / 1000:g} GB/s"
        if self.y == "bandwidth":  # as tables have it
            return f"{y:.0f} MiB/s" if y >= 10 else f"{y:g} MiB/s"
        return f"{y:g}×"

    def _number(self, y: float) -> str:
        if self.y == "time":
            return format_time(y)
        if self.y == "rate":
            return f"{y / 1000:.2f}"
        return f"{y:.2f}" if self.y == "speed-up" else f"{y:.0f}"

    def _unit(self) -> str:
        return {"bandwidth": " MiB/s", "rate": " GB/s", "speed-up": "×", "time": ""}[self.y]


def _y_ticks(low: float, high: float) -> list[float]:
    """Powers of two, at most seven or so."""
    first, last = math.ceil(math.log2(low)), math.floor(math.log2(high))
    step = 1 if last - first <= 6 else 2
    return [2.0**power for power in range(first + (-first) % step, last + 1, step)]


def _rate_ticks(low: float, high: float) -> list[float]:
    """1, 2 and 5 of every power of ten, or the powers alone where those are many."""
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    leads = (1, 2, 5) if high / low < 1000 else (1,)
    return [n * 10.0**p for p in powers for n in leads if low <= n * 10.0**p <= high]


def _label_ends(axes: Axes, series: Sequence[Series], look_of: dict[str, Look]) -> None:
    """Names each line at its end, moved apart where they would lie on each other."""
    box = axes.get_window_extent()
    to_data = axes.transData.inverted()
    ends = [axes.transData.transform((line.x[-1], line.y[-1])) for line in series]
    heights = spread_labels([float(y) for _, y in ends], _LABEL_APART)
    for line, (x, y), height in zip(series, ends, heights, strict=True):
        colour = look_of[line.name].light
        # Across in shares of the axes, up in data: so it holds in any resolution.
        across = [(place - box.x0) / box.width for place in (x + 5, box.x1 + _LABEL_GAP)]
        up = [to_data.transform((0, place))[1] for place in (y, height)]
        where = axes.get_yaxis_transform()
        axes.plot(across, up, color=colour, linewidth=0.8, alpha=0.5, transform=where, clip_on=False)
        axes.annotate(
            line.label,
            (across[1], up[1]),
            (2, 0),
            xycoords=where,
            textcoords="offset points",
            color=colour,
            fontweight="bold",
            fontsize=12,
            va="center",
            annotation_clip=False,
        )
