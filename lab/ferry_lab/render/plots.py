"""Plots of results, and their conversion to SVG, PDF and PNG.

Each plot is drawn twice for the page, wide and narrow, because a drawing scaled down to a phone is
unreadable. render.curves and render.bars define the contents; units are CSS pixels. Only drawing
imports matplotlib, which loads slowly.
"""

from __future__ import annotations

import io
import logging
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from ferry_lab.render import svg
from ferry_lab.render.plot_style import ROLES

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Without a home that can be written it would advise people on its settings.
logging.getLogger("matplotlib").setLevel(logging.ERROR)

Layout = Literal["wide", "narrow"]
WIDTHS: dict[Layout, float] = {"wide": 860.0, "narrow": 344.0}
_UNITS_PER_INCH = 72.0
_PNG_SCALE = 2.0
SURFACE, INK, MUTED, GRID = (ROLES[name][0] for name in ("surface", "ink", "muted", "grid"))

_SETTINGS: dict[Any, Any] = {
    "svg.fonttype": "none",  # text stays text
    "svg.hashsalt": "ferry",  # the same plot gives the same file
    "pdf.fonttype": 42,  # text stays text: type 3, the default, is refused by some publishers
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans"],
    "font.size": 12.0,
    "text.color": INK,
    "axes.edgecolor": MUTED,
    "axes.linewidth": 1.0,
    "axes.titlelocation": "left",
    "axes.titlesize": 13.0,
    "axes.titleweight": "bold",
    "axes.titlecolor": INK,
    "axes.labelcolor": MUTED,
    "xtick.color": MUTED,
    "ytick.color": MUTED,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.spines.left": False,
    "axes.axisbelow": True,
    "figure.facecolor": SURFACE,
    "axes.facecolor": SURFACE,
}
ENDINGS = ("pdf", "png", "svg")
_NO_FACTS = {"Date": None, "Creator": None, "Format": None, "Type": None}


@dataclass
class Tips:
    """Tooltips of one drawing, by the gid of what has them."""

    texts: dict[str, str] = field(default_factory=dict)

    def add(self, text: str) -> str:
        """Returns the gid for a mark that says ``text``."""
        gid = f"{svg.TIP}{len(self.texts)}"
        self.texts[gid] = text
        return gid


@dataclass(frozen=True)
class Rendered:
    """A plot for the page, by layout, and as files on light ground, by their ending."""

    page: dict[Layout, str]
    files: dict[str, bytes]


class Plot(ABC):
    """Something that can be drawn."""

    @abstractmethod
    def draw(self, layout: Layout, tips: Tips) -> Figure:
        """Returns the drawing."""

    def render(self, name: str, title: str) -> Rendered:
        """Returns it in all its forms; ``name`` differs for each plot of a page."""
        import matplotlib

        page: dict[Layout, str] = {}
        files: dict[str, bytes] = {}
        with matplotlib.rc_context(_SETTINGS):
            for layout in WIDTHS:
                tips = Tips()
                figure = self.draw(layout, tips)
                drawn = _save(figure, "svg", metadata=_NO_FACTS)
                page[layout] = svg.for_page(drawn.decode(), f"{name}-{layout}", title, tips.texts)
                if layout == "wide":
                    files["svg"] = drawn
                    for artist in figure.findobj():
                        if artist.get_gid() in tips.texts:  # transparent, but drawn as slowly as a line
                            artist.set_visible(False)
                    files["pdf"] = _save(figure, "pdf", metadata=dict.fromkeys(("Creator", "Producer", "CreationDate")))
                    dpi = _UNITS_PER_INCH * _PNG_SCALE
                    files["png"] = _save(figure, "png", dpi=dpi, metadata={"Software": None})
        return Rendered(page, files)


def _save(figure: Figure, kind: str, **options: Any) -> bytes:
    data = io.BytesIO()
    figure.savefig(data, format=kind, **options)
    return data.getvalue()


@dataclass(frozen=True)
class Margins:
    """What is around each panel, in units; ``shared``: at the left of the first one only."""

    left: float
    right: float
    top: float = 34.0
    bottom: float = 46.0
    shared: bool = False


def make_panels(layout: Layout, count: int, columns: int, heights: list[float], margins: Margins) -> list[Axes]:
    """Returns ``count`` axes side by side, in ``columns``; one height for each row of them, in units."""
    from matplotlib.figure import Figure

    width = WIDTHS[layout]
    extra = margins.top + margins.bottom
    total = sum(heights) + extra * len(heights)
    figure = Figure(figsize=(width / _UNITS_PER_INCH, total / _UNITS_PER_INCH), dpi=_UNITS_PER_INCH)
    made = []
    top = total
    for height in heights:
        top -= margins.top + height
        lefts = margins.left if margins.shared else margins.left * columns
        inner = (width - lefts) / columns - margins.right
        for column in range(min(columns, count - len(made))):
            left = margins.left + column * (width - lefts) / columns
            if not margins.shared:
                left += column * margins.left
            box = (left / width, top / total, inner / width, height / total)
            made.append(figure.add_axes(box))
        top -= margins.bottom
    return made


def plain_axis(axes: Axes, direction: Literal["x", "y"]) -> None:
    """Light lines across, no tick marks: numbers are read off, the frame is not looked at."""
    axes.grid(visible=True, axis=direction, color=GRID, linewidth=1)
    axes.tick_params(length=0)
    axes.minorticks_off()


def spread_labels(positions: list[float], least: float) -> list[float]:
    """Returns positions near the given ones, in the same order, at least ``least`` apart."""
    order = sorted(range(len(positions)), key=lambda i: positions[i])
    clusters: list[tuple[float, int]] = []  # centre, how many
    for index in order:
        clusters.append((positions[index], 1))
        while len(clusters) > 1:
            (low, below), (high, above) = clusters[-2:]
            if high - low >= least * (below + above) / 2:
                break
            centre = (low * below + high * above) / (below + above)
            clusters[-2:] = [(centre, below + above)]
    placed = [centre + (i - (count - 1) / 2) * least for centre, count in clusters for i in range(count)]
    return [placed[order.index(i)] for i in range(len(positions))]
