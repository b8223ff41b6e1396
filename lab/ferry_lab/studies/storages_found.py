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
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from ferry.errors import FerryError
from ferry.files import check_folder, scratch_folder
from ferry.native import read_info
from ferry.sizes import MIB, format_size
from ferry_lab.render.mpi_tables import memory_bytes
from ferry_lab.run.mounts import Mounted, Mounts, why_no_loop
from ferry_lab.run.remote_files import Json, Place

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
        if self.kind in (*MEMORY_KINDS, "lustre"):
            return self.kind
        if self.kind.startswith("nfs"):
            return "nfs"
        direct = "loop" not in self.name and (self.driver or "").startswith("virtio")
        return "virtio" if direct else None

    def to_json(self) -> Json:
        """Returns it for the document's settings."""
        return {
            **{name: getattr(self, name) for name in ("name", "label", "kind", "medium", "driver", "reached")},
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
        if mounts is None:
            notes.append("only root may mount: no ramfs, and no file systems on loop devices")
            found += _shared_memory(first, room_bytes, stack, notes)
        else:
            stack.callback(mounts.take_down)  # before the folder that they lie in goes
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
    root = "no" if _everybody_writes(folder.parent) or os.geteuid() != 0 else "yes"
    persistent = Fact("no" if in_memory else "yes", declared=True)
    facts = facts_of(kind, "none", root, persistent, format_size(size_bytes or memory_bytes()))
    name = kind.replace("/", "-")
    label = kind if in_memory else f"{kind} on {Path(source).name or source}"
    driver = device["driver"] if device else None
    return Storage(name, label, kind, folder, medium, driver, (), facts)


def facts_of(kind: str, setup: str, root: str, persistent: Fact, largest: str) -> dict[str, Fact]:
    """Returns PROPERTIES; the others are known of a kind of file system and not found out."""
    return {
        "setup": Fact(setup),
        "root": Fact(root),
        "persistent": persistent,
        "largest": Fact(largest),
        "shared": Fact("yes" if kind in _SHARED_KINDS else "no", declared=True),
        "swap": Fact("yes" if kind in ("ext4", "xfs", "btrfs") else "no", declared=True),
    }


def _everybody_writes(folder: Path) -> bool:
    return bool(folder.stat().st_mode & stat.S_IWOTH)


# ---- memory --------------------------------------------------------------------------------------


def _mounted(
    kinds: Sequence[str], first: Storage, mounts: Mounts, mount: Callable[[str], Mounted], notes: list[str]
) -> Iterator[tuple[Mounted, Fact]]:
    """Gives those that --dir is not of, as far as they can be mounted, and whether each survives a restart."""
    for kind in kinds:
        if kind == first.kind:
            continue
        try:
            mounted = mount(kind)
            survives = mounts.remount(mounted)
        except FerryError as error:
            notes.append(f"no {kind}: {error}")
        else:
            yield mounted, Fact("yes" if survives else "no")


def _memory(first: Storage, folder: Path, room_bytes: int, mounts: Mounts, notes: list[str]) -> list[Storage]:
    def mount(kind: str) -> Mounted:
        return mounts.memory(kind, folder / kind, room_bytes)

    found = []
    for mounted, persistent in _mounted(MEMORY_KINDS, first, mounts, mount, notes):
        kind, setup, root = mounted.kind, _effort(mounted), _root(mounted)
        if kind == "tmpfs" and os.path.ismount(SHARED_MEMORY):
            setup = f"none, {SHARED_MEMORY}"
            root = "no" if _everybody_writes(Path(SHARED_MEMORY)) else root
        facts = facts_of(kind, setup, root, persistent, format_size(memory_bytes()))
        found.append(Storage(kind, kind, kind, mounted.folder, None, None, mounted.steps, facts))
    return found


def _shared_memory(first: Storage, room_bytes: int, stack: contextlib.ExitStack, notes: list[str]) -> list[Storage]:
    """Without root there is the tmpfs that every Linux has, as far as it has room."""
    if first.kind == "tmpfs":
        return []
    try:
        folder = stack.enter_context(scratch_folder(SHARED_MEMORY, room_bytes)).absolute()
    except FerryError as error:
        notes.append(f"no tmpfs: {error}")
        return []
    storage = of_folder(folder)
    return [storage] if storage.kind == "tmpfs" else []


# ---- loop devices --------------------------------------------------------------------------------


def _loops(first: Storage, folder: Path, room_bytes: int, mounts: Mounts, notes: list[str]) -> list[Storage]:
    if first.in_memory:
        notes.append(f"{first.label} lies in memory: no file systems on loop devices in it")
        return []
    # Room for what the new file system keeps for itself, and for deleted files that it frees later.
    size_bytes = max(_LOOP_BYTES_MIN, room_bytes + room_bytes // 4 + 256 * MIB)
    largest = f"{format_size(_largest_file_bytes(folder))} image"

    def mount(kind: str) -> Mounted:
        if reason := why_no_loop(kind):
            raise FerryError(reason)
        check_folder(str(folder), size_bytes)
        return mounts.loop(kind, folder / f"{kind}-loop", folder / f"{kind}-loop.image", size_bytes)

    found = []
    for mounted, persistent in _mounted(LOOP_KINDS, first, mounts, mount, notes):
        kind = mounted.kind
        facts = facts_of(kind, _effort(mounted), _root(mounted), persistent, largest)
        label = f"{kind} (loop)"
        found.append(
            Storage(f"{kind}-loop", label, kind, mounted.folder, first.medium, first.driver, mounted.steps, facts)
        )
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
