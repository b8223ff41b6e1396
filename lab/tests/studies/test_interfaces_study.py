"""The study interfaces: what is there, what its numbers show, and a small run of it."""

from __future__ import annotations

from pathlib import Path

import pytest
from ferry.sizes import GIB, KIB, MIB
from ferry_lab.run.plan import RanksCell
from ferry_lab.run.remote_files import Place
from ferry_lab.studies import interfaces
from ferry_lab.studies.interfaces import NATIVE, NATIVE_VIEWS, OPERATIONS, Interfaces, cells_of, findings_of, present
from made_up import report_files, shown
from mpi import made_up_document, made_up_rows, needs_mpi, run_small

FOLDER, CEPH = Place("", "/scratch/"), Place("ceph:/", "ceph:/ferry-1.")


def made_up(folder: Place | None, storage: Place | None) -> tuple[list[RanksCell], dict[str, object]]:
    there, absent = present(folder, storage)
    cells = [
        cell
        for operation in OPERATIONS
        for clients in (2, 6)
        for transfer in (MIB, 64 * MIB)
        for cell in cells_of(there, operation, clients, transfer, 12 * 64 * MIB)
    ]
    settings = {
        "clients": [2, 6],
        "transfers_bytes": [MIB, 64 * MIB],
        "totals_bytes": [768 * MIB] * 2,
        "interfaces": list(there),
        "absent": absent,
        "storage": None if storage is None else "ceph:/",
        "mpi": "An MPI",
    }
    return cells, settings


def test_what_is_absent_says_why() -> None:
    there, absent = present(FOLDER, None)
    assert list(there) == ["posix", "mpiio-posix", "views-posix"]
    assert set(absent) == {NATIVE, NATIVE_VIEWS} and "--storage" in absent[NATIVE]
    there, absent = present(None, CEPH)
    assert list(there) == [NATIVE_VIEWS, NATIVE]
    assert all("--dir" in why for why in absent.values())
    there, absent = present(FOLDER, CEPH)
    assert (len(there), absent) == (5, {})


def test_each_lies_where_it_belongs() -> None:
    there, _ = present(FOLDER, CEPH)
    cells = {cell.axes["interface"]: cell for cell in cells_of(there, "read", 4, MIB, 48 * MIB)}
    assert cells["native"].interface == "native"
    assert cells["native"].path == cells["views-native"].path == "ceph:/ferry-1.interfaces.read"
    assert (cells["views-posix"].interface, cells["mpiio-posix"].interface) == ("ferry", "mpiio")
    assert cells["again"].path == cells["posix"].path == "/scratch/interfaces.read"
    assert all(cell.cold and cell.sync == "none" for cell in cells.values())
    assert CEPH.path("x") in [CEPH.path("x")] and "ceph:/ferry-1.interfaces.read" in CEPH.handed_out


def test_totals_are_the_same_for_all_clients() -> None:
    for transfer in (*interfaces.TRANSFERS, *interfaces.QUICK_TRANSFERS):
        for quick in (False, True):
            total = interfaces.total_bytes(transfer, quick)
            assert all(total % (clients * transfer) == 0 for clients in interfaces.CLIENTS)


def test_what_memory_does_not_hold_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    notes: list[str] = []
    monkeypatch.setattr(interfaces, "memory_bytes", lambda: 16 * GIB)
    assert interfaces.fitting([MIB, 256 * MIB, GIB], notes) == [MIB, 256 * MIB]
    assert notes == ["calls of 1 GiB are left out: six clients would hold more than a quarter of the memory"]


def test_findings_name_the_interfaces() -> None:
    cells, settings = made_up(FOLDER, None)
    rows = made_up_rows(cells, lambda cell: 5.0 if cell.interface == "mpiio" else 10.0)
    study = Interfaces()
    document = made_up_document(study, rows, settings)
    mpiio = findings_of(document, "write", 6).findings[0]
    assert [point.finding for point in mpiio.points] == ["faster", "faster"]
    assert [said for said in document.conclusions if said.startswith("Write, 6 clients: ")] == [
        "Write, 6 clients: MPI-IO over POSIX is faster at every size, 2.00 times the bandwidth of POSIX.",
        "Write, 6 clients: Ferry's views over POSIX is within 5 % of POSIX at every size.",
    ]
    assert study.answer(document).first_lines()[0::2] == [
        "Write, 6 clients, 64 MiB: MPI-IO over POSIX has the highest mean (153600 MiB/s); 4 of 8 "
        "points differ from POSIX by more than the noise.",
        "Write, 6 clients: MPI-IO over POSIX has 2.0 times the bandwidth of POSIX at every size; "
        "Ferry's views over POSIX and POSIX are within 5 %.",
    ]
    text = shown(study, document)
    assert "native client: absent; name a storage" in text
    assert "mpiio-posix" in text and "151,000" in text
    assert set(report_files(study, document)) >= {*("plots/write.png", "plots/read.svg", "plots/context-switches.png")}


def test_views_never_stand_beside_the_papers_mpi_io() -> None:
    cells, settings = made_up(FOLDER, CEPH)
    document = made_up_document(Interfaces(), made_up_rows(cells, lambda _: 10.0), settings)
    table = interfaces.paper_table(document)
    assert {line[0] for line in table.rows} == {"posix", "mpiio-posix", "native", "mpiio-native"}
    assert {line[-1] for line in table.rows if line[0] == "mpiio-native"} == {"absent"}
    assert all(line[-1] != "absent" for line in table.rows if line[0] == "native")


@needs_mpi
def test_a_small_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(interfaces, "CLIENTS", [2])
    monkeypatch.setattr(interfaces, "QUICK_TRANSFERS", [64 * KIB])
    monkeypatch.setattr(interfaces, "QUICK_TOTAL_BYTES", 768 * KIB)
    document = run_small(Interfaces(), tmp_path)
    assert len(document["rows"]) == 2 * 4
    mpiio = next(row for row in document["rows"] if row["id"] == f"write/mpiio-posix/2/{64 * KIB}")
    assert mpiio["repeats"][0]["counts"] is None
    assert mpiio["metrics"]["read_and_write_calls"]["median"] >= 12
    assert any("within the caches" in note for note in document["notes"])
