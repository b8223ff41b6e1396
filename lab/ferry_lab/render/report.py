"""The page of a study without sections; see render.sections."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from ferry_lab.render import html
from ferry_lab.render.sections import Answer, Figure, Section, Word

__all__ = ["Figure", "Page", "Section", "Shown", "Word", "files"]

Json = dict[str, Any]


@dataclass(frozen=True)
class Shown:
    """What the numbers of a section show: sentences about one thing."""

    about: str
    sentences_said: Sequence[str]

    def clauses(self) -> list[str]:
        """Returns them without full stops."""
        return [sentence.removesuffix(".") for sentence in self.sentences_said]


@dataclass(frozen=True)
class Page:
    """What is a study's own in its report."""

    question: str
    conclusion: Sequence[str]
    lead: str
    words: Sequence[Word]
    text: Sequence[str]
    sections: Sequence[Any] = field(default_factory=list)

    def answer(self) -> Answer:
        """Returns it for the renderers."""
        return Answer(self.question, self.conclusion, [self.lead, *self.text], self.words)

    def figures(self) -> list[Figure]:
        """Returns the figures of all sections."""
        return [section.figure for section in self.sections if section.figure]


def files(page: Page, document: Json) -> dict[str, bytes]:
    """Returns the files of the report."""
    return html.files(document, page.answer(), page.sections)
