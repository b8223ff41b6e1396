"""The studies that ``ferry study`` knows, by name. A new one is added here, and in the schema."""

from __future__ import annotations

from ferry.optimizations import Optimizations
from ferry.placements import Placements
from ferry.storages import Storages
from ferry.study import Study

_ALL: tuple[type[Study], ...] = (Placements, Optimizations, Storages)
STUDIES: dict[str, type[Study]] = {study.name: study for study in _ALL}
# The one that has a model (ferry.writers_simulate) and, so far, no measurements.
SIMULATED = "writers"
