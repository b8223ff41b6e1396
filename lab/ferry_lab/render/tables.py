"""A table as text, the same on the terminal and in the report, and for pages and papers."""

from __future__ import annotations

from dataclasses import dataclass

from ferry.terminal import BlockTable


@dataclass(frozen=True)
class Table:
    """Columns and rows; all columns but the first ``left`` hold numbers."""

    title: str  # empty: its section's title says it
    columns: list[str]
    rows: list[list[str]]
    left: int = 1

    def shown(self) -> BlockTable:
        """Returns it for the terminal."""
        table = BlockTable(self.title or None, self.columns, self.left)
        for row in self.rows:
            table.add_row(*row)
        return table

    def markdown(self) -> str:
        """Returns it for GitHub's Markdown."""
        sides = ["---"] * self.left + ["---:"] * (len(self.columns) - self.left)
        lines = [self.columns, sides, *self.rows]
        return "\n".join(f"| {' | '.join(cell.replace('|', _BAR) for cell in line)} |" for line in lines)

    def latex(self) -> str:
        """Returns it as a ``tabular``, which needs no package."""
        sides = "l" * self.left + "r" * (len(self.columns) - self.left)
        head, *rows = (" & ".join(map(latex_text, line)) + r" \\" for line in [self.columns, *self.rows])
        body = [r"\hline", head, r"\hline", *rows, r"\hline"]
        return "\n".join([rf"\begin{{tabular}}{{{sides}}}", *body, r"\end{tabular}"])


_BAR = r"\|"
_LATEX = {
    **{character: rf"\{character}" for character in "&%$#_{}"},
    **{"~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "\\": r"\textbackslash{}"},
    **{"<": r"\textless{}", ">": r"\textgreater{}", "µ": r"\textmu{}"},
}


def latex_text(text: str) -> str:
    """Returns plain text as LaTeX."""
    return "".join(_LATEX.get(character, character) for character in text)
