"""A plot embedded in the page: matplotlib's SVG, isolated from its surroundings and themeable."""

from __future__ import annotations

import html
import re
from collections.abc import Mapping

from ferry_lab.render.plot_style import PALETTE, ROLES

_COLOURS = {light: name for name, (light, _) in {**ROLES, **PALETTE}.items()}
# One of a <g> that gets a tooltip.
TIP = "tip-"


def for_page(svg: str, name: str, title: str, tips: Mapping[str, str]) -> str:
    """Returns the ``<svg>`` element.

    Colours become CSS variables, text takes the page's font, and ids begin with ``name``, which
    differs for each plot of a page. ``title`` is what a screen reader says; ``tips`` are tooltips
    by the gid of what has one.
    """
    body = svg[svg.index("<svg") :]
    body = re.sub(r"<metadata>.*?</metadata>|<!--.*?-->|<style.*?</style>", "", body, flags=re.S)
    body = re.sub(r"#[0-9a-f]{6}\b", _variable, body)
    body = re.sub(r"font-family: [^;\"]*;?\s*", "", body)
    for gid, text in tips.items():
        tip = f'id="{gid}">'
        body = body.replace(tip, f"{tip}<title>{html.escape(text, quote=False)}</title>", 1)
    body = re.sub(r'\bid="([^"]*)"', rf'id="{name}-\1"', body)
    body = re.sub(r"url\(#([^)]*)\)", rf"url(#{name}-\1)", body)
    body = re.sub(r'href="#([^"]*)"', rf'href="#{name}-\1"', body)
    # Group names of matplotlib that nothing refers to.
    body = re.sub(rf'<g id="{name}-(?!{TIP})[^"]*">', "<g>", body)
    body = re.sub(r"\n\s*", "\n", body)
    body = re.sub(r"<defs>\s*</defs>\n?", "", body)
    head, rest = body.split(">", 1)
    box = re.search(r'viewBox="[^"]*"', head)
    assert box is not None
    label = html.escape(title)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink" '
        f'role="img" aria-label="{label}" {box.group()}>{rest}'
    )


def _variable(match: re.Match[str]) -> str:
    name = _COLOURS.get(match.group())
    return f"var(--{name})" if name is not None else match.group()
