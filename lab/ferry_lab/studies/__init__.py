"""The studies of ``ferry study``. Add new ones here and in the schema."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ferry_lab.run.study import Study

# By name: the module, and the class in it. They are loaded when they are used.
STUDIES = {
    "placements": ("placements", "Placements"),
    "optimizations": ("optimizations", "Optimizations"),
    "storages": ("storages", "Storages"),
    "writers": ("writers", "Writers"),
    "interfaces": ("interfaces", "Interfaces"),
    "endian": ("endian", "Endian"),
    "stripes": ("stripes", "Stripes"),
    "scale": ("scale", "Scale"),
}
# The one that has a model (studies.writers_simulate), too.
SIMULATED = "writers"


def find_study(name: str) -> type[Study]:
    """Returns the study of that name. Raises KeyError where there is none."""
    module, kind = STUDIES[name]
    found: type[Study] = getattr(importlib.import_module(f"{__name__}.{module}"), kind)
    return found
