"""The studies that ``ferry study`` knows, by name. A new one is added here, and in the schema."""

from __future__ import annotations

from ferry.endian import Endian
from ferry.interfaces import Interfaces
from ferry.optimizations import Optimizations
from ferry.placements import Placements
from ferry.storages import Storages
from ferry.stripes import Stripes
from ferry.study import Study
from ferry.writers import Writers

_ALL: tuple[type[Study], ...] = (
    *(Placements, Optimizations, Storages),
    *(Writers, Interfaces, Endian, Stripes),
)
STUDIES: dict[str, type[Study]] = {study.name: study for study in _ALL}
# The one that has a model (ferry.writers_simulate), too.
SIMULATED = Writers.name
