"""The study's plan and its conclusions, without measuring."""

from __future__ import annotations

from typing import Any

from ferry import placements
from ferry.plan import Plan, RuntimeSettings
from ferry.sizes import KIB, MIB


def test_sizes_are_those_of_the_design_page() -> None:
    assert placements.SIZES[0] == 4 * KIB
    assert placements.SIZES[-1] == 16 * MIB
    assert set(placements.QUICK_SIZES) <= set(placements.SIZES)
    assert placements.QUICK_SIZES[0] == 4 * KIB
    assert placements.QUICK_SIZES[-1] == 16 * MIB
    assert placements.REPEATS >= 20


def test_what_is_compared_is_measured_side_by_side() -> None:
    cells = placements.read_cells("/file", 16 * MIB, placements.SIZES, 1)
    assert len({cell.id for cell in cells}) == len(cells) == 13 * 4
    for host, plain, again, mmap in zip(*[iter(cells)] * 4, strict=True):
        assert [host.interface, plain.interface, again.interface, mmap.interface] == [
            *("ferry", "posix", "posix", "mmap")
        ]
        assert len({c.transfer_bytes for c in (host, plain, again, mmap)}) == 1


def test_sizes_above_the_total_are_left_out() -> None:
    cells = placements.read_cells("/file", MIB, placements.SIZES, None)
    assert max(cell.transfer_bytes for cell in cells) == MIB


def test_programs_without_a_file_to_write_have_no_write_twins() -> None:
    both = placements.program_cells("/file", "/new", MIB, 1)
    assert {cell.operation for cell in both} == {"read", "write"}
    only = placements.program_cells("/file", None, MIB, 1)
    assert {cell.operation for cell in only} == {"read"}
    assert {cell.program for cell in only} == {"iterative", "once"}


def test_writes_are_synced_and_never_overwrite() -> None:
    for cell in placements.write_cells("/new", MIB, [4 * KIB]):
        assert cell.sync == "fsync"
        assert not cell.overwrite
        assert not cell.keep


def test_the_plan_as_json() -> None:
    cells = placements.read_cells("/file", MIB, [4 * KIB], 3)
    plan = Plan(cells, 7, RuntimeSettings(device_threads=1)).to_json()
    assert plan["schema"] == "ferry.plan/1"
    assert plan["repeats"] == 7
    assert plan["runtime"]["device_threads"] == 1
    host, plain = plan["cells"][:2]
    assert host["placement"] == "host"
    assert plain["placement"] is None
    assert host["expect_pattern_seed"] == 3


def _point(size: int, finding: str, ratio: float = 1.0, noise: float = 0.01) -> dict[str, Any]:
    return {
        "group": "read",
        "metric": "bandwidth_mib_per_s",
        "transfer_bytes": size,
        "finding": finding,
        "ratio_median": ratio,
        "aa_spread": noise,
    }


def test_conclusions_follow_the_findings() -> None:
    points = [
        _point(4 * KIB, "slower", 0.4),
        _point(16 * KIB, "slower", 0.6),
        _point(64 * KIB, "within_5_percent", 0.99),
        _point(MIB, "within_5_percent", 1.01),
    ]
    assert placements.conclude(points) == [
        "Reads, cached by the host: host is slower from 4 KiB to 16 KiB, 0.40 to 0.60 times the "
        "bandwidth of pread; host is within 5 % of pread from 64 KiB up."
    ]


def test_conclusions_gather_the_sizes_of_one_finding() -> None:
    points = [
        _point(4 * KIB, "no_difference", noise=0.3),
        _point(16 * KIB, "faster", 1.5),
        _point(64 * KIB, "no_difference", noise=4.0),
    ]
    assert placements.conclude(points) == [
        "Reads, cached by the host: no difference measured between host and pread at 4 KiB and at "
        "64 KiB (noise > 100 %); host is faster at 16 KiB, 1.50 times the bandwidth of pread."
    ]


def test_conclusions_about_every_size() -> None:
    points = [_point(size, "slower", 0.5) for size in (4 * KIB, MIB)]
    assert placements.conclude(points) == [
        "Reads, cached by the host: host is slower at every size, 0.50 times the bandwidth of "
        "pread."
    ]
