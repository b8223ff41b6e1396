"""``ferry compare``."""

from __future__ import annotations

import click

from ferry import flags


@click.command(name="compare", short_help="Set two results side by side.")
@click.argument("a", metavar="A", type=flags.PATH_TYPE)
@click.argument("b", metavar="B", type=flags.PATH_TYPE)
@click.option(
    "--format",
    "form",
    type=click.Choice(["text", "markdown", "latex"]),
    default="text",
    show_default=True,
    help="How to print the tables.",
)
@flags.OVERWRITE
@flags.JSON
def command(a: str, b: str, form: str, json_path: str | None, overwrite: bool) -> None:
    """Set two results side by side: is B faster than A?

    A and B are what ferry bench --json, ferry metadata --json or a study wrote. Shows B's medians
    over A's with 95 % bounds, a verdict where the difference exceeds the noise, and what else is not
    the same: machine, versions, settings. A verdict needs 6 repeats in both, 20 are better.
    """
    import msgspec

    from ferry import output_files
    from ferry.errors import FerryError
    from ferry_lab.render import comparison
    from ferry_lab.results import reading
    from ferry_lab.stats import two_results

    def read(path: str) -> two_results.Measured:
        document = reading.comparable(path, "name what ferry bench or ferry metadata --json has written")
        if document is None:
            raise FerryError(f"{path} holds no results of ferry; ferry import --json makes some of IOR's and fio's")
        return document

    output_files.check_output(json_path, overwrite)
    found = two_results.compare((a, b), (read(a), read(b)))
    output_files.report(
        json_path,
        overwrite,
        lambda: msgspec.to_builtins(found),
        lambda console, _: comparison.show(console, found, form),
    )
