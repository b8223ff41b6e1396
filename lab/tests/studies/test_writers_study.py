"""The study writers: what its numbers show, and a small run of it."""

from __future__ import annotations

from pathlib import Path

import pytest
from ferry.sizes import KIB, MIB
from ferry_lab.render.mpi_tables import split_ratio
from ferry_lab.run.mpi_plan import MpiCell
from ferry_lab.run.remote_files import Place
from ferry_lab.studies import writers
from ferry_lab.studies.writers import Writers
from ferry_lab.studies.writers_cells import FILES, OPERATIONS, writers_cells
from ferry_lab.studies.writers_findings import BEST, SUBSET, best_row, points_of, rows_of
from ferry_lab.studies.writers_predicted import check_paper, predictions
from documents import check_both
from made_up import report_files, shown
from mpi import made_up_document, made_up_rows, needs_mpi, run_small

COUNTS = [1, 2, 4, 8]
SETTINGS = {"ranks": 8, "bytes_per_rank": MIB, "writers": COUNTS, "storage": None, "mpi": "An MPI"}


def cells() -> list[MpiCell]:
    place = Place("", "/scratch/")
    return [
        cell
        for kind in FILES
        for operation in OPERATIONS
        for cell in writers_cells(place, kind, operation, 8, MIB, COUNTS)
    ]


def sweet_spot(cell: MpiCell) -> float:
    """Milliseconds: two aggregating writers are fastest, and all ranks lose."""
    if cell.id.split("/")[2] == "aggregate":
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
    rows = made_up_rows(cells(), sweet_spot)
    findings = Writers().findings(rows)
    assert best_row(rows_of(rows, "write", "shared"))["id"] == "write/shared/aggregate/2"
    points = points_of(findings.comparisons, BEST, "write", "shared")
    assert len(points) == 6 and {point["finding"] for point in points} == {"slower"}
    beside_all = {
        point["row"]: point["finding"]
        for point in points_of(findings.comparisons, SUBSET, "write", "shared")
    }
    assert beside_all["write/shared/aggregate/2"] == "faster"
    assert beside_all["write/shared/serial/2"] == "within_5_percent"
    first, second = (s for s in findings.conclusions if s.startswith("Write, one shared file"))
    assert "fastest were 2 writers, aggregated (800 MiB/s)" in first
    assert "all 8 ranks (0.20 times)" in first
    assert "faster than all ranks: 1 writer, aggregated (1.25 times)" in second


def test_noise_is_no_difference() -> None:
    rows = made_up_rows(cells(), sweet_spot)
    for row in rows:
        for number, sample in enumerate(row["repeats"]):
            sample.elapsed_ns = 10_000_000 * (1 + 9 * (number % 2))
    findings = Writers().findings(rows)
    assert {point["finding"] for point in findings.comparisons} == {"no_difference"}
    assert all("noise" in sentence for sentence in findings.conclusions)
    beside_all = findings.conclusions[1]
    assert "no difference measured between all ranks and any subset of them" in beside_all


def test_one_writer_that_is_fastest_is_one() -> None:
    rows = made_up_rows(cells(), lambda cell: 10.0 if cell.writers == 1 else 40.0)
    first = Writers().findings(rows).conclusions[0]
    assert "fastest was 1 writer, aggregated" in first and first.endswith("lose against it.")


def test_the_page_and_the_tables_say_what_the_rows_say() -> None:
    study = Writers()
    document = made_up_document(study, made_up_rows(cells(), sweet_spot), SETTINGS)
    text = shown(study, document)
    assert "Where the time goes" in text and "Paper 004" in text and "oversubscribed" in text
    tables = text[text.index("Study writers on ") :]
    assert tables.count("loses") == 4 * 6
    assert set(report_files(study, document)) >= {
        *("report.html", "plots/writers.png", "plots/time-split.svg"),
    }
    check_both(document)


def test_the_model_predicts_what_it_was_not_calibrated_from() -> None:
    rows = made_up_rows(cells(), sweet_spot)
    said = predictions(rows, "write", "shared")
    assert set(said) == {row["id"] for row in rows_of(rows, "write", "shared")} - {
        *("write/shared/all/8", "write/shared/aggregate/1"),
    }
    # Gathering in one writer takes longest, so the fewer writers, the slower.
    assert said["write/shared/aggregate/2"] <= said["write/shared/aggregate/4"]
    assert said["write/shared/serial/1"] <= said["write/shared/serial/4"]
    assert [p["writers"] for p in check_paper() if p["calibrated"]] == [8640, 8640, 960, 960]


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
