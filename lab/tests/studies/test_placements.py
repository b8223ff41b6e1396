"""The study's plan and its conclusions, without measuring."""

from __future__ import annotations

import dataclasses

import pytest
from ferry.sizes import KIB, MIB
from ferry_lab.results.records import MeasuredRow
from ferry_lab.run import study
from ferry_lab.run.plan import PLACEMENTS, Cell, Plan, RuntimeSettings
from ferry_lab.studies import placements_cells
from ferry_lab.studies.placements import READ_VIEWS, Placements, findings_of
from ferry_lab.studies.placements_cells import program_cells, read_cells, write_cells
from made_up import row

OPTIONS = study.StudyOptions("/tmp", None, False, None, None, None, False)
SOURCES = placements_cells.Sources("/file", "/new", "/large", 16 * MIB, 1)


def test_sizes_are_those_of_the_design_page() -> None:
    assert placements_cells.SIZES[0] == 4 * KIB
    assert placements_cells.SIZES[-1] == 16 * MIB
    for fewer in (placements_cells.WRITE_SIZES, placements_cells.LARGE_SIZES, placements_cells.QUICK_SIZES):
        assert len(fewer) < len(placements_cells.SIZES)
        assert (fewer[0], fewer[-1]) == (4 * KIB, 16 * MIB)
    assert placements_cells.REPEATS >= 20


def test_what_is_compared_is_measured_side_by_side() -> None:
    cells = read_cells("/file", 16 * MIB, placements_cells.SIZES, 1)
    ways = len(placements_cells.READS)
    assert len({cell.id for cell in cells}) == len(cells) == 7 * ways
    for at in range(0, len(cells), ways):
        together = cells[at : at + ways]
        assert len({cell.transfer_bytes for cell in together}) == 1
        assert [(cell.interface, cell.placement, cell.warm) for cell in together] == [
            ("ferry", "host", False),
            *[("ferry", placement, False) for placement in PLACEMENTS[1:]],
            *[("ferry", placement, True) for placement in PLACEMENTS[1:]],
            *[("posix", None, False)] * 2,
            ("mmap", None, False),
        ]


def test_sizes_above_the_total_are_left_out() -> None:
    cells = read_cells("/file", MIB, placements_cells.SIZES, None)
    assert max(cell.transfer_bytes for cell in cells) == MIB


def test_programs_without_a_file_to_write_have_no_write_twins() -> None:
    both = program_cells("/file", "/new", MIB, 1)
    assert {cell.operation for cell in both} == {"read", "write"}
    only = program_cells("/file", None, MIB, 1)
    assert {cell.operation for cell in only} == {"read"}
    assert {cell.program for cell in only} == {"iterative", "once"}
    for operation in ("read", "write"):
        ways = {cell.placement for cell in both if cell.operation == operation}
        assert ways == {*PLACEMENTS, None}


def test_writes_are_flushed_and_synced_and_never_overwrite() -> None:
    programs = [c for c in program_cells("/f", "/new", MIB, 1) if c.operation == "write"]
    for cell in [*write_cells("/new", MIB, [4 * KIB]), *programs]:
        assert cell.sync == "flush+fsync"
        assert not cell.overwrite
        assert not cell.keep


def test_the_groups_of_a_study() -> None:
    groups = placements_cells.make_groups(OPTIONS, SOURCES)
    assert list(groups) == ["read", "write", "unflushed", "large", "programs"]
    assert groups["large"].repeats == placements_cells.LARGE_REPEATS
    assert {cell.path for cell in groups["large"].cells} == {"/large"}
    quick = dataclasses.replace(OPTIONS, quick=True)
    only_reads = dataclasses.replace(SOURCES, write_path=None, large_path=None)
    groups = placements_cells.make_groups(quick, only_reads)
    assert list(groups) == ["read", "programs"]
    assert groups["read"].repeats == placements_cells.QUICK_REPEATS
    repeats = placements_cells.make_groups(dataclasses.replace(OPTIONS, repeats=3), SOURCES)
    assert {group.repeats for group in repeats.values()} == {3}


def test_the_plan_as_json() -> None:
    cells = read_cells("/file", MIB, [4 * KIB], 3)
    plan = Plan(cells, 7, RuntimeSettings(device_threads=1)).to_json()
    assert plan["schema"] == "ferry.plan/3"
    assert plan["repeats"] == 7
    assert plan["runtime"]["device_threads"] == 1
    assert plan["runtime"]["cache_bytes"] == 0
    host, compute = plan["cells"][:2]
    assert host["placement"] == "host"
    assert compute["placement"] == "compute"
    assert plan["cells"][-1]["placement"] is None
    assert host["expect_pattern_seed"] == 3


