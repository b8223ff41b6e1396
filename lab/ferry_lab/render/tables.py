"""A table as text, the same on the terminal and in the report."""

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
