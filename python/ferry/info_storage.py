"""``ferry info URI``: the storage that serves a URI, how, and its limits."""

from __future__ import annotations

from typing import Any

from ferry import layout
from ferry.sizes import format_size

Json = dict[str, Any]

def lines(storage: Json) -> list[tuple[str, str]]:
    """Returns what to print, as pairs of a name (possibly empty) and a text."""
    size = f", {format_size(storage['size_bytes'])}" if storage["size_bytes"] is not None else ""
    kind = f" ({storage['kind']}{size})" if storage["kind"] is not None else ""
    found = [
        ("path", f"{storage['uri']}{kind}"),
        ("served by", f"storage {storage['storage']}, {storage['engine']}"),
    ]
    found += [("", fact) for fact in storage["facts"]]
    if storage["request_timeout_s"] > 0:
        found.append(("", f"a request fails after {storage['request_timeout_s']:g} s"))
    if storage["layout"] is not None:
        found.append(("layout", layout.sentence(storage["layout"])))
    name = "limits"
    for limit in storage["limits"]:
        found.append((name, limit))
        name = ""
    return found
