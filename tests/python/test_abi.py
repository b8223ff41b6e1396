"""The check of the C library's ABI finds what would break programs that are linked with it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from support import ROOT

HEADER = """
typedef struct ferry_part {
  int first;
  long second;  // int third;
} ferry_part;
typedef struct ferry_options {
  unsigned long struct_bytes;
  int wish;
} ferry_options;
enum {
  FERRY_ONE = 1,
};
typedef int (*ferry_program)(void* user);
int ferry_go(ferry_part* part, int times);
const char* ferry_name(void);
"""
SOURCE = """
int ferry_go(void* part, int times) { return part != 0 && times; }
const char* ferry_name(void) { return "name"; }
int ferry_new(void) { return 0; }
int hidden(void) { return 0; }
"""
SYMBOLS = "FERRY_0 { global: ferry_go; ferry_name; local: *; };\n"


def check(folder: Path, header: str, symbols: str, *options: str, soname: str = "libmade.so.0") -> tuple[int, str]:
    """The script's status and what it says about a library that is made so."""
    (folder / "made.h").write_text(header)
    (folder / "made.c").write_text(SOURCE)
    (folder / "made.map").write_text(symbols)
    library = folder / f"{soname}-{hash(symbols)}"
    if not library.exists():
        links = [f"-Wl,-soname,{soname}", f"-Wl,--version-script={folder}/made.map"]
        subprocess.run(["cc", "-shared", "-fPIC", *links, "-o", library, folder / "made.c"], check=True)
    done = subprocess.run(
        [sys.executable, ROOT / "scripts/check_abi.py", *options, folder / "made.h", library, folder / "list"],
        check=False,
        capture_output=True,
        text=True,
    )
    return done.returncode, done.stdout + done.stderr


@pytest.fixture
def listed(tmp_path: Path) -> Path:
    assert check(tmp_path, HEADER, SYMBOLS, "--write")[0] == 0
    assert check(tmp_path, HEADER, SYMBOLS)[0] == 0
    return tmp_path


@pytest.mark.parametrize(
    ("old", "new", "shown"),
    [
        ("int times", "long times", "- FERRY_0 int ferry_go(ferry_part* part, int times);"),
        ("int first;\n  long second;", "long second;\n  int first;", "- struct ferry_part: first at 0, 4 bytes"),
        ("long second;", "long second;\n  long third;", "- struct ferry_part: 16 bytes"),
        ("FERRY_ONE = 1", "FERRY_ONE = 2", "- constant FERRY_ONE = 1"),
        ("(void* user)", "(int user)", "- typedef int (*ferry_program)(void* user);"),
    ],
    ids=["declaration", "order", "size", "constant", "callback"],
)
def test_what_breaks_programs_is_refused(listed: Path, old: str, new: str, shown: str) -> None:
    changed = HEADER.replace(old, new)
    assert changed != HEADER
    for options in ([], ["--write"]):
        status, text = check(listed, changed, SYMBOLS, *options)
        assert (status, shown in text.splitlines()) == (1, True), text
        assert "change the soname" in text
    assert check(listed, changed, SYMBOLS, "--write", soname="libmade.so.1")[0] == 0


def test_what_can_grow_is_added(listed: Path) -> None:
    grown = HEADER.replace("int wish;", "int wish;\n  int another;") + "int ferry_new(void);\n"
    symbols = SYMBOLS.replace("ferry_go;", "ferry_go; ferry_new;")
    status, text = check(listed, grown, symbols)
    assert status == 1
    assert "+ FERRY_0 int ferry_new(void);" in text.splitlines()
    assert check(listed, grown, symbols, "--write")[0] == 0
    assert check(listed, grown, symbols)[0] == 0


def test_a_released_version_is_closed(listed: Path) -> None:
    symbols = SYMBOLS + "FERRY_9 { global: ferry_new; } FERRY_0;\n"
    status, text = check(listed, HEADER + "int ferry_new(void);\n", symbols, "--write")
    assert status == 1
    assert "functions are added in version FERRY_0" in text


def test_exports_and_declarations_are_the_same(listed: Path) -> None:
    for symbols in (SYMBOLS.replace("ferry_go;", "ferry_go; hidden;"), SYMBOLS.replace("ferry_go;", "")):
        status, text = check(listed, HEADER, symbols)
        assert status == 1
        assert "hidden" in text or "declared and not exported: ferry_go" in text
