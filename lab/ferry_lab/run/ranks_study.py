"""What studies of many MPI ranks share."""

from __future__ import annotations

import contextlib
from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from ferry.native import Json
from ferry.uris import is_uri
from ferry_lab.render.mpi_tables import oversubscription
from ferry_lab.results.records import Machine, RanksRow
from ferry_lab.run.measuring import mpiexec, read_mpi_info
from ferry_lab.run.plan import RanksCell
from ferry_lab.run.remote_files import Place, check_folder, scratch_place
from ferry_lab.run.study import Group, Matrix, Study, StudyOptions


@dataclass(frozen=True)
class RanksPlan:
    """A study's matrix, once its files have places."""

    scratch_bytes: int  # space its files need in each place
    settings: Json  # what was asked for
    cells: Callable[[Sequence[Place]], dict[str, list[RanksCell]]]  # by group


class RanksStudy(Study):
    """A study whose rows many ranks measured together."""

    takes_storage = True
    repeats: int
    quick_repeats: int

    @abstractmethod
    def plan(self, options: StudyOptions, notes: list[str]) -> RanksPlan:
        """Returns the matrix; adds a note for every omission. Raises FerryError."""

    def places(self, options: StudyOptions) -> list[str]:
        """Returns the folder or URI for files."""
        return [options.storage or options.folder]

    @contextlib.contextmanager
    def prepare(self, options: StudyOptions, notes: list[str]) -> Iterator[Matrix]:
        """Gives the matrix, with places for its files meanwhile. Raises FerryError."""
        info = read_mpi_info()
        mpiexec()
        for where in filter(is_uri, self.places(options)):
            check_folder(where)
        plan = self.plan(options, notes)
        repeats = options.repeats or (self.quick_repeats if options.quick else self.repeats)
        with contextlib.ExitStack() as stack:
            places = [stack.enter_context(scratch_place(where, plan.scratch_bytes)) for where in self.places(options)]
            groups = {name: Group(cells, repeats) for name, cells in plan.cells(places).items()}
            settings = {**plan.settings, "storage": options.storage, "mpi": info["mpi"]}
            yield Matrix(groups, settings, [place.beginning.rstrip("/") for place in places])

    def notes(self, rows: Sequence[RanksRow], machine: Machine) -> list[str]:
        """Notes where ranks shared CPUs."""
        note = oversubscription(rows, machine.cpus_usable)
        return [note] if note else []
