"""The frame of studies: resuming, estimates, and the files in --out; measures nothing."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from ferry import native, streams
from ferry.errors import FerryError
from ferry.sizes import KIB, MIB
from ferry_lab.render.findings import Finding, Findings
from ferry_lab.render.sections import Answer, Section
from ferry_lab.results.records import Comparison, Document, Row
from ferry_lab.run import study, study_files, unfinished
from ferry_lab.run.estimate import Estimate, describe_s, write_room_bytes
from ferry_lab.run.measuring import Measurement
from ferry_lab.run.plan import Cell, Plan
from ferry_lab.stats.comparing import make_comparison
from made_up import ENVIRONMENT, sample
from msgspec import structs

Json = dict[str, Any]
REPEATS = 7  # odd: whole groups are kept completely, partial ones in pairs
CELLS = ("a", "b", "c")


class Small(study.Study):
    """Two groups of artificial cells."""

    name = "placements"

    def __init__(self, transfer_bytes: int = 4 * KIB) -> None:
        self.transfer_bytes = transfer_bytes

    @contextlib.contextmanager
    def prepare(self, options: study.StudyOptions, notes: list[str]) -> Iterator[study.Matrix]:
        # As long as the scratch folder has another name each time.
        folder = Path(options.folder) / f"scratch-{len(list(Path(options.folder).iterdir()))}"
        folder.mkdir()
        groups = {
            group: study.Group(
                [Cell(f"{group}/{n}", "posix", "read", f"{folder}/f", self.transfer_bytes, MIB) for n in CELLS], REPEATS
            )
            for group in ("first", "second")
        }
        yield study.Matrix(groups, {"small": True}, [str(folder)])

    def compare(self, rows: Sequence[Row]) -> list[Comparison]:
        first, second, *_ = rows
        made = make_comparison("two_placements", "elapsed_ns", first, second, (first, second))
        return [structs.replace(made, finding="within_5_percent", pairs=len(rows))]

    def answer(self, document: Document) -> Answer:
        return Answer("Which?", ["This."])

    def sections(self, document: Document) -> list[Section]:
        finding = Finding("this", "that", document.comparisons, axis=None)
        return [Section("All", findings=[Findings("Reads", [finding])])]


# What a made-up sample counts its number in.
NUMBERED = (*("bytes", "open_ns", "io_ns", "flush_ns", "sync_ns", "close_ns", "operations", "elapsed_ns"),)


class Bench:
    """Replaces ferry-bench; ends with ``error`` after ``ends_after`` samples."""

    def __init__(self) -> None:
        self.samples = 0
        self.plans: list[Plan] = []
        self.ends_after: int | None = None
        self.error: BaseException = KeyboardInterrupt()

    def run_plan(self, plan: Plan, on_sample: Callable[[str], None], into: Measurement) -> Measurement:
        self.plans.append(plan)
        runtime = structs.replace(ENVIRONMENT.runtimes[0], device_cpus=str(len(self.plans)))
        into.environment = structs.replace(ENVIRONMENT, runtimes=[runtime])
        into.samples.update({cell.id: [] for cell in plan.cells})
        for repeat in range(plan.repeats):
            for cell in plan.cells if repeat % 2 == 0 else reversed(plan.cells):
                if self.samples == self.ends_after:
                    raise self.error
                self.samples += 1
                into.samples[cell.id].append(sample(repeat, **dict.fromkeys(NUMBERED, self.samples)))
                on_sample(cell.id)
        return into


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> Bench:
    stand_in = Bench()
    monkeypatch.setattr(study, "run_plan", stand_in.run_plan)
    return stand_in


@pytest.fixture
def options(tmp_path: Path) -> study.StudyOptions:
    (tmp_path / "dir").mkdir()
    return study.StudyOptions(str(tmp_path / "dir"), None, False, None, str(tmp_path / "out"), None, False)


def results_of(options: study.StudyOptions) -> Json:
    assert options.out is not None
    out = Path(options.out)
    assert not (out / unfinished.FILE_NAME).exists()
    document: Json = json.loads((out / study_files.RESULTS_JSON).read_text())
    return document


def test_an_uninterrupted_study_leaves_only_results(bench: Bench, options: study.StudyOptions) -> None:
    study.run(Small(), options)
    document = results_of(options)
    (point,) = document["comparisons"]
    assert (point["row"], point["finding"], point["pairs"]) == ("first/a", "within_5_percent", 6)
    assert document["conclusions"] == ["Reads: this is within 5 % of that."]
    assert document["settings"] == {"quick": False, "repeats": {"first": REPEATS, "second": REPEATS}, "small": True}
    assert [plan.repeats for plan in bench.plans] == [REPEATS, REPEATS]


@pytest.mark.parametrize(
    ("ends_after", "kept", "left"),
    [
        (3 * len(CELLS) + 1, 2, [REPEATS - 2, REPEATS]),  # three rounds and a bit: a pair counts
        (4 * len(CELLS), 4, [REPEATS - 4, REPEATS]),
        (REPEATS * len(CELLS) + 1, REPEATS, [REPEATS]),  # in the second group
    ],
)
def test_an_interrupted_study_goes_on(
    bench: Bench,
    options: study.StudyOptions,
    capsys: pytest.CaptureFixture[str],
    ends_after: int,
    kept: int,
    left: list[int],
) -> None:
    bench.ends_after = ends_after
    with pytest.raises(KeyboardInterrupt) as interruption:
        study.run(Small(), options)
    path = f"{options.out}/{unfinished.FILE_NAME}"
    assert interruption.value.__notes__ == [f"the same command continues from {path}"]
    assert [p.name for p in Path(str(options.out)).iterdir()] == [unfinished.FILE_NAME]
    bench.ends_after = None
    bench.plans.clear()
    study.run(Small(), options)
    assert [plan.repeats for plan in bench.plans] == left
    document = results_of(options)
    what = f"{kept * len(CELLS)} of {2 * REPEATS * len(CELLS)} samples are from the interrupted run"
    assert any(what in note for note in document["notes"])
    assert f"continuing from {path}: {what}" in capsys.readouterr().err
    for row in document["rows"]:
        assert [s["repeat"] for s in row["repeats"]] == list(range(REPEATS))
        numbers = [s["io_ns"] for s in row["repeats"]]
        assert numbers == sorted(set(numbers))
    # Each invocation's settings are in the results.
    runtimes = document["environment"]["runtimes"]
    assert len(runtimes) == (3 if len(left) == 2 else 2)


def test_a_failure_keeps_what_was_measured(bench: Bench, options: study.StudyOptions) -> None:
    bench.ends_after, bench.error = 2 * len(CELLS), FerryError("the disk is full; free some space")
    with pytest.raises(FerryError) as failure:
        study.run(Small(), options)
    assert "continues from" in failure.value.__notes__[0]


def test_nothing_is_left_where_nothing_can_be_gone_on_from(bench: Bench, options: study.StudyOptions) -> None:
    bench.ends_after = 2 * len(CELLS) - 1
    with pytest.raises(KeyboardInterrupt) as interruption:
        study.run(Small(), options)
    assert not hasattr(interruption.value, "__notes__")
    assert not Path(str(options.out)).exists()


def test_interrupted_while_it_writes_the_report(
    bench: Bench, options: study.StudyOptions, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(_self: Small, _document: Document) -> list[Section]:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt) as interruption:
        patch.setattr(Small, "sections", interrupt)
        study.run(Small(), options)
    assert "continues from" in interruption.value.__notes__[0]
    assert [p.name for p in Path(str(options.out)).iterdir()] == [unfinished.FILE_NAME]
    bench.plans.clear()
    study.run(Small(), options)
    assert bench.plans == []  # nothing was left to measure
    assert len(results_of(options)["rows"]) == 2 * len(CELLS)


@pytest.mark.parametrize("faulty", ["answer", "sections"])
def test_results_outlive_a_fault_of_the_report(
    bench: Bench, options: study.StudyOptions, monkeypatch: pytest.MonkeyPatch, faulty: str
) -> None:
    def fail(*_: Any) -> Any:
        raise TypeError("no number")

    monkeypatch.setattr(Small, faulty, fail)
    with pytest.raises(FerryError, match=r"TypeError: no number.*results\.json"):
        study.run(Small(), options)
    assert options.out is not None
    left = {path.name for path in Path(options.out).iterdir()}
    assert left == {study_files.RESULTS_JSON, study_files.RESULTS_CSV}
    document = json.loads((Path(options.out) / study_files.RESULTS_JSON).read_text())
    assert len(document["rows"]) == 2 * len(CELLS)


def test_old_plots_do_not_stay_beside_a_new_report(bench: Bench, options: study.StudyOptions) -> None:
    study.run(Small(), options)
    plots = Path(str(options.out)) / study_files.PLOTS
    plots.mkdir(exist_ok=True)
    for name in ("old.pdf", "old.png", "old.svg", "of-the-user.txt"):
        (plots / name).write_text("")
    with pytest.raises(FerryError, match="exists; --overwrite replaces it"):
        study.run(Small(), options)
    study.run(Small(), study.StudyOptions(**{**options.__dict__, "overwrite": True}))
    assert [path.name for path in plots.iterdir()] == ["of-the-user.txt"]


def interrupted(bench: Bench, options: study.StudyOptions) -> Path:
    bench.ends_after = 2 * len(CELLS)
    with pytest.raises(KeyboardInterrupt):
        study.run(Small(), options)
    bench.ends_after = None
    return Path(str(options.out)) / unfinished.FILE_NAME


def test_another_plan_is_never_mixed_in(bench: Bench, options: study.StudyOptions) -> None:
    path = interrupted(bench, options)
    before = path.read_bytes()
    with pytest.raises(FerryError, match="differs in what is measured; --overwrite discards it"):
        study.run(Small(64 * KIB), options)
    assert path.read_bytes() == before


def test_another_environment_is_never_mixed_in(
    bench: Bench, options: study.StudyOptions, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    interrupted(bench, options)
    info = native.read_info(options.folder)
    info["machine"]["kernel"] = "another"
    info["path"]["file_system"]["options"] = "sync"
    monkeypatch.setattr(unfinished, "read_info", lambda _path: info)
    with pytest.raises(FerryError, match="differs in the machine and in the file system"):
        study.run(Small(), options)
    bench.plans.clear()
    discarding = study.StudyOptions(**{**options.__dict__, "overwrite": True})
    study.run(Small(), discarding)
    assert [plan.repeats for plan in bench.plans] == [REPEATS, REPEATS]
    assert "discarded" in capsys.readouterr().err
    assert not any("interrupted" in note for note in results_of(options)["notes"])


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"schema": "ferry.unfinished/0"}', "\0"])
def test_what_cannot_be_read_is_never_mixed_in(bench: Bench, options: study.StudyOptions, text: str) -> None:
    interrupted(bench, options).write_text(text)
    with pytest.raises(FerryError, match=r"cannot be read; --overwrite discards it"):
        study.run(Small(), options)


def test_where_nobody_watches_nothing_is_guessed_or_said(
    bench: Bench, options: study.StudyOptions, capsys: pytest.CaptureFixture[str]
) -> None:
    study.run(Small(), options)
    assert capsys.readouterr().err == ""


def test_on_a_terminal_the_time_is_said_first(
    bench: Bench, options: study.StudyOptions, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(streams, "shows_progress", lambda: True)
    study.run(Small(), options)
    assert capsys.readouterr().err.startswith("ferry: study placements: about 5 s")


def test_longer_plans_take_longer(tmp_path: Path) -> None:
    estimate = Estimate()

    def cell(**changes: Any) -> Cell:
        facts = {"id": "a", "interface": "posix", "operation": "write", "path": f"{tmp_path}/f"}
        return Cell(**{**facts, "transfer_bytes": 4 * KIB, "total_bytes": MIB, **changes})

    plain = estimate.repeat_s(cell())
    assert estimate.repeat_s(cell(sync="fsync")) > plain
    assert estimate.repeat_s(cell(total_bytes=64 * MIB)) > 10 * plain
    assert estimate.repeat_s(cell(interface="ferry", placement="host")) > plain
    # Of a large file: a hot read of a small one goes several times before it counts.
    reading = cell(operation="read", transfer_bytes=MIB, total_bytes=64 * MIB)
    assert estimate.repeat_s(replace(reading, cold=True)) > estimate.repeat_s(reading)
    assert estimate.plan_s(Plan([reading], 20)) > estimate.plan_s(Plan([reading], 10))


def test_times_are_said_as_roughly_as_they_are_known() -> None:
    assert [describe_s(s) for s in (1, 33, 58, 500, 9000)] == [
        *("about 5 s", "about 35 s", "about 1 min", "about 8 min", "about 2.5 h")
    ]


def test_a_write_needs_room_for_the_warm_up_too() -> None:
    assert write_room_bytes(16 * MIB) == 32 * MIB
    assert write_room_bytes(1024 * MIB) == 1024 * MIB
