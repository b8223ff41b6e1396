"""``ferry cp``: copies one file between any two storages."""

from __future__ import annotations

from typing import Any

from ferry import output_files, terminal
from ferry.native import run_copy
from ferry.sizes import format_size


def run(source: str, target: str, json_path: str | None, overwrite: bool) -> None:
    """Copies a file, prints one line and writes the JSON file (``ferry.cp/1``). Raises FerryError."""
    output_files.check_output(json_path, overwrite)
    arguments = ["--overwrite"] if overwrite else []
    with terminal.byte_progress() as show:
        done = run_copy(
            [*arguments, source, target],
            lambda line: show(line["phase"], line["done_bytes"], line["total_bytes"]),
        )
    facts: dict[str, Any] = {"schema": "ferry.cp/1", "from": source, "to": target}
    facts |= {key: value for key, value in done.items() if key != "type"}
    if json_path != "-":
        write_s = done["copy_s"] + done["sync_s"]
        speed = done["bytes"] / (1 << 20) / write_s if write_s > 0 else 0.0
        terminal.output_console().print(
            f"{format_size(done['bytes'])} copied in {write_s:.2f} s ({speed:.0f} MiB/s, "
            f"{done['sync_s']:.2f} s of it to make it durable), "
            f"read back and verified in {done['verify_s']:.2f} s"
        )
    if json_path is not None:
        output_files.write_json(json_path, facts, overwrite)
