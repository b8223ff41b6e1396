"""What a loss of power may leave of the files of whole programs that sync them while they go on: what was
synced is there, the rest is older or newer bytes of the program, whatever of Ferry is under it.
"""

from __future__ import annotations

import shutil
import sqlite3
import sys
from pathlib import Path
from typing import Literal

import numpy
import pytest

from recorded import MARK, Moment, recorded
from recorded_writers import BULK, Records, check
from served import Node

from support import BUILD, Command

HOWS = [
    Records(step=1, gathered=True),
    Records("fdatasync", size=5000, step=1),
    Records(),
    Records(size=5000),
    Records("O_SYNC", often=1),
    Records("O_DSYNC", often=1, step=1),
]


@pytest.mark.parametrize("records", HOWS, ids=lambda one: f"{one.how}-{one.size}-{one.step}")
def test_buffered_programs(node: Node, scratch: Path, records: Records) -> None:
    """Small writes under ``ferry run --buffer``, with a buffer that holds some of them."""
    words = node.command.arguments("run", "--buffer", "data:size=8k:count=2", "--", *records.words())
    check(scratch, node.command.environment, records, words)


def test_a_buffered_program_without_its_syncs_is_found(node: Node, scratch: Path) -> None:
    words = node.command.arguments("run", "--buffer", "data:size=8k:count=2", "--", *Records().words())
    check(scratch, node.command.environment, Records(), words, fails=True)


# ---- bulk transfers ------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [300, 5000, 40_000])
def test_bulk_transfers(command: Command, scratch: Path, size: int) -> None:
    records = Records(size=size, records=20 if size > 5000 else 60)
    check(scratch, command.environment, records, records.words(program=BULK), points=6 if size > 5000 else 20)


def test_bulk_transfers_without_their_syncs_are_found(command: Command, scratch: Path) -> None:
    check(scratch, command.environment, Records(), Records().words(program=BULK), fails=True)


# ---- files of a cluster in a folder --------------------------------------------------------------

MAPPED = [Records(step=1, gathered=True), Records("fdatasync", size=5000), Records("O_SYNC", often=1)]


@pytest.mark.skipif(not (BUILD / "mocks" / "libpvfs2.so.2").exists(), reason="absent: the mock of libpvfs2")
@pytest.mark.parametrize("records", MAPPED, ids=lambda one: f"{one.how}-{one.size}-{one.step}")
@pytest.mark.parametrize("fails", [False, True], ids=["", "without-syncs"])
def test_mapped_files(node: Node, scratch: Path, records: Records, fails: bool) -> None:
    """``ferry run --map FOLDER=URI`` gathers writes; the mock of PVFS2 keeps its files in the recorded folder."""
    mapped = scratch / "mapped"
    mapped.mkdir()
    table = scratch / "table"
    environment = node.command.environment
    environment |= {"LD_LIBRARY_PATH": str(BUILD / "mocks"), "PVFS2TAB_FILE": str(table)}
    table.write_text(f"mock:{scratch}/recorded-0 /mock pvfs2 defaults 0 0\n")
    words = node.command.arguments("run", "--map", f"{mapped}=pvfs2:/mock", "--", *records.words(f"{mapped}/data"))
    check(scratch, environment, records, words, fails=fails)


# ---- a database ----------------------------------------------------------------------------------

DATABASE = """
import os, sqlite3, sys
folder, path, journal, synchronous, commits = *sys.argv[1:5], int(sys.argv[5])
base = sqlite3.connect(path, isolation_level=None)
assert base.execute(f"pragma journal_mode={journal}").fetchone() == (journal,)
base.execute(f"pragma synchronous={synchronous}")
for number in range(1, commits + 1):
    base.execute("begin")
    base.executemany("insert into numbers values (?, ?)", [(number, bytes([number]) * 700) for _ in range(3)])
    base.execute("update total set commits = ?", (number,))
    base.execute("commit")
    os.access(f"{folder}/MARK{number}", os.F_OK)
base.close()
"""


