"""The parts that plots are made of, and those that later studies need."""

from __future__ import annotations

from itertools import pairwise
from xml.etree import ElementTree

import pytest
from ferry.sizes import KIB
from ferry_lab.render.bars import Bar, BarPanel, Bars
from ferry_lab.render.curves import Curves, Panel, Series
from ferry_lab.render.plot_style import LOOKS, PALETTE, ROLES, looks
from ferry_lab.render.plots import ENDINGS, Plot, spread_labels
from support import run_python


def texts(plot: Plot) -> set[str]:
    drawn = ElementTree.fromstring(plot.render("a", "title").files["svg"])
    return {e.text or "" for e in drawn.iter() if e.tag.endswith("text")}


def test_the_same_plot_gives_the_same_files() -> None:
    """Of which the PDF has text that can be searched."""
    plot = Bars([BarPanel("bars", [Bar("read", "read", [1.0], 0.9, 1.1, "1.0", "a tip")])])
    files = plot.render("a", "title").files
    assert files == plot.render("a", "title").files
    assert sorted(files) == list(ENDINGS)
    assert files["pdf"].startswith(b"%PDF-")
    assert b"/CIDFontType2" in files["pdf"]
    assert b"/Creat" not in files["pdf"]


def test_without_a_home_nothing_is_said() -> None:
    program = "import ferry_lab.render.plots, matplotlib; matplotlib.get_configdir()"
    done = run_python(program, HOME="/proc", XDG_CONFIG_HOME="", XDG_CACHE_HOME="")
    assert (done.returncode, done.stderr) == (0, "")


def luminance(colour: str) -> float:
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one: str, other: str) -> float:
    high, low = sorted((luminance(one), luminance(other)), reverse=True)
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("scheme", [0, 1], ids=["light", "dark"])
def test_every_colour_can_be_read_as_text(scheme: int) -> None:
    surface = ROLES["surface"][scheme]
    for name in ("ink", "muted"):
        assert contrast(ROLES[name][scheme], surface) >= 4.5, name
    for name, pair in PALETTE.items():
        assert contrast(pair[scheme], surface) >= 4.5, name


def test_colours_tell_roles_apart() -> None:
    light = [pair[0] for pair in (*ROLES.values(), *PALETTE.values())]
    assert len(light) == len(set(light))


def test_ways_look_the_same_in_every_plot_and_others_take_what_is_free() -> None:
    assert looks(["compute", "host"]) == {name: LOOKS[name] for name in ("compute", "host")}
    mixed = looks(["nfs", "compute", "lustre"])
    assert mixed["compute"] == LOOKS["compute"]
    assert len({look.colour for look in mixed.values()}) == 3


@pytest.mark.parametrize(
    "names",
    [
        ("host", "compute", "service", "automatic", "plain", "mmap"),
        ("off", "all", "tmpfs", "ramfs"),
        ("ext4", "tmpfs", "ramfs", "xfs-loop", "btrfs-loop"),
        ("btrfs", "tmpfs", "ramfs", "ext4-loop", "xfs-loop"),
    ],
)
def test_what_is_in_one_plot_differs_in_colour_and_marker(names: tuple[str, ...]) -> None:
    chosen = looks(names).values()
    assert len({look.colour for look in chosen}) == len(names)
    assert len({look.marker for look in chosen}) == len(names)


def test_labels_are_moved_apart_in_their_order() -> None:
    wanted = [100.0, 10.0, 12.0, 11.0]
    placed = spread_labels(wanted, 5)
    assert placed[0] == 100.0
    ordered = [placed[i] for i in sorted(range(4), key=lambda i: wanted[i])]
    assert all(b - a >= 5 - 1e-9 for a, b in pairwise(ordered))
    assert sum(placed[1:]) == pytest.approx(sum(wanted[1:]))
    assert spread_labels([], 5) == []


def series(name: str, x: list[float], y: list[float]) -> Series:
    return Series(name, name, x, y, [v * 0.9 for v in y], [v * 1.1 for v in y])


def test_speed_up_by_threads() -> None:
    curves = Curves(
        [Panel("Reads", [series("tmpfs", [1, 2, 4], [1, 1.9, 3]), series("ext4", [1], [1])])],
        x="threads",
        y="speed-up",
        x_label="threads",
    )
    assert {"1", "2", "4", "1×", "2×", "4×", "tmpfs", "ext4", "threads"} <= texts(curves)


def test_a_limit_is_a_named_line() -> None:
    lines = [series("ext4", [4 * KIB, 64 * KIB], [100, 200])]
    assert "the disk" in texts(Curves([Panel("Reads", lines, [("the disk", 400)])]))


def test_what_was_measured_at_one_size_can_be_shown() -> None:
    assert "4 KiB" in texts(Curves([Panel("Reads", [series("host", [4 * KIB], [100])])]))


def test_a_matrix_of_bars_with_published_numbers() -> None:
    def bar(name: str, value: float, published: float | None) -> Bar:
        return Bar(name, name, [value], value, value, f"{value:g} MB/s", name, published)

    panels = [
        BarPanel(title, [bar("tmpfs", 2000, 1600), bar("nfs", 25, None)]) for title in ("cold read", "re-read", "write")
    ]
    shown = texts(Bars(panels, columns=3, common_scale=False))
    assert {"cold read", "re-read", "write", "tmpfs", "nfs", "2000 MB/s", "25 MB/s"} <= shown


def test_a_drawing_is_as_wide_as_its_layout() -> None:
    plot = Curves([Panel("Reads", [series("host", [4 * KIB, 64 * KIB], [100, 90])])])
    page = plot.render("reads", "a title").page
    assert 'viewBox="0 0 860 ' in page["wide"]
    assert 'viewBox="0 0 344 ' in page["narrow"]
    assert 'aria-label="a title"' in page["wide"]
