"""``ferry tune``."""

from __future__ import annotations

import click

from ferry import flags
from ferry_lab.tune.limits import BUDGET_S, BUDGET_S_MIN, RANKS_MAX


@click.command(name="tune", short_help="Measures what is fastest here, and writes the profile.")
@click.option(
    "--dir",
    "folder",
    metavar="DIR",
    type=flags.PATH_TYPE,
    help="Whose storage to tune (the current folder).",
)
@click.option(
    "--budget",
    "budget_s",
    metavar="SECONDS",
    type=flags.CountType(BUDGET_S_MIN, 86_400),
    default=BUDGET_S,
    show_default=True,
    help="How long to measure, about.",
)
@click.option(
    "--ranks",
    metavar="N",
    type=flags.CountType(1, RANKS_MAX),
    help="Measure collective transfers of N MPI ranks too, beyond --budget (needs an MPI library).",
)
@click.option(
    "--out",
    metavar="FILE", type=flags.PATH_TYPE,
    help="Write the profile to FILE ($FERRY_PROFILE, or ferry/profile.toml in your configuration "
    "folder, where the library finds it).",
)
@flags.OVERWRITE
@flags.JSON
def command(
    folder: str | None,
    budget_s: int,
    ranks: int | None,
    out: str | None,
    overwrite: bool,
    json_path: str | None,
) -> None:
    """Measures what is fastest on this machine, and writes the profile that the library reads.

    Tries page sizes, readahead, server threads, calls in flight, and from which size reads and
    writes are better made by the host, with files in DIR. What looks better is measured again
    beside the built-in setting; where the gain is within the noise, or anything gets slower, the
    built-in one stays. Other storages' entries in the profile are kept. Scratch files are removed,
    whatever happens.
    """
    from ferry_lab.tune import tune

    tune.run(
        tune.TuneOptions(
            folder=folder if folder is not None else ".",
            budget_s=budget_s,
            ranks=ranks,
            out=out,
            json=json_path,
            overwrite=overwrite,
        )
    )
