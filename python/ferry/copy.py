"""``ferry cp``: copies one file between any two storages."""

from __future__ import annotations

import os
from typing import Any

from rich.console import Console

from ferry import output_files, terminal
from ferry.native import run_copy
from ferry.sizes import format_size
from ferry.uris import is_uri


def run(source: str, target: str, json_path: str | None, overwrite: bool) -> None:
    """Copies a file, prints one line and writes the JSON file (``ferry.cp/1``). Raises FerryError."""

    def copied() -> dict[str, Any]:
        if not is_uri(target):
            output_files.name_left_over(target if os.path.isdir(target) else os.path.dirname(os.path.abspath(target)))
        flags = ["--overwrite"] if overwrite else []
        with terminal.byte_progress() as show:
            done = run_copy(
                [*flags, source, target], lambda line: show(line["phase"], line["done_bytes"], line["total_bytes"])
            )
        del done["type"]
        return {"schema": "ferry.cp/1", "from": source, "to": target, **done}

    output_files.report(json_path, overwrite, copied, _show)


def _show(console: Console, done: dict[str, Any]) -> None:
    write_s = done["copy_s"] + done["sync_s"]
    speed = done["bytes"] / (1 << 20) / write_s if write_s > 0 else 0.0
    console.print(
        f"{format_size(done['bytes'])} copied in {write_s:.2f} s ({speed:.0f} MiB/s, "
        f"{done['sync_s']:.2f} s of it to make it durable), "
        f"read back and verified in {done['verify_s']:.2f} s"
    )
