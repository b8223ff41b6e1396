"""``ferry bench``."""

from __future__ import annotations

from typing import Any

import click

from ferry import flags
from ferry_lab.commands import bench_flags


@click.command(name="bench", cls=bench_flags.BenchCommand, short_help="Measure one file, with IOR's flags and columns.")
@bench_flags.PATH
@flags.with_options(bench_flags.OPTIONS)
@flags.OVERWRITE
@flags.JSON
def command(json_path: str | None, overwrite: bool, **given: Any) -> None:
    """Measure PATH, with IOR's flags and columns.

    Writing creates PATH, a new file, and removes it afterwards; -r alone never changes PATH.
    Contents are verified, more strictly with -W and -R. Sizes take k, m, g and t as powers of 1024.
    bw counts from open to close, as in IOR. With -a ferry, PATH may be a URI like
    nfs://server/export/file or ceph:/file.
    """
    from ferry_lab.run import bench

    bench.run(bench_flags.read_options(json_path, overwrite, given))
