"""The study optimizations: its plan and its conclusions, without measuring."""

from __future__ import annotations

import dataclasses

from ferry.sizes import GIB, KIB, MIB
from ferry_lab.run import study
from ferry_lab.studies import optimizations, published
from ferry_lab.studies.optimizations import Optimizations, kernel_findings, operation_table, setting_findings
from ferry_lab.studies.file_sizes import QUICK_REPEATS
from ferry_lab.studies.optimizations_cells import ALIGNMENT_BYTES, OPERATIONS, SWITCHES
from made_up import OPTIONS, optimizations_document, optimizations_places, shown


def groups(**changes: object) -> dict[str, study.Group]:
    options = dataclasses.replace(OPTIONS, **changes)
    return optimizations.make_groups(options, optimizations_places(), optimizations.SIZES)


def test_sizes_are_those_of_the_design_page() -> None:
    assert (optimizations.SIZES[0], optimizations.SIZES[-1]) == (4 * MIB, GIB)
    assert set(optimizations.QUICK_SIZES) < {*optimizations.SIZES}
    for cell in (cell for group in groups().values() for cell in group.cells):
        if cell.axes.get("variant") == "many":
            assert cell.transfer_bytes < 16 * KIB
        else:
            assert cell.transfer_bytes in (4 * MIB, 8 * KIB)


def test_every_setting_is_measured_beside_none_of_them() -> None:
    for operation, name in zip(OPERATIONS, ("writes", "re-writes", "reads", "reads"), strict=True):
        for size in optimizations.SIZES:
            found = [
                cell
                for group_name, group in groups().items()
                if group_name.startswith(f"{name} of")
                for cell in group.cells
                if cell.axes["operation"] == operation and cell.total_bytes == size
            ]
            settings = [c.cache_switches for c in found if c.interface == "ferry"]
            assert settings == [(), *((switch,) for switch in SWITCHES), None, ()]
            kernel = [cell.axes["way"] for cell in found if cell.interface == "posix"]
            assert kernel == ([] if operation == "reread" else ["tmpfs", "ramfs"])
            for cell in found:
                assert cell.rewrite == (operation == "rewrite")
                warm = operation in ("rewrite", "reread") and cell.interface == "ferry"
                assert cell.warm == warm


def test_a_whole_file_may_be_dirty() -> None:
    for group in groups().values():
        largest = max(cell.total_bytes for cell in group.cells)
        assert group.runtime.cache_bytes >= 2 * largest


def test_large_files_are_measured_less_often() -> None:
    repeats = {name: group.repeats for name, group in groups().items()}
    assert repeats["writes of 4 MiB"] >= 20
    assert repeats["writes of 1 GiB"] < repeats["writes of 256 MiB"] < 20
    assert {group.repeats for group in groups(repeats=3).values()} == {3}
    assert max(g.repeats for g in groups(quick=True).values()) == QUICK_REPEATS


def test_buffers_and_small_files() -> None:
    alignment = groups()["alignment"].cells
    assert {cell.buffer_offset_bytes for cell in alignment} == {0, 1}
    assert {cell.total_bytes for cell in alignment} == {ALIGNMENT_BYTES}
    small = groups()["small files"].cells
    many = [cell for cell in small if cell.program == "files"]
    assert {cell.axes["way"] for cell in many} == {"off", "all", "plain", "tmpfs", "ramfs"}
    assert {cell.axes["variant"] for cell in many} == {"many"}
    assert len({cell.total_bytes for cell in small}) == 1


def test_ids_differ() -> None:
    ids = [cell.id for group in groups().values() for cell in group.cells]
    assert len(set(ids)) == len(ids)


FAST = {"streaming_copies": 0.5, "all": 0.25, "tmpfs": 0.5, "all-unaligned": 2, "off-many": 10}


