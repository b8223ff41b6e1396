"""The frame of all studies: flags, progress, resuming, and the files of --out.

A study is a class derived from Study, listed in ferry_lab.studies. It says what to measure (prepare),
which rows are set beside each other (compare), and what to show (answer and sections, see
render.sections). Everything else is here.
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import ClassVar

import msgspec

from ferry import output_files, streams, terminal
from ferry.errors import FerryError
from ferry.files import check_folder, signals_ignored
from ferry.native import Json
from ferry.replacing import make_folders, sync_folder
from ferry.sizes import KIB, MIB
from ferry_lab.render import plots
from ferry_lab.render.sections import Answer, Section, conclusions
from ferry_lab.render.terminal import print_study
from ferry_lab.results import results
from ferry_lab.results.csv_file import to_csv
from ferry_lab.results.records import Comparison, Document, Machine, Row
from ferry_lab.run.estimate import Estimate, describe_s
from ferry_lab.run.measuring import Measurement, run_plan
from ferry_lab.run.plan import Cell, Plan, RanksCell, RuntimeSettings
from ferry_lab.run.study_files import PLOTS, REPORT_HTML, RESULTS_CSV, RESULTS_JSON
from ferry_lab.run.unfinished import FILE_NAME, Kept, Unfinished, complete_rounds, fingerprint, joined
from ferry_lab.stats import judge

_SAMPLE_BYTES = 4 * KIB  # bytes of one repeat in the result files, generously
_OUT_BYTES = 16 * MIB  # space for the other files of --out


@dataclass(frozen=True)
class StudyOptions:
    folder: str  # for scratch files
    file: str | None
    quick: bool
    repeats: int | None
    out: str | None
    json: str | None
    overwrite: bool
    storage: str | None = None  # a URI to measure besides the folder
    folder_given: bool = False  # whether the user gave it


@dataclass(frozen=True)
class Group:
    """Cells of one invocation, interleaved; the study chooses their ids."""

    cells: Sequence[Cell] | Sequence[RanksCell]
    repeats: int
    runtime: RuntimeSettings = field(default_factory=lambda: RuntimeSettings(device_threads=1))
    variants: Sequence[Json] = ()  # as Plan.variants

    def plan(self, repeats: int | None = None) -> Plan:
        return Plan(self.cells, self.repeats if repeats is None else repeats, self.runtime, self.variants)


@dataclass(frozen=True)
class Matrix:
    """A study's whole matrix. Cell ids are unique over all groups."""

    groups: Mapping[str, Group]
    settings: Json  # added to the document, beside "quick" and "repeats"
    # Folders made for this run, none inside another. Plans are compared without their names; mounts
    # in them are identified by their position there.
    scratch: Sequence[str] = ()

    def repeats(self) -> dict[str, int]:
        """Returns the number of repeats of each group."""
        return {name: group.repeats for name, group in self.groups.items()}


class Study(ABC):
    """A fixed matrix of measurements that answers one question."""

    name: ClassVar[str]
    takes_file: ClassVar[bool] = False  # --file is allowed
    takes_storage: ClassVar[bool] = False  # --storage is allowed

    @abstractmethod
    def prepare(self, options: StudyOptions, notes: list[str]) -> AbstractContextManager[Matrix]:
        """Makes the scratch files; always removes them at the end.

        Checks free space first. Appends what a reader must know to ``notes``. Raises FerryError.
        """

    def mixes(self, _row: Row) -> bool:
        """Returns whether the row finds only some of its pages in the device's cache on purpose."""
        return False

    def notes(self, _rows: Sequence[Row], _machine: Machine) -> list[str]:
        """Returns further notes on the rows, given ``environment.machine``."""
        return []

    @abstractmethod
    def compare(self, rows: Sequence[Row]) -> list[Comparison]:
        """Returns the judged ratios (stats.comparing) between rows (results.make_row)."""

    @abstractmethod
    def answer(self, document: Document) -> Answer:
        """Returns the question, and its answer in a few lines."""

    @abstractmethod
    def sections(self, document: Document) -> Sequence[Section]:
        """Returns tables, findings and figures."""


