"""Argument types and options that several commands share."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click
from click.shell_completion import CompletionItem

from ferry import sizes, uris

if TYPE_CHECKING:
    from ferry import layout


class SizeType(click.ParamType):  # type: ignore[type-arg]  # generic since 8.3 only
    """A size in bytes, written with k, m, g or t as powers of 1024."""

    name = "size"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        if isinstance(value, int):
            return value
        try:
            return sizes.parse_size(value)
        except ValueError as error:
            self.fail(str(error), param, ctx)


class CountType(click.ParamType):  # type: ignore[type-arg]  # generic since 8.3 only
    """A whole number within limits."""

    name = "number"

    def __init__(self, least: int, most: int) -> None:
        self.least = least
        self.most = most

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        try:
            number = int(value)
        except ValueError:
            self.fail(f"'{value}' is no whole number", param, ctx)
        if not self.least <= number <= self.most:
            self.fail(f"{value} is not from {self.least} to {self.most}", param, ctx)
        return number


class PathType(click.ParamType):  # type: ignore[type-arg]  # generic since 8.3 only
    """A path or a URI as typed; shells complete file names."""

    name = "path"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        if why := uris.why_no_uri(value) if value else "an empty path names nothing":
            self.fail(why, param, ctx)
        return str(value)

    def shell_complete(self, _ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        """Leaves completion to the shell."""
        return [CompletionItem(incomplete, type="file")]


PATH_TYPE = PathType()


class PartType(click.ParamType):  # type: ignore[type-arg]  # generic since 8.3 only
    """One part of a layout, as ``ferry.layout.part_of`` reads it."""

    name = "part"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> layout.Part:
        from ferry import layout

        try:
            return layout.part_of(value)
        except ValueError as error:
            self.fail(str(error), param, ctx)


JSON = click.option(
    "--json", "json_path", metavar="FILE", type=PATH_TYPE, help="Write the results to FILE (-: standard output)."
)
OVERWRITE = click.option("--overwrite", is_flag=True, help="Replace files that exist.")
