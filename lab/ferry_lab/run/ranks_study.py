"""What the studies of many MPI ranks have in common."""

from __future__ import annotations

import contextlib
from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from ferry_lab.render.mpi_tables import oversubscription
from ferry_lab.run.mpi_native import mpiexec, read_info
from ferry_lab.run.mpi_plan import MpiCell
from ferry_lab.run.remote_files import Place, scratch_place
from ferry_lab.run.study import Matrix, MpiGroup, Study, StudyOptions

Json = dict[str, Any]


@dataclass(frozen=True)
class RanksPlan:
    """What a study measures, once it has places for its files."""

    scratch_bytes: int  # that its files need in each place
    settings: Json  # what was asked for
    cells: Callable[[Sequence[Place]], dict[str, list[MpiCell]]]  # by group


class RanksStudy(Study):
    """A study whose rows many ranks measured together."""

    takes_storage = True
    repeats: int
    quick_repeats: int

    @abstractmethod
    def plan(self, options: StudyOptions, notes: list[str]) -> RanksPlan:
        """Returns what to measure; adds a note for what is left out. Raises FerryError."""

    def places(self, options: StudyOptions) -> list[str]:
        """Returns the folder, or the URI, that files are made in."""
        return [options.storage or options.folder]

    @contextlib.contextmanager
    def prepare(self, options: StudyOptions, notes: list[str]) -> Iterator[Matrix]:
        """Gives the matrix, with a place for its files meanwhile; raises FerryError."""
        info = read_info()
        mpiexec()
        plan = self.plan(options, notes)
        repeats = options.repeats or (self.quick_repeats if options.quick else self.repeats)
        with contextlib.ExitStack() as stack:
            places = [
                stack.enter_context(scratch_place(where, plan.scratch_bytes))
                for where in self.places(options)
            ]
            groups = {name: MpiGroup(cells, repeats) for name, cells in plan.cells(places).items()}
            settings = {**plan.settings, "storage": options.storage, "mpi": info["mpi"]}
            yield Matrix(groups, settings, [place.beginning.rstrip("/") for place in places])

    def notes(self, rows: Sequence[Json], machine: Json) -> list[str]:
        """Says where ranks had to share CPUs."""
        note = oversubscription(rows, machine["cpus_usable"])
        return [note] if note else []
