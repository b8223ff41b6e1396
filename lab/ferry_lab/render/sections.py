"""What a study shows, said once; render.terminal and render.html draw any of it.

A study (run.study.Study) has two methods that return what is here:

- ``answer(document)``: the Answer, which comes first everywhere. ``conclusion``: what to use and what
  it gains, the most important sentence first. ``text``: how to read the numbers. ``words``: the ways
  that were measured.
- ``sections(document)``: a Section for each question, in the order to be read. It holds

  - ``title`` and ``text``, a few lines; both are shown everywhere;
  - ``figure``: a plot (render.curves, render.bars) with its caption; HTML only, the terminal has the
    same numbers in the tables;
  - ``findings``: what the numbers show, as data (render.findings): for each pair of ways the points
    along an axis with ratio, bounds, noise and verdict. The sentences are made from them there, for
    the terminal, for HTML and for the document's ``conclusions``. A study writes none itself;
  - ``tables``: the numbers (render.tables). A table whose section has a title of the same meaning has
    an empty one.

Text has plain apostrophes and spaces: render.html makes typographic ones. The renderers add what all
studies have in common: where and when it ran, notes, the environment, how to repeat it.
"""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass

from ferry_lab.render.findings import Findings
from ferry_lab.render.plots import Plot
from ferry_lab.render.tables import Table

_LINES_MAX, _LINE_WIDTH = 8, 80

NOISE = (
    "noise is the spread between two identical (A/A) series; differences within it, or within the "
    "spread of neighbouring repeats, are reported as none. The contents of every transfer are "
    "verified."
)
HOW_TO_READ = f"Numbers are medians, ± half the width of their 95 % bounds. {NOISE}"


@dataclass(frozen=True)
class Word:
    """One of the ways that were measured: in HTML in the colour that it has in the plots."""

    name: str  # as the plots have it
    label: str
    meaning: str


@dataclass(frozen=True)
class Answer:
    """A study's question, and its answer in a few lines."""

    question: str
    conclusion: Sequence[str]
    text: Sequence[str] = ()
    words: Sequence[Word] = ()

    def first_lines(self) -> list[str]:
        """Returns the first sentence, and those that fit with it into eight lines of 80 columns."""
        chosen: list[str] = []
        lines = 0
        for sentence in self.conclusion:
            more = len(textwrap.wrap(sentence, _LINE_WIDTH - 2, break_on_hyphens=False))
            if not chosen or lines + more <= _LINES_MAX:
                lines += more
                chosen.append(sentence)
        return chosen


@dataclass(frozen=True)
class Figure:
    """A plot with a name, which its files get, and what is said under it."""

    name: str  # lower case and hyphens; differs for each figure of a study
    plot: Plot
    alt: str  # what it shows, for readers who cannot see it
    caption: str


@dataclass(frozen=True)
class Section:
    """One question of a study: the numbers, and what they show."""

    title: str
    text: Sequence[str] = ()
    figure: Figure | None = None
    findings: Sequence[Findings] = ()
    tables: Sequence[Table] = ()


def conclusions(sections: Sequence[Section]) -> list[str]:
    """Returns all sentences about findings, as the document has them."""
    return [s for section in sections for findings in section.findings for s in findings.sentences()]
