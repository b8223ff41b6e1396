"""``ferry bench``."""

from __future__ import annotations

from typing import Any

import click

from ferry import flags
from ferry_lab.commands import bench_flags


@click.command(
    name="bench",
    cls=bench_flags.BenchCommand,
    short_help="One measurement, with IOR's flags and columns.",
)
@bench_flags.PATH
@flags.with_options(bench_flags.OPTIONS)
@flags.OVERWRITE
@flags.JSON
def command(json_path: str | None, overwrite: bool, **given: Any) -> None:
    """One measurement of PATH, with IOR's flags and columns.

    Writing makes PATH, a new file, and removes it afterwards; with -r alone, PATH is read and
    never changed. Contents are verified, with -W and -R more strictly. Sizes take k, m, g and t as
    powers of 1024. bw counts from open to close, as IOR does. PATH may be a URI like
    nfs://server/export/file or ceph:/file, which -a ferry reaches.
    """
    from ferry_lab.run import bench

    bench.run(bench_flags.read_options(json_path, overwrite, given))
