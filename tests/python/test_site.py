"""The filter through which Doxygen reads the headers, and the pages that the site is made of."""

from __future__ import annotations

import re
import sys
from pathlib import Path

from support import ROOT, run_program

SITE = ROOT / "docs" / "site"


def documented(tmp_path: Path, *lines: str) -> list[str]:
    header = tmp_path / "header.hpp"
    header.write_text("\n".join(lines) + "\n")
    return run_program(sys.executable, SITE / "comments.py", header, check=True).stdout.splitlines()


def test_the_first_comment_is_about_the_file(tmp_path: Path) -> None:
    found = documented(tmp_path, "// What it is.", "//", "// More.", "#pragma once", "// Of f.", "void f();")
    assert found == [
        *("/// \\file", "/// What it is.", "///", "/// More.", ""),
        *("#pragma once", "/// Of f.", "void f();"),
    ]


def test_a_comment_behind_a_member_is_about_that(tmp_path: Path) -> None:
    found = documented(tmp_path, "#pragma once", "int a = 0;  // in bytes", 'auto u = "http://x";')
    assert found == ["#pragma once", "int a = 0;  ///< in bytes", 'auto u = "http://x";']


def test_what_is_indented_is_code(tmp_path: Path) -> None:
    found = documented(tmp_path, "#pragma once", "// So:", "//   f(1);", "// Done.", "//   -EIO  why")
    assert found[1:] == [
        *("/// So:", "/// \\code{.cpp}", "///   f(1);", "/// \\endcode", "/// Done."),
        *("/// \\code{.unparsed}", "///   -EIO  why", "/// \\endcode"),
    ]


def test_rulers_document_nothing(tmp_path: Path) -> None:
    found = documented(tmp_path, "#pragma once", "// ---- parts ------", "", "int a;")
    assert found == ["#pragma once", "", "", "int a;"]


def test_every_public_header_is_on_the_site() -> None:
    """Those that do more than include others."""
    named = set(re.findall(r"doxygenfile:: (\S+)", (SITE / "cpp.rst").read_text()))
    collections = {"device.hpp", "ferry.hpp"}
    headers = {path.name for path in (ROOT / "include" / "ferry").glob("*.hpp")}
    assert headers - collections == named - {"file_calls.hpp"}


def test_the_environment_is_locked() -> None:
    asked = re.findall(r"^([\w-]+)$", (SITE / "requirements.in").read_text(), re.MULTILINE)
    locked = re.findall(r"^([\w-]+)==", (SITE / "requirements.txt").read_text(), re.MULTILINE)
    assert "sphinx" in asked
    assert set(asked) <= set(locked)
