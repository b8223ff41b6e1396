"""Doxygen's filter: a header's plain comments become its documentation.

The first comment of a file is about the file; one before a declaration, or behind one in its line,
is about that. What is indented in a comment is code, or a table.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

COMMENT = re.compile(r"\s*//(?: (.*)|())$")
TRAILING = re.compile(r"(.*[;,{}].*?)\s// (.*)")
RULER = re.compile(r"-{4,}")  # between parts of a file; says nothing of what follows


def blocks(lines: list[str]) -> Iterator[tuple[bool, list[str]]]:
    """Runs of lines: whether they are a comment of their own, and what is in it."""
    comment: list[str] = []
    for line in lines:
        if found := COMMENT.match(line):
            comment.append(found[1] or "")
            continue
        if comment:
            yield True, comment
            comment = []
        yield False, [line]
    if comment:
        yield True, comment


def marked(comment: list[str]) -> Iterator[str]:
    """The comment with what is indented as code."""
    inside = False
    for line in comment:
        indented = line.startswith("  ")
        if indented and not inside:
            yield "\\code{.unparsed}"  # of parsed code Breathe loses the indentation before a keyword
        elif inside and not indented:
            yield "\\endcode"
        inside = indented
        yield line
    if inside:
        yield "\\endcode"


def documented(lines: list[str]) -> Iterator[str]:
    """The file as Doxygen reads it."""
    head = True
    for is_comment, block in blocks(lines):
        if not is_comment:
            found = TRAILING.match(block[0])
            yield f"{found[1]} ///< {found[2]}" if found else block[0]
        elif RULER.match(block[0]):
            yield ""
        else:
            text = [*(["\\file"] if head else []), *marked(block)]
            yield from (f"/// {line}".rstrip() for line in text)
            if head:
                yield ""
        head = False


if __name__ == "__main__":
    print("\n".join(documented(Path(sys.argv[1]).read_text().splitlines())))