def look_at_database(moment: Moment) -> None:
    """As SQLite recovers it: whole commits, the acknowledged ones among them."""
    committed = max((int(mark) for mark in moment.marks), default=0)
    base = sqlite3.connect(moment.folder / "base")
    try:
        assert base.execute("pragma integrity_check").fetchall() == [("ok",)], moment.where
        (commits,) = base.execute("select commits from total").fetchone()
        rows = base.execute("select number, data from numbers order by number").fetchall()
    finally:
        base.close()
    assert commits is not None, moment.where
    assert commits >= committed, f"lost commit {committed} {moment.where}"
    assert rows == [(number, bytes([number]) * 700) for number in range(1, commits + 1) for _ in range(3)], moment.where


def make_database(folder: Path) -> None:
    base = sqlite3.connect(folder / "base")
    base.executescript(
        "create table numbers (number, data); create table total (commits); insert into total values (0)"
    )
    base.close()


@pytest.mark.parametrize(("journal", "synchronous"), [("delete", "extra"), ("wal", "full")])
@pytest.mark.parametrize("options", [[], ["--buffer", "base*:size=8k:count=2"]], ids=["served", "buffered"])
def test_a_database(node: Node, scratch: Path, journal: str, synchronous: str, options: list[str]) -> None:
    """SQLite under ``ferry run``. Its locks and its mapped file end the buffering of its files."""
    program = [sys.executable, "-c", DATABASE.replace("MARK", MARK), "{}", "{}/base", journal, synchronous, 5]
    words = node.command.arguments("run", *options, "--", *program)
    with recorded(scratch, words, make_database, environment=node.command.environment) as run:
        assert run.status == 0, run.output()
        run.check(look_at_database, points=30, most=20)


def test_a_database_without_its_syncs_is_found(node: Node, scratch: Path) -> None:
    program = [sys.executable, "-c", DATABASE.replace("MARK", MARK), "{}", "{}/base", "delete", "extra", 5]
    words = node.command.arguments("run", "--", *program)
    with (
        recorded(scratch, words, make_database, environment=node.command.environment, syncs="files") as run,
        pytest.raises((AssertionError, sqlite3.DatabaseError)),
    ):
        run.check(look_at_database, points=30, most=20)


# ---- checkpoints ---------------------------------------------------------------------------------


@pytest.mark.parametrize("program", ["ferry-checkpoint", "ferry-checkpoint-c", "ferry-checkpoint-fortran"])
@pytest.mark.parametrize("case", ["over", "new", "without-syncs"])
def test_checkpoints(command: Command, scratch: Path, program: str, case: str) -> None:
    """Two ranks write a field and sync it before they end. They sync no folder, so the name of a new file
    lasts where the sync of a file keeps it.
    """
    mpiexec = shutil.which("mpiexec")
    if mpiexec is None or not (BUILD / program).exists():
        pytest.skip("absent: MPI")
    words = ["timeout", 100, mpiexec, "-n", 2, BUILD / program, "write", "{}/field"]
    old = b"" if case == "new" else bytes([255]) * 1000

    def fill(folder: Path) -> None:
        if old:
            (folder / "field").write_bytes(old)

    syncs: Literal["all", "files"] = "files" if case == "without-syncs" else "all"
    with recorded(scratch, words, fill, environment=command.environment, syncs=syncs) as run:
        assert run.status == 0, run.output()
        new = numpy.frombuffer(run.final()["field"], numpy.uint8)

        def look(moment: Moment) -> None:
            found = numpy.frombuffer(moment.files().get("field", b""), numpy.uint8)
            if moment.is_over:
                assert numpy.array_equal(found, new), f"lost {moment.where}"
            assert len(found) <= len(new), moment.where
            foreign = (found != new[: len(found)]) & (found != 0)
            assert not foreign[len(old) :].any(), moment.where
            assert (found[: len(old)][foreign[: len(old)]] == 255).all(), moment.where

        if case == "without-syncs":
            with pytest.raises(AssertionError, match="lost"):
                run.check(look, points=12, most=8)
        else:
            run.check(look, points=12, most=8, keeps_names=case == "new")