def run(study: Study, options: StudyOptions) -> None:
    """Measures, prints tables and conclusions, writes the files. Raises FerryError."""
    started = results.now()
    output_files.check_output(options.json, options.overwrite)
    check_out(options.out, options.overwrite)
    notes: list[str] = []
    with study.prepare(options, notes) as matrix:
        kept, unfinished = _measure(study, options, matrix, notes)
    with _going_on_from(unfinished):
        document = _make_document(study, options, matrix, kept, started, notes)
        files, fault = _report(study, options, document)
        with signals_ignored():
            if options.json is not None:
                output_files.write_json(options.json, msgspec.to_builtins(document), options.overwrite)
            write_out(options.out, {**_result_files(document), **files}, options.overwrite)
            unfinished.remove()
    if fault is not None:
        raise FerryError(_told(fault, options)) from fault


def _report(study: Study, options: StudyOptions, document: Document) -> tuple[dict[str, bytes], Exception | None]:
    """Adds the conclusions, prints the study; returns the report's files, and what went wrong."""
    try:
        answer, sections = conclude(study, document)
        if options.json != "-":
            print_study(terminal.output_console(), document, answer, sections)
        if options.out is not None:
            from ferry_lab.render import html  # jinja2 takes a while to load

            return html.files(document, answer, sections), None
    except Exception as error:  # noqa: BLE001  the results are worth more than their report
        return {}, error
    return {}, None


def conclude(study: Study, document: Document) -> tuple[Answer, Sequence[Section]]:
    """Returns what the study shows; its sentences go into the document's ``conclusions``."""
    sections = study.sections(document)
    document.conclusions = conclusions(sections)
    return study.answer(document), sections


def _told(fault: Exception, options: StudyOptions) -> str:
    places = [] if options.out is None else [os.path.join(options.out, RESULTS_JSON)]
    if options.json not in (None, "-"):
        places.append(str(options.json))
    kept = f"the results are in {' and '.join(places)}" if places else "--out keeps the results"
    return f"the report cannot be made ({type(fault).__name__}: {fault}); {kept}"


def _make_document(
    study: Study, options: StudyOptions, matrix: Matrix, kept: Kept, started: datetime, notes: list[str]
) -> Document:
    rows = [
        results.make_row(
            cell, name, kept.groups[name].samples[cell.id], kept.groups[name].environment.machine.virtual_machine
        )
        for name, group in matrix.groups.items()
        for cell in group.cells
    ]
    repeats = max(matrix.repeats().values())
    if repeats < judge.PAIRS_MIN:
        notes.append(
            f"{repeats} pairs for each ratio; a verdict needs {judge.PAIRS_MIN}, which the study without --quick makes"
        )
    if repeats < judge.FINDING_PAIRS_MIN:
        notes.append(f"with fewer than {judge.FINDING_PAIRS_MIN} pairs, no difference is reported")
    notes += unverified_notes([row for row in rows if not study.mixes(row)])
    first = kept.groups[next(iter(matrix.groups))]
    notes += study.notes(rows, first.environment.machine)
    return results.make_document(
        "study",
        {"quick": options.quick, "repeats": matrix.repeats(), **matrix.settings},
        [kept.groups[name] for name in matrix.groups],
        rows,
        study=study.name,
        started=started,
        notes=notes,
        comparisons=study.compare(rows),
    )


def unverified_notes(rows: Sequence[Row]) -> list[str]:
    """Returns one line per cache whose state was not proven, with the cells."""
    notes = []
    for key, cache in (("cache_state", "host's"), ("device_cache_state", "device's")):
        names = [row.id for row in rows if getattr(row, key) == "unverified"]
        if names:
            more = f" and {len(names) - 3} more" if len(names) > 3 else ""
            notes.append(
                f"unverified: the state of the {cache} page cache could not be proven before every "
                f"repeat of {', '.join(names[:3])}{more}"
            )
    return notes


def check_out(out: str | None, overwrite: bool) -> None:
    """Checks in advance that a study's files can be written there. Raises FerryError."""
    if out is None:
        return
    check_folder(_existing(out), _OUT_BYTES)
    output_files.name_left_over(_existing(out))
    for name in (RESULTS_JSON, RESULTS_CSV, REPORT_HTML, PLOTS):
        path = os.path.join(out, name)
        if os.path.exists(path) and not overwrite:
            more = f" and continues from {FILE_NAME}" if os.path.exists(os.path.join(out, FILE_NAME)) else ""
            raise FerryError(f"{path} exists; --overwrite replaces it{more}, another --out keeps it")


# ---- measuring -----------------------------------------------------------------------------------


