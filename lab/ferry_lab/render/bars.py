"""Bar charts: a program's time by phase, and matrices of measurements by place."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ferry_lab.render.plot_style import looks
from ferry_lab.render.plots import GRID, INK, MUTED, SURFACE, Layout, Margins, Plot, Tips, make_panels, plain_axis
from ferry_lab.results.records import Summary

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_BAR = 22.0  # a bar with what is around it, in units
_GAP, _LETTER = 21.0, 7.4  # beside the texts at the ends, and how wide a letter of them is
_MARK = 11.0  # from the middle of a mark to a text beside it
_SHADES = (1.0, 0.55, 0.28)  # of the parts of a bar, in this order


@dataclass(frozen=True)
class Bar:
    """One bar: its parts, which are stacked, and the bounds of the whole."""

    name: str  # render.plot_style gives a look by it
    label: str
    parts: Sequence[float]
    low: float
    high: float
    text: str  # at its end
    tip: str
    published: float | None = None  # what a paper has beside it, in the same unit

    @classmethod
    def of(cls, name: str, label: str, summary: Summary, unit: str = "") -> Bar:
        """Returns a median and its bounds; ``summary`` is of a row's metrics."""
        median, low, high = summary.median, summary.median_low_95, summary.median_high_95
        unit = f" {unit}" if unit else ""
        tip = f"{label}: {low:,.0f} to {high:,.0f}{unit}"
        return cls(name, label, [median], low, high, f"{median:,.0f}{unit}", tip)

    @property
    def end(self) -> float:
        """Returns where the last of its marks is."""
        return max(sum(self.parts), self.high, self.published or 0)


@dataclass(frozen=True)
class BarPanel:
    """Bars below each other, on an axis of their own."""

    title: str
    bars: Sequence[Bar]


@dataclass(frozen=True)
class Bars(Plot):
    """A matrix of panels; all of one unit, from zero to the largest of all.

    Without ``common_scale`` each goes to its own largest.
    """

    panels: Sequence[BarPanel]
    columns: int = 2  # when there is room
    common_scale: bool = True
    label_width: float = 118.0
    reference: float | None = None  # a dotted line up each panel

    def draw(self, layout: Layout, tips: Tips) -> Figure:
        """Returns the drawing."""
        columns = min(self.columns, len(self.panels)) if layout == "wide" else 1
        rows = [self.panels[start : start + columns] for start in range(0, len(self.panels), columns)]
        heights = [_BAR * max(len(panel.bars) for panel in row) for row in rows]
        longest = max(len(bar.text) for panel in self.panels for bar in panel.bars)
        margins = Margins(left=self.label_width, right=_GAP + _LETTER * longest, bottom=14)
        axes = make_panels(layout, len(self.panels), columns, heights, margins)
        look_of = looks([bar.name for panel in self.panels for bar in panel.bars])
        for at, panel in zip(axes, self.panels, strict=True):
            self._draw_panel(at, panel, {n: look.light for n, look in look_of.items()}, tips)
        return axes[0].figure  # type: ignore[return-value]

    def _draw_panel(self, axes: Axes, panel: BarPanel, colours: dict[str, str], tips: Tips) -> None:
        # The title begins where the labels do.
        axes.annotate(
            panel.title,
            (0, 1),
            (8 - self.label_width, 8),
            xycoords="axes fraction",
            textcoords="offset points",
            fontsize=13,
            fontweight="bold",
            color=INK,
        )
        panels = self.panels if self.common_scale else [panel]
        axes.set_xlim(0, max(bar.end for one in panels for bar in one.bars) * 1.02)
        axes.set_ylim(len(panel.bars) - 0.5, -0.5)
        plain_axis(axes, "x")
        axes.grid(visible=False)
        axes.set_xticks([])
        axes.spines["bottom"].set_visible(False)
        axes.axvline(0, color=GRID, linewidth=2, zorder=1)
        if self.reference is not None:
            axes.axvline(self.reference, color=MUTED, linewidth=1, dashes=(2, 3), zorder=3)
        axes.set_yticks(range(len(panel.bars)), [bar.label for bar in panel.bars])
        axes.tick_params(axis="y", labelcolor=INK, pad=6)
        for row, bar in enumerate(panel.bars):
            self._draw_bar(axes, row, bar, colours[bar.name], tips)

    @staticmethod
    def _points(axes: Axes, value: float) -> float:
        """Returns where a value lies, in points from the left of the page."""
        across = float(axes.transData.transform((value, 0))[0])
        return across * 72 / axes.figure.get_dpi()

    def _draw_bar(self, axes: Axes, row: int, bar: Bar, colour: str, tips: Tips) -> None:
        left = 0.0
        for part, shade in zip(bar.parts, _SHADES, strict=False):
            axes.barh(row, part, 0.68, left, color=colour, alpha=shade, linewidth=0, zorder=2)
            left += part
        for colour_of, width in ((SURFACE, 3.6), (INK, 1.6)):  # seen on any shade
            axes.plot([bar.low, bar.high], [row, row], color=colour_of, linewidth=width, zorder=3)
        if bar.published is not None:
            axes.plot(
                [bar.published],
                [row],
                marker="D",
                markersize=7,
                markerfacecolor=SURFACE,
                markeredgecolor=INK,
                markeredgewidth=1.4,
                zorder=4,
                clip_on=False,
            )
        own_end = max(sum(bar.parts), bar.high)
        apart = 6.0
        if bar.published is not None:
            # In points from the end of the bar. A mark that would lie in the text goes before it.
            to_mark = self._points(axes, bar.published) - self._points(axes, own_end)
            if -_MARK < to_mark < apart + _LETTER * len(bar.text) + _MARK:
                apart = max(apart, to_mark + _MARK)
        axes.annotate(
            bar.text,
            (own_end, row),
            (apart, 0),
            textcoords="offset points",
            va="center",
            color=MUTED,
            fontsize=11.5,
            annotation_clip=False,
        )
        axes.barh(row, axes.get_xlim()[1], 1.0, 0, color=colour, alpha=0, linewidth=0, zorder=5, gid=tips.add(bar.tip))
