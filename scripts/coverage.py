#!/usr/bin/env python3
"""LCOV_FILE: prints how many lines and branches of each room the tests reach, as a table in Markdown.
With --unreached, lists what they do not reach in the rooms named behind it, or in all."""

from __future__ import annotations

import argparse
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


@dataclass
class SourceFile:
    """How often each line ran, and how often each of its branches was taken."""

    path: str
    lines: dict[int, int] = field(default_factory=dict)
    branches: dict[int, list[int]] = field(default_factory=lambda: defaultdict(list))

    @property
    def room(self) -> str:
        """Its folder: src/server, src/storage/nfs, include/ferry/device/cache."""
        return str(Path(self.path).parent)

    def unreached(self) -> Iterator[tuple[int, str]]:
        """Lines that never ran, and the conditions that went one way only."""
        for line, count in sorted(self.lines.items()):
            taken = self.branches.get(line, [])
            if count == 0:
                yield line, "never"
            elif 0 in taken:
                yield line, f"{sum(map(bool, taken))}/{len(taken)}"


def read(lcov: Path) -> list[SourceFile]:
    files: list[SourceFile] = []
    for record in lcov.read_text().splitlines():
        kind, _, rest = record.partition(":")
        if kind == "SF":
            files.append(SourceFile(str(Path(rest).resolve().relative_to(ROOT)) if rest.startswith("/") else rest))
        elif kind == "DA":
            line, count = rest.split(",")[:2]
            files[-1].lines[int(line)] = int(count)
        elif kind == "BRDA":
            line, _, _, count = rest.split(",")
            files[-1].branches[int(line)].append(0 if count == "-" else int(count))
    return files


def share(reached: int, total: int) -> str:
    return f"{reached:,} of {total:,} | {100 * reached / total:.1f} %" if total else "none | "


def print_table(files: list[SourceFile]) -> None:
    rooms: dict[str, list[SourceFile]] = defaultdict(list)
    for file in files:
        rooms[file.room].append(file)
    print("| room | lines | | branches | |\n| --- | --- | --- | --- | --- |")
    for room, members in [*sorted(rooms.items()), ("all", files)]:
        counts = [count for file in members for count in file.lines.values()]
        taken = [count for file in members for branches in file.branches.values() for count in branches]
        lines = share(sum(map(bool, counts)), len(counts))
        print(f"| {room} | {lines} | {share(sum(map(bool, taken)), len(taken))} |")


def print_unreached(files: list[SourceFile], rooms: list[str]) -> None:
    for file in sorted(files, key=lambda each: each.path):
        if rooms and not any(file.path.startswith(f"{room}/") for room in rooms):
            continue
        text = (ROOT / file.path).read_text().splitlines()
        for line, what in file.unreached():
            print(f"{file.path}:{line}: {what}: {text[line - 1].strip()}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("lcov", type=Path)
    parser.add_argument("--unreached", nargs="*", metavar="ROOM")
    options = parser.parse_args()
    files = read(options.lcov)
    if options.unreached is None:
        print_table(files)
    else:
        print_unreached(files, options.unreached)


if __name__ == "__main__":
    main()