@pytest.mark.parametrize(("interface", "placement"), [("ferry", None), ("posix", "host")])
def test_a_placement_is_given_where_there_is_one(interface: str, placement: str | None) -> None:
    with pytest.raises(ValueError, match="placement"):
        Cell("a", interface, "read", "/file", 1, 1, placement)


# ---- findings from made-up times ----------------------------------------------------------------


def reads(speeds: dict[str, list[float]]) -> list[MeasuredRow]:
    """Rows of the reads at four sizes; speeds beside the plain calls' by way, else 1."""
    sizes = placements_cells.QUICK_SIZES
    rows = []
    for cell in read_cells("/file", 16 * MIB, sizes, 1):
        of_series = [1.0] * 4 if cell.warm else speeds.get(cell.axes["way"], [1.0] * 4)
        rows.append(row(cell, "read", 1e6 / of_series[sizes.index(cell.transfer_bytes)]))
    return rows


def test_every_pair_is_compared_at_every_size() -> None:
    comparisons = Placements().compare(reads({}))
    # cold: 4 placements beside plain, 2 pairs, the best; warm: all but host beside plain
    assert len(comparisons) == 4 * (7 + 6)
    assert {c.question for c in comparisons} == {*("placement_and_plain", "two_placements", "automatic_and_best")}
    assert {c.finding for c in comparisons} == {"within_5_percent"}


def test_conclusions_say_where_placements_cross() -> None:
    comparisons = Placements().compare(reads({"compute": [4, 2, 0.5, 0.4], "automatic": [4, 2, 1, 0.5]}))
    cold, warm = READ_VIEWS
    sentences = findings_of(cold, comparisons).sentences()
    name = "Reads, device cache cold: "
    assert sentences[0].startswith(f"{name}compute and host cross between 64 KiB (2.00) and 1 MiB")
    assert sentences[1].startswith(f"{name}service and compute cross between 64 KiB")
    assert sentences[2] == (
        f"{name}automatic is within 5 % of the best of the three from 4 KiB to 1 MiB; automatic is "
        "slower at 16 MiB, 0.50 times the bandwidth of the best of the three."
    )
    assert "compute and pread cross" in sentences[3]
    assert sentences[4] == f"{name}host is within 5 % of pread at every size."
    assert all("within 5 %" in s for s in findings_of(warm, comparisons).sentences())


def test_noise_is_said_once() -> None:
    rows = reads({"compute": [1.1, 1.1, 0.9, 0.9]})
    for made in rows:
        if made.axes["way"] == "again":
            for index, sample in enumerate(made.repeats):
                sample.io_ns = int(sample.io_ns * (0.5 if index % 2 else 2))
    cold, _ = READ_VIEWS
    assert findings_of(cold, Placements().compare(rows)).sentences() == [
        "Reads, device cache cold: no difference measured at any size between compute and host, "
        "nor between service and compute, nor between automatic and the best of the three, nor "
        "between compute or host and pread (noise > 100 %)."
    ]


def test_a_series_that_wavers_shows_nothing_although_plain_calls_do_not() -> None:
    rows = reads({"compute": [0.8] * 4})
    for made in rows:
        if made.axes["way"] == "compute" and made.axes["device_cache"] == "cold":
            for index, sample in enumerate(made.repeats):
                sample.io_ns = int(sample.io_ns * (0.8 if index % 2 else 1.6))
    points = READ_VIEWS[0].points(Placements().compare(rows), "two_placements", "compute")
    assert {c.finding for c in points} == {"no_difference"}
    assert all(c.aa_spread == 0 and c.noise > 0.9 for c in points)


def test_the_best_is_picked_on_other_pairs_than_it_is_judged_on() -> None:
    rows = reads({"compute": [2, 2, 2, 2]})
    points = [c for c in Placements().compare(rows) if c.question == "automatic_and_best"]
    assert {c.pairs for c in points} == {10}
    cold = [c for c in points if c.device_cache == "cold"]
    assert all(c.baseline_axes["way"] == "compute" for c in cold)
    assert {c.finding for c in cold} == {"slower"}


def test_what_is_unverified_is_named() -> None:
    cells = read_cells("/file", MIB, [4 * KIB], 1)
    rows = [row(cell, "read", 1e6) for cell in cells]
    assert study.unverified_notes(rows) == []
    for made in rows[:5]:
        made.device_cache_state = "unverified"
    (note,) = study.unverified_notes(rows)
    assert "device's page cache" in note
    names = ("host", "compute/cold", "service/cold")
    assert f"{', '.join(f'transfers/read/{name}/4096' for name in names)} and 2 more" in note