def test_conclusions_name_what_is_faster() -> None:
    document = optimizations_document(times=FAST)
    sentences = setting_findings(document, "write").sentences()
    assert sentences[0] == ("Write: all on is faster at every size, 4.00 times the bandwidth of all off.")
    assert sentences[4] == (
        "Write: streaming copies alone is faster at every size, 2.00 times the bandwidth of all off."
    )
    assert "batched allocation alone is within 5 % of all off at every size" in sentences[1]
    assert kernel_findings(document, "write").sentences()[0] == (
        "Write: the cache, all on, is faster at every size, 2.00 times the bandwidth of the kernel's tmpfs."
    )
    assert {*sentences, *kernel_findings(document, "write").sentences()} < {*document.conclusions}
    (unaligned,) = [s for s in document.conclusions if s.startswith("Re-read, unaligned buffers: ")]
    assert "buffers: all on is slower, 0.50 times the bandwidth of aligned ones; all off" in unaligned
    (small,) = [s for s in document.conclusions if s.startswith("Write, many small files: ")]
    assert "; all off is slower, 0.10 times the bandwidth of one large file by records;" in small


def test_noise_is_no_difference() -> None:
    document = optimizations_document(times=FAST)
    for row in document.rows:
        if row.axes["way"] == "again":
            for index, sample in enumerate(row.repeats):
                sample.io_ns = int(sample.io_ns * (0.2 if index % 2 else 5))
    document.comparisons = Optimizations().compare(document.rows)
    (sentence,) = setting_findings(document, "write").sentences()
    start = "Write: no difference measured at any size between all on, batched allocation alone"
    assert sentence.startswith(start)
    assert sentence.endswith("or readahead alone and all off (noise > 100 %).")


def test_tables_hold_every_number() -> None:
    document = optimizations_document(times=FAST)
    for operation in OPERATIONS:
        table = operation_table(document, operation)
        assert [line[0] for line in table.rows] == [
            *("all off", *list(SWITCHES.values()), "copy engine", "all on", "tmpfs", "ramfs"),
            "noise",
        ]
        assert table.rows[7][1:-1] == ["absent"] * 5
        assert table.rows[0][1] == "1000 ±0%"
        assert table.rows[8][1:] == ["4000 ±0%"] * 5 + ["4.00 (4.00 to 4.00)"]
    assert len(optimizations.alignment_table(document).rows) == 2 * 4
    assert optimizations.small_table(document).rows[0][2:5] == ["100", "1000", "1000"]


def test_every_published_number_is_shown() -> None:
    table = optimizations.paper_table(optimizations_document(times=FAST))
    numbers = published.of_study("optimizations")
    assert [line[2] for line in table.rows] == [f"{number.value:g}" for number in numbers]
    assert table.rows[0][3:] == ["4.00", "4.00"]


def test_the_answer_says_what_the_numbers_say() -> None:
    document = optimizations_document(times=FAST)
    assert Optimizations().answer(document).first_lines() == [
        "All optimisations together, beside none of them: 4.00 times the bandwidth for write, "
        "re-write, read and re-read.",
        "Alone, the largest gain is that of streaming copies (up to 2.00 times the bandwidth) for "
        "write, re-write, read and re-read.",
        "Beside the kernel's tmpfs, the cache with all on: 2.00 times the bandwidth for write, "
        "re-write, read and re-read.",
    ]
    figures = [section.figure for section in Optimizations().sections(document) if section.figure]
    assert [figure.name for figure in figures] == ["file-sizes", "alone", "small-files"]


def test_operations_that_differ_are_told_apart() -> None:
    document = optimizations_document(times=FAST)
    for point in document.comparisons:
        operation, way = point.axes["operation"], point.axes["way"]
        if (operation, way) == ("reread", "all") and point.total_bytes > 16 * MIB:
            point.finding = "no_difference"
        elif (operation, way) == ("rewrite", "all"):
            point.finding, point.ratio_median = "within_5_percent", 1.0
    assert Optimizations().answer(document).conclusion[0] == (
        "All optimisations together, beside none of them: 4.00 times the bandwidth for write and "
        "read; within 5 % or without a measured difference for re-write; 4.00 times the bandwidth "
        "at 2 of 5 sizes for re-read."
    )


def test_without_root_there_is_no_kernel_beside_it() -> None:
    document = optimizations_document(kernel=())
    assert Optimizations().answer(document).conclusion[2].startswith("No kernel file system")
    assert "tmpfs" not in shown(Optimizations(), document, 110).split("\nBeside the paper\n")[0]
