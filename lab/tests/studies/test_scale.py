"""The study scale: its cells, its verdicts on made-up measurements, and a short real run."""

from __future__ import annotations

import json
import os
import resource
from pathlib import Path

import pytest
from ferry.sizes import GIB, KIB, MIB
from ferry_lab.run.sparse_files import make_sparse_file
from ferry_lab.run.study import StudyOptions, run
from ferry_lab.studies import scale, scale_cells
from ferry_lab.studies.scale import Scale, fairness_table, hit_and_miss_ns, table_of, verdict_of
from ferry_lab.studies.scale_cells import CALL_BYTES, Shape, SystemFiles, make_groups
from made_up import scale_document, shown
from measured import failure, measure
from support import cell


def groups(quick: bool = False) -> dict[str, scale.Matrix]:
    return make_groups(Shape.of(quick), SystemFiles("/d"), lambda _: 20)


# ---- what is measured ----------------------------------------------------------------------------


def test_along_an_axis_only_that_changes() -> None:
    for axis, group in groups().items():
        cells = group.cells
        assert {c.transfer_bytes for c in cells} == {CALL_BYTES}
        assert all(c.latency for c in cells)
        if axis in ("callers", "server", "pages", "open", "hits"):
            assert len({c.total_bytes for c in cells}) == 1, "the same calls, however many share them"
        if axis not in ("callers", "server", "fairness"):
            assert len({c.threads for c in cells}) == 1
        assert [c.axes["value"] for c in cells if "variant" not in c.axes] == Shape.of(False).values[axis]
        again = [c for c in cells if "variant" in c.axes]
        assert len(again) == (axis != "fairness")
        for one in again:  # equals the first in all but its name
            fields = ("path", "variant", "threads", "total_bytes", "open_files", "stride_bytes", "operation")
            assert [getattr(one, name) for name in fields] == [getattr(cells[0], name) for name in fields]


def test_the_cells_are_as_large_as_their_values() -> None:
    made = groups()
    assert [c.threads for c in made["callers"].cells] == [1, 16, 256, 1024, 1]
    for one, variant in zip(made["cache"].cells, made["cache"].variants, strict=False):
        assert one.total_bytes // CALL_BYTES * one.stride_bytes * 2 == variant["cache_bytes"] == one.axes["value"]
    for one in made["file"].cells:
        assert one.total_bytes // CALL_BYTES * one.stride_bytes == one.axes["value"]
        assert one.total_bytes <= 16 * MIB, "a bounded set of places, however large the file is"
    for one in made["open"].cells:
        assert one.open_files == one.axes["value"]
        assert one.total_bytes // one.open_files % CALL_BYTES == 0
    assert [v["page_bytes"] for v in made["pages"].variants] == [c.axes["value"] for c in made["pages"].cells[:-1]]
    shares = [v["cache_bytes"] / made["hits"].cells[0].total_bytes for v in made["hits"].variants]
    assert shares == [2.0, pytest.approx(0.99, abs=0.001), pytest.approx(0.9, abs=0.001), 0.5]


def test_ids_differ() -> None:
    ids = [c.id for group in groups().values() for c in group.cells]
    assert len(set(ids)) == len(ids)


def test_caches_for_which_there_is_no_memory_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    shape, notes = Shape.of(False), []
    monkeypatch.setattr(scale, "available_bytes", lambda: 4 * GIB)
    scale._leave_out_large_caches(shape, notes)
    assert shape.values["cache"] == [64 * MIB, 256 * MIB, GIB]
    assert notes[0].startswith("caches above 1 GiB are left out")


def test_more_open_files_than_allowed_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    shape, notes = Shape.of(False), []
    monkeypatch.setattr(resource, "getrlimit", lambda _: (4096 + 256, 4096 + 256))
    scale._leave_out_open_files(shape, notes)
    assert shape.values["open"][-1] == 4096
    assert notes == ["more than 4,096 open files are left out: a process may open 4,352 (ulimit -n)"]


def test_open_files_are_left_out_where_a_process_may_have_few(monkeypatch: pytest.MonkeyPatch) -> None:
    shape, notes = Shape.of(True), []
    monkeypatch.setattr(resource, "getrlimit", lambda _: (200, 200))
    scale._leave_out_open_files(shape, notes)
    assert notes == ["open files are left out: a process may open 200 (ulimit -n)"]
    assert "open" not in make_groups(shape, SystemFiles("/d"), lambda _: 6)