def _measure(study: Study, options: StudyOptions, matrix: Matrix, notes: list[str]) -> tuple[Kept, Unfinished]:
    """Measures every group, continuing from an interrupted run in --out."""
    plans = {name: group.plan() for name, group in matrix.groups.items()}
    _check_room(options, plans)
    marks = fingerprint(study.name, plans, matrix.scratch) if options.out is not None else {}
    unfinished = Unfinished(options.out, marks)
    kept = unfinished.read(options.overwrite)
    _announce_resumption(unfinished, kept, plans, notes)
    kept.began = kept.began or results.now().isoformat(timespec="seconds")
    with _going_on_from(unfinished):
        try:
            _measure_groups(study.name, matrix, kept, unfinished)
        except (KeyboardInterrupt, FerryError):
            unfinished.write(kept, matrix.repeats())
            raise
    return kept, unfinished


@contextmanager
def _going_on_from(unfinished: Unfinished) -> Iterator[None]:
    """Adds how to continue to the error that ended the study, if anything was kept."""
    try:
        yield
    except (KeyboardInterrupt, FerryError) as error:
        if unfinished.exists():
            error.add_note(f"the same command continues from {unfinished.path}")
        raise


def _check_room(options: StudyOptions, plans: Mapping[str, Plan]) -> None:
    """The results must fit, too."""
    if options.out is not None:
        samples = sum(len(plan.cells) * plan.repeats for plan in plans.values())
        check_folder(_existing(options.out), samples * _SAMPLE_BYTES + _OUT_BYTES)


def _existing(out: str) -> str:
    """Returns --out, or its parent if --out does not exist."""
    return out if os.path.exists(out) else os.path.dirname(os.path.abspath(out))


def _announce_resumption(unfinished: Unfinished, kept: Kept, plans: Mapping[str, Plan], notes: list[str]) -> None:
    if not kept.groups:
        return
    done = sum(len(plan.cells) * kept.repeats(name) for name, plan in plans.items())
    samples = sum(len(plan.cells) * plan.repeats for plan in plans.values())
    what = f"{done} of {samples} samples are from the interrupted run of {kept.began}"
    notes.append(what)
    streams.say(f"continuing from {unfinished.path}: {what}; remove that file to start over")


def _measure_groups(name: str, matrix: Matrix, kept: Kept, unfinished: Unfinished) -> None:
    left = {
        group_name: group.plan(group.repeats - kept.repeats(group_name))
        for group_name, group in matrix.groups.items()
        if kept.repeats(group_name) < group.repeats
    }
    estimate = Estimate()
    weights: dict[str, float] = {}
    total_s = 0.0
    if streams.shows_progress():
        plans = left.values()
        weights = {cell.id: estimate.repeat_s(cell) for plan in plans for cell in plan.cells}
        total_s = sum(map(estimate.plan_s, plans))
        streams.say(f"study {name}: {describe_s(total_s)}, estimated from a probe of the storage")
    steps = sum(p.repeats * weights.get(c.id, 1) for p in left.values() for c in p.cells)
    with terminal.progress(name, steps) as bar:
        for number, (group_name, plan) in enumerate(left.items(), 1):
            bar.label(f"{name} {number}/{len(left)}: {group_name}")
            measured = Measurement()
            before = kept.groups.get(group_name)
            try:
                run_plan(plan, lambda cell: bar.advance(weights.get(cell, 1)), measured)
            finally:
                if complete_rounds(measured) > 0:
                    kept.groups[group_name] = joined(before, measured) if before else measured
            unfinished.write(kept, matrix.repeats())


# ---- output --------------------------------------------------------------------------------------


def _result_files(document: Document) -> dict[str, bytes]:
    """Returns the contents of the result files in --out, by path."""
    return {
        RESULTS_JSON: output_files.encode(output_files.to_json(msgspec.to_builtins(document))),
        RESULTS_CSV: to_csv(document.rows, document.environment).encode("utf-8", errors="replace"),
    }


def write_out(out: str | None, files: Mapping[str, bytes], overwrite: bool) -> None:
    """Writes a study's files, by path in ``out``, replacing an older report. Raises FerryError.

    Creates the folder. After a crash it has files of one study, whole ones, and not of both.
    """
    if out is None:
        return
    folder = Path(out)
    for old in (folder / PLOTS).glob("*.*"):  # only --overwrite allows any
        if old.suffix[1:] in plots.ENDINGS:
            old.unlink()
    if overwrite and folder.exists():
        for name in (REPORT_HTML, RESULTS_CSV):
            (folder / name).unlink(missing_ok=True)
        for changed in (folder, folder / PLOTS):
            if changed.exists():
                sync_folder(str(changed))
    for name, content in files.items():
        path = folder / name
        make_folders(str(path.parent))
        output_files.write_bytes(str(path), content, overwrite)
