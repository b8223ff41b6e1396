"""The study endian: what its numbers show, and a small run of it."""

from __future__ import annotations

from pathlib import Path

import pytest
from ferry.sizes import KIB, MIB
from ferry_lab.run.remote_files import Place
from ferry_lab.studies import endian
from ferry_lab.studies.endian import FOREIGN, TESTS, Endian, endian_cells, paper_ratios
from made_up import report_files, shown
from mpi import made_up_document, made_up_rows, needs_mpi, run_small

SETTINGS = {
    "ranks": [1, 4],
    "elements_bytes": [4, 8],
    "bytes_per_rank": 16 * MIB,
    "transfer_bytes": 8 * MIB,
    "byte_order": FOREIGN,
    "storage": None,
    "mpi": "An MPI",
}


def made_up(swapped_ms: float) -> tuple[Endian, dict[str, object]]:
    place = Place("", "/scratch/")
    cells = [
        cell
        for operation in ("write", "read")
        for ranks in (1, 4)
        for cell in endian_cells(place, operation, ranks, ranks * 16 * MIB, [4, 8])
    ]
    rows = made_up_rows(cells, lambda one: swapped_ms if one.byte_order != "native" else 10.0)
    study = Endian()
    return study, made_up_document(study, rows, SETTINGS)


def test_swapped_files_are_files_of_their_own() -> None:
    cells = endian_cells(Place("", "/s/"), "read", 2, 32 * MIB, [4, 8])
    assert [cell.id for cell in cells] == [*("read/native/2", "read/again/2", "read/swapped/4/2", "read/swapped/8/2")]
    assert cells[0].path == cells[1].path
    assert len({cell.path for cell in cells}) == 3
    assert [cell.byte_order for cell in cells] == ["native", "native", FOREIGN, FOREIGN]


def test_what_swapping_leaves() -> None:
    study, document = made_up(swapped_ms=20.0)
    for test in TESTS:
        assert [p.finding for p in test.points(document, 4)] == ["slower"] * 2
    assert (
        "Write, 1 rank: swapped is slower with elements of 4 and 8 bytes, 0.50 times the bandwidth of native."
    ) in document.conclusions
    assert study.answer(document).first_lines()[0] == (
        "Write: swapped data has 0.50 of native's bandwidth; slower by more than the noise at 4 of 4 points."
    )
    text = shown(study, document)
    assert "Fahey (2007), 1 rank" in text and "0.52" in text
    assert paper_ratios()[1] == pytest.approx(9.4 / 18)
    assert 7 not in paper_ratios()
    assert set(report_files(study, document)) >= {*("plots/write.png", "plots/write-and-sync.png", "plots/read.svg")}


def test_no_cost_is_said_to_be_none() -> None:
    _, document = made_up(swapped_ms=10.0)
    assert {point.finding for point in document.comparisons} == {"within_5_percent"}
    assert all("is within 5 % of native" in said for said in document.conclusions)


@needs_mpi
def test_a_small_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(endian, "QUICK_BYTES_PER_RANK", 64 * KIB)
    monkeypatch.setattr(endian, "rank_counts", lambda _: [1, 2])
    document = run_small(Endian(), tmp_path)
    assert len(document["rows"]) == 2 * 2 * 4
    assert {row["element_bytes"] for row in document["rows"]} == {None, 4, 8}
