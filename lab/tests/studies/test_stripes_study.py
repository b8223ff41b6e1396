"""The study stripes: what is varied, what its numbers show, and a small run where nothing is striped."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from ferry.sizes import KIB, MIB
from ferry_lab.results.records import RanksRow
from ferry_lab.run.remote_files import Place
from ferry_lab.studies import stripes
from ferry_lab.studies.stripes import BUFFER, COUNT, SIZE, Stripes, finding_of, granted, stripes_cells
from made_up import report_files, shown
from mpi import made_up_document, made_up_rows, needs_mpi, run_small

AXES = {COUNT: [1, 4], SIZE: [256 * KIB, 4 * MIB], BUFFER: [MIB, 16 * MIB]}
SETTINGS: dict[str, Any] = {
    "ranks": 4,
    "writers": [1, 4],
    "bytes_per_rank": 8 * MIB,
    "axes": AXES,
    "stripe_bytes_of_counts": MIB,
    "stripe_count_of_sizes": 4,
    "default_layout": {"stripe_count": 1, "stripe_bytes": 4 * MIB},
    "storage": "ceph:/",
    "mpi": "An MPI",
}


def made_up_rows_of(time_ms: Any) -> list[RanksRow]:
    place = Place("ceph:/", "ceph:/ferry-1.", query="?conf=/c")
    cells = [cell for n in (1, 4) for cell in stripes_cells(place, 4, n, 32 * MIB, AXES)]
    assert place.handed_out == ["ceph:/ferry-1.stripes?conf=/c"]
    return made_up_rows(cells, time_ms)


def test_one_thing_is_varied_at_a_time() -> None:
    cells = {c.id: c for c in stripes_cells(Place("", "/s/"), 4, 1, 32 * MIB, AXES)}
    assert len(cells) == 2 + 3 * 2
    default, count = cells["default/1"], cells["stripe count/4/1"]
    assert (default.stripe_count, default.stripe_bytes, default.buffer_bytes) == (0, 0, 0)
    assert (count.stripe_count, count.stripe_bytes, count.buffer_bytes) == (4, MIB, 0)
    assert cells[f"stripe size/{4 * MIB}/1"].stripe_count == 4
    assert cells[f"buffer/{MIB}/1"].stripe_count == 0


def test_each_point_stands_beside_the_default() -> None:
    fast = {"varied": COUNT, "value": 4, "writers": 4}
    rows = made_up_rows_of(lambda cell: 5.0 if cell.axes == fast else 10.0)
    study = Stripes()
    document = made_up_document(study, rows, SETTINGS)
    findings = [point.finding for point in finding_of(document, COUNT, 4).points]
    assert findings == ["within_5_percent", "faster"]
    said = (
        "Stripe count, 4 writers: a chosen stripe count is within 5 % of the default with 1; a "
        "chosen stripe count is faster with 4, 2.00 times the bandwidth of the default."
    )
    assert said in document.conclusions
    text = " ".join(shown(study, document).split())
    assert "the default is 1 of 4 MiB" in text and "150 MB/s" in text
    assert "4 3200 ±0% 1.00 6400 ±0% 2.00 no stripes" in text
    assert study.answer(document).first_lines()[1] == (
        "4 writers: fastest beside the default is stripe count 4, 2.00 times its bandwidth; 0 points are slower."
    )
    assert set(report_files(study, document)) >= {"plots/stripe-count.png", "plots/buffer.svg"}


def test_what_was_granted_is_said() -> None:
    row = made_up_rows_of(lambda _: 10.0)[0]
    assert granted(row) == "no stripes"
    for sample in row.repeats:
        sample.layout = {"stripe_count": 4, "stripe_bytes": MIB}
    assert granted(row) == "4 × 1 MiB"


def test_a_folder_whose_layout_says_nothing_is_reported_all_the_same() -> None:
    rows = made_up_rows_of(lambda _: 10.0)
    for sample in rows[0].repeats:
        sample.layout = {"stripe_count": 4, "stripe_bytes": None}
    assert granted(rows[0]) == "4 × unknown"
    study = Stripes()
    for count, size, said in (
        (None, None, "the default is left to the servers"),
        (None, MIB, "the default is a count left to the servers of 1 MiB"),
        (2, None, "the default is 2 of a size left to them"),
    ):
        layout = {"stripe_count": count, "stripe_bytes": size}
        document = made_up_document(study, rows, {**SETTINGS, "default_layout": layout})
        assert said in " ".join(shown(study, document).split())
        assert report_files(study, document)


@needs_mpi
def test_a_folder_without_stripes_is_measured_by_buffer_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stripes, "QUICK_RANKS", 2)
    monkeypatch.setattr(stripes, "QUICK_BYTES_PER_RANK", 64 * KIB)
    document = run_small(Stripes(), tmp_path)
    assert document["settings"]["default_layout"] is None
    assert len(document["rows"]) == 2 * (2 + 2)
    assert any("has no stripes" in note for note in document["notes"])
