"""Finds the storages for the study ``storages``, and their properties.

The file system of --dir, the kernel's memory file systems, and ext4, xfs and btrfs on loop devices
with images in --dir. Mounts made for the study are private (run.mounts).
"""

from __future__ import annotations

import contextlib
import os
import shutil
import stat
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ferry.errors import FerryError
from ferry.files import check_folder, scratch_folder
from ferry.native import read_info
from ferry.sizes import MIB, format_size
from ferry_lab.run.mounts import Mounted, Mounts, why_no_loop
from ferry_lab.run.remote_files import Place

Json = dict[str, Any]

MEMORY_KINDS = ("tmpfs", "ramfs")
LOOP_KINDS = ("ext4", "xfs", "btrfs")
PROPERTIES = {
    "setup": "set-up effort",
    "root": "needs root",
    "persistent": "survives a restart",
    "shared": "shared by machines",
    "swap": "usable as swap",
    "largest": "largest file system",
}
SHARED_MEMORY = "/dev/shm"
_LOOP_BYTES_MIN = 320 * MIB  # mkfs.xfs refuses less than 300 MiB
_NOBODY = 65534
NETWORK_KINDS = ("nfs", "nfs4", "ceph", "fuse.ceph-fuse", "lustre", "pvfs2")
_SHARED_KINDS = (*NETWORK_KINDS, "cifs", "9p", "fuse.glusterfs")


@dataclass(frozen=True)
class Fact:
    """A property of a storage; ``declared``: known of its kind, and not found out here."""

    value: str
    declared: bool = False

    def __str__(self) -> str:
        """Returns it as tables have it."""
        return f"{self.value} (declared)" if self.declared else self.value


@dataclass(frozen=True)
class Storage:
    """One place to measure."""

    name: str  # in ids; differs for each
    label: str
    kind: str  # of file system
    folder: Path | None  # None: it is reached by a URI
    medium: str | None  # the disk below; None: memory
    driver: str | None  # of that disk
    steps: Sequence[str]  # commands that set it up
    facts: dict[str, Fact] = field(default_factory=dict)
    remote: Place | None = None
    reached: str | None = None  # how, where it is not by plain calls on a disk of this machine

    @property
    def in_memory(self) -> bool:
        """Whether nothing of it is colder than memory."""
        return self.medium is None

    @property
    def paper_system(self) -> str | None:
        """Returns what the paper calls such a storage, None where it has none."""
        if self.kind in MEMORY_KINDS:
            return self.kind
        if self.kind.startswith("nfs"):
            return "nfs"
        if self.kind == "lustre":
            return "lustre"
        direct = "loop" not in self.name and (self.driver or "").startswith("virtio")
        return "virtio" if direct else None

    def to_json(self) -> Json:
        """Returns it for the document's settings."""
        return {
            "name": self.name,
            "label": self.label,
            "kind": self.kind,
            "medium": self.medium,
            "driver": self.driver,
            "reached": self.reached,
            "library": self.remote is not None,
            "paper_system": self.paper_system,
            "steps": list(self.steps),
            "properties": {name: {"value": fact.value, "declared": fact.declared} for name, fact in self.facts.items()},
        }


@contextlib.contextmanager
def found_storages(parent: str, room_bytes: int, mounts: Mounts | None, notes: list[str]) -> Iterator[list[Storage]]:
    """Gives every storage that is there, each with room for that many bytes.

    Appends to ``notes`` which are not, and why. Raises FerryError where --dir has no room.
    """
    with contextlib.ExitStack() as stack:
        folder = stack.enter_context(scratch_folder(parent, room_bytes)).absolute()
        first = of_folder(folder)
        found = [first]
        if mounts is not None:
            stack.callback(mounts.take_down)  # before the folder that they lie in goes
        if mounts is None:
            notes.append("only root may mount: no ramfs, and no file systems on loop devices")
            found += _shared_memory(first, room_bytes, stack, notes)
        else:
            found += _memory(first, folder, room_bytes, mounts, notes)
            found += _loops(first, folder, room_bytes, mounts, notes)
        yield found


def of_folder(folder: Path) -> Storage:
    path = read_info(str(folder))["path"]
    system = path["file_system"]
    kind = (system["type"] if system else None) or "unknown"
    source = (system["source"] if system else None) or "unknown"
    device = system["block_device"] if system else None
    in_memory = kind in MEMORY_KINDS
    medium = None if in_memory else (device["disk"] if device else source)
    size_bytes = shutil.disk_usage(folder).total
    facts = {
        "setup": Fact("none"),
        "root": Fact("no" if _everybody_writes(folder.parent) or os.geteuid() != 0 else "yes"),
        "persistent": Fact("no" if in_memory else "yes", declared=True),
        "largest": Fact(format_size(size_bytes or _memory_bytes())),
        **declared(kind),
    }
    name = kind.replace("/", "-")
    label = kind if in_memory else f"{kind} on {Path(source).name or source}"
    driver = device["driver"] if device else None
    return Storage(name, label, kind, folder, medium, driver, (), facts)