def test_a_sparse_file_holds_the_pattern_where_it_is_read(tmp_path: Path) -> None:
    path = tmp_path / "sparse"
    make_sparse_file(str(path), 8, MIB, 7)
    assert path.stat().st_size == 8 * MIB
    assert path.stat().st_blocks * 512 <= 64 * KIB
    gaps = {"total_bytes": 8 * CALL_BYTES, "stride_bytes": MIB, "expect_pattern_seed": 7}
    measure([cell(path, interface="posix", **gaps)], repeats=1)
    with path.open("r+b") as file:
        os.pwrite(file.fileno(), b"!", 3 * MIB + 100)
    assert f"wrong at byte {3 * MIB + 100}" in failure([cell(path, interface="posix", **gaps)])["message"]


# ---- what it concludes ---------------------------------------------------------------------------


def test_what_stays_within_the_limit_is_flat() -> None:
    verdict = verdict_of(scale_document(times={"callers/1024": 1.4}), "callers")
    assert verdict.sentence() == "Flat: at most 1.40 times the first value's cost, with 1,024 callers."


def test_what_grows_has_a_law() -> None:
    sizes = scale_cells.VALUES["file"]
    times = {f"file/{size}": (size / sizes[0]) ** 0.5 for size in sizes}
    verdict = verdict_of(scale_document(times=times), "file")
    assert verdict.kind == "grows"
    assert verdict.sentence() == (
        "It grows: 32.00 times the first value's cost in a file of 1 TiB. Law: about the value to the power of 0.50."
    )


def test_noise_is_no_verdict() -> None:
    document = scale_document(times={"pages/65536": 1.6})
    for row in document.rows:
        if row.axes["axis"] == "pages" and "variant" in row.axes:
            for index, sample in enumerate(row.repeats):
                sample.io_ns = int(sample.io_ns * (0.2 if index % 2 else 5))
    document.comparisons = Scale().compare(document.rows)
    assert verdict_of(document, "pages").kind == "unclear"
    assert "Too noisy to tell: page size." in Scale().answer(document).conclusion


def test_two_repeats_are_no_verdict() -> None:
    """Their bounds are the two themselves, however much a third would differ."""
    document = scale_document(times={"file": 1.0, "small/65536": 9.0})
    for row in document.rows:
        del row.repeats[2:]
    document.comparisons = Scale().compare(document.rows)
    assert verdict_of(document, "small").sentence() == (
        "Too few repeats to tell: 9.00 times the first value's cost with 65,536 files."
    )
    assert not any("flat" in line or "grows" in line for line in Scale().answer(document).conclusion)


@pytest.mark.parametrize("axis", ["cache", "open", "file"])
def test_an_axis_of_which_one_value_is_left_is_not_judged(axis: str) -> None:
    document = scale_document()
    first = scale_cells.VALUES[axis][0]
    document.rows = [row for row in document.rows if row.axes["axis"] != axis or row.axes["value"] == first]
    document.comparisons = Scale().compare(document.rows)
    printed = shown(Scale(), document)
    assert scale_cells.AXES[axis].title not in printed
    assert scale_cells.AXES["pages"].title in printed


def test_readers_of_one_page_run_at_once() -> None:
    """On four CPUs, a call takes four times what all of them together take for one."""
    document = scale_document()
    for runtime in document.environment.runtimes:
        runtime.device_cpus = "0-3"
    assert {scale.call_ns(document, row).median for row in scale.rows_of(document, "writes")} == {4000}
    assert {scale.call_ns(document, row).median for row in scale.rows_of(document, "pages")} == {1000}


def test_callers_that_run_at_once_share_the_time() -> None:
    """On four CPUs, sixteen callers that end in a quarter of the time cost the same."""
    document = scale_document(times={"callers/16": 0.25})
    for runtime in document.environment.runtimes:
        runtime.device_cpus = "0-2,5"
    assert scale.cost_of(document, scale.points_of(document, "callers")[0]).median == pytest.approx(1.0)
    for runtime in document.environment.runtimes:
        runtime.device_cpus = "0"
    assert scale.cost_of(document, scale.points_of(document, "callers")[0]).median == pytest.approx(0.25)


def test_a_miss_has_its_price() -> None:
    assert hit_and_miss_ns(scale_document()) == (pytest.approx(1000, rel=0.01), pytest.approx(10_000, rel=0.01))


def test_a_hit_costs_what_it_took_where_all_calls_were_hits() -> None:
    """However little the misses lie on a line: here the few of them take twice as long as the many."""
    hit, miss = hit_and_miss_ns(scale_document(times={"hits/99": 1.1, "hits/90": 2.0}))
    assert hit == pytest.approx(1000, rel=0.01)
    assert miss == pytest.approx(10_400, rel=0.02)


