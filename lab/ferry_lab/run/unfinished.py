"""Samples of an interrupted study, kept in ``unfinished.json`` until the study is complete.

A study continues only if everything that could change a number is the same: plan, measured program,
machine and file systems. Scratch folders have new names in each run, so only their position in the
plan is compared.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
from msgspec.structs import replace

from ferry import __version__, output_files, streams
from ferry.errors import FerryError
from ferry.files import signals_ignored
from ferry.native import Json, read_info
from ferry.programs import find_program
from ferry.replacing import make_folders
from ferry.uris import is_uri
from ferry_lab.results import results
from ferry_lab.results.records import Environment, read_repeat
from ferry_lab.run.measuring import Measurement, program_of
from ferry_lab.run.plan import Plan

FILE_NAME = "unfinished.json"
SCHEMA = "ferry.unfinished/1"

# Rounds run forwards and backwards in turn: keep complete pairs.
_ROUNDS_IN_STEP = 2


@dataclass
class Kept:
    """The complete rounds of each group so far, by group name."""

    groups: dict[str, Measurement] = field(default_factory=dict)
    began: str | None = None  # start of the first interrupted run

    def repeats(self, name: str) -> int:
        """Returns the number of repeats of every cell of a group."""
        return complete_rounds(self.groups[name]) if name in self.groups else 0


def complete_rounds(measurement: Measurement) -> int:
    """Returns the number of repeats of every cell."""
    return min((len(samples) for samples in measurement.samples.values()), default=0)


def to_go_on_from(measurement: Measurement, repeats: int) -> Measurement:
    """Returns the usable part: all ``repeats``, or whole pairs of rounds."""
    rounds = complete_rounds(measurement)
    if rounds < repeats:
        rounds -= rounds % _ROUNDS_IN_STEP
    samples = {cell: kept[:rounds] for cell, kept in measurement.samples.items()}
    return Measurement(measurement.environment, samples)


def joined(first: Measurement, second: Measurement) -> Measurement:
    """Returns two invocations of the same cells as one, with consecutive repeats."""
    runtimes = first.environment.runtimes + second.environment.runtimes
    before = complete_rounds(first)
    samples = {
        cell: first.samples[cell] + [replace(sample, repeat=sample.repeat + before) for sample in later]
        for cell, later in second.samples.items()
    }
    return Measurement(replace(second.environment, runtimes=runtimes), samples)


def fingerprint(study: str, plans: Mapping[str, Plan], scratch: Sequence[str]) -> Json:
    """Returns the facts that two runs must share for their samples to be mixed, by name.

    ``scratch`` are this run's folders. Raises FerryError.
    """
    paths = sorted({cell.path for plan in plans.values() for cell in plan.cells})
    outside = [path for path in paths if _in_plan(path, scratch) == path]
    # URIs are part of the plan already.
    places = [_place_of(path) for path in (*scratch, *outside) if not is_uri(path)] or [None]
    infos = [read_info(place) for place in dict.fromkeys(places)]
    asked = {name: plan.to_json() for name, plan in plans.items()}
    for plan in asked.values():
        for cell in plan["cells"]:
            cell["path"] = _in_plan(cell["path"], scratch)
    programs = {program_of(plan) for plan in plans.values()}
    return {
        "what is measured": _digest(json.dumps([study, asked], sort_keys=True).encode()),
        "the files that are read": {path: _state(path) for path in outside},
        "the version of Ferry": [__version__, results.git_revision()],
        "the built ferry-bench": [_digest(find_program(p).read_bytes()) for p in sorted(programs)],
        "the machine": infos[0]["machine"] if infos else None,
        "the file system": [_place((info["path"] or {}).get("file_system")) for info in infos],
    }


def _read_measurement(group: Json) -> Measurement:
    samples = {cell: list(map(read_repeat, kept)) for cell, kept in group["samples"].items()}
    return Measurement(msgspec.convert(group["environment"], Environment), samples)


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _place_of(path: str) -> str:
    """Returns the path if it exists, else its folder."""
    return path if os.path.exists(path) else os.path.dirname(path)


def _in_plan(path: str, scratch: Sequence[str]) -> str:
    for number, folder in enumerate(scratch):
        # On storages without folders, scratch files have a common prefix instead.
        if path.startswith(folder if is_uri(folder) else f"{folder}{os.sep}"):
            return f"scratch {number}{path[len(folder) :]}"
    return path


def _state(path: str) -> list[int] | None:
    try:
        status = os.stat(path)
    except OSError:
        return None
    return [status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns]


def _place(file_system: Json | None) -> Json | None:
    if file_system is None:
        return None
    return {key: file_system[key] for key in ("mount_point", "type", "source", "options")}


class Unfinished:
    """The file in a study's folder. For one run at a time."""

    def __init__(self, folder: str | None, marks: Json) -> None:
        """Takes the folder (None: keep nothing) and the run's fingerprint()."""
        self.path = Path(folder) / FILE_NAME if folder is not None else None
        self._marks = marks

    def read(self, discard: bool) -> Kept:
        """Returns what an earlier run kept, if anything.

        Raises FerryError if it does not match this run; ``discard`` ignores it instead.
        """
        if self.path is None or not self.exists():
            return Kept()
        try:
            document = json.loads(self.path.read_text(encoding="utf-8"))
            marks = document["fingerprint"] if document["schema"] == SCHEMA else None
            groups = {name: _read_measurement(group) for name, group in document["groups"].items()}
            kept = Kept(groups, document["began"])
        except OSError as error:
            raise FerryError(f"{self.path}: {error.strerror}; choose another --out") from None
        except (ValueError, KeyError, TypeError, AttributeError, msgspec.ValidationError):
            marks = None
        if marks == self._marks:
            return kept
        what = f"{self.path} holds an interrupted run that {self._difference(marks)}"
        if not discard:
            raise FerryError(f"{what}; --overwrite discards it, another --out keeps it")
        streams.say(f"{what}: discarded because of --overwrite")
        return Kept()

    def _difference(self, marks: Any) -> str:
        if not isinstance(marks, dict):
            return "cannot be read"
        names = [name for name, value in self._marks.items() if marks.get(name) != value]
        return f"differs in {' and in '.join(names)}" if names else "is of another version"

    def exists(self) -> bool:
        """Whether there is anything to continue from."""
        return self.path is not None and self.path.exists()

    def write(self, kept: Kept, repeats: Mapping[str, int]) -> None:
        """Writes the samples atomically, if there is anything to continue from.

        ``repeats`` are each group's in the end. A full disk does not end the study.
        """
        groups = {name: to_go_on_from(group, repeats[name]) for name, group in kept.groups.items()}
        groups = {name: group for name, group in groups.items() if complete_rounds(group) > 0}
        if self.path is None or not groups:
            return
        document = {
            "schema": SCHEMA,
            "fingerprint": self._marks,
            "began": kept.began,
            "groups": {
                name: {"environment": group.environment, "samples": group.samples} for name, group in groups.items()
            },
        }
        text = json.dumps(msgspec.to_builtins(document))
        with signals_ignored(), contextlib.suppress(OSError, FerryError):
            make_folders(str(self.path.parent))
            output_files.write_bytes(str(self.path), text.encode("utf-8", errors="replace"), overwrite=True)

    def remove(self) -> None:
        """Removes the file: the study is complete."""
        if self.path is not None:
            self.path.unlink(missing_ok=True)
