"""Colours and marks of the plots: one look per series, the same in every plot.

Common kinds of colour blindness can tell the colours apart; their contrast to the background is at
least 4.5 to 1, and marker and dash differ, too. Plots are drawn in the light colours; the report
turns them into CSS variables (see render.svg) for dark mode.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

# name: (on light, on dark). Values differ, because the report tells roles by them.
ROLES = {
    "surface": ("#ffffff", "#14181d"),
    "ink": ("#1c2127", "#e8ebee"),
    "muted": ("#59626c", "#a3adb8"),
    "grid": ("#dfe3e7", "#30373f"),
}
PALETTE = {
    "blue": ("#0065a8", "#63b5f5"),
    "orange": ("#bf4c00", "#ff9b59"),
    "green": ("#00785a", "#41cfa1"),
    "magenta": ("#a62d7d", "#f18fcd"),
    "slate": ("#434b54", "#c6cdd5"),
    "grey": ("#6b747e", "#98a3ae"),
    "gold": ("#7d6100", "#e5c04b"),
    "red": ("#b3202c", "#ff8a8f"),
}


@dataclass(frozen=True)
class Look:
    """How one way looks in every plot."""

    colour: str  # a name of PALETTE
    marker: str = "o"  # of matplotlib
    dash: str = "-"

    @property
    def light(self) -> str:
        """Returns the colour on light ground."""
        return PALETTE[self.colour][0]


LOOKS = {
    "host": Look("blue", "s"),
    "compute": Look("orange", "o"),
    "service": Look("green", "^"),
    "automatic": Look("magenta", "D"),
    "plain": Look("slate", "v", "--"),
    "mmap": Look("grey", "P", ":"),
    "off": Look("slate", "v", "--"),
    "all": Look("orange", "o"),
    "tmpfs": Look("blue", "s"),
    "ramfs": Look("green", "^"),
    "ext4": Look("orange", "o"),
    "xfs": Look("magenta", "D"),
    "btrfs": Look("gold", "X"),
    "ext4-loop": Look("orange", "o", "--"),
    "xfs-loop": Look("magenta", "D", "--"),
    "btrfs-loop": Look("gold", "X", "--"),
    "nfs": Look("red", "P"),
    "nfs-mounted": Look("red", "P", "--"),
    "ceph": Look("slate", "h"),
    "ceph-mounted": Look("slate", "h", "--"),
    "pvfs2": Look("grey", "v"),
    "pvfs2-mounted": Look("grey", "v", "--"),
    "lustre-mounted": Look("grey", "<", ":"),
    "aggregate": Look("blue", "s"),
    "serial": Look("green", "^"),
    "model": Look("grey", "P", ":"),
    "default": Look("slate", "v", "--"),
    "stripe count": Look("orange", "o"),
    "stripe size": Look("blue", "s"),
    "buffer": Look("green", "^"),
}
# For what has no look of its own, in this order.
_OTHERS = (
    Look("blue", "s"),
    Look("orange", "o"),
    Look("green", "^"),
    Look("magenta", "D"),
    Look("gold", "v"),
    Look("red", "P"),
    Look("slate", "X", "--"),
    Look("grey", "h", ":"),
)


def looks(names: Sequence[str]) -> dict[str, Look]:
    """Returns a look for each name: its own where it has one, else the next that is free."""
    own = {name: LOOKS[name] for name in names if name in LOOKS}
    taken = {look.colour for look in own.values()}
    free = [look for look in _OTHERS if look.colour not in taken] or list(_OTHERS)
    rest = [name for name in dict.fromkeys(names) if name not in own]
    return {**own, **{name: free[i % len(free)] for i, name in enumerate(rest)}}


def css_variables() -> dict[str, dict[str, str]]:
    """Returns the CSS variables for "light" and for "dark"."""
    colours = {**ROLES, **PALETTE}
    return {
        scheme: {f"--{name}": pair[index] for name, pair in colours.items()}
        for index, scheme in enumerate(("light", "dark"))
    }
