"""``ferry import``."""

from __future__ import annotations

import click

from ferry import flags


@click.command(name="import", short_help="Show results of IOR and fio.")
@click.argument("files", metavar="FILE...", type=flags.PATH_TYPE, nargs=-1, required=True)
@flags.OVERWRITE
@flags.JSON
def command(files: tuple[str, ...], json_path: str | None, overwrite: bool) -> None:
    """Show results of IOR, fio and ferry in one table.

    \b
    FILE is the output of one of these:
      ior ... -O summaryFormat=JSON -O summaryFile=FILE
      fio ... --output-format=json --output=FILE
      ferry bench ... --json FILE

    The same measurement in several files counts as repeats. --json writes all results as one
    document in ferry's schema.
    """
    from ferry_lab.importers import importing

    importing.run(files, json_path, overwrite)
