"""``ferry tune``."""

from __future__ import annotations

from typing import Any

import click

from ferry import flags
from ferry_lab.tune.limits import BUDGET_S, BUDGET_S_MIN, RANKS_MAX


@click.command(name="tune", short_help="Find the fastest settings here; write the profile.")
@click.option(
    "--dir", "folder", metavar="DIR", type=flags.PATH_TYPE, help="A folder on the storage to tune (the current folder)."
)
@click.option(
    "--budget",
    "budget_s",
    metavar="SECONDS",
    type=flags.CountType(BUDGET_S_MIN, 86_400),
    default=BUDGET_S,
    show_default=True,
    help="Approximate time to measure.",
)
@click.option(
    "--ranks",
    metavar="N",
    type=flags.CountType(1, RANKS_MAX),
    help="Also tune collective transfers of N MPI ranks, beyond --budget (needs an MPI library).",
)
@click.option(
    "--out",
    metavar="FILE",
    type=flags.PATH_TYPE,
    help="Write the profile to FILE ($FERRY_PROFILE, or ferry/profile.toml in your configuration "
    "folder, where the library finds it).",
)
@flags.OVERWRITE
@flags.JSON
def command(folder: str | None, json_path: str | None, **given: Any) -> None:
    """Find the fastest settings on this machine and write the profile that the library reads.

    Tries page sizes, readahead, server threads, calls in flight, and the sizes from which the host
    should read and write, with files in DIR. The best candidate is measured again beside the
    built-in setting, which stays if the gain is within the noise or anything gets slower. Other
    storages' entries in the profile are kept. Scratch files are always removed.
    """
    from ferry_lab.tune import tune

    tune.run(tune.TuneOptions("." if folder is None else folder, json=json_path, **given))
