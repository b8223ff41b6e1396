"""How to name file systems. Those missing from the kernel's mount list have no type or source."""

from __future__ import annotations

from typing import Any

Json = dict[str, Any]

UNKNOWN = "an unknown file system"


def on_source(system: Json) -> str:
    """Returns "ext4 on /dev/vda", as far as it is known."""
    return _joined(system["type"], system["source"])


def on_mount_point(system: Json) -> str:
    """Returns "ext4 on /home", as far as it is known."""
    return _joined(system["type"], system["mount_point"])


def _joined(kind: str | None, where: str | None) -> str:
    name = kind or UNKNOWN
    return f"{name} on {where}" if where else name
