"""Remote storages for the study ``storages``: by URI, and mounted here.

URIs come from --storage and from running rigs; mounts from the kernel's list. One line explains
each missing kind.
"""

from __future__ import annotations

import contextlib
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from ferry import rig
from ferry.errors import FerryError
from ferry.files import scratch_folder
from ferry.native import read_info
from ferry_lab.run import remote_files
from ferry_lab.run.remote_files import scratch_place
from ferry_lab.studies.storages_found import NETWORK_KINDS, Fact, Storage, facts_of, of_folder

LABELS = {"nfs": "NFS", "ceph": "CephFS", "pvfs2": "PVFS2", "lustre": "Lustre"}
# How each is had, where it is not here.
_WAYS = {
    "nfs": "no server is named: --storage nfs://server/export does, ferry rig up nfs starts one",
    "ceph": "no cluster is named: --storage ceph:/path does, ferry rig up ceph starts one",
    "pvfs2": "no file system is named: --storage pvfs2:/mount/path does",
    "lustre": "none is mounted on this machine",
}
_ANSWER_TIMEOUT_S = 5.0


@contextlib.contextmanager
def network_storages(
    named: str | None, first: Storage, room_bytes: int
) -> Iterator[tuple[list[Storage], dict[str, str]]]:
    """Gives the storages with room for that many bytes, and by their labels why others are not measured.

    ``named``: the URI of --storage; ``first``: the storage of --dir, which is measured already.
    Raises FerryError where that URI cannot be used.
    """
    found: list[Storage] = []
    absent: dict[str, str] = {}
    with contextlib.ExitStack() as stack:
        for uri in _uris(named):
            try:
                found.append(_by_library(uri, room_bytes, stack))
            except FerryError as error:
                if uri == named:
                    raise
                absent[f"{LABELS[_scheme(uri)]} of the rig"] = str(error)
        for kind, point in _mounted(first).items():
            try:
                found.append(_as_mounted(kind, point, room_bytes, stack))
            except FerryError as error:
                absent[f"{kind} at {point}"] = str(error)
        kinds = {_family(storage.kind) for storage in [first, *found]}
        absent |= {label: _why_none(kind) for kind, label in LABELS.items() if kind not in kinds}
        yield found, absent


def _scheme(uri: str) -> str:
    return uri.partition(":")[0]


def _family(kind: str) -> str:
    """Returns the storage that a type of file system is of: "nfs" for nfs4."""
    return next((family for family in LABELS if family in kind), kind)


def _why_none(family: str) -> str:
    if family == "pvfs2":
        problem = read_info("pvfs2:/none/none")["storage"]["problem"]
        if problem is not None and "cannot be loaded" in problem:
            return str(problem)
    return _WAYS[family]


# ---- by their client libraries -------------------------------------------------------------------


def _uris(named: str | None) -> list[str]:
    """Returns the URI of --storage, and those of rigs for what that is not of."""
    uris = [] if named is None else [named]
    schemes = {_scheme(uri) for uri in uris}
    return uris + [uri for uri in rig.uris_up() if _scheme(uri) not in schemes]


def _by_library(uri: str, room_bytes: int, stack: contextlib.ExitStack) -> Storage:
    facts = remote_files.status(uri)
    if facts is None or facts["kind"] != "directory":
        raise FerryError(f"{uri} is no folder; --storage names one")
    family = facts["storage"]
    how = f"by {facts['engine']}: {facts['facts'][0] if facts['facts'] else uri}"
    return Storage(
        *(family, f"{LABELS[family]} ({facts['engine']})", family, None, how, None, ()),
        facts_of(family, "no mount", "no", Fact("as its servers", declared=True), "not reported"),
        remote=stack.enter_context(scratch_place(uri, room_bytes)),
        reached=how,
    )


# ---- as mounted ----------------------------------------------------------------------------------


def _mounted(first: Storage) -> dict[str, str]:
    """Returns one mount point of each kind that the storage of --dir is not of.

    The rig's of this checkout where there is one, else the first in the kernel's list.
    """
    points: dict[str, list[str]] = {}
    for line in Path("/proc/self/mounts").read_text(errors="replace").splitlines():
        _, point, kind, *_ = line.split()
        if kind in NETWORK_KINDS and kind != first.kind:
            points.setdefault(kind, []).append(point.encode().decode("unicode_escape"))
    own = f"{rig.folder()}/"
    return {kind: max(there, key=lambda p: p.startswith(own)) for kind, there in points.items()}


def _as_mounted(kind: str, point: str, room_bytes: int, stack: contextlib.ExitStack) -> Storage:
    _check_answers(point)
    folder = stack.enter_context(scratch_folder(point, room_bytes)).absolute()
    storage = of_folder(folder)
    family = _family(kind)
    by = "ceph-fuse" if kind == "fuse.ceph-fuse" else "the kernel"
    return replace(
        storage,
        name=f"{family}-mounted",
        label=f"{LABELS[family]} ({by})",
        reached=f"mounted on {point} by {by}",
        facts={**storage.facts, "setup": Fact("mounted before", declared=True)},
    )


def _check_answers(point: str) -> None:
    """Sees that a mount is not one whose server is gone, for which the kernel waits without end."""
    look = subprocess.Popen(["stat", "-f", point], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        look.wait(_ANSWER_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        look.kill()  # it goes when the kernel lets it
        raise FerryError(f"it does not answer within {_ANSWER_TIMEOUT_S:g} s; see that its server runs") from None
