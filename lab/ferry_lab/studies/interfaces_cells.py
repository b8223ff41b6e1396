"""The cells of the study ``interfaces``, by group.

Ids are ``operation/interface/clients/transfer size``. All clients write or read their own piece of
one file, call by call, as in Tirupati Nagaraj 2009.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ferry_lab.run.mpi_plan import MpiCell
from ferry_lab.run.remote_files import Place

OPERATIONS = ("write", "read")
POSIX, MPIIO, VIEWS, NATIVE_VIEWS, NATIVE = (
    "posix",
    "mpiio-posix",
    "views-posix",
    "views-native",
    "native",
)
AGAIN = "again"
LABELS = {
    POSIX: "POSIX",
    MPIIO: "MPI-IO over POSIX",
    VIEWS: "Ferry's views over POSIX",
    NATIVE_VIEWS: "Ferry's views over the native client",
    NATIVE: "native client",
}
MEANINGS = {
    POSIX: "each client its own part, by pread and pwrite",
    MPIIO: "the MPI library's own MPI-IO, independent calls",
    VIEWS: "file views of ferry.collective on the mounted file system, collective calls",
    NATIVE_VIEWS: "the same on the storage of --storage; not the paper's MPI-IO driver",
    NATIVE: "each client its own part, through the storage's client library",
}
SEED = 1


@dataclass(frozen=True)
class Interface:
    """One of them, and where its file lies."""

    name: str
    place: Place

    def fields(self) -> dict[str, Any]:
        """Returns what a cell needs to know of it."""
        if self.name in (VIEWS, NATIVE_VIEWS):
            return {"interface": "ferry"}
        return {"interface": {POSIX: "posix", MPIIO: "mpiio", NATIVE: "native"}[self.name]}


def present(folder: Place | None, storage: Place | None) -> tuple[list[Interface], dict[str, str]]:
    """Returns the interfaces that can be measured, and why each of the others cannot."""
    there, absent = [], {}
    for name in LABELS:
        place = storage if name in (NATIVE_VIEWS, NATIVE) else folder
        if place is not None:
            there.append(Interface(name, place))
        elif folder is None:
            absent[name] = "name with --dir where the storage is mounted"
        else:
            absent[name] = "name a storage with a client library by --storage, such as ceph:/"
    return there, absent


def cells_of(
    interfaces: Sequence[Interface], operation: str, clients: int, transfer: int, total: int
) -> list[MpiCell]:
    """Returns every interface at one point, and the first of them again, for the noise."""
    named: Mapping[str, Interface] = {
        **{one.name: one for one in interfaces},
        AGAIN: interfaces[0],
    }
    cells = []
    for name, interface in named.items():
        cell = MpiCell(
            id=f"{operation}/{name}/{clients}/{transfer}",
            operation=operation,
            path=interface.place.path(f"interfaces.{operation}"),
            ranks=clients,
            transfer_bytes=transfer,
            total_bytes=total,
            sync="fsync" if operation == "write" else "none",
            cold=operation == "read",
            seed=SEED,
            **interface.fields(),
        )
        interface.place.handed_out += cell.paths
        cells.append(cell)
    return cells
