"""A study on the terminal: the answer, the environment, then each section."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

from rich.console import Console
from rich.text import Text

from ferry_lab.render.sections import Answer, Section
from ferry_lab.render.study_text import NO_BREAK, describe_run, keep_units, runtime_notes
from ferry_lab.results.records import Document
from ferry_lab.results.simulation import Simulation

_WIDTH = 100  # text is not wider than tables are


def print_study(console: Console, document: Document | Simulation, answer: Answer, sections: Sequence[Section]) -> None:
    """Prints everything but the figures."""
    print_answer(console, answer)
    print_wrapped(console, describe_run(document))
    for line in answer.text:
        print_wrapped(console, line)
    for word in answer.words:
        print_wrapped(console, f"{word.label}: {word.meaning}.", "  ")
    console.print()
    for section in sections:
        _print_section(console, section)
    for note in [*runtime_notes(document), *document.notes]:
        console.print(f"note: {note}", soft_wrap=True)


def print_answer(console: Console, answer: Answer) -> None:
    """Prints the conclusion and an empty line."""
    for sentence in answer.first_lines():
        print_wrapped(console, sentence, "  ")
    console.print()


def _print_section(console: Console, section: Section) -> None:
    console.print(Text(section.title, style="bold"))
    for line in section.text:
        print_wrapped(console, line)
    for table in section.tables:
        console.print(table.shown())
    for findings in section.findings:
        clauses = findings.clauses()
        if len(clauses) == 1:
            print_wrapped(console, f"{findings.about}: {clauses[0]}.", "  ")
        elif clauses:
            print_wrapped(console, f"{findings.about}:", "  ")
            for clause in clauses:
                print_wrapped(console, f"  {clause}.", "    ")
    console.print()


def print_wrapped(console: Console, text: str, indent: str = "") -> None:
    """Prints a paragraph; its second line and those below begin with ``indent``."""
    width = min(console.width, _WIDTH)
    text = keep_units(text)  # a line of textwrap may end only at other spaces
    for line in textwrap.wrap(text, width, subsequent_indent=indent, break_on_hyphens=False):
        console.print(line.replace(NO_BREAK, " "), soft_wrap=True)
