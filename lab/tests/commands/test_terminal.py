"""Output on narrow terminals: every number, in blocks of columns."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from ferry_lab.render.tables import Table
from ferry_lab.run.bench import _COLUMNS
from rich.cells import cell_len
from support import Command
from made_up import printed
from processes import run_on_terminal


def shown(table: Table, width: int) -> list[str]:
    return printed(width, lambda console: console.print(table.shown())).splitlines()


def wide_table(left: int) -> Table:
    heads = ["transfer size", "access", *(f"column{n}" for n in range(12))]
    rows = [[f"{4 << row} KiB", "read", *(f"{1000 * row + n}.25 ±{n}%" for n in range(12))] for row in range(4)]
    return Table("Bandwidths by transfer size, for those who read them", heads, rows, left)


@pytest.mark.parametrize("left", [1, 2, 14])
@pytest.mark.parametrize("width", [200, 110, 80, 60, 40])
def test_a_table_fits_and_loses_nothing(width: int, left: int) -> None:
    table = wide_table(left)
    lines = shown(table, width)
    assert max(map(cell_len, lines)) <= width
    words = " ".join(lines).split()
    assert "…" not in " ".join(lines)
    for text in (*table.columns, *(cell for row in table.rows for cell in row)):
        for word in text.split():
            assert word in words


def test_every_block_names_its_rows() -> None:
    lines = shown(wide_table(2), 80)
    blocks = sum(line.startswith(" transfer size  access ") for line in lines)
    assert blocks > 1
    assert sum(line.startswith(" 32 KiB         read ") for line in lines) == blocks
    assert sum("Bandwidths" in line for line in lines) == 1


@pytest.mark.parametrize("width", [8, 20])
def test_not_even_a_tiny_terminal_loses_a_digit(width: int) -> None:
    texts = ["a long name", "number", "one of the rows", "123456789012345678901"]
    table = Table("", texts[:2], [texts[2:]])
    text = "".join("".join(shown(table, width)).split())
    assert sorted(text.replace("─", "")) == sorted("".join("".join(texts).split()))


def test_a_table_that_fits_is_one_block() -> None:
    lines = shown(wide_table(1), 250)
    assert sum("transfer size" in line for line in lines if "column11" in line) == 1


@pytest.mark.parametrize("columns", [80, 40])
def test_bench_shows_every_column(command: Command, tmp_path: Path, columns: int) -> None:
    flags = ["-b", "128k", "-t", "64k", "-i", "3", "-e", "--json", tmp_path / "r.json"]
    lines = run_on_terminal(command, columns, "bench", *flags, "f")
    table = lines[next(i for i, line in enumerate(lines) if line.startswith("access")) :]
    table = table[: next(i for i, line in enumerate(table) if line.startswith("write: "))]
    assert max(map(len, table)) <= columns
    assert {word for line in table for word in line.split()} >= {*_COLUMNS, "fsync(s)"}
    shown_numbers = " ".join(table).split()
    for row in json.loads((tmp_path / "r.json").read_text())["rows"]:
        for sample in row["repeats"]:
            for name in ("open_ns", "io_ns", "close_ns", "elapsed_ns"):
                assert f"{sample[name] * 1e-9:.6f}" in shown_numbers


@pytest.mark.parametrize("columns", [80, 40])
def test_import_shows_every_column(command: Command, tmp_path: Path, columns: int) -> None:
    path = tmp_path / "r.json"
    flags = ["--placement", "automatic", "-b", "128k", "-t", "64k", "-i", "2", "--cold"]
    command.succeeds("bench", *flags, "--json", path, "f")
    lines = run_on_terminal(command, columns, "import", path)
    table = lines[: next(i for i, line in enumerate(lines) if line.startswith("MiB/s: "))]
    assert max(map(len, table)) <= columns
    text = " ".join(table)
    assert "…" not in text
    for row in json.loads(path.read_text())["rows"]:
        bandwidth = row["metrics"]["bandwidth_mib_per_s"]
        for name in ("median", "median_low_95", "median_high_95"):
            assert f"{bandwidth[name]:.1f}" in text.split()


@pytest.mark.parametrize("columns", [80, 40])
def test_info_breaks_its_lines_between_words(command: Command, columns: int) -> None:
    lines = run_on_terminal(command, columns, "info")
    assert [line for line in lines if len(line) > columns and len(line[14:].split()) > 1] == []
