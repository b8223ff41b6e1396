"""What a study says that has too little memory."""

from __future__ import annotations

from ferry.errors import FerryError
from ferry.sizes import format_size


def lack_of_memory(free_bytes: int, needed_bytes: int) -> FerryError:
    """Returns the error of a study for whose smallest part there is too little memory."""
    return FerryError(
        f"{format_size(free_bytes)} of memory are free and the study needs "
        f"{format_size(needed_bytes)}; end other programs"
    )
