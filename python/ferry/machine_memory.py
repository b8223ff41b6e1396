"""How much memory programs can still have."""

from __future__ import annotations

from pathlib import Path

from ferry.errors import FerryError


def available_bytes(root: Path = Path("/")) -> int:
    """Returns what programs can have without swapping: what the machine has free, or what a control
    group of this process still grants if that is less. Raises FerryError. `root` is where ``/proc``
    and ``/sys`` are.
    """
    grants: list[int | None] = [_free_bytes(root / "proc/meminfo")]
    grants += [_grant(folder) for folder in _control_groups(root)]
    return min(grant for grant in grants if grant is not None)


def _free_bytes(meminfo: Path) -> int:
    for line in meminfo.read_text(encoding="ascii").splitlines():
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) << 10
    raise FerryError(f"{meminfo} does not say how much memory is available; is this Linux?")


def _control_groups(root: Path) -> list[Path]:
    """Returns the folders of this process's groups and of those around them, of versions 1 and 2."""
    folders = []
    try:
        lines = (root / "proc/self/cgroup").read_text(encoding="utf-8").splitlines()
    except OSError:
        return []
    for line in lines:
        _, controllers, place = line.split(":", 2)
        if controllers and "memory" not in controllers.split(","):
            continue
        mount = root / ("sys/fs/cgroup/memory" if controllers else "sys/fs/cgroup")
        parts = [part for part in place.split("/") if part not in ("", "..")]
        folders += [mount.joinpath(*parts[:depth]) for depth in range(len(parts) + 1)]
    return folders


def _grant(folder: Path) -> int | None:
    """Returns what the group may still take, or None without a limit. Pages of files that were not
    used lately do not count: the kernel drops them first.
    """
    for limit, current, inactive in (
        ("memory.max", "memory.current", "inactive_file"),
        ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
    ):
        try:
            most = (folder / limit).read_text(encoding="ascii").strip()
            if most == "max":
                return None
            used = int((folder / current).read_text(encoding="ascii"))
            statistics = (folder / "memory.stat").read_text(encoding="ascii").splitlines()
        except OSError:
            continue
        droppable = sum(int(line.split()[1]) for line in statistics if line.split()[0] == inactive)
        return max(0, int(most) - max(0, used - droppable))
    return None
