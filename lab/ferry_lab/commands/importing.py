"""``ferry import``."""

from __future__ import annotations

import click

from ferry import flags


@click.command(name="import", short_help="Reads what IOR and fio measured.")
@click.argument("files", metavar="FILE...", type=flags.PATH_TYPE, nargs=-1, required=True)
@flags.OVERWRITE
@flags.JSON
def command(files: tuple[str, ...], json_path: str | None, overwrite: bool) -> None:
    """Reads what IOR, fio and ferry measured, and shows it in one table.

    \b
    FILE is what one of these wrote:
      ior ... -O summaryFormat=JSON -O summaryFile=FILE
      fio ... --output-format=json --output=FILE
      ferry bench ... --json FILE

    The same measurement in several files counts as repeats of it. --json writes all of them as one
    document of ferry's own schema.
    """
    from ferry_lab.importers import importing

    importing.run(files, json_path, overwrite)