def test_a_tail_that_grows_alone_is_seen() -> None:
    document = scale_document(tails={"open/4096": 20.0})
    (section,) = [s for s in Scale().sections(document) if s.title == "Open files"]
    assert "Flat: at most 1.00 times" in section.text[1]
    assert "99 % of the calls take at most 10.0 times as long" in section.text[1]


def test_tables_have_every_value() -> None:
    document = scale_document(times={"open/256": 3.0})
    table = table_of(document, "open")
    assert [line[0] for line in table.rows] == ["1", "16", "256", "4,096", "16,384", "65,536"]
    assert table.rows[2][1:] == ["3.00 µs", "3.00 µs", "6.00 µs", "6.00 µs", "3.00 (3.00-3.00)", "0 %"]
    assert table_of(document, "hits").rows[3][0] == "50 %: 50.0 %"
    assert fairness_table(document).rows[0] == ["16", "500", "1,000", "1,500", "2.00"]


def test_the_answer_says_what_the_numbers_say() -> None:
    document = scale_document(times={"small/65536": 1.8})
    assert Scale().answer(document).first_lines() == [
        "A call's cost is flat, within 1.5 times, along callers (to 1,024), callers of the server (to 256), "
        "cache size (to 16 GiB), page size (to 2 MiB), file size (to 1 TiB), open files (to 65,536) and writes "
        "to the page that is read (to 50 %).",
        "It grows along misses (6.0 times with 50 % of the file in the cache) and small files (1.8 times with "
        "65,536 files).",
        "A hit costs 1.00 µs, a miss 10.0 µs more, from the host's memory.",
        "The slowest of 16 callers takes 2.0 times the median one's time: fair.",
    ]
    for row in document.rows:
        for sample in row.repeats:
            sample.thread_operations_per_s.min = 100.0
    assert Scale().answer(document).conclusion[-1].endswith("10.0 times the median one's time: not fair.")


def test_it_fits_into_80_columns() -> None:
    assert max(map(len, shown(Scale(), scale_document(), 80).splitlines())) <= 80


def test_everything_that_it_concludes_is_shown() -> None:
    """As the studies that test_commands runs: this one takes a minute, and its results are made up here."""
    document = scale_document(times={"small/65536": 1.8})
    lines = shown(Scale(), document, 110).splitlines()
    assert max(map(len, lines)) <= 110
    assert not any("…" in line for line in lines), "a column is cut off"
    printed = " ".join(" ".join(lines).split())
    assert len(document.conclusions) == len(scale_cells.AXES) - 1
    for sentence in document.conclusions:
        assert sentence in printed
    figures = [section.figure.name for section in Scale().sections(document) if section.figure]
    assert figures == [*(f"along-{axis}" for axis in scale_cells.AXES if axis != "fairness"), "fairness"]
    again = sum(len(values) - 1 for axis, values in scale_cells.VALUES.items() if axis != "fairness")
    assert len(document.comparisons) == again


# ---- a short run ---------------------------------------------------------------------------------

_VALUES = {
    "callers": [1, 4],
    "server": [1, 4],
    "cache": [4 * MIB, 8 * MIB],
    "pages": [4 * KIB, 64 * KIB],
    "hits": [100, 50],
    "file": [GIB, 1024 * GIB],
    "small": [8, 32],
    "open": [1, 64],
    "writes": [0, 6],
    "fairness": [2, 4],
}


def test_a_short_run_measures_every_axis(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shape = Shape(_VALUES, 4 * MIB, MIB, dict.fromkeys(("cache", "hits", "writes", "fairness"), 6), 4 * MIB)
    monkeypatch.setattr(Shape, "of", lambda _quick: shape)
    monkeypatch.setattr(scale_cells, "PLACES", 64)
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    out = tmp_path / "results.json"
    run(Scale(), StudyOptions(str(scratch), None, True, 2, None, str(out), False))
    document = json.loads(out.read_text())
    assert list(scratch.iterdir()) == []
    states = {row["id"]: row["device_cache_state"] for row in document["rows"]}
    for axis in ("callers", "cache", "pages", "file", "open"):
        assert {state for name, state in states.items() if name.startswith(f"{axis}/")} == {"warm"}, axis
    rows = {row["id"]: row for row in document["rows"]}
    assert rows["open/64"]["open_files"] == 64
    misses = [sum(s["cache"]["misses"] for s in rows[f"hits/{share}"]["repeats"]) for share in (100, 50)]
    assert misses[0] == 0 < misses[1]
    assert not [note for note in document["notes"] if "hits/" in note]
    assert {point["axes"]["axis"] for point in document["comparisons"]} == {*_VALUES} - {"fairness"}