def declared(kind: str) -> dict[str, Fact]:
    """Returns what is known of a kind of file system and is not found out."""
    swap = {"ext4": "yes", "xfs": "yes", "btrfs": "yes"}
    return {
        "shared": Fact("yes" if kind in _SHARED_KINDS else "no", declared=True),
        "swap": Fact(swap.get(kind, "no"), declared=True),
    }


def _everybody_writes(folder: Path) -> bool:
    return bool(folder.stat().st_mode & stat.S_IWOTH)


# ---- memory --------------------------------------------------------------------------------------


def _memory(first: Storage, folder: Path, room_bytes: int, mounts: Mounts, notes: list[str]) -> list[Storage]:
    found = []
    for kind in MEMORY_KINDS:
        if kind == first.kind:
            continue
        try:
            found.append(_memory_storage(kind, folder / kind, room_bytes, mounts))
        except FerryError as error:
            notes.append(f"no {kind}: {error}")
    return found


def _memory_storage(kind: str, folder: Path, room_bytes: int, mounts: Mounts) -> Storage:
    mounted = mounts.memory(kind, folder, room_bytes)
    survives, refused = mounts.remount(mounted), _root(mounted)
    is_there = kind == "tmpfs" and os.path.ismount(SHARED_MEMORY)
    facts = {
        "setup": Fact(f"none, {SHARED_MEMORY}" if is_there else _effort(mounted)),
        "root": Fact("no" if is_there and _everybody_writes(Path(SHARED_MEMORY)) else refused),
        "persistent": Fact("yes" if survives else "no"),
        "largest": Fact(format_size(_memory_bytes())),
        **declared(kind),
    }
    return Storage(kind, kind, kind, folder, None, None, mounted.steps, facts)


def _shared_memory(first: Storage, room_bytes: int, stack: contextlib.ExitStack, notes: list[str]) -> list[Storage]:
    """Without root there is the tmpfs that every Linux has, as far as it has room."""
    if first.kind == "tmpfs":
        return []
    try:
        check_folder(SHARED_MEMORY, room_bytes)
        folder = stack.enter_context(scratch_folder(SHARED_MEMORY, room_bytes)).absolute()
    except FerryError as error:
        notes.append(f"no tmpfs: {error}")
        return []
    storage = of_folder(folder)
    return [storage] if storage.kind == "tmpfs" else []


def _memory_bytes() -> int:
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


# ---- loop devices --------------------------------------------------------------------------------


def _loops(first: Storage, folder: Path, room_bytes: int, mounts: Mounts, notes: list[str]) -> list[Storage]:
    if first.in_memory:
        notes.append(f"{first.label} lies in memory: no file systems on loop devices in it")
        return []
    # Room for what the new file system keeps for itself, and for deleted files that it frees later.
    size_bytes = max(_LOOP_BYTES_MIN, room_bytes + room_bytes // 4 + 256 * MIB)
    largest_bytes = _largest_file_bytes(folder)
    found = []
    for kind in LOOP_KINDS:
        if kind == first.kind:
            continue
        name = f"{kind}-loop"
        try:
            if reason := why_no_loop(kind):
                raise FerryError(reason)
            check_folder(str(folder), size_bytes)
            mounted = mounts.loop(kind, folder / name, folder / f"{name}.image", size_bytes)
            survives = mounts.remount(mounted)
        except FerryError as error:
            notes.append(f"no {kind}: {error}")
            continue
        facts = {
            "setup": Fact(_effort(mounted)),
            "root": Fact(_root(mounted)),
            "persistent": Fact("yes" if survives else "no"),
            "largest": Fact(f"{format_size(largest_bytes)} image"),
            **declared(kind),
        }
        label = f"{kind} (loop)"
        found.append(Storage(*(name, label, kind, mounted.folder, first.medium, first.driver, mounted.steps), facts))
    return found


def _largest_file_bytes(folder: Path) -> int:
    """Returns the size of the largest file that the file system takes; it stays empty."""
    low, high = 0, (1 << 63) - 1
    with (folder / "largest").open("xb") as file:
        while low < high:
            middle = low + (high - low + 1) // 2
            try:
                os.ftruncate(file.fileno(), middle)
                low = middle
            except OSError:
                high = middle - 1
    (folder / "largest").unlink()
    return low


def _effort(mounted: Mounted) -> str:
    count = len(mounted.steps)
    digits = 0 if mounted.setup_s >= 0.01 else 1
    return f"{count} step{'s' if count > 1 else ''}, {mounted.setup_s * 1e3:.{digits}f} ms"


def _root(mounted: Mounted) -> str:
    """Tries to mount as a user that may nothing: a refusal is the answer."""
    folder = str(mounted.folder)
    command = ["mount", "-t", mounted.kind, "none", folder]
    try:
        done = subprocess.run(command, user=_NOBODY, group=_NOBODY, extra_groups=[], capture_output=True, check=False)
    except (OSError, ValueError, subprocess.SubprocessError):
        return "yes"
    if done.returncode == 0:  # in this process's own namespace
        subprocess.run(["umount", folder], capture_output=True, check=False)
        return "no"
    return "yes"
