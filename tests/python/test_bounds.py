"""The tests that docs/reference/bounds.md names for each wait exist."""

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_the_tests_that_the_table_names_exist() -> None:
    table = (ROOT / "docs/reference/bounds.md").read_text()
    rows = "\n".join(line for line in table.splitlines() if line.startswith("|"))
    programs = "\n".join(path.read_text() for path in (ROOT / "tests").rglob("*.cpp"))
    there = set(re.findall(r"^(?:TYPED_)?TEST(?:_F|_P)?\((\w+),\s*(\w+)\)", programs, re.MULTILINE))
    suites = {suite for suite, _ in there}
    named = re.findall(r"`([A-Z]\w+)\.([A-Z]\w+|\*)`", rows)
    assert len(named) > 50
    missing = [
        f"{suite}.{name}"
        for suite, name in named
        if ((suite, name) not in there if name != "*" else suite not in suites)
    ]
    assert missing == []
    tests = [*(ROOT / "tests/python").glob("*.py"), *(ROOT / "lab/tests").rglob("*.py")]
    for name in re.findall(r"`(test_\w+\.py)`", rows):
        assert any(path.name == name for path in tests), name
