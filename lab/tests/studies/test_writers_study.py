"""The study writers: what its numbers show, and a small run of it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from ferry.sizes import KIB, MIB
from ferry_lab.render.mpi_tables import split_ratio
from ferry_lab.results.records import Document
from ferry_lab.run.plan import RanksCell
from ferry_lab.run.remote_files import Place
from ferry_lab.studies import writers
from ferry_lab.studies.writers import BEST, SUBSET, Writers, best_row, points_of
from ferry_lab.studies.writers_cells import FILES, OPERATIONS, rows_of, writers_cells
from ferry_lab.studies.writers_model import check_paper, predictions
from documents import check_both
from made_up import report_files, shown
from mpi import made_up_document, made_up_rows, needs_mpi, run_small

COUNTS = [1, 2, 4, 8]
SETTINGS = {"ranks": 8, "bytes_per_rank": MIB, "writers": COUNTS, "storage": None, "mpi": "An MPI"}


def cells() -> list[RanksCell]:
    place = Place("", "/scratch/")
    return [
        cell
        for kind in FILES
        for operation in OPERATIONS
        for cell in writers_cells(place, kind, operation, 8, MIB, COUNTS)
    ]


def document_of(time_ms: Callable[[RanksCell], float]) -> Document:
    return made_up_document(Writers(), made_up_rows(cells(), time_ms), SETTINGS)


def sweet_spot(cell: RanksCell) -> float:
    """Milliseconds: two aggregating writers are fastest, and all ranks lose."""
    if cell.axes["way"] == "aggregate":
        return {1: 40.0, 2: 10.0, 4: 20.0}[cell.writers]
    return 50.0


def test_all_ranks_and_every_subset_are_measured() -> None:
    ids = [cell.id for cell in cells() if cell.id.startswith("write/own/")]
    assert ids == [
        *("write/own/all/8", "write/own/again/8"),
        *(f"write/own/aggregate/{n}" for n in (1, 2, 4)),
        *(f"write/own/serial/{n}" for n in (1, 2, 4)),
    ]
    by_id = {cell.id: cell for cell in cells()}
    own, shared = by_id["read/own/serial/2"], by_id["write/shared/all/8"]
    assert (own.method, own.writers, own.file_per_writer, own.cold) == ("serial", 2, True, True)
    assert own.paths == ["/scratch/read.own.2.0", "/scratch/read.own.2.1"]
    assert (shared.method, shared.writers, shared.sync) == ("independent", 8, "fsync")


def test_the_sweet_spot_and_who_loses() -> None:
    document = document_of(sweet_spot)
    assert best_row(rows_of(document.rows, "write", "shared")).id == "write/shared/aggregate/2"
    points = points_of(document, BEST, "write", "shared")
    assert len(points) == 6 and {point.finding for point in points} == {"slower"}
    beside_all = {point.row: point.finding for point in points_of(document, SUBSET, "write", "shared")}
    assert beside_all["write/shared/aggregate/2"] == "faster"
    assert beside_all["write/shared/serial/2"] == "within_5_percent"
    fastest = "Write, one shared file, beside the fastest (2 writers, aggregated: 800 MiB/s): "
    every = "Write, one shared file, beside all 8 ranks: "
    assert [said for said in document.conclusions if said.startswith("Write, one shared")] == [
        f"{fastest}writing by all ranks is slower, 0.20 times the bandwidth of the fastest.",
        f"{fastest}aggregated is slower with 1 and 4 writers, 0.25 to 0.50 times the bandwidth of the fastest.",
        f"{fastest}sent serially is slower with 1, 2 and 4 writers, 0.20 times the bandwidth of the fastest.",
        f"{every}aggregated is faster with 1, 2 and 4 writers, 1.25 to 5.00 times the bandwidth of all ranks.",
        f"{every}sent serially is within 5 % of all ranks with 1, 2 and 4 writers.",
    ]


def test_noise_is_no_difference() -> None:
    rows = made_up_rows(cells(), sweet_spot)
    for row in rows:
        for number, sample in enumerate(row.repeats):
            sample.elapsed_ns = 10_000_000 * (1 + 9 * (number % 2))
    document = made_up_document(Writers(), rows, SETTINGS)
    assert {point.finding for point in document.comparisons} == {"no_difference"}
    assert all("noise" in sentence for sentence in document.conclusions)
    beside_all = "no difference measured between aggregated or sent serially and all ranks (noise"
    assert beside_all in document.conclusions[1]


def test_one_writer_that_is_fastest_is_one() -> None:
    document = document_of(lambda cell: 10.0 if cell.writers == 1 else 40.0)
    assert "beside the fastest (1 writer, aggregated: 800 MiB/s): " in document.conclusions[0]
    # The other subset of one is as fast.
    assert Writers().answer(document).first_lines()[0] == (
        "One shared file, write: 1 writer, aggregated (800 MiB/s), against which 5 of 6 other points "
        "lose; read: 1 reader, aggregated (800 MiB/s), against which 5 of 6 other points lose."
    )


def test_the_page_and_the_tables_say_what_the_rows_say() -> None:
    study, document = Writers(), document_of(sweet_spot)
    text = shown(study, document)
    assert "Where the time goes" in text and "Fahey (2007), beside the model" in text and "oversubscribed" in text
    tables = text[text.index("Study writers on ") :]
    assert tables.count("loses") == 4 * 6
    assert set(report_files(study, document)) >= {*("report.html", "plots/writers.png", "plots/time-split.svg")}
    check_both(document)


def test_the_model_predicts_what_it_was_not_calibrated_from() -> None:
    rows = made_up_rows(cells(), sweet_spot)
    said = predictions(rows, "write", "shared")
    assert set(said) == {row.id for row in rows_of(rows, "write", "shared")} - {
        *("write/shared/all/8", "write/shared/aggregate/1")
    }
    # Gathering in one writer takes longest, so the fewer writers, the slower.
    assert said["write/shared/aggregate/2"] <= said["write/shared/aggregate/4"]
    assert said["write/shared/serial/1"] <= said["write/shared/serial/4"]
    assert [p.writers for p in check_paper() if p.calibrated] == [8640, 8640, 960, 960]


def test_what_overlaps_is_not_counted_as_communication() -> None:
    row = made_up_rows(cells(), lambda _: 6.0)[0]
    # 1 ms of file I/O and 1 ms of sync in a call of 6 ms.
    assert split_ratio(row) == pytest.approx(2.0)


@needs_mpi
def test_a_small_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writers, "QUICK_RANKS", 2)
    monkeypatch.setattr(writers, "QUICK_BYTES_PER_RANK", 64 * KIB)
    document = run_small(Writers(), tmp_path)
    assert len(document["rows"]) == 4 * 4
    assert all(row["verified"] for row in document["rows"])
    assert {row["metrics"]["storage_bytes"]["median"] for row in document["rows"]} == {128 * KIB}
